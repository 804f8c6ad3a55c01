//! The `presence_diff` of a topic: what changed since its last diff.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::entry::{KnownTo, Version, write_by_key};
use super::{Changes, OwnChange, Presence, Reference};
use crate::tables::should_shrink;

/// The changes of a topic since its last diff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diff {
    pub topic: String,
    /// The payload of a `presence_diff` for this node's clients; `None` when it would be empty.
    pub payload: Option<String>,
    /// The changes of this node's own presences, in order, for other nodes that are interested in
    /// the topic. Always empty on a server of one node.
    pub own: Vec<OwnChange>,
}

impl Presence {
    /// The changes of one topic since its last diff; `None` when no topic has changes.
    pub fn poll_diff(&mut self) -> Option<Diff> {
        while let Some(topic) = self.changed.pop_front() {
            self.note_known_to(topic, KnownTo::Clients);
            let changes = self.topics[topic].changes.take();
            let Changes { joins, first_left } = *changes.expect("a changed topic has changes");
            let leaves = self.take_left(first_left);
            let own = match self.is_replicated {
                true => self.own_changes(&joins, &leaves),
                false => Vec::new(),
            };
            let payload = self.encode_diff(&joins, leaves);
            let topic = if self.topics[topic].entries == 0 {
                self.forget_topic(topic)
            } else {
                self.topics[topic].name.to_string()
            };
            if payload.is_some() || !own.is_empty() {
                return Some(Diff { topic, payload, own });
            }
        }
        if should_shrink(0, self.changed.capacity()) {
            self.changed = VecDeque::new();
        }
        None
    }

    /// The version that joined; `None` when it was removed or replaced since.
    pub(super) fn joined(&self, (slot, reference): (u32, Reference)) -> Option<&Version> {
        let entry = self.entries.get(slot)?;
        let version = &entry.version;
        (!entry.has_left() && version.reference() == reference).then_some(version)
    }

    /// One diff; `None` when it is empty for clients.
    fn encode_diff(&self, joins: &[(u32, Reference)], mut leaves: Vec<Version>) -> Option<String> {
        let mut joins: Vec<&Version> = joins.iter().filter_map(|&join| self.joined(join)).collect();
        sort(&mut joins);
        // A node may send the same reference again after its link was cut. Clients apply leaves
        // after joins, so a leave of that reference would hide it.
        let is_back =
            |left: &Version| joins.binary_search_by(|joined| compare(joined, left)).is_ok();
        leaves.retain(|left| left.known_to == KnownTo::Clients && !is_back(left));
        let mut leaves: Vec<&Version> = leaves.iter().collect();
        sort(&mut leaves);
        if joins.is_empty() && leaves.is_empty() {
            return None;
        }
        let mut diff = String::from("{\"joins\":");
        write_by_key(joins.into_iter(), &mut diff);
        diff.push_str(",\"leaves\":");
        write_by_key(leaves.into_iter(), &mut diff);
        diff.push('}');
        Some(diff)
    }
}

/// Sorts by key and reference, and removes duplicates.
fn sort(versions: &mut Vec<&Version>) {
    versions.sort_by(|a, b| compare(a, b));
    versions.dedup_by(|a, b| compare(a, b).is_eq());
}

fn compare(a: &Version, b: &Version) -> Ordering {
    a.key().cmp(b.key()).then(a.reference().cmp(&b.reference()))
}
