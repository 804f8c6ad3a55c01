//! Who is present on which topic, and what changed there.

mod entry;
mod limits;
mod meta;
mod reference;
mod topic;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::hash::BuildHasher;

use hashbrown::HashTable;

use self::entry::{Entry, Version, write_by_key};
pub use self::limits::{PresenceLimits, TrackError};
use self::reference::References;
use self::topic::{Changes, PresenceTopic};
use crate::room::is_much_too_large;
use crate::seeded::Seeded;
use crate::slab::{NONE, Slab};

/// Outdated joins that may wait on a topic for its next diff, besides two for each presence.
const OUTDATED_JOINS_KEPT: usize = 64;
/// A guess at one presence's share of a state, to allocate its text once.
const STATE_BYTES_PER_ENTRY: usize = 96;

/// The head of one channel's list of presences, kept by the driver beside the channel.
///
/// It does not untrack when dropped: call [`Presence::untrack_all`] first.
#[derive(Debug, PartialEq, Eq)]
pub struct PresenceOwner(u32);

const _: () = assert!(size_of::<PresenceOwner>() == 4, "kept once per channel");

impl PresenceOwner {
    /// Whether this owner tracks nothing.
    pub const fn is_empty(&self) -> bool {
        self.0 == NONE
    }
}

impl Default for PresenceOwner {
    fn default() -> Self {
        PresenceOwner(NONE)
    }
}

/// The presences of any number of topics.
///
/// An owner, which is one client's channel, tracks keys with a meta each. Whoever joins a topic is
/// told its [`state`](Presence::state), and everyone on it one diff for all that changed since the
/// last: what joined and left in between is not told at all. Both are JSON as phoenix.js reads it;
/// each version of a meta has its own `phx_ref`, and one that replaces another that clients know
/// names it as `phx_ref_prev`.
///
/// ```
/// use hub::{Presence, PresenceOwner};
///
/// let mut presence = Presence::new(7);
/// let mut alice = PresenceOwner::default();
/// presence.track(&mut alice, "rooms:lobby", "alice", r#"{"status":"online"}"#).unwrap();
/// let (topic, diff) = presence.poll_diff().unwrap();
/// assert_eq!(topic, "rooms:lobby");
/// assert!(diff.starts_with(r#"{"joins":{"alice":{"metas":[{"status":"online","phx_ref":""#));
/// presence.untrack_all(&mut alice);
/// assert_eq!(presence.state("rooms:lobby"), "{}");
/// ```
#[derive(Debug)]
pub struct Presence {
    limits: PresenceLimits,
    hashing: Seeded,
    references: References,
    entries: Slab<Entry>,
    topics: Slab<PresenceTopic>,
    /// Topics by name.
    names: HashTable<u32>,
    /// By topic and key, the entry that stands for it.
    keys: HashTable<u32>,
    /// Topics with changes, each once; the first is told next.
    changed: VecDeque<u32>,
    leaves_waiting: usize,
}

impl Presence {
    /// Nobody present yet. The seed makes references unlike those of other seeds.
    pub fn new(seed: u64) -> Self {
        Presence::with_limits(seed, PresenceLimits::default())
    }

    /// Nobody present yet, within other limits.
    pub fn with_limits(seed: u64, limits: PresenceLimits) -> Self {
        Presence {
            limits,
            hashing: Seeded(seed),
            references: References::new(seed),
            entries: Slab::new(),
            topics: Slab::new(),
            names: HashTable::new(),
            keys: HashTable::new(),
            changed: VecDeque::new(),
            leaves_waiting: 0,
        }
    }

