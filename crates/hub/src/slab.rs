use std::ops::{Index, IndexMut};

/// The index of nothing: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// Records in slots of one vector; a vacated slot goes to the next record.
///
/// A vacant slot holds the default record, so what the old one owned is given back at once. The
/// slots themselves are given back when the last record leaves.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<T>,
    vacant: Vec<u32>,
}

impl<T: Default> Slab<T> {
    pub fn new() -> Self {
        Slab { slots: Vec::new(), vacant: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    pub fn insert(&mut self, record: T) -> u32 {
        if let Some(slot) = self.vacant.pop() {
            self.slots[slot as usize] = record;
            return slot;
        }
        let slot = u32::try_from(self.slots.len()).unwrap_or(NONE);
        assert_ne!(slot, NONE, "four billion records do not fit into memory");
        self.slots.push(record);
        slot
    }

    pub fn remove(&mut self, slot: u32) -> T {
        let record = std::mem::take(&mut self.slots[slot as usize]);
        self.vacant.push(slot);
        if self.len() == 0 {
            *self = Slab::new();
        }
        record
    }

    /// The record in a slot that may have been given back since.
    pub fn get(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        &self.slots[slot as usize]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.slots[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vacated_slot_goes_to_the_next_record() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert("a"), slab.insert("b"));
        assert_eq!(slab.remove(a), "a");
        assert_eq!(slab.insert("c"), a);
        assert_eq!((slab[a], slab[b], slab.len()), ("c", "b", 2));
    }

    #[test]
    fn the_slots_are_given_back_when_the_last_record_leaves() {
        let mut slab = Slab::new();
        let a = slab.insert(1);
        slab.remove(a);
        assert_eq!((slab.len(), slab.slots.capacity(), slab.vacant.capacity()), (0, 0, 0));
    }
}
