//! Estimates when a peer will send a requested block.

use std::time::Duration;

use watchfire_types::Instant;

use crate::requester::PeerState;
use crate::requester::delivery_rate::transfer_time;
use crate::requester::peer_requests::BlockRequest;

/// Least time before its turn at which a request is moved.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// Whether a block is so far from its turn that a cancel arrives before it is sent. An overdue
/// block waits for other peers, so it counts as far.
pub(super) fn is_far_from_turn(state: &PeerState, request: &BlockRequest, now: Instant) -> bool {
    if !request.is_sent {
        return true;
    }
    let guard = WAIT_MIN.max(state.delivery.base() * 2);
    if state.delivery.rate == 0 {
        return now.since(request.requested_at) > WAIT_MIN;
    }
    let since = request.delivered_since(&state.delivery);
    let ahead = request.bytes_ahead.saturating_sub(since) + request.bytes;
    let turn = request.requested_at.max(state.counts.useful_at)
        + transfer_time(ahead as u64, state.delivery.rate);
    turn > now + guard || turn + guard < now
}