    /// Show `key` on a topic until it is untracked. `meta` is the text of a JSON object.
    ///
    /// Other owners may show the same key: it then has several metas.
    pub fn track(
        &mut self,
        owner: &mut PresenceOwner,
        topic: &str,
        key: &str,
        meta: &str,
    ) -> Result<(), TrackError> {
        let (key, meta) = self.checked(key, meta)?;
        if self.find_owned(owner, topic, &key).is_some() {
            return Err(TrackError::AlreadyTracked);
        }
        let max = self.limits.keys_per_owner_max;
        if self.owned(owner).count() >= max {
            return Err(TrackError::TooManyKeys { max });
        }
        let topic = self.find_topic(topic).unwrap_or_else(|| self.open_topic(topic));
        let version = Version::new(topic, &key, &meta, self.references.next());
        let next_of_owner = owner.0;
        let slot = self.entries.insert(Entry { version, next_of_owner, ..Entry::default() });
        owner.0 = slot;
        self.topics[topic].entries += 1;
        self.link_to_key(slot);
        self.note_join(slot);
        Ok(())
    }

    /// Replace the meta that the owner shows under `key`.
    pub fn update(
        &mut self,
        owner: &PresenceOwner,
        topic: &str,
        key: &str,
        meta: &str,
    ) -> Result<(), TrackError> {
        let (key, meta) = self.checked(key, meta)?;
        let slot = self.find_owned(owner, topic, &key).ok_or(TrackError::NotTracked)?;
        let was_known = self.is_known(slot);
        let older = std::mem::take(&mut self.entries[slot].version);
        let newer = Version::new(older.topic(), &key, &meta, self.references.next());
        self.entries[slot].version = if was_known {
            newer.after(&older, &self.references)
        } else {
            newer.instead_of(&older)
        };
        if was_known {
            self.note_leave(older);
        }
        self.note_join(slot);
        Ok(())
    }

    /// Stop showing `key`. Nothing changes when the owner does not track it.
    pub fn untrack(&mut self, owner: &mut PresenceOwner, topic: &str, key: &str) {
        let Ok(key) = self.checked_key(key) else { return };
        let Some(slot) = self.find_owned(owner, topic, &key) else { return };
        let next = self.entries[slot].next_of_owner;
        let before = self.owned(owner).find(|&other| self.entries[other].next_of_owner == slot);
        match before {
            Some(before) => self.entries[before].next_of_owner = next,
            None => owner.0 = next,
        }
        self.remove(slot);
    }

    /// Stop showing everything that the owner tracks.
    pub fn untrack_all(&mut self, owner: &mut PresenceOwner) {
        while owner.0 != NONE {
            let slot = owner.0;
            owner.0 = self.entries[slot].next_of_owner;
            self.remove(slot);
        }
    }

    /// Everyone who is present on a topic, as the payload of a `presence_state`.
    ///
    /// It holds what the next diff will tell, too: clients know a presence by its `phx_ref` and
    /// take it once. So that they miss nothing, the reader is to be subscribed to the topic's
    /// diffs before this is called. It takes `&mut self` to note what the reader knows now: a
    /// leave of that is told.
    pub fn state(&mut self, topic: &str) -> String {
        let Some(topic) = self.find_topic(topic) else { return "{}".into() };
        self.topics[topic].known_until = self.references.newest();
        let topic = &self.topics[topic];
        let of_keys = topic.keys.iter().flat_map(|&first| self.of_key(first));
        let mut state = String::with_capacity(STATE_BYTES_PER_ENTRY * topic.entries);
        write_by_key(of_keys.map(|slot| &self.entries[slot].version), &self.references, &mut state);
        state
    }

    /// What changed on one topic since it was told last, as the topic and the payload of a
    /// `presence_diff`; `None` when nothing changed anywhere.
    pub fn poll_diff(&mut self) -> Option<(String, String)> {
        while let Some(topic) = self.changed.pop_front() {
            let changes = self.topics[topic].changes.take();
            let changes = *changes.expect("a changed topic has changes");
            self.leaves_waiting -= changes.leaves.len();
            self.topics[topic].known_until = self.references.newest();
            let payload = self.encode_diff(changes);
            let topic = if self.topics[topic].entries == 0 {
                self.forget_topic(topic)
            } else {
                self.topics[topic].name.to_string()
            };
            if let Some(payload) = payload {
                return Some((topic, payload));
            }
        }
        if is_much_too_large(0, self.changed.capacity()) {
            self.changed = VecDeque::new();
        }
        None
    }

