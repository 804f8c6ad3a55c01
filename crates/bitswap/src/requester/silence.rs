use std::time::Duration;

use watchfire_types::Instant;

/// The kind of data that arrived from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceivedKind {
    /// Part of a message. Only messages with blocks are long enough to arrive in parts.
    Part,
    /// A message with blocks, or the rest of it.
    Blocks,
    NoBlocks,
}

/// The silence of one peer, and its timeouts.
#[derive(Debug)]
pub(crate) struct Silence {
    /// When the last data arrived from the peer, or its first request was sent after it had none.
    pub received_at: Instant,
    /// While the peer is unresponsive: when it may receive requests again.
    pub unresponsive_until: Option<Instant>,
    /// Timeouts in a row. A useful block resets them.
    pub timeouts: u32,
    /// The longest recent time between two arrivals while the peer had requests.
    pub longest_gap: Duration,
    /// Whether a request was sent again since the last arrival.
    pub was_retried: bool,
    /// Parts of blocks that had arrived from all peers at the last arrival from this one.
    pub parts_at_receipt: u64,
    /// Whether part of a message arrived, and the rest has not.
    pub is_sending: bool,
    /// When the last part of a block arrived.
    pub part_at: Instant,
    /// How often since the last arrival the silence was attributed to this node's own link.
    excuses: u32,
    /// Parts from all peers at the last excuse or arrival.
    parts_at_excuse: u64,
    /// When the peer became silent while it had requests.
    pub unanswered_since: Option<Instant>,
}

/// Parts of blocks that each other peer may send before a peer that sends nothing is silent.
const PARTS_PER_TURN: u64 = 4;

/// How often in a row a peer's silence is attributed to this node's own link.
const EXCUSES_MAX: u32 = 16;

/// Longest time that an unresponsive peer receives no requests.
const UNRESPONSIVE_MAX: Duration = Duration::from_secs(30);

/// How often a wait doubles at most.
const DOUBLINGS_MAX: u32 = 8;

impl Silence {
    pub(crate) const fn new(now: Instant) -> Self {
        Silence {
            received_at: now,
            unresponsive_until: None,
            timeouts: 0,
            longest_gap: Duration::ZERO,
            was_retried: false,
            parts_at_receipt: 0,
            is_sending: false,
            part_at: now,
            excuses: 0,
            parts_at_excuse: 0,
            unanswered_since: None,
        }
    }

    pub(crate) const fn is_unresponsive(&self) -> bool {
        self.unresponsive_until.is_some()
    }

    /// Data arrived from the peer. `parts` counts the parts of blocks from all peers.
    pub(crate) fn note_received(
        &mut self,
        now: Instant,
        kind: ReceivedKind,
        has_requests: bool,
        parts: u64,
    ) {
        // An answer to a retry does not measure how long the peer takes without one.
        if has_requests && !std::mem::take(&mut self.was_retried) {
            self.longest_gap = now.since(self.received_at).max(self.longest_gap / 16 * 15);
        }
        self.is_sending = kind == ReceivedKind::Part;
        if kind != ReceivedKind::NoBlocks {
            self.part_at = now;
        }
        self.parts_at_receipt = parts;
        self.excuses = 0;
        self.parts_at_excuse = parts;
        self.received_at = now;
        self.unresponsive_until = None;
        self.unanswered_since = has_requests.then_some(now);
    }

    pub(crate) fn note_request(&mut self, now: Instant, is_first: bool) {
        if is_first {
            self.received_at = now;
        }
        self.unanswered_since.get_or_insert(now);
    }

    /// Excuses a silence that this node's own link explains: all peers take turns on it, and others
    /// have not had many turns since. While no peer sends data, there is no excuse.
    pub(crate) fn excuse(&mut self, now: Instant, parts: u64, requested_peers: u64) -> bool {
        let is_few = parts - self.parts_at_receipt < PARTS_PER_TURN * requested_peers;
        let is_excused = parts > self.parts_at_excuse && is_few && self.excuses < EXCUSES_MAX;
        if is_excused {
            self.excuses += 1;
            self.parts_at_excuse = parts;
            self.received_at = now;
        }
        is_excused
    }

    /// Times out the requests of the peer. Each time in a row doubles the time until the next.
    pub(crate) fn time_out(&mut self, now: Instant, response_timeout: Duration) {
        let wait = response_timeout.saturating_mul(1 << self.timeouts.min(DOUBLINGS_MAX));
        self.timeouts += 1;
        self.unresponsive_until = Some(now + wait.min(UNRESPONSIVE_MAX));
    }

    /// When requests time out, for a peer whose answers take `usual`. `free_timeouts` in a row do
    /// not double the wait.
    pub(crate) fn timeout_at(
        &self,
        response_timeout: Duration,
        usual: Duration,
        free_timeouts: u32,
    ) -> Instant {
        let wait = response_timeout.max(usual).max(self.longest_gap * 3);
        let doublings = self.timeouts.saturating_sub(free_timeouts).min(DOUBLINGS_MAX);
        self.received_at + wait.saturating_mul(1 << doublings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn every_timeout_in_a_row_doubles_the_next_wait() {
        let mut silence = Silence::new(Instant::ZERO);
        let wait = |silence: &Silence| {
            let timeout_at = silence.timeout_at(SECOND, Duration::ZERO, 0);
            timeout_at.since(silence.received_at)
        };
        assert_eq!(wait(&silence), SECOND);
        silence.time_out(Instant::ZERO + SECOND, SECOND);
        assert_eq!(silence.unresponsive_until, Some(Instant::ZERO + SECOND * 2));
        assert_eq!(wait(&silence), SECOND * 2);
        silence.note_received(Instant::ZERO + SECOND, ReceivedKind::NoBlocks, true, 0);
        assert!(!silence.is_unresponsive());
    }

    #[test]
    fn a_peer_is_excused_only_while_others_send() {
        let mut silence = Silence::new(Instant::ZERO);
        assert!(!silence.excuse(Instant::ZERO + SECOND, 0, 3));
        assert!(silence.excuse(Instant::ZERO + SECOND, 1, 3));
        assert!(!silence.excuse(Instant::ZERO + SECOND, 1, 3));
        assert!(!silence.excuse(Instant::ZERO + SECOND, 12, 3));
    }
}
