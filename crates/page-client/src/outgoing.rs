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
    pub(crate) fn take_for_direct(&mut self) -> Vec<UnsentMessage> {
        let is_taken = |sending: &mut Sending| {
            let unsent_bytes: usize = sending.ranges.iter().map(|(from, to)| to - from).sum();
            sending.is_short() || unsent_bytes == sending.message.bytes.len()
        };
        let taken = self.messages.extract_if(.., is_taken).map(|sending| sending.message);
        self.relayed.drain(..).chain(taken).collect()
    }

    /// Returns the next segment to send now.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(SentSegment, Segment)> {
        if self.held_until.is_some_and(|until| until <= now) {
            self.held_until = None;
        }
        // One segment is enough to find out whether the peer is still busy.
        let window = if self.busy_since.is_some() { 1 } else { WINDOW };
        if self.in_flight >= window || self.retry_at.is_some_and(|until| until > now) {
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

    /// When to call [`Outgoing::next`] again after a retry delay.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let has_unsent = self.messages.iter().any(|sending| !sending.ranges.is_empty());
        self.held_until.into_iter().chain(self.retry_at).min().filter(|_| has_unsent)
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
        if self.timeouts == TIMEOUTS_MAX { Err(Unreachable) } else { Ok(()) }
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

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn send_all(outgoing: &mut Outgoing, now: Instant) -> Vec<(SentSegment, Segment)> {
        std::iter::from_fn(|| outgoing.next(now)).collect()
    }

    fn message(id: u32, len: usize) -> UnsentMessage {
        UnsentMessage { id, bytes: vec![7; len].into(), is_reported: false, is_relayed: false }
    }

    fn outgoing(messages: &[usize]) -> Outgoing {
        let mut outgoing = Outgoing::new(30);
        (0..).zip(messages).for_each(|(id, len)| outgoing.push(message(id, *len)));
        outgoing
    }

    const BUSY: RelayError = RelayError::Busy { wait: Duration::from_millis(50) };

    #[test]
    fn a_message_is_sent_in_segments_within_a_window() {
        let mut outgoing = outgoing(&[45]);
        let sent = send_all(&mut outgoing, at(0));
        let ranges: Vec<_> = sent.iter().map(|(_, s)| (s.offset, s.bytes.len())).collect();
        assert_eq!(ranges, [(0, 10), (10, 10), (20, 10), (30, 10)]);
        assert!(sent.iter().all(|(_, segment)| segment.total == 45));
        assert_eq!(outgoing.handle_relayed(sent[1].0), None);
        let last = send_all(&mut outgoing, at(0));
        assert_eq!((last.len(), last[0].1.offset, last[0].1.bytes.len()), (1, 40, 5));
        for (sent_segment, _) in [&sent[0], &sent[2], &sent[3]] {
            assert_eq!(outgoing.handle_relayed(*sent_segment), None);
        }
        assert_eq!(outgoing.handle_relayed(last[0].0), Some(45), "the whole message was relayed");
    }

    #[test]
    fn a_short_message_does_not_wait_behind_a_long_one() {
        let mut outgoing = outgoing(&[SHORT_BYTES_MAX + 1]);
        let sent = send_all(&mut outgoing, at(0));
        outgoing.push(message(1, 3));
        outgoing.handle_relayed(sent[0].0);
        assert_eq!(send_all(&mut outgoing, at(0))[0].1.total, 3);
    }

    #[test]
    fn a_short_message_waits_until_the_one_before_it_is_relayed() {
        let mut outgoing = outgoing(&[5, 3]);
        let sent = send_all(&mut outgoing, at(0));
        assert_eq!(sent.len(), 1);
        outgoing.handle_error(at(0), sent[0].0, &BUSY).unwrap();
        let again = send_all(&mut outgoing, at(50));
        assert_eq!((again.len(), again[0].1.message), (1, 0), "the first is repeated first");
        outgoing.handle_relayed(again[0].0);
        assert_eq!(send_all(&mut outgoing, at(50))[0].1.message, 1);
    }

    #[test]
    fn a_long_message_is_not_overtaken_by_later_long_messages() {
        let mut outgoing = Outgoing::new(SHORT_BYTES_MAX);
        for (id, more) in [(0, 3), (1, 2), (2, 1)] {
            outgoing.push(message(id, 2 * SHORT_BYTES_MAX + more));
        }
        let mut order = Vec::new();
        while let Some((sent_segment, segment)) = outgoing.next(at(0)) {
            order.push(segment.message);
            outgoing.handle_relayed(sent_segment);
        }
        assert_eq!(order, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn long_messages_wait_for_a_direct_connection_while_they_are_held() {
        let mut outgoing = outgoing(&[SHORT_BYTES_MAX + 1, 3]);
        outgoing.hold(at(100));
        assert_eq!(send_all(&mut outgoing, at(0)).len(), 1, "the short message is sent");
        assert_eq!(outgoing.next_wake(), Some(at(100)));
        assert_eq!(send_all(&mut outgoing, at(100)).len(), 3, "the hold is over");
        outgoing.push(message(2, SHORT_BYTES_MAX + 1));
        let taken: Vec<_> = outgoing.take_for_direct().into_iter().map(|each| each.id).collect();
        assert_eq!(taken, [1, 2], "a long message that has begun stays");
    }

    #[test]
    fn a_direct_connection_carries_the_short_messages_in_order() {
        let mut outgoing = outgoing(&[5, 4, 3]);
        let first = send_all(&mut outgoing, at(0));
        outgoing.handle_relayed(first[0].0);
        let second = send_all(&mut outgoing, at(0));
        assert_eq!(second[0].1.message, 1, "its reply is late");
        let taken = outgoing.take_for_direct();
        let kinds: Vec<_> = taken.iter().map(|each| (each.id, each.is_relayed)).collect();
        assert_eq!(kinds, [(0, true), (1, false), (2, false)]);

        // The connection breaks, and the server refuses the late segment.
        outgoing.push(taken[1].clone());
        outgoing.push(taken[2].clone());
        outgoing.handle_error(at(0), second[0].0, &BUSY).unwrap();
        let again = send_all(&mut outgoing, at(50));
        assert_eq!((again.len(), again[0].1.message), (1, 1), "it is sent once");
        assert_eq!(outgoing.handle_relayed(again[0].0), Some(4));
        assert_eq!(send_all(&mut outgoing, at(50))[0].1.message, 2);
    }

    #[test]
    fn few_relayed_messages_are_remembered() {
        let mut outgoing = outgoing(&[5; RELAYED_MAX + 1]);
        while let Some((sent_segment, _)) = outgoing.next(at(0)) {
            outgoing.handle_relayed(sent_segment);
        }
        let ids: Vec<_> = outgoing.take_for_direct().into_iter().map(|each| each.id).collect();
        assert_eq!(ids, Vec::from_iter(1..=16));
        assert_eq!(outgoing.take_for_direct(), []);
    }

    #[test]
    fn a_rejected_segment_is_sent_again_after_the_retry_delay() {
        let mut outgoing = outgoing(&[20]);
        let sent = send_all(&mut outgoing, at(0));
        outgoing.handle_error(at(5), sent[0].0, &BUSY).unwrap();
        outgoing.handle_relayed(sent[1].0);
        assert_eq!(outgoing.next_wake(), Some(at(55)));
        assert_eq!(outgoing.next(at(54)), None);
        let again = send_all(&mut outgoing, at(55));
        assert_eq!((again.len(), again[0].1.offset), (1, 0));
        let budget = RelayError::Budget { wait: Duration::ZERO };
        outgoing.handle_error(at(60), again[0].0, &budget).unwrap();
        assert_eq!(outgoing.next_wake(), Some(at(70)));
    }

    #[test]
    fn a_busy_peer_is_asked_with_one_segment_at_a_time_and_less_and_less_often() {
        let mut outgoing = outgoing(&[200]);
        let mut now = at(0);
        for (sent_segment, _) in send_all(&mut outgoing, now) {
            outgoing.handle_error(now, sent_segment, &BUSY).unwrap();
        }
        for wait in [50, 100, 200, 400, 800, 1000, 1000] {
            now += Duration::from_millis(wait);
            assert_eq!(outgoing.next_wake(), Some(now));
            let sent = send_all(&mut outgoing, now);
            assert_eq!(sent.len(), 1);
            outgoing.handle_error(now, sent[0].0, &BUSY).unwrap();
        }
        now += BACKOFF_MAX;
        let (sent_segment, _) = outgoing.next(now).unwrap();
        outgoing.handle_relayed(sent_segment);
        assert_eq!(send_all(&mut outgoing, now).len(), WINDOW);
    }

    #[test]
    fn segments_shrink_to_the_limit_that_the_server_names() {
        let mut outgoing = outgoing(&[10]);
        let (sent_segment, _) = outgoing.next(at(0)).unwrap();
        outgoing.handle_error(at(0), sent_segment, &RelayError::TooLarge { max: 24 }).unwrap();
        let lens: Vec<_> =
            send_all(&mut outgoing, at(0)).iter().map(|(_, s)| s.bytes.len()).collect();
        assert_eq!(lens, [4, 4, 2]);
        let mut other = Outgoing::new(30);
        other.push(message(0, 5));
        let (sent_segment, _) = other.next(at(0)).unwrap();
        assert_eq!(
            other.handle_error(at(0), sent_segment, &RelayError::TooLarge { max: 25 }),
            Err(Unreachable)
        );
    }

    #[test]
    fn a_peer_that_stays_busy_becomes_unreachable() {
        let mut busy = outgoing(&[5]);
        let mut now = at(0);
        let lost = loop {
            let (sent_segment, _) = busy.next(now).unwrap();
            if busy.handle_error(now, sent_segment, &BUSY) == Err(Unreachable) {
                break now;
            }
            now = busy.next_wake().unwrap();
        };
        // 50, 100, 200, 400 and 800 ms, and then once a second.
        assert_eq!(lost, at(30_550));

        let mut silent = outgoing(&[5]);
        for expected in [Ok(()), Ok(()), Err(Unreachable)] {
            let (sent_segment, _) = silent.next(at(0)).unwrap();
            assert_eq!(silent.handle_timeout(sent_segment), expected);
        }
        let mut gone = outgoing(&[5]);
        let (sent_segment, _) = gone.next(at(0)).unwrap();
        assert_eq!(
            gone.handle_error(at(0), sent_segment, &RelayError::Unreachable),
            Err(Unreachable)
        );
    }
}
