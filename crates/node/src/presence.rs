//! The presences that this process knows, spread over a few locks by topic.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Mutex, MutexGuard};

use hub::{Diff, OwnChange, Presence};
use vocab::NodeId;

use crate::cluster::{Cluster, Word};

/// By how many locks they are kept apart.
pub(crate) const SHELVES: usize = 16;

/// Presences of every topic; a topic's are all behind the same lock.
///
/// A process knows the presences of its own clients, and those of other processes on the topics
/// that it has subscribers on.
#[derive(Debug)]
pub struct PresenceBoard {
    shelves: Vec<Mutex<Presence>>,
}

impl PresenceBoard {
    pub(crate) fn new(seed: u64, cluster: &Cluster) -> Self {
        let shelf = |number| {
            Mutex::new(match cluster.is_alone() {
                true => Presence::new(seed ^ number),
                false => Presence::of_node(seed ^ number, cluster.me()),
            })
        };
        PresenceBoard { shelves: (0..SHELVES as u64).map(shelf).collect() }
    }

    /// The presences that this topic's are among.
    pub(crate) fn on(&self, topic: &str) -> MutexGuard<'_, Presence> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(topic);
        lock(&self.shelves[(hash % SHELVES as u64) as usize])
    }

    /// How many presences this process has.
    pub(crate) fn len(&self) -> usize {
        self.shelves.iter().map(|shelf| lock(shelf).own_len()).sum()
    }

    /// How many topics of a shelf have changes that are not told.
    pub(crate) fn changed(&self, shelf: usize) -> usize {
        lock(&self.shelves[shelf]).changed()
    }

    /// What changed on one topic of a shelf: the one that waits longest.
    pub(crate) fn take_diff(&self, shelf: usize) -> Option<Diff> {
        lock(&self.shelves[shelf]).poll_diff()
    }

    /// Another process has subscribers on a topic: tell it who of ours is present there.
    pub(crate) fn introduce_to(&self, cluster: &Cluster, node: NodeId, topic: &str) {
        let present = self.on(topic).export(topic);
        let changes: Vec<OwnChange> = present.into_iter().map(OwnChange::Joined).collect();
        for some in changes.chunks(CHANGES_PER_WORD) {
            cluster.tell_state(node, &Word::Presences { topic, changes: some.into() });
        }
    }

    /// Tell the other processes what presences of ours did.
    pub(crate) fn publish(cluster: &Cluster, topic: &str, own: &[OwnChange]) {
        for some in own.chunks(CHANGES_PER_WORD) {
            cluster.publish_state(topic, || Word::Presences { topic, changes: some.into() });
        }
    }

    /// Another process tells what its presences did. Returns how many of them cannot be.
    pub(crate) fn hear_of(&self, from: NodeId, topic: &str, changes: &[OwnChange]) -> usize {
        let mut presence = self.on(topic);
        let refused = |change: &&OwnChange| presence.import(from, topic, change).is_err();
        changes.iter().filter(refused).count()
    }

    /// Another process is gone, and all who are present through it.
    pub(crate) fn node_down(&self, node: NodeId) {
        for shelf in &self.shelves {
            lock(shelf).forget_node(node);
        }
    }
}

/// Presences that one word to another process tells of.
const CHANGES_PER_WORD: usize = 500;

/// A panic under this lock leaves at worst one topic's presences incomplete: go on with them.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
