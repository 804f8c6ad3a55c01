//! The request strategy of Watchfire: which block to request next, and from which peer.
//!
//! Without it, every leecher requests a page's blocks in the order of the file, from whichever peer
//! has them. Leechers that opened the page together then hold the same blocks, so none has anything
//! for another, and the seeder sends everything to everyone. For example, a page has 100 blocks of
//! 256 KiB, the seeder's uplink sends four of them a second, and 20 leechers read it. In the order
//! of the file the seeder sends 2,000 blocks, which takes 500 seconds. When each leecher requests
//! the block that the fewest peers have, the seeder sends each block about once, in 25 seconds, and
//! the leechers get the rest from each other meanwhile.
//!
//! Rarest first alone has four weaknesses, and each has a module:
//!
//! - **Nodes choose alike.** Two nodes with the same knowledge would request the same block. So
//!   among equally rare blocks each takes the first after a random place (`selection`). Urgent
//!   blocks, such as those that a film shows next, come before all others (`urgent`).
//! - **A choice ages.** A request that waits for seconds behind others was chosen with knowledge
//!   from seconds ago. So a node requests only what arrives within about two round trips
//!   (`budget_of_all_peers`, and `requester/request_window.rs` for each peer).
//! - **A seeder that everyone asks becomes the bottleneck.** A node leaves to leechers the blocks
//!   that they have (`selection`). When another peer gets a block that is requested from the
//!   seeder, the request moves there, and the seeder is asked for a block that only it has
//!   (`new_holder`). One or two seeders are kept busy (`rebalance`).
//! - **Peers become slow or silent.** An idle peer takes requests over from a busy one
//!   (`take_over`, `rebalance`), and silence moves them elsewhere (`timeouts`).
//!
//! The bounds: a choice compares at most 4,096 wants for each level of urgency. Peers that never
//! sent a block get one request each and 8 together, besides those that move there. Before the
//! endgame no block is deliberately requested from two peers. In the endgame, when everything that
//! is wanted is requested, at most 1 % of the wanted blocks are, or one block.

mod budget_of_all_peers;
mod new_holder;
mod rebalance;
mod selection;
mod send_estimate;
mod take_over;
mod timeouts;
mod urgent;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use watchfire_types::Instant;

use crate::requester::{PeerState, ProviderHint, Requester, WantHaves};
use crate::{RequestStrategy, Totals};
use budget_of_all_peers::{RequestBudget, requested_bytes_max};
use rebalance::CHECK_INTERVAL;

/// Requests the rarest block first. The head of this file has the reasons.
#[derive(Debug)]
pub struct RarestFirst<P> {
    /// When to look for an idle peer in the endgame next; `None` before the endgame.
    endgame_check_at: Option<Instant>,
    /// When requests were last moved to idle peers.
    rebalanced_at: Instant,
    /// When each peer last looked for requests to take over.
    take_over_checked_at: BTreeMap<P, Instant>,
}

/// Interval between checks for an idle peer in the endgame.
const ENDGAME_INTERVAL: Duration = Duration::from_millis(100);

/// Most blocks that are requested from unproven peers, one each.
const UNPROVEN_REQUESTS_MAX: usize = 8;

/// With at most this many wants, peers must answer a want-have with DONT_HAVE too. With more, they
/// answer only with HAVE.
const WANTS_WITH_DONT_HAVE: usize = 16;

impl<P> RarestFirst<P> {
    /// The strategy before the first want.
    pub const fn new() -> Self {
        RarestFirst {
            endgame_check_at: None,
            rebalanced_at: Instant::ZERO,
            take_over_checked_at: BTreeMap::new(),
        }
    }
}

impl<P> Default for RarestFirst<P> {
    fn default() -> Self {
        RarestFirst::new()
    }
}

impl<P: Copy + Ord + std::fmt::Debug + Send> RequestStrategy<P> for RarestFirst<P> {
    fn request_blocks(&mut self, now: Instant, requester: &mut Requester<P>, totals: &mut Totals) {
        if requester.has_no_wants() {
            requester.ready_for_requests.clear();
        }
        for (at, holder) in requester.take_new_holders() {
            new_holder::request_only_copy(requester, now, at, holder);
            new_holder::move_to_new_holder(requester, now, at, holder);
        }
        // One block each in several rounds, so that no peer takes all the rest. The fastest come
        // first.
        let mut peers = take_ready(requester);
        if !peers.is_empty() {
            let mut budget = RequestBudget::of(requester);
            while !peers.is_empty() {
                peers.retain(|peer| self.request_one(now, requester, *peer, &mut budget, totals));
            }
        }
        if now.since(self.rebalanced_at) >= CHECK_INTERVAL {
            self.rebalanced_at = now;
            rebalance::rebalance(requester, now);
        }
        let is_endgame = requester.is_endgame() && !requester.has_no_wants();
        if !is_endgame {
            self.endgame_check_at = None;
        } else if self.endgame_check_at.is_none() {
            self.endgame_check_at = Some(now + ENDGAME_INTERVAL);
        }
    }

