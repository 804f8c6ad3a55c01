//! The messages to one peer. The server relays them in segments, and may reject segments.

use std::collections::VecDeque;
use std::time::Duration;

use watchfire_types::Instant;

use crate::segment::{OVERHEAD_BYTES, SHORT_BYTES_MAX, Segment, UnsentMessage};

/// Segments that may be sent without a reply of the server.
const WINDOW: usize = 4;
/// Consecutive segments without a reply after which the peer counts as unreachable.
const TIMEOUTS_MAX: u32 = 3;
/// A peer that stays busy is asked less and less often, at least this often. Each refused segment has
/// used the uplink, which other peers need.
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// How long a peer may be busy without accepting a segment before it counts as unreachable.
const BUSY_MAX: Duration = Duration::from_secs(30);
/// The bounds of the retry delay that the server sends.
const WAIT_MIN: Duration = Duration::from_millis(10);
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Short messages, and their bytes, that are remembered after the server relayed them. The oldest
/// is forgotten.
const RELAYED_MAX: usize = 16;
const RELAYED_BYTES_MAX: usize = 32 << 10;

/// Identifies a sent segment when the server replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentSegment {
    /// Counts the messages in the order of [`Outgoing::push`]. A message that returns from a direct
    /// connection has another number than before, so that late replies do not concern it.
    serial: u64,
    from: usize,
    to: usize,
}

/// Why the server did not relay a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RelayError {
    Busy {
        wait: Duration,
    },
    Budget {
        wait: Duration,
    },
    TooLarge {
        max: usize,
    },
    /// The peer cannot be reached, now or later.
    Unreachable,
}

/// The peer cannot be reached any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreachable;

/// The send queue of one peer. The host bounds it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// In the order of [`Outgoing::push`].
    messages: Vec<Sending>,
    next_serial: u64,
    /// The last short messages that the server has relayed.
    relayed: VecDeque<UnsentMessage>,
    /// Until then, long messages that have not begun wait for a direct connection.
    held_until: Option<Instant>,
    segment_bytes_max: usize,
    in_flight: usize,
    timeouts: u32,
    /// The first of the consecutive "peer busy" errors.
    busy_since: Option<Instant>,
    /// Consecutive waits after which the peer was still busy.
    busy_waits: u32,
    retry_at: Option<Instant>,
}

#[derive(Debug)]
struct Sending {
    serial: u64,
    message: UnsentMessage,
    /// The ranges that are not sent yet. Rejected segments return here.
    ranges: VecDeque<(usize, usize)>,
    /// Bytes that the server has not relayed yet.
    left: usize,
}

impl Sending {
    fn is_short(&self) -> bool {
        self.message.bytes.len() <= SHORT_BYTES_MAX
    }
}

impl Outgoing {
    /// `frame_bytes_max` is the largest relayed frame, with its header.
    pub(crate) fn new(frame_bytes_max: usize) -> Self {
        Outgoing {
            messages: Vec::new(),
            next_serial: 0,
            relayed: VecDeque::new(),
            held_until: None,
            segment_bytes_max: frame_bytes_max.saturating_sub(OVERHEAD_BYTES).max(1),
            in_flight: 0,
            timeouts: 0,
            busy_since: None,
            busy_waits: 0,
            retry_at: None,
        }
    }

    pub(crate) fn push(&mut self, message: UnsentMessage) {
        let left = message.bytes.len();
        let serial = self.next_serial;
        self.next_serial += 1;
        self.messages.push(Sending { serial, message, ranges: [(0, left)].into(), left });
    }

    /// Whether a message waits until the server has relayed it.
    pub(crate) fn has(&self, message: u32) -> bool {
        self.messages.iter().any(|sending| sending.message.id == message)
    }

    /// Holds back long messages that have not begun, until then or [`Outgoing::release`].
    pub(crate) fn hold(&mut self, until: Instant) {
        self.held_until = Some(until);
    }

    pub(crate) fn release(&mut self) {
        self.held_until = None;
    }

    /// Takes the messages that a direct connection carries from now on: the long ones that have not
    /// begun, and all short ones, so that these arrive in order. The server may refuse a short
    /// message that is on its way, and one that it has relayed may be late. So the first ones are the
    /// last short messages that the server has relayed. The receiver ignores those that it has read.
    /// `is_all`: also the long ones that have begun, because the server cannot reach the peer.
    pub(crate) fn take_for_direct(&mut self, is_all: bool) -> Vec<UnsentMessage> {
        let is_taken = |sending: &mut Sending| {
            let unsent_bytes: usize = sending.ranges.iter().map(|(from, to)| to - from).sum();
            is_all || sending.is_short() || unsent_bytes == sending.message.bytes.len()
        };
        // If the relay is used again, that is another try.
        self.timeouts = 0;
        self.busy_since = None;
        self.busy_waits = 0;
        let taken = self.messages.extract_if(.., is_taken).map(|sending| sending.message);
        self.relayed.drain(..).chain(taken).collect()
    }