    /// How many presences a topic has: metas, of all its keys.
    pub fn count(&self, topic: &str) -> usize {
        self.find_topic(topic).map_or(0, |topic| self.topics[topic].entries)
    }

    /// How many keys are present on a topic.
    pub fn keys(&self, topic: &str) -> usize {
        self.find_topic(topic).map_or(0, |topic| self.topics[topic].keys.len())
    }

    /// How many presences there are on all topics.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nobody is present anywhere.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key as a JSON text, if it is not too long.
    fn checked_key(&self, key: &str) -> Result<String, TrackError> {
        let (len, max) = (key.len(), self.limits.key_bytes_max);
        let json = serde_json::to_string(key).expect("every text is a JSON text");
        // A limit may be set higher than what a key's record can hold.
        if len > max || json.len() > usize::from(u16::MAX) {
            return Err(TrackError::KeyTooLong { len, max });
        }
        Ok(json)
    }

    /// The key and the meta as they are kept, if there is room for them.
    fn checked<'a>(&self, key: &str, meta: &'a str) -> Result<(String, Cow<'a, str>), TrackError> {
        let key = self.checked_key(key)?;
        let (len, max) = (meta.len(), self.limits.meta_bytes_max);
        if len > max {
            return Err(TrackError::MetaTooLong { len, max });
        }
        let meta = meta::parse(meta).ok_or(TrackError::MetaNotObject)?;
        let max = self.limits.leaves_waiting_max;
        if self.leaves_waiting >= max {
            return Err(TrackError::TooManyChanges { max });
        }
        Ok((key, meta))
    }

    fn owned(&self, owner: &PresenceOwner) -> impl Iterator<Item = u32> {
        let link = |slot: u32| (slot != NONE).then_some(slot);
        std::iter::successors(link(owner.0), move |&slot| link(self.entries[slot].next_of_owner))
    }

    fn find_owned(&self, owner: &PresenceOwner, topic: &str, key: &str) -> Option<u32> {
        let topic = self.find_topic(topic)?;
        self.owned(owner).find(|&slot| {
            let entry = &self.entries[slot];
            entry.version.topic() == topic && entry.version.key() == key
        })
    }

    /// Whether some client knows the entry's version.
    fn is_known(&self, slot: u32) -> bool {
        let version = &self.entries[slot].version;
        version.reference() <= self.topics[version.topic()].known_until
    }

    /// Take out an entry that its owner's list has lost already.
    fn remove(&mut self, slot: u32) {
        let was_known = self.is_known(slot);
        self.unlink_from_key(slot);
        let Entry { version, .. } = self.entries.remove(slot);
        self.topics[version.topic()].entries -= 1;
        if was_known {
            self.note_leave(version);
        }
    }

    fn note_join(&mut self, slot: u32) {
        let version = &self.entries[slot].version;
        let (topic, reference) = (version.topic(), version.reference());
        let joins_max = 2 * self.topics[topic].entries + OUTDATED_JOINS_KEPT;
        let mut joins = std::mem::take(&mut self.changes(topic).joins);
        joins.push((slot, reference));
        if joins.len() > joins_max {
            joins.retain(|&join| self.joined(join).is_some());
        }
        self.changes(topic).joins = joins;
    }

    fn note_leave(&mut self, version: Version) {
        self.leaves_waiting += 1;
        self.changes(version.topic()).leaves.push(version);
    }

    /// The version that joined, unless it is outdated: gone or replaced.
    fn joined(&self, (slot, reference): (u32, u64)) -> Option<&Version> {
        let version = &self.entries.get(slot)?.version;
        (version.reference() == reference).then_some(version)
    }

    fn changes(&mut self, topic: u32) -> &mut Changes {
        let Presence { topics, changed, .. } = self;
        topics[topic].changes.get_or_insert_with(|| {
            changed.push_back(topic);
            Box::default()
        })
    }

    /// One diff; `None` when its joins have left again and no client knew of them.
    fn encode_diff(&self, mut changes: Changes) -> Option<String> {
        let mut joins: Vec<&Version> =
            changes.joins.iter().filter_map(|&join| self.joined(join)).collect();
        if joins.is_empty() && changes.leaves.is_empty() {
            return None;
        }
        joins.sort_by(|a, b| a.key().cmp(b.key()));
        changes.leaves.sort_by(|a, b| a.key().cmp(b.key()));
        let mut diff = String::from("{\"joins\":");
        write_by_key(joins.into_iter(), &self.references, &mut diff);
        diff.push_str(",\"leaves\":");
        write_by_key(changes.leaves.iter(), &self.references, &mut diff);
        diff.push('}');
        Some(diff)
    }

    /// The entries with the same topic and key as this one, from this one on.
    fn of_key(&self, first: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(first), move |&slot| {
            Some(self.entries[slot].next_of_key).filter(|next| *next != first)
        })
    }

    /// Put a new entry at the end of its key's ring, or open one.
    fn link_to_key(&mut self, slot: u32) {
        let topic = self.entries[slot].version.topic();
        let hash = self.hash_of_key(slot);
        let (first, last) = match self.keys.find(hash, |&other| self.have_same_key(slot, other)) {
            Some(&first) => (first, self.entries[first].previous_of_key),
            None => {
                let Presence { keys, hashing, entries, topics, .. } = self;
                let hash_of = |&slot: &u32| hash_of_key(*hashing, &entries[slot]);
                keys.insert_unique(hash, slot, hash_of);
                entries[slot].position = topics[topic].keys.len() as u32;
                topics[topic].keys.push(slot);
                (slot, slot)
            }
        };
        self.connect(last, slot);
        self.connect(slot, first);
    }

    /// Take an entry out of its key's ring; the next one stands for the key then.
    fn unlink_from_key(&mut self, slot: u32) {
        let hash = self.hash_of_key(slot);
        let &Entry { next_of_key, previous_of_key, position, ref version, .. } =
            &self.entries[slot];
        let topic = version.topic();
        self.connect(previous_of_key, next_of_key);
        if position == NONE {
            return; // Another entry stands for the key.
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
            keys.shrink_to(2 * keys.len(), |&slot| hash_of_key(*hashing, &entries[slot]));
        }
    }

    fn connect(&mut self, slot: u32, next: u32) {
        self.entries[slot].next_of_key = next;
        self.entries[next].previous_of_key = slot;
    }

    fn have_same_key(&self, a: u32, b: u32) -> bool {
        let (a, b) = (&self.entries[a].version, &self.entries[b].version);
        a.topic() == b.topic() && a.key() == b.key()
    }

    fn hash_of_key(&self, slot: u32) -> u64 {
        hash_of_key(self.hashing, &self.entries[slot])
    }

    fn find_topic(&self, name: &str) -> Option<u32> {
        let hash = self.hashing.hash_one(name);
        self.names.find(hash, |&topic| *self.topics[topic].name == *name).copied()
    }

    fn open_topic(&mut self, name: &str) -> u32 {
        let known_until = self.references.newest();
        let topic = PresenceTopic { name: name.into(), known_until, ..PresenceTopic::default() };
        let slot = self.topics.insert(topic);
        let Presence { names, topics, hashing, .. } = self;
        let hash = hashing.hash_one(name);
        names.insert_unique(hash, slot, |&topic| hashing.hash_one(&*topics[topic].name));
        slot
    }

    /// Forget a topic where nobody is present; returns its name.
    fn forget_topic(&mut self, topic: u32) -> String {
        let PresenceTopic { name, .. } = self.topics.remove(topic);
        let Presence { names, topics, hashing, .. } = self;
        let entry = names.find_entry(hashing.hash_one(&*name), |&other| other == topic);
        entry.expect("every topic has a name").remove();
        if is_much_too_large(names.len(), names.capacity()) {
            names.shrink_to(2 * names.len(), |&topic| hashing.hash_one(&*topics[topic].name));
        }
        name.into()
    }
}

fn hash_of_key(hashing: Seeded, entry: &Entry) -> u64 {
    hashing.hash_one((entry.version.topic(), entry.version.key()))
}
