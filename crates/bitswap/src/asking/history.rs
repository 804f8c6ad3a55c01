use std::collections::{BTreeSet, VecDeque};

use content::Cid;

use super::other_names;

/// What was wanted until lately: so that an answer that comes too late is not taken for a lie.
/// Beyond its bound the oldest is forgotten.
#[derive(Debug, Default)]
pub(crate) struct History {
    cids: BTreeSet<Cid>,
    order: VecDeque<Cid>,
}

const CIDS_MAX: usize = 4096;

impl History {
    pub(crate) fn add(&mut self, cid: Cid) {
        if !self.cids.insert(cid.clone()) {
            return;
        }
        self.order.push_back(cid);
        if self.order.len() > CIDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.cids.remove(&oldest);
        }
    }

    pub(crate) fn has(&self, cid: &Cid) -> bool {
        self.cids.contains(cid) || other_names(cid).iter().any(|name| self.cids.contains(name))
    }
}
