use std::time::Duration;

use watchfire_types::Instant;

use super::block_counts::BlockCounts;
use super::peer_blocks::PeerBlocks;
use super::peer_requests::{BlockRequest, PeerRequests};
use super::policy::ExchangePolicy;
use super::request_window::{DeliveryRate, transfer_time};
use super::silence::Silence;
use super::want_queue::WantQueue;
use crate::{Limits, Protocol};

/// Blocks for which the window of one peer has room at least.
const BLOCKS_PER_PEER_MIN: usize = 2;

/// Timeouts in a row, of a peer that never sent a block, before each wait doubles. A single request
/// is soon retried.
const UNPROVEN_TIMEOUTS: u32 = 2;

/// One peer, seen by the half of a node that requests blocks.
#[derive(Debug)]
pub struct PeerState {
    pub(crate) protocol: Protocol,
    pub(crate) blocks: PeerBlocks,
    pub(crate) queue: WantQueue,
    pub(crate) requests: PeerRequests,
    pub(crate) delivery: DeliveryRate,
    pub(crate) silence: Silence,
    pub(crate) counts: BlockCounts,
}

impl PeerState {
    pub(crate) fn new(
        now: Instant,
        protocol: Protocol,
        limits: &Limits,
        is_provider: bool,
    ) -> Self {
        PeerState {
            protocol,
            blocks: PeerBlocks::new(is_provider || !protocol.has_presences()),
            queue: WantQueue::default(),
            requests: PeerRequests::default(),
            delivery: DeliveryRate::new(limits, BLOCKS_PER_PEER_MIN),
            silence: Silence::new(now),
            counts: BlockCounts::new(now),
        }
    }

    /// Whether the peer announced that it has a wanted block.
    pub fn has(&self, at: u32) -> bool {
        self.blocks.has.has(at)
    }

    /// Whether the peer answered that it lacks a wanted block, or is assumed to lack it.
    pub fn lacks(&self, at: u32) -> bool {
        self.blocks.lacks.has(at)
    }

    /// The wants that are requested from the peer, and the time of each request.
    pub fn requests(&self) -> impl Iterator<Item = (u32, Instant)> {
        self.requests.iter().map(|(at, request)| (at, request.requested_at))
    }

    pub(crate) fn request(&mut self, now: Instant, at: u32, bytes: usize) {
        let is_first = self.requests.is_empty();
        self.silence.note_request(now, is_first);
        if is_first {
            self.delivery.start_sample(now);
        }
        self.counts.was_requested = true;
        self.requests.insert(now, at, bytes, &self.delivery);
        self.queue.push_request(at);
    }

    pub(crate) fn remove_request(&mut self, at: u32) -> Option<BlockRequest> {
        let request = self.requests.remove(at)?;
        if self.requests.is_empty() {
            self.silence.unanswered_since = None;
        }
        Some(request)
    }

    /// Sends a request again. Returns whether it had been sent.
    pub(crate) fn repeat(&mut self, at: u32) -> bool {
        let request = self.requests.get_mut(at).filter(|request| request.is_sent);
        let Some(request) = request else { return false };
        (request.is_sent, request.is_repeated) = (false, true);
        self.queue.push_request(at);
        // Both answers may come.
        self.counts.cancelled_want_haves += 1;
        true
    }

    /// Forgets the want-haves that the peer never answered. Returns whether there are any.
    pub(crate) fn forget_unanswered_want_haves(&mut self) -> bool {
        let unanswered = self.queue.forget_unanswered(&self.blocks.lacks);
        // They are sent again, and both answers may come.
        self.counts.cancelled_want_haves += unanswered as u64;
        unanswered > 0
    }

    /// Whether the peer confirms a cancel of this request.
    pub(crate) fn confirms_cancel(&self, at: u32) -> bool {
        let is_open = |request: &BlockRequest| request.is_sent && request.cancel_sent_at.is_none();
        self.protocol == Protocol::Leaves && self.requests.get(at).is_some_and(is_open)
    }

