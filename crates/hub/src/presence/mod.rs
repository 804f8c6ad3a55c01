//! Presence: the keys that are present on each topic, and changes of them.

mod diff;
mod entry;
mod keys;
mod limits;
mod meta;
mod reference;
mod replication;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::hash::BuildHasher;

use hashbrown::HashTable;
use watchfire_types::{NodeId, Slab, heap_bytes};

pub use self::diff::Diff;
use self::entry::{Entry, KnownTo, Version, write_by_key};
pub use self::limits::{PresenceLimits, TrackError};
pub use self::reference::Reference;
use self::reference::References;
pub use self::replication::{Exported, ImportError, OwnChange};
use crate::tables::Seeded;
use crate::tables::{NONE, should_shrink};

/// Outdated joins that a topic may keep until its next diff, besides two for each presence.
const OUTDATED_JOINS_KEPT: usize = 64;
/// An estimate of one presence's size in a state, to allocate its text once.
const STATE_BYTES_PER_ENTRY: usize = 96;

/// The head of one channel's list of presences, kept by the driver beside the channel.
///
/// Dropping it untracks nothing: call [`Presence::untrack_all`] first.
#[derive(Debug, PartialEq, Eq)]
pub struct PresenceOwner(u32);

const _: () = assert!(size_of::<PresenceOwner>() == 4, "stored once per channel");

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
/// An owner, which is one client's channel, tracks keys with a meta each. A client that joins a
/// topic receives its [`state`](Presence::state). After that, it receives diffs of all changes
/// since the last diff; a presence that joined and left in between is not in them. Both are JSON as
/// phoenix.js reads it. Each version of a meta has its own `phx_ref`. A version that replaces
/// another one known to clients names it as `phx_ref_prev`.
///
/// A server of several nodes has a `Presence` on each. A presence belongs to one node, and is
/// replicated to the nodes that are interested in its topic: see [`export`](Presence::export).
///
/// ```
/// use watchfire_hub::{Presence, PresenceOwner};
///
/// let mut presence = Presence::new(7);
/// let mut alice = PresenceOwner::default();
/// presence.track(&mut alice, "rooms:lobby", "alice", r#"{"status":"online"}"#).unwrap();
/// let diff = presence.poll_diff().unwrap();
/// assert_eq!(diff.topic, "rooms:lobby");
/// let expected = r#"{"joins":{"alice":{"metas":[{"status":"online","phx_ref":""#;
/// assert!(diff.payload.unwrap().starts_with(expected));
/// presence.untrack_all(&mut alice);
/// assert_eq!(presence.state("rooms:lobby"), "{}");
/// ```
#[derive(Debug)]
pub struct Presence {
    limits: PresenceLimits,
    hashing: Seeded,
    references: References,
    /// Whether there are other nodes, which need the own changes.
    is_replicated: bool,
    entries: Slab<Entry>,
    /// The memory that entries and names of topics own.
    owned_bytes: usize,
    own_entries: usize,
    topics: Slab<PresenceTopic>,
    names: HashTable<u32>,
    /// By topic and key, the entry that represents the key.
    keys: HashTable<u32>,
    /// By reference, the entries of other nodes that do not represent their key.
    by_reference: HashTable<u32>,
    /// Topics with changes, each once, in order of their diffs.
    changed: VecDeque<u32>,
    leaves_waiting: usize,
}

/// A topic with presences, or with leaves that wait for a diff.
#[derive(Debug, Default)]
pub(crate) struct PresenceTopic {
    pub name: Box<str>,
    /// For each key, the entry that represents it.
    pub keys: Vec<u32>,
    pub entries: usize,
    /// The content of the next diff; `None` when nothing changed.
    pub changes: Option<Box<Changes>>,
}

/// The changes of a topic since its last diff.
#[derive(Debug)]
pub(crate) struct Changes {
    /// Entries with the version of each join, which may be outdated. Every version that some client
    /// does not know is among them.
    pub joins: Vec<(u32, Reference)>,
    /// The list of entries that have left and are known to others, the newest first: see
    /// [`Entry::has_left`](Entry::has_left).
    pub first_left: u32,
}

