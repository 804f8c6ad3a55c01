use std::collections::{BTreeSet, VecDeque};

use content::Cid;

/// What was wanted until lately: so that an answer that comes too late is not taken for a lie.
/// Beyond its bound the oldest is forgotten.
///
/// Remembered are the first bytes of each hash, which are the same whatever codec and version a block is
/// called by, and which nobody can make up at will.
#[derive(Debug)]
pub(crate) struct History {
    names: BTreeSet<u64>,
    order: VecDeque<u64>,
    names_max: usize,
}

impl History {
    pub(crate) const fn new(names_max: usize) -> Self {
        History { names: BTreeSet::new(), order: VecDeque::new(), names_max }
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

    /// Forgets it; whether it was remembered.
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
    use content::{Codec, Multihash};

    use super::*;

    fn cid(codec: Codec, number: u8) -> Cid {
        Cid::v1(codec, Multihash::Sha2_256([number; 32]))
    }

    #[test]
    fn a_block_is_remembered_by_any_of_its_names_until_others_take_its_place() {
        let mut history = History::new(2);
        history.add(&cid(Codec::RAW, 1));
        history.add(&cid(Codec::RAW, 2));
        assert!(history.has(&cid(Codec::DAG_PB, 1)));
        history.add(&cid(Codec::RAW, 3));
        assert!(!history.has(&cid(Codec::RAW, 1)));
        assert!(history.take(&cid(Codec::RAW, 2)) && !history.take(&cid(Codec::RAW, 2)));
        history.add(&cid(Codec::RAW, 4));
        assert!(history.has(&cid(Codec::RAW, 3)) && history.has(&cid(Codec::RAW, 4)));
    }
}
