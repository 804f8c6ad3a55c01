use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use watchfire_content::Cid;
use watchfire_types::Instant;

/// Blocks that were sent lately, and how often. When it is full, the oldest is forgotten.
#[derive(Debug)]
pub(super) struct SentBlocks {
    blocks: BTreeMap<Cid, Times>,
    order: VecDeque<Cid>,
    /// The start of the current run of new blocks, and its last block. New: sent to no peer before.
    fresh: Option<(Instant, Instant)>,
    outcomes: WantOutcomes,
}

/// Outcomes of wants for blocks that other peers were sent before.
#[derive(Clone, Copy, Debug, Default)]
struct WantOutcomes {
    /// Cancelled while queued: the peer got the block elsewhere.
    cancelled: u32,
    /// Sent again.
    resent: u32,
}

/// Whether peers serve each other the blocks that they were sent, as far as this node sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receivers {
    Unknown,
    ServeEachOther,
    DoNotServe,
}

#[derive(Debug)]
struct Times {
    count: u32,
    last: Instant,
}

const CIDS_MAX: usize = 16 * 1024;

/// Longest time that a block is left to the peers that were sent it.
const HOLD_BACK_MAX: Duration = Duration::from_secs(3);

/// A run of new blocks ends after at least this time without one, unless the run was shorter.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Blocks that were sent again after which peers count as not serving each other.
const RESENT_MIN: u32 = 32;

/// Outcomes after which all counted ones count half.
const OUTCOMES_MAX: u32 = 256;

impl SentBlocks {
    pub(super) const fn new() -> Self {
        SentBlocks {
            blocks: BTreeMap::new(),
            order: VecDeque::new(),
            fresh: None,
            outcomes: WantOutcomes { cancelled: 0, resent: 0 },
        }
    }

    pub(super) fn count(&self, cid: &Cid) -> u32 {
        self.blocks.get(cid).map_or(0, |times| times.count)
    }

    pub(super) fn add(&mut self, now: Instant, cid: &Cid) {
        if let Some(times) = self.blocks.get_mut(cid) {
            times.count = times.count.saturating_add(1);
            times.last = now;
            self.outcomes.resent += 1;
            self.outcomes.age();
            return;
        }
        let continues = |(_, until): &(Instant, Instant)| now.since(*until) <= HOLD_BACK_MAX;
        let from = self.fresh.filter(continues).map_or(now, |(from, _)| from);
        self.fresh = Some((from, now));
        self.blocks.insert(cid.clone(), Times { count: 1, last: now });
        self.order.push_back(cid.clone());
        if self.order.len() > CIDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.blocks.remove(&oldest);
        }
    }

    /// Until when a seeder leaves a block to the peers that were sent it, at most
    /// [`HOLD_BACK_MAX`]. During a run of new blocks, peers are about to find other blocks at each
    /// other; the longer the run, the later. If peers serve each other, the wait lasts until the
    /// run ends.
    pub(super) fn held_back_until(&self, cid: &Cid) -> Option<Instant> {
        let times = self.blocks.get(cid)?;
        let (from, until) = self.fresh?;
        let fresh = until.since(from);
        let usual = times.last.min(until) + (fresh / 5).min(HOLD_BACK_MAX);
        let run_ends = until + (fresh / 8).max(PAUSE_MAX.min(fresh));
        match self.outcomes.receivers() {
            Receivers::Unknown => Some(usual),
            Receivers::ServeEachOther => {
                Some(usual.max((times.last + HOLD_BACK_MAX).min(run_ends)))
            }
            Receivers::DoNotServe => None,
        }
    }

    /// The want for a queued block was cancelled.
    pub(super) fn note_cancelled(&mut self, cid: &Cid) {
        if self.blocks.contains_key(cid) {
            self.outcomes.cancelled += 1;
            self.outcomes.age();
        }
    }
}

impl WantOutcomes {
    const fn receivers(self) -> Receivers {
        if self.cancelled > self.resent / 8 {
            Receivers::ServeEachOther
        } else if self.resent < RESENT_MIN {
            Receivers::Unknown
        } else {
            Receivers::DoNotServe
        }
    }

    const fn age(&mut self) {
        if self.cancelled + self.resent > OUTCOMES_MAX {
            self.cancelled /= 2;
            self.resent /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_wants_show_whether_peers_serve_each_other() {
        let mut outcomes = WantOutcomes::default();
        assert_eq!(outcomes.receivers(), Receivers::Unknown);
        outcomes.resent = RESENT_MIN;
        assert_eq!(outcomes.receivers(), Receivers::DoNotServe);
        outcomes.cancelled = RESENT_MIN / 8 + 1;
        assert_eq!(outcomes.receivers(), Receivers::ServeEachOther);
        // Old outcomes count less.
        for _ in 0..4 * OUTCOMES_MAX {
            outcomes.resent += 1;
            outcomes.age();
        }
        assert_eq!(outcomes.receivers(), Receivers::DoNotServe);
    }
}
