use std::collections::{BTreeMap, HashMap};

use content::Checksum;

use crate::Key;

/// Disks give room in pages, so this is what a block takes.
const PAGE_BYTES: u64 = 4096;

pub(super) fn cost(len: u64) -> u64 {
    len.next_multiple_of(PAGE_BYTES)
}

/// Why there is no room: all that is here must stay.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoRoom {
    /// Bytes that must stay.
    pub held: u64,
}

/// What is in the folder, what of it must stay, and what goes first when room is needed.
///
/// It counts, and leaves files alone. Around 150 bytes of memory a block.
#[derive(Debug)]
pub(super) struct Index {
    bytes_max: u64,
    entries: HashMap<Key, Entry>,
    /// What may be forgotten, by the turn of its last use.
    by_age: BTreeMap<u64, Key>,
    /// What must stay as soon as it is here, and whether it is a node that makes more stay.
    pinned: HashMap<Key, bool>,
    turn: u64,
    /// Bytes of all entries.
    held: u64,
    /// Bytes of the entries in `by_age`.
    forgettable: u64,
    /// Bytes of blocks that are being written.
    reserved: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    len: u32,
    turn: u64,
    /// `None` until its file was read, when it was here before the store was opened.
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
            forgettable: 0,
            reserved: 0,
        }
    }

    pub fn len_of(&self, key: &Key) -> Option<u64> {
        self.entries.get(key).map(|entry| entry.len.into())
    }

    pub fn checksum_of(&self, key: &Key) -> Option<Checksum> {
        self.entries.get(key).and_then(|entry| entry.checksum)
    }

    /// The block's file holds what it should.
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

    /// The block is used now: it goes last. Its length, if it is here.
    pub fn touch(&mut self, key: &Key) -> Option<u64> {
        let entry = self.entries.get_mut(key)?;
        // What is pinned has no age.
        if self.by_age.remove(&entry.turn).is_some() {
            self.turn += 1;
            entry.turn = self.turn;
            self.by_age.insert(self.turn, *key);
        }
        Some(entry.len.into())
    }

    /// Sets room aside for a block, and says what must go for it: their entries are gone already.
    pub fn reserve(&mut self, len: u64) -> Result<Vec<Key>, NoRoom> {
        let needed = cost(len);
        let stays = self.held - self.forgettable + self.reserved;
        if stays.saturating_add(needed) > self.bytes_max {
            return Err(NoRoom { held: stays });
        }
        self.reserved += needed;
        Ok(self.make_room())
    }

    /// Gives back what was set aside for a block that was not written.
    pub fn release(&mut self, len: u64) {
        self.reserved -= cost(len);
    }

    /// A block whose room was set aside is here. Whether it was not before.
    pub fn commit(&mut self, key: Key, len: u64) -> bool {
        self.release(len);
        self.insert(key, len)
    }

    /// Forgets the oldest blocks while there are more bytes than there may be.
    pub fn make_room(&mut self) -> Vec<Key> {
        let mut forgotten = Vec::new();
        while self.held + self.reserved > self.bytes_max {
            let Some((_, key)) = self.by_age.pop_first() else { break };
            let entry = self.entries.remove(&key).expect("what has an age is here");
            self.held -= entry.cost();
            self.forgettable -= entry.cost();
            forgotten.push(key);
        }
        forgotten
    }

    /// A block that is in the folder. Whether it was not here before.
    pub fn insert(&mut self, key: Key, len: u64) -> bool {
        if self.touch(&key).is_some() {
            return false;
        }
        let len = u32::try_from(len).expect("a block is short");
        self.turn += 1;
        let entry = Entry { len, turn: self.turn, checksum: None };
        self.entries.insert(key, entry);
        self.held += entry.cost();
        if !self.pinned.contains_key(&key) {
            self.by_age.insert(entry.turn, key);
            self.forgettable += entry.cost();
        }
        true
    }

    /// Whether the block was here.
    pub fn remove(&mut self, key: &Key) -> bool {
        let Some(entry) = self.entries.remove(key) else { return false };
        self.held -= entry.cost();
        if self.by_age.remove(&entry.turn).is_some() {
            self.forgettable -= entry.cost();
        }
        true
    }

    /// Whether the block must stay, and is known as a node.
    pub fn is_pinned_node(&self, key: &Key) -> bool {
        self.pinned.get(key).is_some_and(|is_node| *is_node)
    }

    /// Lets a block stay, from now on or as soon as it comes. Whether that is news: then what the
    /// node links to must stay too.
    pub fn pin(&mut self, key: Key, is_node: bool) -> bool {
        let known = self.pinned.get(&key).copied();
        if known.is_some_and(|was_node| was_node || !is_node) {
            return false;
        }
        self.pinned.insert(key, is_node);
        if let Some(entry) = self.entries.get(&key)
            && self.by_age.remove(&entry.turn).is_some()
        {
            self.forgettable -= entry.cost();
        }
        true
    }

    /// Lets exactly these blocks stay.
    pub fn replace_pins(&mut self, pinned: HashMap<Key, bool>) {
        let before = std::mem::replace(&mut self.pinned, pinned);
        for key in before.keys().filter(|key| !self.pinned.contains_key(*key)) {
            if let Some(entry) = self.entries.get_mut(key) {
                self.turn += 1;
                entry.turn = self.turn;
                self.by_age.insert(entry.turn, *key);
                self.forgettable += entry.cost();
            }
        }
        for key in self.pinned.keys().filter(|key| !before.contains_key(*key)) {
            if let Some(entry) = self.entries.get(key)
                && self.by_age.remove(&entry.turn).is_some()
            {
                self.forgettable -= entry.cost();
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

    /// An index with room for three pages, and one page for each of these.
    fn with(keys: &[u8]) -> Index {
        let mut index = Index::new(3 * PAGE);
        for number in keys {
            assert_eq!(index.reserve(1), Ok(vec![]));
            assert!(index.commit(key(*number), 1));
        }
        index
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut index = with(&[1, 2, 3]);
        index.touch(&key(1));
        assert_eq!(index.reserve(1), Ok(vec![key(2)]));
        assert!(index.commit(key(4), 1));
        assert_eq!(index.reserve(2 * PAGE), Ok(vec![key(3), key(1)]));
        index.release(2 * PAGE);
        assert_eq!((index.blocks(), index.bytes()), (1, PAGE));
    }

    #[test]
    fn what_is_pinned_stays_and_a_block_that_cannot_fit_drives_nothing_out() {
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
    fn other_pins_keep_what_they_name_and_nothing_else() {
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
    fn what_is_known_as_a_leaf_can_turn_out_to_be_a_node() {
        let mut index = with(&[1]);
        assert!(index.pin(key(1), false));
        assert!(!index.is_pinned_node(&key(1)));
        assert!(index.pin(key(1), true) && index.is_pinned_node(&key(1)));
        assert!(!index.pin(key(1), false) && !index.pin(key(1), true));
        assert!(index.remove(&key(1)) && !index.remove(&key(1)));
        assert_eq!((index.bytes(), index.forgettable), (0, 0));
    }
}