    /// Whether the peer has room for more requests, and is sure to remember them.
    pub(crate) fn has_room(&self, limits: &Limits) -> bool {
        if self.is_unproven() {
            return self.requests.is_empty();
        }
        let remembered = self.requests.len() + self.queue.sent_want_haves.len();
        self.requests.len() < 2
            || (remembered < limits.sent_wants_per_peer_max
                && self.requests.bytes() < self.delivery.window_bytes)
    }

    /// Whether the peer never sent a useful block, and its protocol has HAVE. Its first request is
    /// a single block.
    pub(crate) const fn is_unproven(&self) -> bool {
        self.counts.useful == 0 && self.protocol.has_presences()
    }

    /// Whether the peer had requests, timed out, and never sent a block. Other peers come first,
    /// and may take over its requests.
    pub(crate) const fn never_answered(&self) -> bool {
        self.is_unproven() && self.silence.timeouts > 0
    }

    /// When the requests of the peer time out; `None` without requests or while it is unresponsive.
    pub(crate) fn timeout_at(&self, limits: &Limits) -> Option<Instant> {
        if self.requests.is_empty() || self.silence.is_unresponsive() {
            return None;
        }
        let usual = self.delivery.usual_latency.map(|usual| usual.saturating_mul(4));
        // The latency of a peer that never answered is unknown.
        let usual = usual.unwrap_or(limits.response_timeout.saturating_mul(10));
        let free_timeouts = if self.is_unproven() { UNPROVEN_TIMEOUTS } else { 0 };
        Some(self.silence.timeout_at(limits.response_timeout, usual, free_timeouts))
    }

    /// When to check the silence of the peer next.
    pub(crate) fn next_timeout_at(
        &self,
        limits: &Limits,
        policy: ExchangePolicy,
    ) -> Option<Instant> {
        let stalled = self.silence.unanswered_since.map(|since| since + limits.stalled_after);
        let silent = self.silence.unresponsive_until.or_else(|| self.timeout_at(limits));
        silent.filter(|_| policy.has_silence_timeouts).into_iter().chain(stalled).min()
    }

    /// How long the open requests and `more` bytes will take to arrive.
    pub(crate) fn time_for(&self, more: usize) -> Duration {
        let bytes = (self.requests.bytes() + more) as u64;
        match self.delivery.rate {
            0 => self.delivery.base(),
            rate => transfer_time(bytes, rate) + self.delivery.base(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(protocol: Protocol) -> PeerState {
        PeerState::new(Instant::ZERO, protocol, &Limits::default(), false)
    }

    #[test]
    fn an_unproven_peer_gets_one_request() {
        let limits = Limits::default();
        let mut peer = peer(Protocol::V1_2);
        assert!(peer.is_unproven() && peer.has_room(&limits));
        peer.request(Instant::ZERO, 0, 1000);
        assert!(!peer.has_room(&limits));
        peer.counts.add_useful(Instant::ZERO, 1000);
        assert!(!peer.is_unproven() && peer.has_room(&limits));
    }

    #[test]
    fn only_peers_that_speak_leaves_confirm_the_cancel_of_a_sent_request() {
        for (protocol, confirms) in [(Protocol::V1_2, false), (Protocol::Leaves, true)] {
            let mut peer = peer(protocol);
            peer.request(Instant::ZERO, 0, 1000);
            assert!(!peer.confirms_cancel(0));
            peer.requests.get_mut(0).expect("it was requested").is_sent = true;
            assert_eq!(peer.confirms_cancel(0), confirms);
        }
    }

    #[test]
    fn a_peer_without_requests_has_no_timeout() {
        let (limits, policy) = (Limits::default(), ExchangePolicy::default());
        let mut peer = peer(Protocol::V1_2);
        assert_eq!(peer.next_timeout_at(&limits, policy), None);
        peer.request(Instant::ZERO, 0, 1000);
        let timeout_at = Instant::ZERO + limits.response_timeout * 10;
        assert_eq!(peer.next_timeout_at(&limits, policy), Some(timeout_at));
        peer.remove_request(0);
        assert_eq!(peer.next_timeout_at(&limits, policy), None);
    }
}
