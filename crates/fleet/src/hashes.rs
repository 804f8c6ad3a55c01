//! The hashes of a blob's blocks, as far as one host knows them.

use std::collections::BTreeMap;

/// The list of a blob that is complete. Its hashes are in the order of the blocks.
pub const COMPLETE_LIST: u64 = 0;
/// Hashes of one response. Further ones follow with the next request.
pub const HASHES_MAX: usize = 16_384;

/// The hashes of the blocks of a blob that is being fetched, in the order in which this host learned
/// them. Other hosts ask for those that they lack.
#[derive(Debug)]
pub struct HashList {
    /// Tells the lists of two downloads apart.
    list: u64,
    hashes: Vec<Option<[u8; 32]>>,
    order: Vec<u32>,
    /// Equal blocks have several places.
    places: BTreeMap<[u8; 32], Vec<u32>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    New,
    Known,
    /// It is another hash than the known one, or of a block that does not exist.
    Contradiction,
}

impl HashList {
    /// A list without hashes, of a blob with this number of blocks. `list` is random.
    pub fn new(blocks: usize, list: u64) -> Self {
        HashList {
            list: list.max(COMPLETE_LIST + 1),
            hashes: vec![None; blocks],
            order: Vec::new(),
            places: BTreeMap::new(),
        }
    }

    pub fn insert(&mut self, block: u32, hash: [u8; 32]) -> Learned {
        match self.hashes.get(block as usize) {
            None => return Learned::Contradiction,
            Some(Some(known)) if *known == hash => return Learned::Known,
            Some(Some(_)) => return Learned::Contradiction,
            Some(None) => {}
        }
        self.hashes[block as usize] = Some(hash);
        self.order.push(block);
        self.places.entry(hash).or_default().push(block);
        Learned::New
    }

    pub const fn count(&self) -> usize {
        self.order.len()
    }

    pub fn is_complete(&self) -> bool {
        self.order.len() == self.hashes.len()
    }

    /// Whether half of the hashes are known or more.
    pub fn has_half(&self) -> bool {
        self.order.len() * 2 >= self.hashes.len()
    }

    pub fn get(&self, block: usize) -> Option<[u8; 32]> {
        self.hashes.get(block).copied().flatten()
    }

    pub fn places(&self, hash: &[u8; 32]) -> Vec<u32> {
        self.places.get(hash).cloned().unwrap_or_default()
    }

    /// The position from which a host needs hashes: it has the first `after` of a list.
    pub const fn position(&self, list: u64, after: usize) -> usize {
        if list == self.list { after } else { 0 }
    }

    /// This list, and its hashes that follow the first `after` of the list that a host has.
    pub fn after(&self, list: u64, after: usize) -> (u64, Vec<(u32, [u8; 32])>) {
        let order = self.order.get(self.position(list, after)..).unwrap_or_default();
        let hashes = order
            .iter()
            .take(HASHES_MAX)
            .filter_map(|block| Some((*block, self.hashes[*block as usize]?)));
        (self.list, hashes.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_gets_the_hashes_that_it_lacks_in_the_order_of_their_discovery() {
        let mut hashes = HashList::new(4, 7);
        assert_eq!(hashes.insert(2, [2; 32]), Learned::New);
        assert_eq!(hashes.insert(0, [0; 32]), Learned::New);
        assert_eq!(hashes.after(0, 0), (7, vec![(2, [2; 32]), (0, [0; 32])]));
        assert_eq!(hashes.after(7, 1), (7, vec![(0, [0; 32])]));
        assert_eq!(hashes.after(6, 1).1.len(), 2, "the position is in another list");
        assert_eq!(hashes.after(7, 99).1, []);
    }

    #[test]
    fn another_hash_of_a_known_block_is_a_contradiction() {
        let mut hashes = HashList::new(2, 7);
        assert_eq!(hashes.insert(1, [1; 32]), Learned::New);
        assert_eq!(hashes.insert(1, [1; 32]), Learned::Known);
        assert_eq!(hashes.insert(1, [9; 32]), Learned::Contradiction);
        assert_eq!(hashes.insert(2, [1; 32]), Learned::Contradiction);
        assert_eq!(hashes.insert(0, [1; 32]), Learned::New);
        assert_eq!(hashes.places(&[1; 32]), [1, 0]);
    }
}
