//! Estimates when a peer will send a requested block.

use std::time::Duration;

use watchfire_types::Instant;

use crate::requester::PeerState;
use crate::requester::peer_requests::BlockRequest;
use crate::requester::request_window::transfer_time;

/// Least time before its turn at which a request is moved.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// When a peer will send a requested block, as far as its rate shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The request was not sent yet.
    Unsent,
    /// A cancel arrives before the block is sent.
    Ahead,
    /// The block may be on its way.
    Near,
    /// The block should have arrived. Either it waits for other peers, or it is on its way and this
    /// node has not read it yet.
    Overdue,
}

pub(super) fn turn_of(state: &PeerState, request: &BlockRequest, now: Instant) -> Turn {
    if !request.may_be_answered() {
        return Turn::Unsent;
    }
    if state.delivery.rate == 0 {
        let is_overdue = now.since(request.requested_at) > WAIT_MIN;
        return if is_overdue { Turn::Overdue } else { Turn::Near };
    }
    let guard = WAIT_MIN.max(state.delivery.base() * 2);
    let since = request.delivered_since(&state.delivery);
    let ahead = request.bytes_ahead.saturating_sub(since) + request.bytes;
    let turn = request.requested_at.max(state.counts.useful_at)
        + transfer_time(ahead as u64, state.delivery.rate);
    if turn > now + guard {
        Turn::Ahead
    } else if turn + guard < now {
        Turn::Overdue
    } else {
        Turn::Near
    }
}

/// Whether a block is so far from its turn that a cancel arrives before it is sent. An overdue
/// block most often waits for other peers, so it counts as far.
pub(super) fn is_far_from_turn(state: &PeerState, request: &BlockRequest, now: Instant) -> bool {
    turn_of(state, request, now) != Turn::Near
}
