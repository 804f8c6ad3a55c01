//! The entries that share a key of a topic.
//!
//! They form a ring, and one of them represents the key: the table of keys and the topic's list
//! contain only that one. Most keys have one entry and need nothing else.

use std::hash::BuildHasher;

use super::Presence;
use super::entry::Entry;
use super::reference::Reference;
use crate::tables::NONE;
use crate::tables::Seeded;
use crate::tables::should_shrink;

impl Presence {
    /// The entries with the same topic and key, starting with this one.
    pub(super) fn of_key(&self, first: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(first), move |&slot| {
            Some(self.entries[slot].next_of_key).filter(|next| *next != first)
        })
    }

    /// Every entry of a topic, grouped by key.
    pub(super) fn of_topic(&self, topic: u32) -> impl Iterator<Item = u32> {
        self.topics[topic].keys.iter().flat_map(|&first| self.of_key(first))
    }

    /// Another node's entry with this key (as JSON) and reference.
    pub(super) fn find_foreign(&self, topic: u32, key: &str, reference: Reference) -> Option<u32> {
        let representative = self.find_key(topic, key)?;
        if self.entries[representative].version.reference() == reference {
            return Some(representative);
        }
        let hash = self.hashing.hash_one(reference);
        let is_it = |&slot: &u32| {
            let version = &self.entries[slot].version;
            version.reference() == reference && version.topic() == topic && version.key() == key
        };
        self.by_reference.find(hash, is_it).copied()
    }

    /// Appends a new entry to its key's ring, or starts a ring.
    pub(super) fn link_to_key(&mut self, slot: u32) {
        let version = &self.entries[slot].version;
        let topic = version.topic();
        let (first, last) = match self.find_key(topic, version.key()) {
            Some(first) => (first, self.entries[first].previous_of_key),
            None => {
                let Presence { keys, hashing, entries, topics, .. } = self;
                let hash_of = |&slot: &u32| hash_of(*hashing, &entries[slot]);
                keys.insert_unique(hash_of(&slot), slot, hash_of);
                entries[slot].position = topics[topic].keys.len() as u32;
                topics[topic].keys.push(slot);
                (slot, slot)
            }
        };
        self.connect(last, slot);
        self.connect(slot, first);
        self.index_by_reference(slot);
    }

    /// Removes an entry from its key's ring; the next one then represents the key.
    pub(super) fn unlink_from_key(&mut self, slot: u32) {
        self.unindex_reference(slot);
        let hash = hash_of(self.hashing, &self.entries[slot]);
        let &Entry { next_of_key, previous_of_key, position, ref version, .. } =
            &self.entries[slot];
        let topic = version.topic();
        self.connect(previous_of_key, next_of_key);
        if position == NONE {
            return; // Another entry represents the key.
        }
        if next_of_key != slot {
            self.unindex_reference(next_of_key);
        }
        let Presence { keys, hashing, entries, topics, .. } = self;
        let key = keys.find_entry(hash, |&other| other == slot);
        let mut key = key.expect("every key is represented by an entry");
        let of_topic = &mut topics[topic].keys;
        if next_of_key != slot {
            *key.get_mut() = next_of_key;
            of_topic[position as usize] = next_of_key;
            entries[next_of_key].position = position;
            return;
        }
        key.remove();
        of_topic.swap_remove(position as usize);
        if let Some(&moved) = of_topic.get(position as usize) {
            entries[moved].position = position;
        }
        if should_shrink(of_topic.len(), of_topic.capacity()) {
            of_topic.shrink_to(2 * of_topic.len());
        }
        if should_shrink(keys.len(), keys.capacity()) {
            keys.shrink_to(2 * keys.len(), |&slot| hash_of(*hashing, &entries[slot]));
        }
    }

    /// Indexes another node's entry by its reference, unless it represents its key. Walking the
    /// ring would be too slow where ten thousand entries share a key.
    pub(super) fn index_by_reference(&mut self, slot: u32) {
        if self.is_indexed_by_reference(slot) {
            let Presence { by_reference, hashing, entries, .. } = self;
            let hash_of = |&slot: &u32| hashing.hash_one(entries[slot].version.reference());
            by_reference.insert_unique(hash_of(&slot), slot, hash_of);
        }
    }

    /// Undoes [`index_by_reference`](Self::index_by_reference), before the entry's reference or
    /// position changes.
    pub(super) fn unindex_reference(&mut self, slot: u32) {
        if self.is_indexed_by_reference(slot) {
            let Presence { by_reference, hashing, entries, .. } = self;
            let hash_of = |&slot: &u32| hashing.hash_one(entries[slot].version.reference());
            let entry = by_reference.find_entry(hash_of(&slot), |&other| other == slot);
            entry.expect("the entry is indexed").remove();
            if should_shrink(by_reference.len(), by_reference.capacity()) {
                by_reference.shrink_to(2 * by_reference.len(), hash_of);
            }
        }
    }

    fn is_indexed_by_reference(&self, slot: u32) -> bool {
        let entry = &self.entries[slot];
        entry.position == NONE && !self.is_own(entry.version.reference())
    }

    fn connect(&mut self, slot: u32, next: u32) {
        self.entries[slot].next_of_key = next;
        self.entries[next].previous_of_key = slot;
    }

    /// The entry that represents a key, which is a JSON text.
    fn find_key(&self, topic: u32, key: &str) -> Option<u32> {
        let hash = self.hashing.hash_one((topic, key));
        let is_it = |&slot: &u32| {
            let version = &self.entries[slot].version;
            version.topic() == topic && version.key() == key
        };
        self.keys.find(hash, is_it).copied()
    }
}

fn hash_of(hashing: Seeded, entry: &Entry) -> u64 {
    hashing.hash_one((entry.version.topic(), entry.version.key()))
}
