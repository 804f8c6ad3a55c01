use std::collections::{BTreeMap, HashMap};

use watchfire_content::Checksum;

use crate::Key;

/// File systems allocate pages, so a block takes whole pages.
const PAGE_BYTES: u64 = 4096;

pub(super) fn cost(len: u64) -> u64 {
    len.next_multiple_of(PAGE_BYTES)
}

/// The index has no room, because the stored blocks are protected.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoRoom {
    /// Bytes of protected blocks.
    pub held: u64,
}

/// The stored blocks, the protected blocks, and the order of eviction.
///
/// It does not access files. A block takes about 150 bytes of memory.
#[derive(Debug)]
pub(super) struct Index {
    bytes_max: u64,
    entries: HashMap<Key, Entry>,
    /// The evictable blocks, by the turn of their last use.
    by_age: BTreeMap<u64, Key>,
    /// The protected blocks, stored or not, and whether each is a node.
    pinned: HashMap<Key, bool>,
    turn: u64,
    /// Bytes of all stored blocks.
    held: u64,
    evictable: u64,
    /// Bytes of blocks that are being written.
    reserved: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    len: u32,
    turn: u64,
    /// `None` for a block that was stored by an earlier process and not read yet.
    checksum: Option<Checksum>,
}

impl Entry {
    fn cost(self) -> u64 {
        cost(self.len.into())
    }
}

impl Index {
    pub fn new(bytes_max: u64) -> Self {
        Index {
            bytes_max,
            entries: HashMap::new(),
            by_age: BTreeMap::new(),
            pinned: HashMap::new(),
            turn: 0,
            held: 0,
            evictable: 0,
            reserved: 0,
        }
    }

    pub fn len_of(&self, key: &Key) -> Option<u64> {
        self.entries.get(key).map(|entry| entry.len.into())
    }

    pub fn checksum_of(&self, key: &Key) -> Option<Checksum> {
        self.entries.get(key).and_then(|entry| entry.checksum)
    }