    fn handle_tick(&mut self, now: Instant, requester: &mut Requester<P>, totals: &mut Totals) {
        timeouts::handle_timeouts(requester, now, totals);
        if self.endgame_check_at.is_some_and(|at| at <= now) {
            self.endgame_check_at = None;
            requester.note_all_ready_for_requests();
        }
    }

    fn next_wake(&self, _requester: &Requester<P>) -> Option<Instant> {
        self.endgame_check_at
    }

    fn handle_urgent(&mut self, now: Instant, requester: &mut Requester<P>) {
        urgent::prioritise(requester, now);
    }

    fn handle_connected(&mut self, peer: P) {
        self.take_over_checked_at.remove(&peer);
    }

    fn handle_disconnected(&mut self, peer: P) {
        self.take_over_checked_at.remove(&peer);
    }

    fn want_haves(&self, requester: &Requester<P>, _peer: P) -> Option<WantHaves<'_>> {
        let send_dont_have = requester.wants.len() <= WANTS_WITH_DONT_HAVE;
        Some(WantHaves { only: None, send_dont_have })
    }
}

impl<P: Copy + Ord> RarestFirst<P> {
    /// Requests one more block from a peer. Returns whether there was one.
    fn request_one(
        &mut self,
        now: Instant,
        requester: &mut Requester<P>,
        peer: P,
        budget: &mut RequestBudget,
        totals: &mut Totals,
    ) -> bool {
        let Some(state) = requester.peers.get(&peer) else { return false };
        let is_spent = match state.is_unproven() {
            true => requester.unproven_requests >= UNPROVEN_REQUESTS_MAX,
            false => budget.is_spent(requester, state),
        };
        if is_spent {
            requester.note_ready_for_requests(peer);
            return false;
        }
        if !state.has_room(&requester.limits) || state.silence.is_unresponsive() {
            return false;
        }
        let random = requester.rng.next_u64();
        let known = selection::rarest(&requester.wants, random, |at| state.blocks.has.word(at));
        let chosen = known.or_else(|| match state.blocks.provider_hint {
            ProviderHint::Unlikely => None,
            ProviderHint::Unknown if !state.requests.is_empty() => None,
            ProviderHint::Unknown | ProviderHint::Likely => {
                selection::rarest(&requester.wants, random, |at| !state.blocks.lacks.word(at))
            }
        });
        let Some(at) = chosen else {
            return state.requests.is_empty() && self.take_over(now, requester, peer, totals);
        };
        if selection::is_too_slow_for(requester, state, at) {
            return false;
        }
        if budget.is_for_faster_peers(requester, now, state, at)
            || selection::is_left_to_leechers(requester, state, at)
        {
            requester.note_ready_for_requests(peer);
            return false;
        }
        budget.add_request(state, requester.block_bytes(at));
        if known.is_none()
            && let Some(state) = requester.peers.get_mut(&peer)
            && state.blocks.provider_hint == ProviderHint::Unknown
        {
            state.blocks.provider_hint = ProviderHint::Unlikely;
        }
        requester.request(now, at, peer);
        true
    }

    /// Finds a request that an idle peer can take over, at most once per interval.
    fn take_over(
        &mut self,
        now: Instant,
        requester: &mut Requester<P>,
        peer: P,
        totals: &mut Totals,
    ) -> bool {
        let checked_at = self.take_over_checked_at.get(&peer);
        if checked_at.is_some_and(|at| now.since(*at) < CHECK_INTERVAL) {
            return false;
        }
        self.take_over_checked_at.insert(peer, now);
        take_over::take_over_request(requester, now, peer, totals)
    }
}

/// Takes the peers that may have room for requests. Those that deliver soonest come first.
fn take_ready<P: Copy + Ord>(requester: &mut Requester<P>) -> Vec<P> {
    let mut ready = BTreeSet::new();
    if requester.requested_bytes < requested_bytes_max(requester) {
        ready.append(&mut requester.ready_for_requests.proven);
    }
    if requester.unproven_requests < UNPROVEN_REQUESTS_MAX {
        ready.append(&mut requester.ready_for_requests.unproven);
    }
    let block = requester.limits.block_bytes_estimate;
    let mut peers: Vec<(bool, Duration, u64, P)> = Vec::new();
    for peer in ready {
        let random = requester.rng.next_u64();
        // The recent latency counts too, because others send requests to a busy peer as well.
        let time_for = |state: &PeerState| {
            state.time_for(block) + state.delivery.usual_latency.unwrap_or_default()
        };
        let state = requester.peers.get(&peer);
        peers.extend(state.map(|state| (state.never_answered(), time_for(state), random, peer)));
    }
    peers.sort_unstable();
    peers.into_iter().map(|(.., peer)| peer).collect()
}
