use std::collections::{BTreeMap, VecDeque};

use content::Cid;

/// How often each block was sent lately. Beyond its bound, the oldest is forgotten.
#[derive(Debug, Default)]
pub(super) struct SentCounts {
    counts: BTreeMap<Cid, u32>,
    order: VecDeque<Cid>,
}

const CIDS_MAX: usize = 16 * 1024;

impl SentCounts {
    pub(super) fn of(&self, cid: &Cid) -> u32 {
        self.counts.get(cid).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, cid: &Cid) {
        if let Some(count) = self.counts.get_mut(cid) {
            *count = count.saturating_add(1);
            return;
        }
        self.counts.insert(cid.clone(), 1);
        self.order.push_back(cid.clone());
        if self.order.len() > CIDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.counts.remove(&oldest);
        }
    }
}
