use std::collections::{BTreeSet, VecDeque};

use watchfire_content::Cid;

/// CIDs of recent blocks. When it is full, the oldest is forgotten.
///
/// Only the first bytes of each hash are kept. They are the same for every codec and CID version of
/// a block, and a peer cannot choose them at will.
#[derive(Debug)]
pub(crate) struct RecentCids {
    prefixes: BTreeSet<u64>,
    order: VecDeque<u64>,
    len_max: usize,
}

impl RecentCids {
    pub(crate) const fn new(len_max: usize) -> Self {
        RecentCids { prefixes: BTreeSet::new(), order: VecDeque::new(), len_max }
    }

    pub(crate) fn add(&mut self, cid: &Cid) {
        let prefix = hash_prefix(cid);
        if !self.prefixes.insert(prefix) {
            return;
        }
        self.order.push_back(prefix);
        if self.order.len() > self.len_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.prefixes.remove(&oldest);
        }
    }

    pub(crate) fn has(&self, cid: &Cid) -> bool {
        self.prefixes.contains(&hash_prefix(cid))
    }

    /// Forgets a CID. Returns whether it was remembered.
    pub(crate) fn take(&mut self, cid: &Cid) -> bool {
        let prefix = hash_prefix(cid);
        let was_in = self.prefixes.remove(&prefix);
        if was_in {
            self.order.retain(|other| *other != prefix);
        }
        was_in
    }
}

fn hash_prefix(cid: &Cid) -> u64 {
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
