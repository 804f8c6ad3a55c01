use std::collections::{BTreeSet, VecDeque};

use watchfire_content::Cid;

/// CIDs of recent blocks. Beyond a limit, the oldest is forgotten.
///
/// Only the first bytes of each hash are kept. They are the same for every codec and CID version of a
/// block, and a peer cannot choose them at will.
#[derive(Debug)]
pub(crate) struct RecentCids {
    names: BTreeSet<u64>,
    order: VecDeque<u64>,
    names_max: usize,
}

impl RecentCids {
    pub(crate) const fn new(names_max: usize) -> Self {
        RecentCids { names: BTreeSet::new(), order: VecDeque::new(), names_max }
    }

    pub(crate) fn add(&mut self, cid: &Cid) {
        let name = name(cid);
        if !self.names.insert(name) {
            return;
        }
        self.order.push_back(name);
        if self.order.len() > self.names_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
    }

    pub(crate) fn has(&self, cid: &Cid) -> bool {
        self.names.contains(&name(cid))
    }

    /// Forgets a CID. Returns whether it was remembered.
    pub(crate) fn take(&mut self, cid: &Cid) -> bool {
        let name = name(cid);
        let was_here = self.names.remove(&name);
        if was_here {
            self.order.retain(|other| *other != name);
        }
        was_here
    }
}

fn name(cid: &Cid) -> u64 {
    let mut first = [0; 8];
    let digest = cid.hash().digest();
    let len = digest.len().min(first.len());
    first[..len].copy_from_slice(&digest[..len]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use watchfire_content::{Codec, Multihash};

    use super::*;

    fn cid(codec: Codec, number: u8) -> Cid {
        Cid::v1(codec, Multihash::Sha2_256([number; 32]))
    }

    #[test]
    fn a_block_is_remembered_under_any_of_its_cids_until_newer_ones_replace_it() {
        let mut recently_wanted = RecentCids::new(2);
        recently_wanted.add(&cid(Codec::RAW, 1));
        recently_wanted.add(&cid(Codec::RAW, 2));
        assert!(recently_wanted.has(&cid(Codec::DAG_PB, 1)));
        recently_wanted.add(&cid(Codec::RAW, 3));
        assert!(!recently_wanted.has(&cid(Codec::RAW, 1)));
        assert!(
            recently_wanted.take(&cid(Codec::RAW, 2)) && !recently_wanted.take(&cid(Codec::RAW, 2))
        );
        recently_wanted.add(&cid(Codec::RAW, 4));
        assert!(
            recently_wanted.has(&cid(Codec::RAW, 3)) && recently_wanted.has(&cid(Codec::RAW, 4))
        );
    }
}