impl Default for Changes {
    fn default() -> Self {
        Changes { joins: Vec::new(), first_left: NONE }
    }
}

impl Presence {
    /// No presences, on a server of one node. Each process needs its own seed.
    pub fn new(seed: u64) -> Self {
        Presence::with_limits(seed, PresenceLimits::default())
    }

    /// No presences, on a server of one node, with other limits.
    pub fn with_limits(seed: u64, limits: PresenceLimits) -> Self {
        Presence { is_replicated: false, ..Presence::of_node_with_limits(seed, NodeId(0), limits) }
    }

    /// No presences, on one of several nodes.
    ///
    /// Each start of a node needs a new seed. With an old seed, new presences could get references
    /// that clients still know from old ones, and those clients would not show the new ones.
    pub fn of_node(seed: u64, node: NodeId) -> Self {
        Presence::of_node_with_limits(seed, node, PresenceLimits::default())
    }

    /// No presences, on one of several nodes, with other limits.
    pub fn of_node_with_limits(seed: u64, node: NodeId, limits: PresenceLimits) -> Self {
        Presence {
            limits,
            hashing: Seeded(seed),
            references: References::new(seed, node),
            is_replicated: true,
            entries: Slab::default(),
            owned_bytes: 0,
            own_entries: 0,
            topics: Slab::default(),
            names: HashTable::new(),
            keys: HashTable::new(),
            by_reference: HashTable::new(),
            changed: VecDeque::new(),
            leaves_waiting: 0,
        }
    }

    /// The node of this `Presence`.
    pub fn node(&self) -> NodeId {
        self.references.node()
    }

