//! A set that remembers a bounded number of values.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

/// At the limit, the value that was added first is forgotten.
#[derive(Debug)]
pub(crate) struct RecentSet<T> {
    values: HashSet<T>,
    order: VecDeque<T>,
    max: usize,
}

impl<T: Copy + Eq + Hash> RecentSet<T> {
    pub(crate) fn new(max: usize) -> Self {
        RecentSet { values: HashSet::new(), order: VecDeque::new(), max }
    }

    pub(crate) fn insert(&mut self, value: T) {
        if !self.values.insert(value) {
            return;
        }
        self.order.push_back(value);
        if self.order.len() > self.max
            && let Some(oldest) = self.order.pop_front()
        {
            self.values.remove(&oldest);
        }
    }

    pub(crate) fn contains(&self, value: T) -> bool {
        self.values.contains(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_value_is_forgotten_at_the_limit() {
        let mut set = RecentSet::new(2);
        for value in [1, 2, 1, 3] {
            set.insert(value);
        }
        assert_eq!([1, 2, 3].map(|value| set.contains(value)), [false, true, true]);
    }
}
