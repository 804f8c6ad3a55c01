use std::ops::{Index, IndexMut};

use crate::heap_bytes;

const PIECE_LEN: usize = 256;
const WORD_BITS: usize = u64::BITS as usize;

/// Records in slots. A record keeps its slot until it is removed.
///
/// A new record gets the lowest vacant slot, so after a crowd has left, records gather in the first
/// slots. The slots are in pieces that never move. When a piece becomes empty, its memory is freed,
/// except for one piece, so that a record that comes and goes does not allocate each time.
///
/// A vacant slot has the default record, so the memory that a removed record owned is free at once.
///
/// ```
/// let mut slab = watchfire_types::Slab::default();
/// let (a, b) = (slab.insert("a"), slab.insert("b"));
/// assert_eq!(slab.remove(a), "a");
/// assert_eq!((slab[b], slab.len()), ("b", 1));
/// assert_eq!(slab.insert("c"), a);
/// ```
#[derive(Debug)]
pub struct Slab<T> {
    pieces: Vec<Piece<T>>,
    /// The pieces with a vacant slot, a bit each. A missing bit is 0.
    open: Vec<u64>,
    len: usize,
    /// The empty piece that keeps its memory.
    spare: Option<usize>,
}

#[derive(Debug)]
struct Piece<T> {
    /// Without capacity in a piece without memory. Otherwise as long as slots were in use.
    records: Vec<T>,
    occupied: [u64; PIECE_LEN / WORD_BITS],
    len: usize,
}

impl<T> Slab<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A number above every occupied slot, for walks over all of them.
    pub fn slots(&self) -> usize {
        self.pieces.len() * PIECE_LEN
    }

    /// Its own memory, without what the records own. It looks at each piece of 256 records.
    pub fn memory_bytes(&self) -> usize {
        let records = |piece: &Piece<T>| heap_bytes(piece.records.capacity() * size_of::<T>());
        let pieces: usize = self.pieces.iter().map(records).sum();
        heap_bytes(self.pieces.capacity() * size_of::<Piece<T>>()) + pieces
    }

    /// The record of a slot: the default one if the slot is vacant, or `None` if it has no memory.
    pub fn get(&self, slot: u32) -> Option<&T> {
        let slot = slot as usize;
        self.pieces.get(slot / PIECE_LEN)?.records.get(slot % PIECE_LEN)
    }

    /// The same, mutable.
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        let slot = slot as usize;
        self.pieces.get_mut(slot / PIECE_LEN)?.records.get_mut(slot % PIECE_LEN)
    }

    /// All records, and some default ones of vacant slots.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flat_map(|piece| &piece.records)
    }

    /// The slot that the next record gets.
    pub fn next_slot(&self) -> u32 {
        let (piece, in_piece) = match self.first_open() {
            Some(piece) => (piece, self.pieces[piece].first_vacant()),
            None => (self.pieces.len(), 0),
        };
        slot_number(piece, in_piece)
    }

    /// Adds a record, and returns its slot.
    ///
    /// # Panics
    ///
    /// With four billion records.
    pub fn insert(&mut self, record: T) -> u32 {
        let piece = self.first_open().unwrap_or_else(|| self.add_piece());
        let in_piece = self.pieces[piece].insert(record);
        self.len += 1;
        if self.spare == Some(piece) {
            self.spare = None;
        }
        if self.pieces[piece].len == PIECE_LEN {
            self.open[piece / WORD_BITS] &= !(1 << (piece % WORD_BITS));
        }
        slot_number(piece, in_piece)
    }

    fn first_open(&self) -> Option<usize> {
        let word = self.open.iter().position(|word| *word != 0)?;
        Some(word * WORD_BITS + self.open[word].trailing_zeros() as usize)
    }

    fn add_piece(&mut self) -> usize {
        let piece = self.pieces.len();
        self.pieces.push(Piece::new());
        if self.open.len() <= piece / WORD_BITS {
            self.open.push(0);
        }
        self.open[piece / WORD_BITS] |= 1 << (piece % WORD_BITS);
        piece
    }
}

impl<T: Default> Slab<T> {
    /// Removes the record of a slot.
    ///
    /// # Panics
    ///
    /// When the slot is vacant.
    pub fn remove(&mut self, slot: u32) -> T {
        let (piece, in_piece) = (slot as usize / PIECE_LEN, slot as usize % PIECE_LEN);
        let record = self.pieces[piece].remove(in_piece);
        self.len -= 1;
        self.open[piece / WORD_BITS] |= 1 << (piece % WORD_BITS);
        if self.pieces[piece].len == 0 {
            self.free_a_piece(piece);
        }
        record
    }

    /// Keeps the memory of one empty piece, the lowest, and frees that of the others.
    fn free_a_piece(&mut self, emptied: usize) {
        self.pieces[emptied].records.clear();
        let Some(spare) = self.spare.replace(emptied) else { return };
        let (kept, freed) = (spare.min(emptied), spare.max(emptied));
        self.spare = Some(kept);
        self.pieces[freed].records = Vec::new();
        while self.pieces.last().is_some_and(|piece| piece.records.capacity() == 0) {
            self.pieces.pop();
            let piece = self.pieces.len();
            self.open[piece / WORD_BITS] &= !(1 << (piece % WORD_BITS));
            self.open.truncate(piece.div_ceil(WORD_BITS));
        }
        if self.pieces.capacity() > 4 * self.pieces.len() + 16 {
            self.pieces.shrink_to(self.pieces.len() * 2);
        }
    }
}

