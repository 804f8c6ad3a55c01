//! The topics that have a history: by the rules of this process, and by the rules of other machines.
//!
//! Machines may have other rules, for instance while a setting is changed on one after the other. All
//! must agree about the stream of a topic. So a process tells the others its patterns, and a topic has a
//! history in each process as soon as it has one in any of them.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use watchfire_channels::Patterns;
use watchfire_hub::history::Bounds;
use watchfire_types::NodeId;

/// The patterns of a process in their order, each with the bounds of its history.
pub(super) type PatternList = Vec<(String, Option<Bounds>)>;

/// The patterns of this process and of others.
#[derive(Default)]
pub(super) struct HistoryTopics {
    own: OnceLock<Patterns<Option<Bounds>>>,
    /// The patterns of other processes that differ. They stay when the process is gone, until another one has
    /// its number: topics keep their history while a machine restarts.
    others: RwLock<BTreeMap<NodeId, Patterns<Option<Bounds>>>>,
    /// Whether there are others, so that most servers pay one read.
    has_others: AtomicBool,
}

impl HistoryTopics {
    /// Sets the patterns of this process. Later calls change nothing.
    pub fn set_own(&self, patterns: Patterns<Option<Bounds>>) {
        self.own.set(patterns).ok();
    }

    /// The bounds of a topic's history: the largest that it has in any process, because all must agree where
    /// its messages are. `None`: it has none in any process.
    pub fn bounds(&self, topic: &str) -> Option<Bounds> {
        let own = self.own_bounds(topic);
        if !self.has_others.load(Ordering::Relaxed) {
            return own;
        }
        let others = self.others.read();
        let of_others =
            others.values().filter_map(|patterns| patterns.find(topic).copied().flatten());
        of_others.chain(own).max_by_key(|bounds| (bounds.messages, bounds.age, bounds.bytes))
    }

    /// All bounds by this process's own rules.
    #[cfg(feature = "cluster")]
    pub fn all_own_bounds(&self) -> Vec<Bounds> {
        let patterns = self.own.get().into_iter().flat_map(Patterns::iter);
        patterns.filter_map(|(_, bounds)| *bounds).collect()
    }

    /// The bounds by this process's own rules.
    pub fn own_bounds(&self, topic: &str) -> Option<Bounds> {
        self.own.get()?.find(topic).copied().flatten()
    }

    /// The patterns that this process tells the others. Without a history it is empty.
    pub fn own_list(&self) -> PatternList {
        let entries = self.own.get().into_iter().flat_map(Patterns::iter);
        let mut list: PatternList =
            entries.map(|(pattern, bounds)| (pattern.as_str().to_owned(), *bounds)).collect();
        // Patterns after the last one with a history decide nothing.
        let used = list.iter().rposition(|(_, bounds)| bounds.is_some()).map_or(0, |last| last + 1);
        list.truncate(used);
        list
    }

    /// Notes the patterns of another process.
    pub fn note(&self, node: NodeId, list: PatternList) {
        let mut others = self.others.write();
        if list.is_empty() || list == self.own_list() {
            others.remove(&node);
        } else {
            let mut patterns = Patterns::new();
            for (pattern, bounds) in list {
                // Another process has parsed it already.
                patterns.register(&pattern, bounds).ok();
            }
            others.insert(node, patterns);
        }
        self.has_others.store(!others.is_empty(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { messages: 9, age: std::time::Duration::MAX, bytes: 99 };

    fn topics(list: &[(&str, bool)]) -> HistoryTopics {
        let mut patterns = Patterns::new();
        for (pattern, has_history) in list {
            patterns.register(pattern, has_history.then_some(BOUNDS)).unwrap();
        }
        let topics = HistoryTopics::default();
        topics.set_own(patterns);
        topics
    }

    #[test]
    fn a_topic_has_a_history_as_soon_as_it_has_one_in_any_process() {
        let one = topics(&[("a:quiet", false), ("a:*", true), ("b:*", false)]);
        let other = topics(&[("b:*", false)]);
        assert_eq!(other.bounds("a:1"), None);
        other.note(NodeId(1), one.own_list());
        assert_eq!(other.bounds("a:1"), Some(BOUNDS));
        assert_eq!(other.own_bounds("a:1"), None);
        for topic in ["a:quiet", "b:1", "c"] {
            assert_eq!(
                other.bounds(topic),
                None,
                "{topic}: the first pattern that matches decides"
            );
        }
        other.note(NodeId(1), topics(&[("b:*", false)]).own_list());
        assert_eq!(other.bounds("a:1"), None);
    }

    #[test]
    fn the_largest_bounds_of_all_processes_count() {
        let one = topics(&[("a:*", true)]);
        let larger = Bounds { messages: BOUNDS.messages + 1, ..BOUNDS };
        one.note(NodeId(1), vec![("a:*".into(), Some(larger))]);
        assert_eq!(one.bounds("a:1"), Some(larger));
        one.note(NodeId(1), vec![("a:*".into(), Some(Bounds { messages: 1, ..larger }))]);
        assert_eq!(one.bounds("a:1"), Some(BOUNDS));
    }

    #[test]
    fn equal_rules_cost_nothing() {
        let one = topics(&[("a:*", true), ("b:*", false)]);
        assert_eq!(one.own_list().len(), 1);
        one.note(NodeId(1), one.own_list());
        assert!(!one.has_others.load(Ordering::Relaxed));
    }
}