    /// Returns the next segment to send now.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(SentSegment, Segment)> {
        if self.held_until.is_some_and(|until| until <= now) {
            self.held_until = None;
        }
        if !self.has_room() || self.retry_at.is_some_and(|until| until > now) {
            return None;
        }
        if self.retry_at.take().is_some() && self.busy_since.is_some() {
            self.busy_waits = self.busy_waits.saturating_add(1);
        }
        let is_held = self.held_until.is_some();
        let first_short = self.messages.iter().position(Sending::is_short);
        let unsent = self.messages.iter_mut().enumerate().filter(|(at, sending)| {
            // A message that has begun stays on the relay.
            let waits = if sending.is_short() { first_short != Some(*at) } else { is_held };
            sending.ranges.front().is_some_and(|(from, _)| !waits || *from > 0)
        });
        // Long messages keep their order, so that none is delayed for ever by slightly shorter
        // ones. A short message waits until the server has relayed the short one before it: if the
        // server refused a `cancel` and relayed the `want-have` after it, the late `cancel` would
        // remove that want-have, and nobody would send it again.
        let (_, sending) = unsent.min_by_key(|(_, sending)| !sending.is_short())?;
        let (from, end) = sending.ranges.pop_front()?;
        let to = end.min(from + self.segment_bytes_max);
        if to < end {
            sending.ranges.push_front((to, end));
        }
        self.in_flight += 1;
        let UnsentMessage { id: message, ref bytes, .. } = sending.message;
        let segment =
            Segment { message, offset: from, total: bytes.len(), bytes: bytes.slice(from..to) };
        Some((SentSegment { serial: sending.serial, from, to }, segment))
    }

    /// One segment is enough to find out whether the peer is still busy.
    fn has_room(&self) -> bool {
        self.in_flight < if self.busy_since.is_some() { 1 } else { WINDOW }
    }

    /// When to call [`Outgoing::next`] again. `None`: after a reply or a push.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let has_unsent = self.messages.iter().any(|sending| !sending.ranges.is_empty());
        let wake = self.held_until.into_iter().chain(self.retry_at).min();
        wake.filter(|_| has_unsent && self.has_room())
    }

    /// The server relayed a segment. Returns the bytes of its message if that was its last segment.
    pub(crate) fn handle_relayed(&mut self, segment: SentSegment) -> Option<usize> {
        self.in_flight -= 1;
        self.timeouts = 0;
        self.busy_since = None;
        self.busy_waits = 0;
        let at = self.messages.iter().position(|sending| sending.serial == segment.serial)?;
        self.messages[at].left -= segment.to - segment.from;
        if self.messages[at].left > 0 {
            return None;
        }
        let message = self.messages.remove(at).message;
        self.remember(&message);
        (!message.is_reported).then_some(message.bytes.len())
    }

    fn remember(&mut self, message: &UnsentMessage) {
        if message.bytes.len() > SHORT_BYTES_MAX {
            return;
        }
        let relayed = UnsentMessage { is_reported: true, is_relayed: true, ..message.clone() };
        self.relayed.push_back(relayed);
        let mut bytes: usize = self.relayed.iter().map(|message| message.bytes.len()).sum();
        while (self.relayed.len() > RELAYED_MAX || bytes > RELAYED_BYTES_MAX)
            && let Some(oldest) = self.relayed.pop_front()
        {
            bytes -= oldest.bytes.len();
        }
    }

    pub(crate) fn handle_error(
        &mut self,
        now: Instant,
        segment: SentSegment,
        error: &RelayError,
    ) -> Result<(), Unreachable> {
        self.requeue(segment);
        match *error {
            RelayError::Busy { wait } => {
                let since = *self.busy_since.get_or_insert(now);
                if now.since(since) >= BUSY_MAX {
                    return Err(Unreachable);
                }
                let factor = 2_u32.saturating_pow(self.busy_waits);
                self.wait(now, wait.max(BACKOFF_MAX.min(wait.saturating_mul(factor))));
            }
            RelayError::Budget { wait } => self.wait(now, wait),
            RelayError::TooLarge { max } => {
                let len = segment.to - segment.from + OVERHEAD_BYTES;
                if max <= OVERHEAD_BYTES || len <= max {
                    return Err(Unreachable);
                }
                self.segment_bytes_max = max - OVERHEAD_BYTES;
            }
            RelayError::Unreachable => return Err(Unreachable),
        }
        Ok(())
    }

    pub(crate) fn handle_timeout(&mut self, segment: SentSegment) -> Result<(), Unreachable> {
        self.requeue(segment);
        self.timeouts += 1;
        if self.timeouts >= TIMEOUTS_MAX { Err(Unreachable) } else { Ok(()) }
    }

    fn requeue(&mut self, segment: SentSegment) {
        self.in_flight -= 1;
        if let Some(sending) =
            self.messages.iter_mut().find(|sending| sending.serial == segment.serial)
        {
            sending.ranges.push_front((segment.from, segment.to));
        }
    }

    fn wait(&mut self, now: Instant, wait: Duration) {
        let until = now + wait.clamp(WAIT_MIN, WAIT_MAX);
        self.retry_at = self.retry_at.max(Some(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direct_connection_ends_the_time_that_a_peer_was_busy() {
        let mut outgoing = Outgoing::new(1_000);
        let bytes = bytes::Bytes::from_static(b"hi");
        let message = UnsentMessage { id: 1, bytes, is_reported: false, is_relayed: false };
        let busy = RelayError::Busy { wait: WAIT_MIN };
        let mut refuse_at = |now: Instant| {
            outgoing.push(message.clone());
            let (sent, _) = outgoing.next(now).expect("a segment");
            let result = outgoing.handle_error(now, sent, &busy);
            assert_eq!(outgoing.take_for_direct(true).len(), 1);
            result
        };
        let start = Instant::ZERO;
        assert_eq!([refuse_at(start), refuse_at(start + BUSY_MAX)], [Ok(()), Ok(())]);
    }
}
