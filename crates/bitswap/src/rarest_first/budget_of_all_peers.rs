//! How much to request from all peers together, and from the slow ones among them.
//!
//! Each peer has a window of its own (`requester/request_window.rs`). Their sum is too much: 50
//! peers with the least window of 512 KiB would hold 25 MB of requests. All could answer at the
//! same time, and most of these blocks were chosen long before their turn, when others were rare.
//! So the peers together have a window too: the bytes that arrive from all within two round trips,
//! with room for up to 16 blocks, and never more than
//! [`Limits::requested_bytes_max`](crate::Limits::requested_bytes_max), which is 16 MiB by default.
//!
//! A common window has a weakness. Requests to a slow peer stay in it long after those to a fast
//! peer have been answered, so the slow ones fill it. For example, one peer delivers 10 MB a second
//! and nine deliver 10 KB. If the window of 4 MB is divided equally, nine tenths of it wait for 40
//! seconds at the slow peers, and the fast one is asked for 400 KB at a time. So requests to slow
//! peers do not count against the others, and slow peers get blocks that another peer has only for
//! their part of the rate, or an eighth of the window if that is more. A block that no other peer
//! has is not subject to this.
//!
//! In a swarm a node leaves a quarter of the limit unused, unless it is behind the others: shorter
//! queues at every peer pass each block on sooner.

use watchfire_types::Instant;

use crate::requester::{PeerState, Requester};

/// Bytes that may be requested from each peer now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestBudget {
    /// The sum of the rates at which peers deliver.
    rates: u128,
    /// The sum of the squares of these rates.
    squares: u128,
    /// The sum of the rates of slow peers.
    slow_rates: u128,
    /// Bytes that are requested from slow peers.
    slow_bytes: usize,
    /// The rate at which a block takes a second.
    block_rate: u128,
}

/// A peer is slow if its rate is this many times lower than the mean rate of all bytes, and a block
/// from it takes a second or longer.
const SLOWER: u128 = 4;

/// The part of the window, as a divisor, that may always be requested from slow peers, even if others
/// have the blocks.
const SLOW_PART: usize = 8;

/// After this many response timeouts without any block, slow peers receive requests again.
const SILENCE_TIMEOUTS: u32 = 10;

/// Part of the limit, in quarters, that is requested in a swarm. Longer queues at every peer would
/// delay each block on its way from one peer to the next.
const USUAL_QUARTERS: usize = 3;

/// Additional blocks to request for each block that this node is behind the others, so that all
/// finish at about the same time.
const BLOCKS_TO_CATCH_UP: usize = 2;

/// Bytes that may be requested from all peers together now.
pub(super) fn requested_bytes_max<P: Copy + Ord>(requester: &Requester<P>) -> usize {
    let max = requester.limits.requested_bytes_max;
    let Some(behind) = requester.blocks_behind else { return max };
    let more = requester.progress.delivery.bytes_of_blocks(behind * BLOCKS_TO_CATCH_UP);
    let more = usize::try_from(more).unwrap_or(usize::MAX);
    (max / 4 * USUAL_QUARTERS).saturating_add(more).min(max)
}

impl RequestBudget {
    pub(super) fn of<P: Copy + Ord>(requester: &Requester<P>) -> Self {
        let block_rate = u128::from(requester.progress.delivery.bytes_of_blocks(1));
        let mut budget = RequestBudget { block_rate, ..RequestBudget::default() };
        let responsive =
            || requester.peers.values().filter(|state| !state.silence.is_unresponsive());
        for state in responsive() {
            let rate = u128::from(state.delivery.rate);
            budget.rates += rate;
            budget.squares = budget.squares.saturating_add(rate * rate);
        }
        let all = budget;
        for state in responsive().filter(|state| all.is_slow(state)) {
            budget.slow_rates += u128::from(state.delivery.rate);
            budget.slow_bytes += state.requests.bytes();
        }
        budget
    }

    /// Whether nothing more may be requested from a peer.
    pub(super) fn is_spent<P: Copy + Ord>(
        &self,
        requester: &Requester<P>,
        state: &PeerState,
    ) -> bool {
        let requested = requester.requested_bytes;
        let counted = match self.is_slow(state) {
            true => requested,
            false => requested.saturating_sub(self.slow_bytes),
        };
        counted >= requester.progress.delivery.window_bytes
            || requested >= requested_bytes_max(requester)
    }

    /// Whether to leave a block to faster peers that have it too, unless they send nothing for
    /// long.
    pub(super) fn is_for_faster_peers<P: Copy + Ord>(
        &self,
        requester: &Requester<P>,
        now: Instant,
        state: &PeerState,
        at: u32,
    ) -> bool {
        let silence_max = requester.limits.response_timeout * SILENCE_TIMEOUTS;
        let has_progress = now.since(requester.progress.last_block_at) < silence_max;
        if requester.wants.get(at).holders < 2 || !has_progress || !self.is_slow(state) {
            return false;
        }
        let window = requester.progress.delivery.window_bytes;
        let window = window.min(requester.limits.requested_bytes_max);
        let part = window as u128 * self.slow_rates.min(self.rates) / self.rates.max(1);
        let part = usize::try_from(part).unwrap_or(window).max(window / SLOW_PART);
        self.slow_bytes >= part
    }

    pub(super) fn add_request(&mut self, state: &PeerState, bytes: usize) {
        if self.is_slow(state) {
            self.slow_bytes += bytes;
        }
    }

    /// Whether a peer is slow, compared with the mean rate per byte, not per peer. An unknown rate
    /// is not slow.
    pub(super) fn is_slow(&self, state: &PeerState) -> bool {
        let rate = u128::from(state.delivery.rate);
        let is_slower = || (rate * SLOWER).saturating_mul(self.rates) < self.squares;
        rate > 0 && rate < self.block_rate && is_slower()
    }
}

#[cfg(test)]
mod tests {
    use watchfire_types::Instant;

    use super::*;
    use crate::{Limits, Protocol};

    #[test]
    fn a_peer_is_slow_beside_much_faster_ones() {
        let peer = |rate| {
            let limits = Limits::default();
            let mut state = PeerState::new(Instant::ZERO, Protocol::V1_2, &limits, false);
            state.delivery.rate = rate;
            state
        };
        let budget = RequestBudget {
            rates: 1_010_000,
            squares: 1_000_000_u128.pow(2) + 10_000_u128.pow(2),
            block_rate: 256 << 10,
            ..RequestBudget::default()
        };
        assert!(budget.is_slow(&peer(10_000)));
        assert!(!budget.is_slow(&peer(1_000_000)) && !budget.is_slow(&peer(0)));
    }

    #[test]
    fn in_a_swarm_a_node_that_is_not_behind_leaves_a_quarter_of_the_limit() {
        let limits = Limits::default();
        let max = limits.requested_bytes_max;
        let mut requester: Requester<u8> = Requester::new(limits, Default::default(), 1);
        assert_eq!(requested_bytes_max(&requester), max);
        requester.blocks_behind = Some(0);
        assert_eq!(requested_bytes_max(&requester), max / 4 * 3);
        requester.blocks_behind = Some(1000);
        assert_eq!(requested_bytes_max(&requester), max);
    }
}
