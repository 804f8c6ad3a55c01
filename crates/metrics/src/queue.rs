//! The state of a queue of the server itself, for the metrics.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A queue of the server itself, as it is now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queue {
    /// Of a closed set. Processes with a queue of the same name are added up.
    pub name: String,
    pub messages: u64,
    /// The age of the oldest message. `None`: the queue is empty, or the age is not known.
    pub oldest: Option<Duration>,
    /// Messages that found no place or were given up, since the start.
    pub drops: u64,
}

/// When the messages came that wait for an answer, in any order.
#[derive(Debug, Default)]
pub struct Pending(Mutex<BTreeMap<Instant, u64>>);

impl Pending {
    /// A message waits from now on. Returns its name for [`Pending::remove`].
    pub fn add(&self) -> Instant {
        let since = Instant::now();
        *self.0.lock().entry(since).or_default() += 1;
        since
    }

    /// A message no longer waits.
    ///
    /// # Panics
    ///
    /// When it was not added.
    pub fn remove(&self, since: Instant) {
        let mut pending = self.0.lock();
        let count = pending.get_mut(&since).expect("it was added");
        *count -= 1;
        if *count == 0 {
            pending.remove(&since);
        }
    }

    /// The messages as a queue.
    pub fn queue(&self, name: &str, drops: u64) -> Queue {
        let pending = self.0.lock();
        let oldest = pending.keys().next().map(Instant::elapsed);
        Queue { name: name.to_owned(), messages: pending.values().sum(), oldest, drops }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_those_that_wait_has_the_age_of_the_queue() {
        let pending = Pending::default();
        let [first, second] = [pending.add(), pending.add()];
        assert!(pending.queue("q", 3).oldest >= Some(second - first));
        pending.remove(second);
        assert_eq!(pending.queue("q", 3).messages, 1);
        pending.remove(first);
        assert_eq!(pending.queue("q", 3), Queue { name: "q".into(), drops: 3, ..Queue::default() });
    }
}