    /// Sets the checksum of a block that was verified.
    pub fn set_checksum(&mut self, key: &Key, checksum: Checksum) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.checksum = Some(checksum);
        }
    }

    pub fn blocks(&self) -> usize {
        self.entries.len()
    }

    pub fn bytes(&self) -> u64 {
        self.held
    }

    pub fn pinned(&self) -> usize {
        self.pinned.len()
    }

    /// Marks a block as used. Returns its length if it is stored.
    pub fn touch(&mut self, key: &Key) -> Option<u64> {
        let entry = self.entries.get_mut(key)?;
        // Protected blocks have no age.
        if self.by_age.remove(&entry.turn).is_some() {
            self.turn += 1;
            entry.turn = self.turn;
            self.by_age.insert(self.turn, *key);
        }
        Some(entry.len.into())
    }

    /// Reserves room for a block. Returns the blocks that were evicted for it, whose files the
    /// caller removes.
    pub fn reserve(&mut self, len: u64) -> Result<Vec<Key>, NoRoom> {
        let needed = cost(len);
        let protected = self.held - self.evictable + self.reserved;
        if protected.saturating_add(needed) > self.bytes_max {
            return Err(NoRoom { held: protected });
        }
        self.reserved += needed;
        Ok(self.make_room())
    }

    /// Frees the reserved room of a block that was not written.
    pub fn release(&mut self, len: u64) {
        self.reserved -= cost(len);
    }

    /// Adds a block whose room was reserved. Returns whether it is new.
    pub fn commit(&mut self, key: Key, len: u64) -> bool {
        self.release(len);
        self.insert(key, len)
    }

    /// Evicts the oldest blocks until the limit holds, and returns them.
    pub fn make_room(&mut self) -> Vec<Key> {
        let mut evicted = Vec::new();
        while self.held + self.reserved > self.bytes_max {
            let Some((_, key)) = self.by_age.pop_first() else { break };
            let entry = self.entries.remove(&key).expect("a block with an age is stored");
            self.held -= entry.cost();
            self.evictable -= entry.cost();
            evicted.push(key);
        }
        evicted
    }

    /// Adds a block. Returns whether it is new.
    pub fn insert(&mut self, key: Key, len: u64) -> bool {
        if self.touch(&key).is_some() {
            return false;
        }
        let len = u32::try_from(len).expect("blocks are at most 2 MiB");
        self.turn += 1;
        let entry = Entry { len, turn: self.turn, checksum: None };
        self.entries.insert(key, entry);
        self.held += entry.cost();
        if !self.pinned.contains_key(&key) {
            self.by_age.insert(entry.turn, key);
            self.evictable += entry.cost();
        }
        true
    }

    /// Removes a block. Returns whether it was stored.
    pub fn remove(&mut self, key: &Key) -> bool {
        let Some(entry) = self.entries.remove(key) else { return false };
        self.held -= entry.cost();
        if self.by_age.remove(&entry.turn).is_some() {
            self.evictable -= entry.cost();
        }
        true
    }

    /// Whether the block is protected and known to be a node.
    pub fn is_pinned_node(&self, key: &Key) -> bool {
        self.pinned.get(key).is_some_and(|is_node| *is_node)
    }

    /// Protects a block, stored or not. Returns whether this is new; then the caller protects the
    /// links of a node too.
    pub fn pin(&mut self, key: Key, is_node: bool) -> bool {
        let known = self.pinned.get(&key).copied();
        if known.is_some_and(|was_node| was_node || !is_node) {
            return false;
        }
        self.pinned.insert(key, is_node);
        if let Some(entry) = self.entries.get(&key)
            && self.by_age.remove(&entry.turn).is_some()
        {
            self.evictable -= entry.cost();
        }
        true
    }

    /// Protects exactly these blocks.
    pub fn replace_pins(&mut self, pinned: HashMap<Key, bool>) {
        let before = std::mem::replace(&mut self.pinned, pinned);
        for key in before.keys().filter(|key| !self.pinned.contains_key(*key)) {
            if let Some(entry) = self.entries.get_mut(key) {
                self.turn += 1;
                entry.turn = self.turn;
                self.by_age.insert(entry.turn, *key);
                self.evictable += entry.cost();
            }
        }
        for key in self.pinned.keys().filter(|key| !before.contains_key(*key)) {
            if let Some(entry) = self.entries.get(key)
                && self.by_age.remove(&entry.turn).is_some()
            {
                self.evictable -= entry.cost();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = PAGE_BYTES;

    fn key(number: u8) -> Key {
        [number; 32]
    }

    /// An index with room for three pages, and a block of one page for each key.
    fn with(keys: &[u8]) -> Index {
        let mut index = Index::new(3 * PAGE);
        for number in keys {
            assert_eq!(index.reserve(1), Ok(vec![]));
            assert!(index.commit(key(*number), 1));
        }
        index
    }

    #[test]
    fn the_least_recently_used_block_is_evicted_first() {
        let mut index = with(&[1, 2, 3]);
        index.touch(&key(1));
        assert_eq!(index.reserve(1), Ok(vec![key(2)]));
        assert!(index.commit(key(4), 1));
        assert_eq!(index.reserve(2 * PAGE), Ok(vec![key(3), key(1)]));
        index.release(2 * PAGE);
        assert_eq!((index.blocks(), index.bytes()), (1, PAGE));
    }

    #[test]
    fn pinned_blocks_stay_and_a_block_that_cannot_fit_evicts_nothing() {
        let mut index = with(&[1, 2, 3]);
        assert!(index.pin(key(1), false));
        assert_eq!(index.reserve(3 * PAGE), Err(NoRoom { held: PAGE }));
        assert_eq!(index.blocks(), 3);
        assert_eq!(index.reserve(2 * PAGE), Ok(vec![key(2), key(3)]));
        assert_eq!(index.reserve(1), Err(NoRoom { held: 3 * PAGE }));
    }

    #[test]
    fn a_pin_may_come_before_its_block_and_end_after_it() {
        let mut index = with(&[]);
        index.pin(key(1), false);
        for number in 1..=3 {
            index.reserve(1).unwrap();
            index.commit(key(number), 1);
        }
        assert_eq!(index.reserve(1), Ok(vec![key(2)]));
        index.release(1);
        index.replace_pins(HashMap::new());
        assert_eq!(index.reserve(3 * PAGE), Ok(vec![key(3), key(1)]));
    }

    #[test]
    fn replaced_pins_protect_their_blocks_and_no_others() {
        let mut index = with(&[1, 2, 3]);
        index.pin(key(1), false);
        index.replace_pins(HashMap::from([(key(2), false)]));
        assert_eq!(index.reserve(2 * PAGE), Ok(vec![key(3), key(1)]));
        assert_eq!(index.reserve(1), Err(NoRoom { held: 3 * PAGE }));
    }

    #[test]
    fn a_block_that_is_written_twice_at_once_counts_once() {
        let mut index = with(&[]);
        index.reserve(1).unwrap();
        index.reserve(1).unwrap();
        assert!(index.commit(key(1), 1));
        assert!(!index.commit(key(1), 1));
        assert_eq!((index.blocks(), index.bytes(), index.reserved), (1, PAGE, 0));
    }

    #[test]
    fn a_block_that_was_pinned_as_a_leaf_can_be_pinned_as_a_node() {
        let mut index = with(&[1]);
        assert!(index.pin(key(1), false));
        assert!(!index.is_pinned_node(&key(1)));
        assert!(index.pin(key(1), true) && index.is_pinned_node(&key(1)));
        assert!(!index.pin(key(1), false) && !index.pin(key(1), true));
        assert!(index.remove(&key(1)) && !index.remove(&key(1)));
        assert_eq!((index.bytes(), index.evictable), (0, 0));
    }
}
