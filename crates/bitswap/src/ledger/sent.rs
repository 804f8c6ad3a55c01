use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use content::Cid;
use vocab::Instant;

/// What was sent lately, and how often. Beyond its bound, the oldest is forgotten.
#[derive(Debug)]
pub(super) struct Sent {
    blocks: BTreeMap<Cid, Times>,
    order: VecDeque<Cid>,
    /// Since when, and until when, blocks were sent that nobody had been sent before.
    fresh: Option<(Instant, Instant)>,
}

#[derive(Debug)]
struct Times {
    count: u32,
    last: Instant,
}

const CIDS_MAX: usize = 16 * 1024;

/// Longest time that a block is left to those who were sent it.
const HELD_MAX: Duration = Duration::from_secs(3);

impl Sent {
    pub(super) const fn new() -> Self {
        Sent { blocks: BTreeMap::new(), order: VecDeque::new(), fresh: None }
    }

    pub(super) fn count(&self, cid: &Cid) -> u32 {
        self.blocks.get(cid).map_or(0, |times| times.count)
    }

    pub(super) fn add(&mut self, now: Instant, cid: &Cid) {
        if let Some(times) = self.blocks.get_mut(cid) {
            times.count = times.count.saturating_add(1);
            times.last = now;
            return;
        }
        let is_on = |(_, until): &(Instant, Instant)| now.since(*until) <= HELD_MAX;
        let from = self.fresh.filter(is_on).map_or(now, |(from, _)| from);
        self.fresh = Some((from, now));
        self.blocks.insert(cid.clone(), Times { count: 1, last: now });
        self.order.push_back(cid.clone());
        if self.order.len() > CIDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.blocks.remove(&oldest);
        }
    }

    /// Until when who has everything leaves a block to those who were sent it. While it still sends what nobody has,
    /// others are about to hear that they can have the rest from one another: the longer that takes, the later.
    pub(super) fn held_until(&self, cid: &Cid) -> Option<Instant> {
        let times = self.blocks.get(cid)?;
        let (from, until) = self.fresh?;
        Some(times.last.min(until) + (until.since(from) / 5).min(HELD_MAX))
    }
}
