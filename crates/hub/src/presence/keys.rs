//! Which entries show the same key of a topic.
//!
//! They are a ring, and one of them stands for the key: the table of keys and the topic's list know
//! that one alone. Most keys have one entry, and need nothing else.

use std::hash::BuildHasher;

use super::Presence;
use super::entry::Entry;
use super::reference::Reference;
use crate::room::is_much_too_large;
use crate::seeded::Seeded;
use crate::slab::NONE;

impl Presence {
    /// The entries with the same topic and key as this one, from this one on.
    pub(super) fn of_key(&self, first: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(first), move |&slot| {
            Some(self.entries[slot].next_of_key).filter(|next| *next != first)
        })
    }

    /// Every entry of a topic, those of one key one after another.
    pub(super) fn of_topic(&self, topic: u32) -> impl Iterator<Item = u32> {
        self.topics[topic].keys.iter().flat_map(|&first| self.of_key(first))
    }

    /// The entry of another node that shows this version of the key, which is a JSON text.
    pub(super) fn find_foreign(&self, topic: u32, key: &str, reference: Reference) -> Option<u32> {
        let stands = self.find_key(topic, key)?;
        if self.entries[stands].version.reference() == reference {
            return Some(stands);
        }
        let hash = self.hashing.hash_one(reference);
        let is_it = |&slot: &u32| {
            let version = &self.entries[slot].version;
            version.reference() == reference && version.topic() == topic && version.key() == key
        };
        self.crowded.find(hash, is_it).copied()
    }

    /// Put a new entry at the end of its key's ring, or open one.
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
        self.note_crowded(slot);
    }

    /// Take an entry out of its key's ring; the next one stands for the key then.
    pub(super) fn unlink_from_key(&mut self, slot: u32) {
        self.forget_crowded(slot);
        let hash = hash_of(self.hashing, &self.entries[slot]);
        let &Entry { next_of_key, previous_of_key, position, ref version, .. } =
            &self.entries[slot];
        let topic = version.topic();
        self.connect(previous_of_key, next_of_key);
        if position == NONE {
            return; // Another entry stands for the key.
        }
        if next_of_key != slot {
            self.forget_crowded(next_of_key);
        }
        let Presence { keys, hashing, entries, topics, .. } = self;
        let key = keys.find_entry(hash, |&other| other == slot);
        let mut key = key.expect("every key is known by an entry");
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
        if is_much_too_large(of_topic.len(), of_topic.capacity()) {
            of_topic.shrink_to(2 * of_topic.len());
        }
        if is_much_too_large(keys.len(), keys.capacity()) {
            keys.shrink_to(2 * keys.len(), |&slot| hash_of(*hashing, &entries[slot]));
        }
    }

    /// Let an entry be found by its reference, if it is to be: one of another node that does not
    /// stand for its key. Walking the ring would take forever where ten thousand show one key.
    pub(super) fn note_crowded(&mut self, slot: u32) {
        if self.is_crowded(slot) {
            let Presence { crowded, hashing, entries, .. } = self;
            let hash_of = |&slot: &u32| hashing.hash_one(entries[slot].version.reference());
            crowded.insert_unique(hash_of(&slot), slot, hash_of);
        }
    }

    /// The opposite of [`note_crowded`](Self::note_crowded), before the entry's reference or
    /// position changes.
    pub(super) fn forget_crowded(&mut self, slot: u32) {
        if self.is_crowded(slot) {
            let Presence { crowded, hashing, entries, .. } = self;
            let hash_of = |&slot: &u32| hashing.hash_one(entries[slot].version.reference());
            let entry = crowded.find_entry(hash_of(&slot), |&other| other == slot);
            entry.expect("a crowded entry is noted").remove();
            if is_much_too_large(crowded.len(), crowded.capacity()) {
                crowded.shrink_to(2 * crowded.len(), hash_of);
            }
        }
    }

    fn is_crowded(&self, slot: u32) -> bool {
        let entry = &self.entries[slot];
        entry.position == NONE && !self.is_own(entry.version.reference())
    }

    fn connect(&mut self, slot: u32, next: u32) {
        self.entries[slot].next_of_key = next;
        self.entries[next].previous_of_key = slot;
    }

    /// The entry that stands for a key, which is a JSON text.
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