    /// Shows `key` on a topic until it is untracked. `meta` is the text of a JSON object.
    ///
    /// Other owners may track the same key; it then has several metas.
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
        owner.0 = self.insert(version, owner.0);
        Ok(())
    }

    /// Replaces the owner's meta of `key`.
    pub fn update(
        &mut self,
        owner: &PresenceOwner,
        topic: &str,
        key: &str,
        meta: &str,
    ) -> Result<(), TrackError> {
        let (key, meta) = self.checked(key, meta)?;
        let slot = self.find_owned(owner, topic, &key).ok_or(TrackError::NotTracked)?;
        let topic = self.entries[slot].version.topic();
        let newer = Version::new(topic, &key, &meta, self.references.next());
        self.replace(slot, newer);
        Ok(())
    }

    /// Removes `key`. Nothing changes when the owner does not track it.
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

    pub fn untrack_all(&mut self, owner: &mut PresenceOwner) {
        while owner.0 != NONE {
            let slot = owner.0;
            owner.0 = self.entries[slot].next_of_owner;
            self.remove(slot);
        }
    }

    /// All presences of a topic, as the payload of a `presence_state`.
    ///
    /// It includes joins of the next diff: clients ignore a `phx_ref` that they know. Subscribe the
    /// client to the topic's diffs before this call, so that it misses no change. `&mut self` is
    /// needed to record that clients now know these presences, so that their leaves are sent.
    pub fn state(&mut self, topic: &str) -> String {
        let Some(topic) = self.find_topic(topic) else { return "{}".into() };
        self.note_known_to(topic, KnownTo::Clients);
        let mut state = String::with_capacity(STATE_BYTES_PER_ENTRY * self.topics[topic].entries);
        let versions = self.of_topic(topic).map(|slot| &self.entries[slot].version);
        write_by_key(versions, &mut state);
        state
    }

    /// This node's own presences of a topic, in the form of [`state`](Presence::state). Nothing is
    /// recorded: use it for readers that receive no diffs.
    pub fn own_state(&self, topic: &str) -> String {
        let mut state = String::new();
        write_by_key(self.own_versions(topic), &mut state);
        state
    }

    /// The number of this node's own presences of a topic.
    pub fn own_count(&self, topic: &str) -> usize {
        self.own_versions(topic).count()
    }

    fn own_versions(&self, topic: &str) -> impl Iterator<Item = &Version> {
        let slots = self.find_topic(topic).into_iter().flat_map(|topic| self.of_topic(topic));
        let versions = slots.map(|slot| &self.entries[slot].version);
        versions.filter(|version| self.is_own(version.reference()))
    }

    /// The number of topics with changes that wait for a diff.
    pub fn changed(&self) -> usize {
        self.changed.len()
    }

    /// The number of presences on a topic: the metas of all keys.
    pub fn count(&self, topic: &str) -> usize {
        self.find_topic(topic).map_or(0, |topic| self.topics[topic].entries)
    }

    pub fn keys(&self, topic: &str) -> usize {
        self.find_topic(topic).map_or(0, |topic| self.topics[topic].keys.len())
    }

    /// The number of presences on all topics, including those of other nodes.
    pub fn len(&self) -> usize {
        self.entries.len() - self.leaves_waiting
    }

    /// The number of presences of this node on all topics.
    pub fn own_len(&self) -> usize {
        self.own_entries
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory of all presences, without changes that wait for a diff. It looks at each piece of the slabs.
    pub fn memory_bytes(&self) -> usize {
        let Presence { names, keys, by_reference, .. } = self;
        let tables = [names, keys, by_reference].map(|table| heap_bytes(table.allocation_size()));
        // The list of a topic has four places first, and grows by doubling.
        let lists = heap_bytes(4 * size_of::<u32>()) * self.topics.len()
            + size_of::<u32>() * keys.len() * 3 / 2;
        let slabs = self.entries.memory_bytes() + self.topics.memory_bytes();
        slabs + tables.iter().sum::<usize>() + lists + self.owned_bytes
    }

    /// The key as a JSON text, if it is not too long.
    fn checked_key(&self, key: &str) -> Result<String, TrackError> {
        let (len, max) = (key.len(), self.limits.key_bytes_max);
        let json = serde_json::to_string(key).expect("every text can be JSON");
        // The limit may be set higher than the entry's u16.
        if len > max || json.len() > usize::from(u16::MAX) {
            return Err(TrackError::KeyTooLong { len, max });
        }
        Ok(json)
    }

    /// The key and the meta as they are stored, if they are within the limits.
    fn checked<'a>(&self, key: &str, meta: &'a str) -> Result<(String, Cow<'a, str>), TrackError> {
        let key = self.checked_key(key)?;
        let (len, max) = (meta.len(), self.limits.meta_bytes_max);
        if len > max {
            return Err(TrackError::MetaTooLong { len, max });
        }
        let meta = meta::parse(meta).ok_or(TrackError::MetaNotObject)?;
        let max = self.limits.leaves_waiting_max;
        if self.leaves_waiting >= max {
            return Err(TrackError::TooManyLeaves { max });
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

    fn reference(&self, slot: u32) -> Reference {
        self.entries[slot].version.reference()
    }

    /// Whether a reference belongs to this node.
    fn is_own(&self, reference: Reference) -> bool {
        reference.node() == self.node()
    }

    /// Inserts an entry at the head of its owner's list.
    fn insert(&mut self, version: Version, next_of_owner: u32) -> u32 {
        self.topics[version.topic()].entries += 1;
        self.own_entries += usize::from(self.is_own(version.reference()));
        let slot = self.add_entry(Entry { version, next_of_owner, ..Entry::default() });
        self.link_to_key(slot);
        self.note_join(slot);
        slot
    }

    /// Gives an entry a new version, with the same topic and key.
    fn replace(&mut self, slot: u32, newer: Version) {
        self.unindex_reference(slot);
        let version = &mut self.entries[slot].version;
        let newer = newer.replacing(version);
        self.owned_bytes += newer.memory_bytes();
        let older = std::mem::replace(version, newer);
        self.owned_bytes -= older.memory_bytes();
        self.index_by_reference(slot);
        if older.known_to > KnownTo::Nobody {
            let left = self.add_entry(Entry { version: older, ..Entry::default() });
            self.note_left(left);
        }
        self.note_join(slot);
    }

    /// Removes an entry that is no longer on its owner's list, and notes its leave.
    fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        if self.entries[slot].version.known_to > KnownTo::Nobody {
            self.note_left(slot);
        } else {
            self.remove_entry(slot);
        }
    }

    fn add_entry(&mut self, entry: Entry) -> u32 {
        self.owned_bytes += entry.version.memory_bytes();
        self.entries.insert(entry)
    }

    fn remove_entry(&mut self, slot: u32) -> Entry {
        let entry = self.entries.remove(slot);
        self.owned_bytes -= entry.version.memory_bytes();
        entry
    }

    /// Removes an entry from its topic and key.
    fn unlink(&mut self, slot: u32) {
        self.unlink_from_key(slot);
        let version = &self.entries[slot].version;
        self.topics[version.topic()].entries -= 1;
        self.own_entries -= usize::from(self.is_own(version.reference()));
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

    /// Keeps an unlinked entry until its leave is sent.
    fn note_left(&mut self, slot: u32) {
        self.leaves_waiting += 1;
        let topic = self.entries[slot].version.topic();
        let next = std::mem::replace(&mut self.changes(topic).first_left, slot);
        let entry = &mut self.entries[slot];
        (entry.position, entry.next_of_key, entry.previous_of_key) = (NONE, NONE, NONE);
        entry.next_of_owner = next;
    }

    /// Removes a topic's entries that have left, and returns them in the order of their leaves.
    fn take_left(&mut self, first: u32) -> Vec<Version> {
        let mut left = Vec::new();
        let mut slot = first;
        while slot != NONE {
            let Entry { version, next_of_owner, .. } = self.remove_entry(slot);
            left.push(version);
            slot = next_of_owner;
        }
        self.leaves_waiting -= left.len();
        left.reverse();
        left
    }

    /// Records that presences are being sent: only own ones to other nodes, all to clients.
    fn note_known_to(&mut self, topic: u32, to: KnownTo) {
        let me = self.node();
        let Presence { topics, entries, .. } = self;
        let Some(changes) = &topics[topic].changes else { return };
        for &(slot, reference) in &changes.joins {
            let Some(entry) = entries.get_mut(slot).filter(|entry| !entry.has_left()) else {
                continue;
            };
            let version = &mut entry.version;
            if version.reference() == reference
                && (to == KnownTo::Clients || reference.node() == me)
            {
                version.known_to = version.known_to.max(to);
            }
        }
    }

    fn changes(&mut self, topic: u32) -> &mut Changes {
        let Presence { topics, changed, .. } = self;
        topics[topic].changes.get_or_insert_with(|| {
            changed.push_back(topic);
            Box::default()
        })
    }

    fn find_topic(&self, name: &str) -> Option<u32> {
        let hash = self.hashing.hash_one(name);
        self.names.find(hash, |&topic| *self.topics[topic].name == *name).copied()
    }

    fn open_topic(&mut self, name: &str) -> u32 {
        let topic = PresenceTopic { name: name.into(), ..PresenceTopic::default() };
        self.owned_bytes += heap_bytes(topic.name.len());
        let slot = self.topics.insert(topic);
        let Presence { names, topics, hashing, .. } = self;
        let hash = hashing.hash_one(name);
        names.insert_unique(hash, slot, |&topic| hashing.hash_one(&*topics[topic].name));
        slot
    }

    /// Forgets a topic without presences; returns its name.
    fn forget_topic(&mut self, topic: u32) -> String {
        let PresenceTopic { name, .. } = self.topics.remove(topic);
        self.owned_bytes -= heap_bytes(name.len());
        let Presence { names, topics, hashing, .. } = self;
        let entry = names.find_entry(hashing.hash_one(&*name), |&other| other == topic);
        entry.expect("every topic has a name").remove();
        if should_shrink(names.len(), names.capacity()) {
            names.shrink_to(2 * names.len(), |&topic| hashing.hash_one(&*topics[topic].name));
        }
        name.into()
    }
}
