//! Selects the block to request from a peer.

use crate::bit_set::ones;
use crate::requester::request_window::transfer_time;
use crate::requester::{PeerState, Requester, Wants};

/// Most open wants that are compared before one is chosen. They start at a random place.
pub(super) const COMPARED_MAX: usize = 4096;

/// A seeder is fast if its rate is more than this many times the mean rate of the leechers. A fast
/// seeder is spared only if the leechers together deliver this many times its rate.
const FAST_SEEDER: u64 = 2;

/// The open want to request first, among a set.
///
/// Urgent blocks come first, in their order. Then the highest urgency counts, then the rarest
/// block, then the first one after a random place.
pub(super) fn rarest<P: Copy + Ord>(
    wants: &Wants<P>,
    random: u64,
    among: impl Fn(usize) -> u64,
) -> Option<u32> {
    let is_among = |at: u32| among(at as usize / 64) >> (at % 64) & 1 == 1;
    let urgent =
        wants.urgent().find(|at| wants.get(*at).requested_from.is_empty() && is_among(*at));
    if urgent.is_some() {
        return urgent;
    }
    for open in wants.open() {
        let words = open.words();
        let start = random as usize % words;
        // A random place within the word as well, or every node would start at a multiple of 64.
        let turn = (random >> 32) as u32 % 64;
        let word = |at: usize| {
            let at = (start + at) % words;
            (open.word(at) & among(at)).rotate_right(turn)
        };
        let compared = ones(words, word).take(COMPARED_MAX).map(|found| {
            let at = (start as u32 + found / 64) % words as u32 * 64 + (found % 64 + turn) % 64;
            (wants.get(at).holders, at)
        });
        let best = compared.reduce(|best, other| if other.0 < best.0 { other } else { best });
        if let Some((_, at)) = best {
            return Some(at);
        }
    }
    None
}

/// Whether to leave a block to leechers, and request from the seeder blocks that only it has.
///
/// Leechers must deliver as much as the seeders, and enough must be requested already. A fast
/// seeder is spared less, so that its uplink is used. Urgent blocks are never left.
pub(super) fn is_left_to_leechers<P: Copy + Ord>(
    requester: &Requester<P>,
    state: &PeerState,
    at: u32,
) -> bool {
    let live = requester.wants.live();
    let holders = requester.wants.get(at).holders as usize;
    let window = requester.progress.delivery.window_bytes;
    let enough = window.min(requester.limits.requested_bytes_max) / 2;
    if holders < 2
        || requester.requested_bytes < enough
        || !state.blocks.has.has_all(live)
        || requester.wants.urgent_place(at).is_some()
    {
        return false;
    }
    let (mut seeders, mut seeder_rate, mut leecher_rate) = (0, 0_u64, 0_u64);
    for other in requester.peers.values() {
        let rate = if other.silence.is_unresponsive() { 0 } else { other.delivery.rate };
        if other.blocks.has.has_all(live) {
            seeders += 1;
            seeder_rate = seeder_rate.saturating_add(rate);
        } else {
            leecher_rate = leecher_rate.saturating_add(rate);
        }
    }
    let leechers = requester.peers.len() - seeders;
    let is_fast = seeder_rate.saturating_mul(leechers as u64)
        > leecher_rate.saturating_mul(seeders as u64).saturating_mul(FAST_SEEDER);
    let least = if is_fast { seeder_rate.saturating_mul(FAST_SEEDER) } else { seeder_rate };
    holders > seeders && leecher_rate >= least
}

/// Whether a peer is too slow for one of the last blocks: other peers will deliver it sooner.
pub(super) fn is_too_slow_for<P: Copy + Ord>(
    requester: &Requester<P>,
    state: &PeerState,
    at: u32,
) -> bool {
    let left = requester.wants.open_len() * requester.limits.block_bytes_estimate;
    if !requester.growing_sessions.is_empty()
        || left > requester.requested_bytes
        || requester.wants.get(at).holders < 2
        || state.delivery.rate == 0
    {
        return false;
    }
    let others = requester.peers.values().filter(|other| !other.silence.is_unresponsive());
    let rate: u64 = others.map(|other| other.delivery.rate).sum();
    let rest = transfer_time((left + requester.requested_bytes) as u64, rate);
    state.time_for(requester.block_bytes(at)) > rest * 2 + state.delivery.base() * 2
}

#[cfg(test)]
mod tests {
    use watchfire_content::{Cid, Codec, Multihash};

    use super::*;
    use crate::{SessionId, Want};

    fn cid(number: u8) -> Cid {
        Cid::v1(Codec::RAW, Multihash::Sha2_256([number; 32]))
    }

    #[test]
    fn urgent_blocks_come_before_rare_ones_and_rare_ones_before_common_ones() {
        let mut wants: Wants<u8> = Wants::default();
        for number in 0..100 {
            wants.add(SessionId(0), Want::new(cid(number)));
            wants.get_mut(number.into()).holders = if number == 70 { 1 } else { 2 };
        }
        for random in [0, 1, u64::MAX, 77 << 32] {
            assert_eq!(rarest(&wants, random, |_| u64::MAX), Some(70));
        }
        wants.set_urgent(&[cid(5)]);
        assert_eq!(rarest(&wants, 0, |_| u64::MAX), Some(5));
        wants.close(5);
        wants.get_mut(5).requested_from.push(1);
        assert_eq!(rarest(&wants, 0, |_| u64::MAX), Some(70));
        assert_eq!(rarest(&wants, 0, |_| 0), None);
    }
}
