use std::ops::{Index, IndexMut};

/// No index: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// The content of a [`Slab`]. The default record marks a vacant slot.
pub(crate) trait Record: Default {
    /// The field of a vacant record that links to the next vacant slot.
    fn next_vacant(&mut self) -> &mut u32;
}

/// Records in slots; a vacated slot is reused for the next record.
///
/// A vacant slot has the default record, so the old one's memory is freed at once. The slots are
/// kept, in pieces that never move. A growing vector would leave holes in the heap, and a separate
/// list of vacant slots would be longest when all clients have left. Freeing the pieces then would
/// not help: small allocations would settle in the holes, and the pieces would need new memory.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    pieces: Vec<Vec<T>>,
    /// Slots in use, occupied or vacant.
    slots: u32,
    first_vacant: u32,
    vacant: u32,
}

impl<T> Slab<T> {
    /// Slots per piece: the largest power of two within 16 KiB.
    const PIECE_LEN: usize = 1 << (16_384 / size_of::<T>()).ilog2();

    /// The record of a slot; `None` for a slot that is no longer in use.
    pub fn get(&self, slot: u32) -> Option<&T> {
        let slot = slot as usize;
        self.pieces.get(slot / Self::PIECE_LEN)?.get(slot % Self::PIECE_LEN)
    }

    /// The same, mutable.
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        let slot = slot as usize;
        self.pieces.get_mut(slot / Self::PIECE_LEN)?.get_mut(slot % Self::PIECE_LEN)
    }

    pub fn len(&self) -> usize {
        (self.slots - self.vacant) as usize
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }
}

impl<T: Record> Slab<T> {
    pub fn new() -> Self {
        Slab { pieces: Vec::new(), slots: 0, first_vacant: NONE, vacant: 0 }
    }

    pub fn insert(&mut self, record: T) -> u32 {
        if self.first_vacant != NONE {
            let slot = self.first_vacant;
            self.first_vacant = *self[slot].next_vacant();
            self.vacant -= 1;
            self[slot] = record;
            return slot;
        }
        let slot = self.slots;
        assert_ne!(slot, NONE, "the slab is full");
        let piece = slot as usize / Self::PIECE_LEN;
        if piece == self.pieces.len() {
            self.pieces.push(Vec::with_capacity(Self::PIECE_LEN));
        }
        self.pieces[piece].push(record);
        self.slots += 1;
        slot
    }

    pub fn remove(&mut self, slot: u32) -> T {
        let mut vacated = T::default();
        *vacated.next_vacant() = self.first_vacant;
        let record = std::mem::replace(&mut self[slot], vacated);
        self.first_vacant = slot;
        self.vacant += 1;
        if self.len() == 0 {
            // Slots are assigned in memory order again.
            self.pieces.iter_mut().for_each(Vec::clear);
            (self.slots, self.vacant, self.first_vacant) = (0, 0, NONE);
        }
        record
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        let slot = slot as usize;
        &self.pieces[slot / Self::PIECE_LEN][slot % Self::PIECE_LEN]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        let slot = slot as usize;
        &mut self.pieces[slot / Self::PIECE_LEN][slot % Self::PIECE_LEN]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Named {
        name: &'static str,
        next_vacant: u32,
    }

    impl Record for Named {
        fn next_vacant(&mut self) -> &mut u32 {
            &mut self.next_vacant
        }
    }

    fn named(name: &'static str) -> Named {
        Named { name, next_vacant: NONE }
    }

    #[test]
    fn a_vacated_slot_is_reused_for_the_next_record() {
        let mut slab = Slab::new();
        let (a, b, c) = (slab.insert(named("a")), slab.insert(named("b")), slab.insert(named("c")));
        assert_eq!(slab.remove(a).name, "a");
        assert_eq!(slab.remove(c).name, "c");
        assert_eq!((slab[a].name, slab.len()), ("", 1));
        assert_eq!((slab.insert(named("d")), slab.insert(named("e"))), (c, a));
        assert_eq!(slab.insert(named("f")), 3);
        assert_eq!([b, c, a].map(|slot| slab[slot].name), ["b", "d", "e"]);
        assert_eq!(slab.len(), 4);
    }

    #[test]
    fn records_stay_in_their_slots_over_many_pieces() {
        let mut slab = Slab::new();
        let number = 3 * Slab::<Named>::PIECE_LEN as u32 + 1;
        assert!((0..number).all(|slot| slab.insert(named("x")) == slot));
        assert_eq!((slab.len(), slab.iter().count()), (number as usize, number as usize));
        assert!(slab.get(number).is_none() && slab.get_mut(4 * number).is_none());
        for slot in (0..number).step_by(2) {
            slab.remove(slot);
        }
        assert_eq!(slab.iter().filter(|record| record.name == "x").count(), slab.len());
        let again: std::collections::BTreeSet<u32> =
            (0..number).step_by(2).map(|_| slab.insert(named("y"))).collect();
        assert!(again.into_iter().eq((0..number).step_by(2)));
    }

    #[test]
    fn an_empty_slab_assigns_slots_in_order_again_and_keeps_its_pieces() {
        let mut slab = Slab::new();
        let number = 2 * Slab::<Named>::PIECE_LEN as u32 + 1;
        for _ in 0..3 {
            assert!((0..number).all(|slot| slab.insert(named("a")) == slot));
            assert!((0..number).all(|slot| slab.remove(slot) == named("a")));
            assert_eq!((slab.len(), slab.iter().count(), slab.pieces.len()), (0, 0, 3));
            assert!(slab.get(0).is_none());
        }
    }
}
