//! Makes room for blocks that have become urgent.

use watchfire_types::Instant;

use super::budget_of_all_peers::RequestBudget;
use super::send_estimate::{Turn, is_far_from_turn, turn_of};
use crate::requester::{PeerState, Requester};

/// Gets urgent blocks sooner that are requested already, and makes room for the others.
pub(super) fn prioritise<P: Copy + Ord>(requester: &mut Requester<P>, now: Instant) {
    let urgent: Vec<u32> = requester.wants.urgent().collect();
    // Peers that send a more urgent block in its turn.
    let mut busy: Vec<P> = Vec::new();
    for at in urgent {
        if let [server] = requester.wants.get(at).requested_from[..] {
            hasten(requester, now, at, server, !busy.contains(&server));
            let state = requester.peers.get(&server);
            let request = state.and_then(|state| state.requests.get(at));
            if request.is_some_and(|request| request.is_sent && !request.is_urgent) {
                busy.push(server);
            }
        }
        if requester.wants.get(at).requested_from.is_empty() {
            make_room(requester, now, at);
        }
    }
}

/// Gets an urgent block sooner that is requested from `server`.
///
/// A want that is far from its turn moves to another peer that may send it, if there is one. Otherwise the server keeps
/// the request and changes its priority: a cancel and a second request would bring a block twice that is on its way. An
/// overdue block may be on its way too, so the request moves only to a peer with room for it. If the server confirms
/// cancels, the request moves only when it has done so. The rate of a busy link says little about the turn of one block:
/// without the confirmation, most of the blocks that moved came twice to hosts that pulled an image over 50 Mbit/s.
///
/// The priority changes only if it `may_overtake`: a more urgent block that keeps its turn at the server would otherwise come after it,
/// and with a server that pauses, not before the timeout. When that block is here, the rest is urgent again.
fn hasten<P: Copy + Ord>(
    requester: &mut Requester<P>,
    now: Instant,
    at: u32,
    server: P,
    may_overtake: bool,
) {
    let Some(state) = requester.peers.get(&server) else { return };
    let Some(request) = state.requests.get(at) else { return };
    let turn = turn_of(state, request, now);
    if turn == Turn::Near || request.cancel_sent_at.is_some() {
        return;
    }
    let confirms = state.confirms_cancel(at);
    let others = requester.peers.iter().filter(|(peer, _)| **peer != server);
    let others = others.filter(|(_, state)| can_send(state, at));
    let budget = RequestBudget::of(requester);
    let free = others.clone().filter(|(_, state)| has_room(requester, &budget, state));
    let soonest = free.min_by_key(|(peer, state)| (state.time_for(request.bytes), **peer));
    let soonest = soonest.map(|(&peer, _)| peer);
    match (turn, soonest) {
        (Turn::Near, _) | (Turn::Overdue, None) => {}
        (_, Some(peer)) if confirms => requester.reassign(now, at, server, peer),
        (Turn::Overdue, Some(peer)) => {
            requester.cancel_request(at, server);
            requester.request(now, at, peer);
        }
        (Turn::Unsent | Turn::Ahead, _) => {
            if others.count() > 0 && !confirms {
                requester.cancel_request(at, server);
            } else if may_overtake {
                requester.raise(at, server);
            }
        }
    }
}

fn has_room<P: Copy + Ord>(
    requester: &Requester<P>,
    budget: &RequestBudget,
    state: &PeerState,
) -> bool {
    state.has_room(&requester.limits) && !budget.is_spent(requester, state)
}

fn can_send(state: &PeerState, at: u32) -> bool {
    !state.silence.is_unresponsive() && state.blocks.may_have(at)
}

/// Cancels less urgent requests that wait for their turn, the newest first, until a peer has room
/// for an urgent block.
fn make_room<P: Copy + Ord>(requester: &mut Requester<P>, now: Instant, at: u32) {
    let holders = requester.peers.iter().filter(|(_, state)| can_send(state, at));
    let holders: Vec<P> = holders.map(|(peer, _)| *peer).collect();
    let peer_has_room = |requester: &Requester<P>, peer: &P| {
        let budget = RequestBudget::of(requester);
        requester.peers.get(peer).is_some_and(|state| has_room(requester, &budget, state))
    };
    if holders.iter().any(|peer| peer_has_room(requester, peer)) {
        return;
    }
    for peer in holders {
        while let Some(state) = requester.peers.get(&peer) {
            let waiting = state.requests.iter().filter(|(at, request)| {
                requester.wants.urgent_place(*at).is_none() && is_far_from_turn(state, request, now)
            });
            // An overdue block may be on its way, and would come in vain.
            let newest = waiting.max_by_key(|(_, request)| {
                let is_overdue = turn_of(state, request, now) == Turn::Overdue;
                (!is_overdue, request.requested_at, request.bytes_ahead)
            });
            let Some((newest, _)) = newest else { break };
            requester.cancel_request(newest, peer);
            if peer_has_room(requester, &peer) {
                return;
            }
        }
    }
}