impl<T> Piece<T> {
    fn new() -> Self {
        Piece { records: Vec::new(), occupied: [0; PIECE_LEN / WORD_BITS], len: 0 }
    }

    fn first_vacant(&self) -> usize {
        let word = self.occupied.iter().position(|word| *word != u64::MAX);
        let word = word.expect("an open piece has a vacant slot");
        word * WORD_BITS + self.occupied[word].trailing_ones() as usize
    }

    fn insert(&mut self, record: T) -> usize {
        let slot = self.first_vacant();
        if slot == self.records.len() {
            self.records.reserve_exact(PIECE_LEN - slot);
            self.records.push(record);
        } else {
            self.records[slot] = record;
        }
        self.occupied[slot / WORD_BITS] |= 1 << (slot % WORD_BITS);
        self.len += 1;
        slot
    }
}

impl<T: Default> Piece<T> {
    fn remove(&mut self, slot: usize) -> T {
        let bit = 1 << (slot % WORD_BITS);
        assert!(self.occupied[slot / WORD_BITS] & bit != 0, "a record is removed once");
        self.occupied[slot / WORD_BITS] &= !bit;
        self.len -= 1;
        std::mem::take(&mut self.records[slot])
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { pieces: Vec::new(), open: Vec::new(), len: 0, spare: None }
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        let slot = slot as usize;
        &self.pieces[slot / PIECE_LEN].records[slot % PIECE_LEN]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        let slot = slot as usize;
        &mut self.pieces[slot / PIECE_LEN].records[slot % PIECE_LEN]
    }
}

fn slot_number(piece: usize, in_piece: usize) -> u32 {
    let slot = u32::try_from(piece * PIECE_LEN + in_piece).ok().filter(|slot| *slot != u32::MAX);
    slot.expect("fewer than four billion records")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::Rng;

    fn pieces_in_memory(slab: &Slab<String>) -> usize {
        slab.pieces.iter().filter(|piece| piece.records.capacity() > 0).count()
    }

    #[test]
    fn a_new_record_gets_the_lowest_vacant_slot() {
        let mut slab = Slab::default();
        let slots: Vec<u32> = (0..600).map(|_| slab.insert("a".to_owned())).collect();
        assert!(slots.iter().copied().eq(0..600));
        for slot in [500, 3, 300, 299] {
            assert_eq!(slab.remove(slot), "a");
            assert_eq!(slab[slot], "");
        }
        for expected in [3, 299, 300, 500, 600] {
            assert_eq!(slab.next_slot(), expected);
            assert_eq!(slab.insert("b".to_owned()), expected);
        }
        assert_eq!((slab.len(), slab.get(900)), (601, None));
    }

    #[test]
    fn the_memory_of_a_crowd_is_freed_when_it_has_left() {
        let mut slab = Slab::default();
        let number = 100 * PIECE_LEN as u32;
        for slot in 0..number {
            slab.insert(slot.to_string());
        }
        assert_eq!(pieces_in_memory(&slab), 100);
        // A few stay, in pieces far from each other.
        let is_left = |slot: &u32| slot % (20 * PIECE_LEN as u32) == 7;
        for slot in (0..number).filter(|slot| !is_left(slot)) {
            slab.remove(slot);
        }
        assert_eq!((slab.len(), pieces_in_memory(&slab)), (5, 6));
        assert!((0..number).filter(is_left).all(|slot| slab[slot] == slot.to_string()));
        (0..number).filter(is_left).for_each(|slot| drop(slab.remove(slot)));
        assert_eq!((slab.len(), pieces_in_memory(&slab), slab.slots()), (0, 1, PIECE_LEN));
        assert!(slab.pieces.capacity() <= 20 && slab.open.len() == 1);
        assert_eq!(slab.insert(String::new()), 0);
    }

    #[test]
    fn one_empty_piece_is_kept_for_records_that_come_and_go() {
        let mut slab = Slab::default();
        (0..PIECE_LEN).for_each(|_| _ = slab.insert(String::from("stays")));
        for _ in 0..3 {
            let slot = slab.insert(String::from("comes and goes"));
            let place = std::ptr::from_ref(&slab[slot]);
            slab.remove(slot);
            assert_eq!(pieces_in_memory(&slab), 2);
            let again = slab.insert(String::new());
            assert_eq!((again, std::ptr::from_ref(&slab[again])), (slot, place));
            slab.remove(again);
        }
    }

    #[test]
    fn it_behaves_as_a_map_under_random_operations() {
        let mut rng = Rng::from_seed(7);
        let (mut slab, mut map) = (Slab::default(), BTreeMap::<u32, u64>::new());
        let mut vacant = BTreeSet::<u32>::new();
        for step in 0..100_000_u64 {
            // It grows, and then shrinks.
            let grows = rng.below(10) < if step < 50_000 { 7 } else { 3 };
            if grows || map.is_empty() {
                let lowest = vacant.pop_first().unwrap_or(map.len() as u32);
                assert_eq!((slab.next_slot(), slab.insert(step)), (lowest, lowest));
                map.insert(lowest, step);
            } else {
                let end = u64::from(*map.last_key_value().expect("it is not empty").0) + 1;
                let from = rng.below(end) as u32;
                let (&slot, _) = map.range(from..).next().expect("the last one is above");
                assert_eq!(Some(slab.remove(slot)), map.remove(&slot));
                vacant.insert(slot);
            }
            assert_eq!(slab.len(), map.len());
        }
        assert!(map.iter().all(|(slot, value)| slab[*slot] == *value));
        assert!(map.keys().all(|slot| (*slot as usize) < slab.slots()));
    }
}
