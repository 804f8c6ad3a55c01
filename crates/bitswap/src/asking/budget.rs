//! How much all peers together are asked for, and what part of it those may be asked for who are slow.

use vocab::Instant;

use super::Asking;
use super::view::View;

/// What each peer may be asked for just now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    /// Of the rates at which peers deliver.
    sum: u128,
    squares: u128,
    /// Of those of the slow ones.
    slow_sum: u128,
    /// What slow peers are asked for.
    slow_bytes: usize,
    /// The rate at which a block takes a second.
    block_rate: u128,
}

/// A peer is slow if it delivers so many times slower than a byte usually comes, and a block of it takes a second or
/// longer.
const SLOWER: u128 = 4;

/// Part of what all may be asked for that slow peers may be asked for though others have it, if what they deliver is no
/// larger part of all. It takes long to come: otherwise it would be all there is after a while, and nobody asked who
/// could send at once.
const SLOW_PART: usize = 8;

/// So many times the usual patience, slow peers are left out though nothing comes of others.
const PATIENCE: u32 = 10;

/// In a crowd, so many quarters of what may be asked for are asked for. The more everybody waits for, the longer is the
/// way of each block from one to the next.
const USUAL_QUARTERS: usize = 3;

/// Blocks more that are asked for, for each that we are behind the others: so that all have everything at about the same
/// time.
const BLOCKS_TO_CATCH_UP: usize = 2;

/// Bytes that all peers together may be asked for now.
pub(super) fn asked_bytes_max<P: Copy + Ord>(asking: &Asking<P>) -> usize {
    let max = asking.limits.asked_bytes_max;
    let Some(behind) = asking.behind else { return max };
    let more = asking.pace.bytes(behind * BLOCKS_TO_CATCH_UP);
    let more = usize::try_from(more).unwrap_or(usize::MAX);
    (max / 4 * USUAL_QUARTERS).saturating_add(more).min(max)
}

impl Budget {
    pub(super) fn of<P: Copy + Ord>(asking: &Asking<P>) -> Self {
        let block_rate = u128::from(asking.pace.bytes(1));
        let mut budget = Budget { block_rate, ..Budget::default() };
        for view in asking.views.values().filter(|view| view.silent_until.is_none()) {
            let rate = u128::from(view.pace.rate);
            budget.sum += rate;
            budget.squares = budget.squares.saturating_add(rate * rate);
        }
        let all = budget;
        let is_slow = |view: &&View| view.silent_until.is_none() && all.is_slow(view);
        for view in asking.views.values().filter(is_slow) {
            budget.slow_sum += u128::from(view.pace.rate);
            budget.slow_bytes += view.asked_bytes;
        }
        budget
    }

    /// Whether no more is to be asked for of a peer. More than what arrives in two round trips would only wait in line,
    /// and be decided too early; what slow peers are asked for keeps no other waiting.
    pub(super) fn is_spent<P: Copy + Ord>(&self, asking: &Asking<P>, view: &View) -> bool {
        let asked = asking.asked_bytes;
        let counted =
            if self.is_slow(view) { asked } else { asked.saturating_sub(self.slow_bytes) };
        counted >= asking.pace.window || asked >= asked_bytes_max(asking)
    }

    /// Whether a block is not to be asked for of a peer, since it is slow and another has it too. Not for long, if nothing
    /// comes of those others.
    pub(super) fn is_for_others<P: Copy + Ord>(
        &self,
        asking: &Asking<P>,
        now: Instant,
        view: &View,
        at: u32,
    ) -> bool {
        let is_any_use = now.since(asking.last_block_at) < asking.limits.patience * PATIENCE;
        if asking.wants.get(at).holders < 2 || !is_any_use || !self.is_slow(view) {
            return false;
        }
        let window = asking.pace.window.min(asking.limits.asked_bytes_max);
        let part = window as u128 * self.slow_sum.min(self.sum) / self.sum.max(1);
        let part = usize::try_from(part).unwrap_or(window).max(window / SLOW_PART);
        self.slow_bytes >= part
    }

    pub(super) fn ask(&mut self, view: &View, bytes: usize) {
        if self.is_slow(view) {
            self.slow_bytes += bytes;
        }
    }

    /// The mean is that over bytes, not over peers. Of whom nothing is known yet is not held to be slow.
    pub(super) fn is_slow(&self, view: &View) -> bool {
        let rate = u128::from(view.pace.rate);
        let is_slower = || (rate * SLOWER).saturating_mul(self.sum) < self.squares;
        rate > 0 && rate < self.block_rate && is_slower()
    }
}
