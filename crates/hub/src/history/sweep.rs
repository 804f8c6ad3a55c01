//! Going through all topics, a part of them at a time.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Ticks in which every topic is checked once.
const TICKS: usize = 50;

/// Remembers the topic that was checked last. At ten ticks a second every topic is checked within five
/// seconds, and with 100,000 topics a tick checks 2,001 of them instead of all.
#[derive(Default)]
pub(super) struct Sweep {
    last: Option<Arc<str>>,
}

impl Sweep {
    /// The next topics to check, in the order of their names.
    pub fn next<T>(&mut self, topics: &BTreeMap<Arc<str>, T>) -> Vec<Arc<str>> {
        let count = topics.len() / TICKS + 1;
        let from = self.last.take().map_or(Bound::Unbounded, Bound::Excluded);
        let names = topics.range((from, Bound::Unbounded)).map(|(topic, _)| topic.clone());
        let names: Vec<Arc<str>> = names.take(count).collect();
        self.last = names.last().filter(|_| names.len() == count).cloned();
        names
    }
}
