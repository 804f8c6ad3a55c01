//! Moves a request from a busy peer to an idle one, or repeats it there in the endgame.
//!
//! Without it, a download ends at the speed of its slowest peer. The strategy chooses a peer when
//! it requests a block, and cannot know what that peer will send to others before. For example, 2
//! MB are ahead of a block of 256 KiB at a peer that now delivers 500 KB a second: the block
//! arrives in 4.5 seconds. A peer beside it delivers 1 MB a second with 50 ms latency, has the
//! block and nothing left to send: from there it takes 0.3 seconds. All peers but one are idle for
//! four seconds.
//!
//! So an idle peer for which no open want is left looks for the request that would wait the longest
//! where it is now. It takes a request over only if the block would take more than twice as long
//! there, and a latency in addition. The block may be on its way already, and each block that
//! arrives twice costs the sender's uplink. There are three ways, the first that is possible:
//!
//! 1. **The busy peer confirms the cancel** (the leaves protocol). It removes the block from its
//!    queue and answers HAVE, and only then is the block requested from the idle peer: never twice.
//!    If it is sending the block already, it does not confirm, and the block arrives from there.
//! 2. **The block is far from its turn** there: more than two latencies and 50 ms away. A plain
//!    cancel arrives in time, so it is sent together with the new request. The same holds for a
//!    peer that never answered, for one that keeps this block back while it sends later ones, and,
//!    in the endgame, for one that sends nothing for longer than usual.
//! 3. **Neither**: only in the endgame, the block is requested a second time.
//!
//! The bounds: an idle peer looks at most every 50 ms and compares at most 4,096 wants. A cancel
//! without an answer is waited for at most one second. Second requests are at most
//! `endgame_duplicates_per_mille` of the wanted blocks (10 by default: 1 of 100), and one is always
//! allowed. A peer whose request for a block was cancelled does not get it back because the next
//! one is silent too, so two silent peers do not exchange a block for ever.

use std::time::Duration;

use watchfire_types::Instant;

use super::selection::COMPARED_MAX;
use crate::Totals;
use crate::bit_set::ones;
use crate::requester::peer_requests::BlockRequest;
use crate::requester::request_window::transfer_time;
use crate::requester::{PeerState, Requester};

/// Longest wait for the confirmation of a cancel. Then the request is treated like any other.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// Shortest time without any part of a block after which a peer is assumed to serve others.
const STANDSTILL_MIN: Duration = Duration::from_millis(200);

/// Moves the request with the longest wait to an idle peer. Returns whether it was sent there.
///
/// In the endgame a block may be requested a second time, within
/// [`Limits::endgame_duplicates_per_mille`](crate::Limits::endgame_duplicates_per_mille).
pub(super) fn take_over_request<P: Copy + Ord>(
    requester: &mut Requester<P>,
    now: Instant,
    peer: P,
    totals: &mut Totals,
) -> bool {
    let Some(candidate) = best_candidate(requester, now, peer) else { return false };
    let Candidate { at, other, is_safe, .. } = candidate;
    if requester.peers.get(&other).is_some_and(|state| state.confirms_cancel(at)) {
        requester.reassign(now, at, other, peer);
        return false;
    }
    if is_safe {
        requester.cancel_request(at, other);
    } else {
        let per_mille = requester.limits.endgame_duplicates_per_mille as usize;
        let duplicates_max = (requester.progress.wanted_total * per_mille / 1000).max(1);
        if !requester.is_endgame() || requester.progress.endgame_requests >= duplicates_max {
            return false;
        }
        requester.progress.endgame_requests += 1;
        totals.endgame_requests += 1;
    }
    requester.request(now, at, peer);
    true
}

/// A request that an idle peer could take over.
struct Candidate<P> {
    at: u32,
    other: P,
    /// How much longer the block would take there.
    wait: Duration,
    /// Whether a cancel arrives before the block is sent.
    is_safe: bool,
}

fn best_candidate<P: Copy + Ord>(
    requester: &Requester<P>,
    now: Instant,
    peer: P,
) -> Option<Candidate<P>> {
    let state = requester.peers.get(&peer)?;
    if state.never_answered() {
        return None;
    }
    let is_endgame = requester.is_endgame();
    let live = requester.wants.live();
    let available = ones(live.words(), |at| live.word(at) & state.blocks.has.word(at));
    let mut best: Option<Candidate<P>> = None;
    for at in available.take(COMPARED_MAX) {
        let wanted = requester.wants.get(at);
        let [other] = wanted.requested_from[..] else { continue };
        let Some(theirs) = requester.peers.get(&other) else { continue };
        let Some(request) = theirs.requests.get(at) else { continue };
        if request.cancel_sent_at.is_some_and(|at| now.since(at) < CANCEL_TIMEOUT) {
            continue;
        }
        // A peer that lost the request before does not get it back.
        let may_repeat = is_endgame && !state.counts.late.has(&wanted.cid);
        let found = match may_repeat && is_standing_still(state, theirs, request, now) {
            true => Some((now.since(request.requested_at), true)),
            // An unconfirmed cancel means that the block may be on its way.
            false => gain(state, theirs, request, now)
                .map(|(wait, is_safe)| (wait, is_safe && request.cancel_sent_at.is_none())),
        };
        let Some((wait, is_safe)) = found else { continue };
        if best.as_ref().is_none_or(|best| (is_safe, wait) > (best.is_safe, best.wait)) {
            best = Some(Candidate { at, other, wait, is_safe });
        }
    }
    best
}

/// Whether a block would arrive much sooner from an idle peer. Returns how long it would still take
/// from the peer that has the request, and whether it can be cancelled there before it is sent.
fn gain(
    idle: &PeerState,
    busy: &PeerState,
    request: &BlockRequest,
    now: Instant,
) -> Option<(Duration, bool)> {
    let since = request.delivered_since(&busy.delivery);
    let ahead = request.bytes_ahead.saturating_sub(since);
    let base = busy.delivery.base();
    let before = match busy.delivery.rate {
        0 => Duration::ZERO,
        rate => transfer_time(ahead as u64, rate),
    };
    let own = transfer_time(request.bytes as u64, busy.delivery.rate.max(1))
        .min(now.since(request.requested_at));
    let wait = before + own;
    if wait <= idle.time_for(request.bytes) * 2 + base {
        return None;
    }
    // A cancel that arrives before the block's turn causes no duplicate. A peer that has sent many
    // later blocks first is keeping this one for later.
    let is_overtaken = since > request.bytes_ahead + 8 * request.bytes;
    let is_unlikely = is_overtaken || busy.never_answered();
    Some((wait, is_unlikely || before > base * 2 + Duration::from_millis(50)))
}

/// Whether the peer that has the request sends nothing for longer than usual, and the idle peer
/// usually answers sooner. Then the busy peer serves others and is unlikely to be sending the
/// block.
fn is_standing_still(
    idle: &PeerState,
    busy: &PeerState,
    request: &BlockRequest,
    now: Instant,
) -> bool {
    let usual = busy.delivery.base() * 2 + STANDSTILL_MIN;
    let waited = now.since(request.requested_at);
    !busy.silence.is_sending
        && now.since(busy.silence.part_at.max(request.requested_at))
            > usual.max(busy.silence.longest_gap)
        && idle.delivery.usual_latency.is_some_and(|usual| waited > usual)
}
