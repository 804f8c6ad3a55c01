//! Handles a peer that announces a block that is requested already.

use watchfire_types::Instant;

use super::selection::rarest;
use super::send_estimate::is_far_from_turn;
use crate::requester::{PeerState, Requester};

/// Requests from a busy peer a block that only it has, in place of one that another peer has now.
///
/// So a single seeder that serves all leechers sends new blocks, and leechers get the rest from
/// each other. The seeder confirms the cancel if it can: it may be sending the block already, and
/// the block must not arrive twice.
pub(super) fn request_only_copy<P: Copy + Ord>(
    requester: &mut Requester<P>,
    now: Instant,
    at: u32,
    holder: P,
) {
    let Some(wanted) = requester.wants.find_at(at) else { return };
    let [server] = wanted.requested_from[..] else { return };
    let Some(state) = requester.peers.get(&server) else { return };
    let Some(request) = state.requests.get(at) else { return };
    if request.cancel_sent_at.is_some() || !is_far_from_turn(state, request, now) {
        return;
    }
    let random = requester.rng.next_u64();
    let rarest = rarest(&requester.wants, random, |at| state.blocks.has.word(at));
    if let Some(rarest) = rarest.filter(|at| requester.wants.get(*at).holders <= 1) {
        if state.confirms_cancel(at) {
            requester.reassign(now, at, server, holder);
        } else {
            requester.cancel_request(at, server);
        }
        requester.request(now, rarest, server);
    }
}

/// Moves a request to a new holder that has no other requests, with a probability of one in the
/// number of holders. So each holder gets its share of the leechers that wait for the block.
pub(super) fn move_to_new_holder<P: Copy + Ord>(
    requester: &mut Requester<P>,
    now: Instant,
    at: u32,
    holder: P,
) {
    let Some(wanted) = requester.wants.find_at(at) else { return };
    let [server] = wanted.requested_from[..] else { return };
    let holders = wanted.holders as usize;
    let confirms = requester.peers.get(&server).is_some_and(|state| state.confirms_cancel(at));
    let is_idle = |state: &PeerState| state.requests.is_empty() && !state.silence.is_unresponsive();
    if confirms
        && requester.peers.get(&holder).is_some_and(is_idle)
        && requester.rng.index(holders) == 0
    {
        requester.reassign(now, at, server, holder);
    }
}
