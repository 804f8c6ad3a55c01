//! Handles the requests of a peer that sends nothing.

use watchfire_types::Instant;

use crate::Totals;
use crate::requester::Requester;

/// Timeouts in a row after which a block is requested again from its only holder.
const TIMEOUTS_BEFORE_RETRY: u32 = 3;

/// Cancels the requests of silent peers if another peer has the block, and retries the others.
pub(super) fn handle_timeouts<P: Copy + Ord>(
    requester: &mut Requester<P>,
    now: Instant,
    totals: &mut Totals,
) {
    let mut silent: Vec<(P, u32)> = Vec::new();
    let requested_peers = requester.peers.values().filter(|state| !state.requests.is_empty());
    let requested_peers = requested_peers.count() as u64;
    for (peer, state) in &mut requester.peers {
        if state.silence.unresponsive_until.is_some_and(|until| until <= now) {
            state.silence.unresponsive_until = None;
            requester.ready_for_requests.insert(*peer, state.is_unproven());
        }
        if state.timeout_at(&requester.limits).is_some_and(|at| at <= now)
            && !state.silence.excuse(now, requester.parts_received, requested_peers)
        {
            state.silence.time_out(now, requester.limits.response_timeout);
            silent.extend(state.requests.iter().map(|(at, _)| (*peer, at)));
        }
    }
    for (peer, at) in silent {
        let others = requester.peers.values();
        let has_holder = others
            .into_iter()
            .any(|state| !state.silence.is_unresponsive() && state.blocks.has.has(at));
        // The peer may be busy, so it gets a cancel: a late answer would be a duplicate.
        if has_holder {
            totals.silent_requests += u64::from(requester.cancel_request(at, peer));
        } else if requester.peers.get(&peer).is_some_and(|state| {
            state.is_unproven() || state.silence.timeouts >= TIMEOUTS_BEFORE_RETRY
        }) {
            requester.retry(at, peer);
        }
    }
}
