//! Moves requests to peers that have nothing to send.

use std::collections::BTreeSet;
use std::time::Duration;

use watchfire_types::Instant;

use super::budget_of_all_peers::RequestBudget;
use super::selection::rarest;
use crate::Protocol;
use crate::requester::peer_requests::BlockRequest;
use crate::requester::{PeerState, Requester};

/// How often to look for requests that idle peers could take over.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Shortest wait before a block is requested from an idle peer instead. On a busy machine no peer
/// is idle for long, and a request that is moved sooner is often being answered.
const WAITED_MIN: Duration = Duration::from_millis(400);

/// With more seeders than this, none of them lacks requests.
const SEEDERS_MAX: usize = 2;

/// Keeps seeders and idle peers busy.
pub(super) fn rebalance<P: Copy + Ord>(requester: &mut Requester<P>, now: Instant) {
    request_from_seeders(requester, now);
    request_from_idle_peers(requester, now);
}

/// With one or two seeders, requests from each a block that no other peer has, even beyond the
/// other limits: a block that no peer requests from a seeder never spreads. The request waits while
/// the seeder is busy, and can be cancelled.
fn request_from_seeders<P: Copy + Ord>(requester: &mut Requester<P>, now: Instant) {
    let live = requester.wants.live();
    let seeders = requester.peers.iter().filter(|(_, state)| state.blocks.has.has_all(live));
    let seeders: Vec<P> = seeders.map(|(peer, _)| *peer).take(SEEDERS_MAX + 1).collect();
    if seeders.len() > SEEDERS_MAX {
        return;
    }
    for &peer in &seeders {
        let Some(state) = requester.peers.get(&peer) else { continue };
        let confirms = state.protocol == Protocol::Leaves;
        if !confirms || !state.requests.is_empty() || state.silence.is_unresponsive() {
            continue;
        }
        let random = requester.rng.next_u64();
        let rarest = rarest(&requester.wants, random, |at| state.blocks.has.word(at));
        let is_only_theirs = |at: &u32| requester.wants.get(*at).holders as usize <= seeders.len();
        if let Some(at) = rarest.filter(is_only_theirs) {
            requester.request(now, at, peer);
        }
    }
}

/// Moves the requests with the longest wait to idle peers that have the blocks.
///
/// The peers with these requests have more to send than they can. While this node waits for as much
/// as it may request, it cannot request anything else. A block that is being sent still arrives.
fn request_from_idle_peers<P: Copy + Ord>(requester: &mut Requester<P>, now: Instant) {
    let movable = requester.peers.iter().flat_map(|(peer, state)| {
        let requests = state.requests.iter();
        let movable = requests.filter(|(at, request)| is_movable(requester, state, *at, request));
        movable.map(|(at, request)| (request.requested_at, at, *peer))
    });
    let movable = movable.filter(|(requested_at, ..)| now.since(*requested_at) >= WAITED_MIN);
    let mut movable: Vec<(Instant, u32, P)> = movable.collect();
    if movable.is_empty() {
        return;
    }
    movable.sort_unstable();
    let budget = RequestBudget::of(requester);
    let is_reserved: BTreeSet<P> = requester.reassignments.values().copied().collect();
    let is_idle = |(peer, state): &(&P, &PeerState)| {
        let answers = !state.silence.is_unresponsive() && !state.is_unproven();
        let is_free = state.requests.is_empty() && !is_reserved.contains(peer);
        is_free && answers && !budget.is_slow(state)
    };
    let mut idle: Vec<P> = requester.peers.iter().filter(is_idle).map(|(peer, _)| *peer).collect();
    if idle.is_empty() {
        return;
    }
    // Start at a random peer, because every other leecher looks for one too.
    let first = requester.rng.index(idle.len());
    idle.rotate_left(first);
    for peer in idle {
        let Some(state) = requester.peers.get(&peer) else { continue };
        if let Some(which) = movable.iter().position(|(_, at, _)| state.blocks.has.has(*at)) {
            let (_, at, other) = movable.remove(which);
            requester.reassign(now, at, other, peer);
        }
    }
}

/// Whether a request may move to another peer.
fn is_movable<P: Copy + Ord>(
    requester: &Requester<P>,
    busy: &PeerState,
    at: u32,
    request: &BlockRequest,
) -> bool {
    let is_next = request.delivered_since(&busy.delivery) >= request.bytes_ahead;
    busy.confirms_cancel(at)
        && requester.wants.get(at).requested_from.len() == 1
        && !(busy.silence.is_sending && is_next)
        && requester.wants.urgent_place(at).is_none()
}
