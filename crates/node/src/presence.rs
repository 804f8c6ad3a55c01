//! The whole server's presences, spread over a few locks by topic.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Mutex, MutexGuard};

use hub::Presence;

const SHELVES: usize = 16;

/// Presences of every topic; a topic's are all behind the same lock.
#[derive(Debug)]
pub struct PresenceBoard {
    shelves: Vec<Mutex<Presence>>,
}

impl PresenceBoard {
    pub(crate) fn new(seed: u64) -> Self {
        let shelf = |number| Mutex::new(Presence::new(seed ^ number));
        PresenceBoard { shelves: (0..SHELVES as u64).map(shelf).collect() }
    }

    /// The presences that this topic's are among.
    pub(crate) fn on(&self, topic: &str) -> MutexGuard<'_, Presence> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(topic);
        lock(&self.shelves[(hash % SHELVES as u64) as usize])
    }

    /// How many presences there are.
    pub(crate) fn len(&self) -> usize {
        self.shelves.iter().map(|shelf| lock(shelf).len()).sum()
    }

    /// One diff for each topic that changed since the last call, as topic and payload.
    pub(crate) fn take_diffs(&self) -> Vec<(String, String)> {
        let mut diffs = Vec::new();
        for shelf in &self.shelves {
            let mut shelf = lock(shelf);
            let told = std::iter::from_fn(|| shelf.poll_diff());
            diffs.extend(told.filter_map(|diff| Some((diff.topic, diff.payload?))));
        }
        diffs
    }
}

/// A panic under this lock leaves at worst one topic's presences incomplete: go on with them.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
