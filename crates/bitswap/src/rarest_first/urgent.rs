//! Makes room for blocks that have become urgent.

use watchfire_types::Instant;

use super::request_budget::RequestBudget;
use super::send_estimate::is_far_from_turn;
use crate::requester::{PeerState, Requester};

/// Reopens urgent wants that are far from their turn, so that they are requested from the peer that
/// sends them soonest, and makes room for them.
pub(super) fn prioritise<P: Copy + Ord>(requester: &mut Requester<P>, now: Instant) {
    let urgent: Vec<u32> = requester.wants.urgent().collect();
    for at in urgent {
        if let [server] = requester.wants.get(at).requested_from[..]
            && let Some(state) = requester.peers.get(&server)
            && state.requests.get(at).is_some_and(|request| is_far_from_turn(state, request, now))
        {
            requester.cancel_request(at, server);
        }
        if requester.wants.get(at).requested_from.is_empty() {
            make_room(requester, now, at);
        }
    }
}

/// Cancels less urgent requests that wait for their turn, the newest first, until a peer has room
/// for an urgent block.
fn make_room<P: Copy + Ord>(requester: &mut Requester<P>, now: Instant, at: u32) {
    let can_send =
        |state: &PeerState| !state.silence.is_unresponsive() && state.blocks.may_have(at);
    let holders = requester.peers.iter().filter(|(_, state)| can_send(state));
    let holders: Vec<P> = holders.map(|(peer, _)| *peer).collect();
    let has_room = |requester: &Requester<P>, peer: &P| {
        let has_room = |state: &PeerState| {
            state.has_room(&requester.limits)
                && !RequestBudget::of(requester).is_spent(requester, state)
        };
        requester.peers.get(peer).is_some_and(has_room)
    };
    if holders.iter().any(|peer| has_room(requester, peer)) {
        return;
    }
    for peer in holders {
        while let Some(state) = requester.peers.get(&peer) {
            let waiting = state.requests.iter().filter(|(at, request)| {
                requester.wants.urgent_place(*at).is_none() && is_far_from_turn(state, request, now)
            });
            let newest =
                waiting.max_by_key(|(_, request)| (request.requested_at, request.bytes_ahead));
            let Some((newest, _)) = newest else { break };
            requester.cancel_request(newest, peer);
            if has_room(requester, &peer) {
                return;
            }
        }
    }
}
