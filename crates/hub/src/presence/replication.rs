//! Replication of presences between the nodes of one server, by interest.
//!
//! Each presence belongs to the node of its client, and only that node changes it. Another node has
//! a copy while it has subscribers of the topic.
//!
//! # The cost without interest
//!
//! If every node had every presence, a server with 50 nodes and a million users, each on a topic of
//! their own, would send 49 million messages for their joins, and keep 50 copies of each. With interest
//! it sends none of them: nobody else subscribes to these topics. A room whose members are on three
//! nodes has three copies.
//!
//! # How a copy begins and ends
//!
//! Node 1 gets its first subscriber of a topic. It asks the others, and each sends its own presences of
//! the topic, then its later changes, over one link. The driver keeps the topic locked while it sends
//! the state, so that no change overtakes the state that it belongs after.
//!
//! The last subscriber of node 1 leaves, and another one comes immediately. Node 2 sees the end of the
//! interest, and then its beginning. In between, Alice has left on node 2: no node was interested, so
//! nobody was told. But her join was still on its way to node 1. It arrives when node 1 is interested
//! again, and the new state does not contain her, so she would be shown for ever. So a node that sees
//! the end of an interest sends one more message: all that you have of mine is outdated. It follows
//! Alice's join and precedes the new state.
//!
//! # Versions
//!
//! Each version of a presence has a [`Reference`], unique among all nodes. A leave names the version
//! that left. Alice updates her status: version 7 becomes 8, and that is one message, "8 replaces 7". A
//! leave of version 7 that arrives late does not remove version 8. A join that arrives twice, because a
//! state and a change both contain it, is known and changes nothing.
//!
//! # Bounds
//!
//! - A node may send only its own presences, by their references. Others are refused.
//! - A copy is subject to the same limits of key and meta as the presence of a client.
//! - When a link ends, all copies of that node are removed, and clients get their leaves in one diff for
//!   each topic. A new link begins with the state again.
//! - The messages of a topic have at most 500 changes each. One that does not fit into the queue of a
//!   link ends the link: see the bus of `watchfire-cluster`.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use watchfire_types::NodeId;

use super::entry::{Entry, KnownTo, Version};
use super::reference::Reference;
use super::{Presence, PresenceTopic, TrackError};
use crate::tables::NONE;

/// A presence as its node sends it to others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exported {
    pub key: String,
    /// The text of a JSON object, without `phx_ref` and `phx_ref_prev`.
    pub meta: String,
    /// The id of this version of the meta.
    pub reference: Reference,
    /// The version that this one replaces; no separate leave is needed for it.
    pub previous: Option<Reference>,
}

impl From<&Version> for Exported {
    fn from(version: &Version) -> Self {
        Exported {
            key: version.plain_key(),
            meta: version.plain_meta(),
            reference: version.reference(),
            previous: version.previous(),
        }
    }
}

/// A change of one of a node's own presences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnChange {
    /// It joined, or has a new meta.
    Joined(Exported),
    Left {
        key: String,
        /// The version that it had.
        reference: Reference,
    },
}

/// The reason why another node's change is not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// A node may send only its own presences.
    #[error("{from} sent a presence that belongs to {of}")]
    WrongNode {
        from: NodeId,
        /// The owner, by the reference.
        of: NodeId,
    },
    #[error(transparent)]
    Refused(#[from] TrackError),
}

/// # Replication
///
/// When another node becomes interested in a topic, this node sends it what
/// [`export`](Presence::export) returns. After that it sends the [`own`](super::Diff::own) changes
/// of each diff, in order. The other node passes each of them to [`import`](Presence::import). The
/// same change may arrive twice.
///
/// The driver drops changes of a topic without local subscribers. It calls
/// [`forget_remote`](Presence::forget_remote) when the last subscriber has left.
impl Presence {
    /// This node's own presences on a topic.
    ///
    /// The next diff may repeat some of them. `&mut self` is needed to record that other nodes know
    /// them, so that their leaves are sent.
    pub fn export(&mut self, topic: &str) -> Vec<OwnChange> {
        let Some(topic) = self.find_topic(topic) else { return Vec::new() };
        self.note_known_to(topic, KnownTo::Nodes);
        let versions = self.of_topic(topic).map(|slot| &self.entries[slot].version);
        let own = versions.filter(|version| self.is_own(version.reference()));
        own.map(|version| OwnChange::Joined(version.into())).collect()
    }

    /// Removes another node's presences on a topic, because they are outdated. Diffs contain their
    /// leaves.
    pub fn forget_topic_of(&mut self, node: NodeId, topic: &str) {
        let Some(topic) = self.find_topic(topic).filter(|_| node != self.node()) else { return };
        let is_gone = |&slot: &u32| self.reference(slot).node() == node;
        let gone: Vec<u32> = self.of_topic(topic).filter(is_gone).collect();
        gone.into_iter().for_each(|slot| self.remove(slot));
    }

    /// Applies a change that another node sent.
    ///
    /// A join that is known, or a leave that is not, changes nothing. If an update is refused, the
    /// older meta is removed too.
    pub fn import(
        &mut self,
        from: NodeId,
        topic: &str,
        change: &OwnChange,
    ) -> Result<(), ImportError> {
        match change {
            OwnChange::Joined(joined) => self.import_joined(from, topic, joined),
            OwnChange::Left { key, reference } => self.retract(from, topic, key, *reference),
        }
    }

    /// Removes all presences of another node that has stopped. Diffs contain their leaves.
    pub fn forget_node(&mut self, node: NodeId) {
        if node == self.node() {
            return;
        }
        let present = (0..).zip(self.entries.iter()).filter(|(_, entry)| !entry.has_left());
        let is_gone = |entry: &Entry| entry.version.reference().node() == node;
        let gone = present.filter(|(_, entry)| is_gone(entry)).map(|(slot, _)| slot);
        let gone: Vec<u32> = gone.collect();
        gone.into_iter().for_each(|slot| self.remove(slot));
    }

    /// Removes other nodes' presences on a topic without subscribers. No diff contains their
    /// leaves.
    ///
    /// A client that subscribes later must not receive a diff that was polled before this call: no
    /// later diff would remove its joins.
    pub fn forget_remote(&mut self, topic: &str) {
        let Some(topic) = self.find_topic(topic) else { return };
        let is_foreign = |&slot: &u32| !self.is_own(self.reference(slot));
        let foreign: Vec<u32> = self.of_topic(topic).filter(is_foreign).collect();
        for slot in foreign {
            self.unlink(slot);
            self.remove_entry(slot);
        }
        let PresenceTopic { entries, changes, .. } = &mut self.topics[topic];
        match changes {
            Some(changes) => {
                let left = std::mem::replace(&mut changes.first_left, NONE);
                self.forget_foreign_left(left);
            }
            None if *entries == 0 => drop(self.forget_topic(topic)),
            None => {}
        }
    }

    /// Of a topic's entries that have left, keeps this node's own.
    fn forget_foreign_left(&mut self, first: u32) {
        for version in self.take_left(first) {
            if self.is_own(version.reference()) {
                let slot = self.add_entry(Entry { version, ..Entry::default() });
                self.note_left(slot);
            }
        }
    }

    /// The changes of this node's own entries, for nodes that have all earlier ones. An update is
    /// one join, without a leave of the older version.
    pub(super) fn own_changes(
        &self,
        joins: &[(u32, Reference)],
        leaves: &[Version],
    ) -> Vec<OwnChange> {
        let is_own = |version: &&Version| self.is_own(version.reference());
        let joins = joins.iter().filter_map(|&join| self.joined(join)).filter(is_own);
        let mut own: Vec<OwnChange> =
            joins.map(|version| OwnChange::Joined(version.into())).collect();
        let mut replaced: Vec<Reference> = own
            .iter()
            .filter_map(|change| match change {
                OwnChange::Joined(joined) => joined.previous,
                OwnChange::Left { .. } => None,
            })
            .collect();
        replaced.sort_unstable();
        let is_replaced = |version: &&Version| replaced.binary_search(&version.reference()).is_ok();
        let leaves = leaves.iter().filter(is_own).filter(|left| !is_replaced(left));
        own.extend(leaves.map(|version| OwnChange::Left {
            key: version.plain_key(),
            reference: version.reference(),
        }));
        own
    }

    fn import_joined(
        &mut self,
        from: NodeId,
        topic: &str,
        joined: &Exported,
    ) -> Result<(), ImportError> {
        let &Exported { ref key, ref meta, reference, previous } = joined;
        self.check_sender(from, reference)?;
        let (key, meta) = match self.checked(key, meta) {
            Ok(checked) => checked,
            Err(error) => {
                if let Some(previous) = previous {
                    self.retract(from, topic, key, previous)?;
                }
                return Err(error.into());
            }
        };
        let topic = self.find_topic(topic).unwrap_or_else(|| self.open_topic(topic));
        let older = previous
            .filter(|previous| previous.node() == from && *previous != reference)
            .and_then(|previous| self.find_foreign(topic, &key, previous));
        let is_known = self.find_foreign(topic, &key, reference).is_some();
        match older {
            None if is_known => {}
            None => drop(self.insert(Version::new(topic, &key, &meta, reference), NONE)),
            Some(older) if is_known => self.remove(older),
            Some(older) => self.replace(older, Version::new(topic, &key, &meta, reference)),
        }
        Ok(())
    }

    fn retract(
        &mut self,
        from: NodeId,
        topic: &str,
        key: &str,
        reference: Reference,
    ) -> Result<(), ImportError> {
        self.check_sender(from, reference)?;
        let known = self.checked_key(key).ok().zip(self.find_topic(topic));
        if let Some(slot) = known.and_then(|(key, topic)| self.find_foreign(topic, &key, reference))
        {
            self.remove(slot);
        }
        Ok(())
    }

    fn check_sender(&self, from: NodeId, reference: Reference) -> Result<(), ImportError> {
        let of = reference.node();
        if of == from && of != self.node() {
            return Ok(());
        }
        Err(ImportError::WrongNode { from, of })
    }
}

#[cfg(test)]
mod tests {
    use super::super::PresenceOwner;
    use super::*;

    const TOPICS: [&str; 2] = ["rooms:lobby", "rooms:kitchen"];

    /// Another node has two presences of one key on each topic; clients here know one topic's.
    fn presence_with_others() -> Presence {
        let mut there = Presence::of_node(8, NodeId(1));
        let mut here = Presence::of_node(7, NodeId(0));
        let mut owners = [PresenceOwner::default(), PresenceOwner::default()];
        for topic in TOPICS {
            for owner in &mut owners {
                there.track(owner, topic, "guest", "{}").unwrap();
            }
            for joined in there.export(topic) {
                here.import(NodeId(1), topic, &joined).unwrap();
            }
            while topic == TOPICS[0] && here.poll_diff().is_some() {}
        }
        here
    }

    fn assert_nothing_is_left(presence: &Presence) {
        assert_eq!((presence.len(), presence.topics.len(), presence.names.len()), (0, 0, 0));
        assert_eq!((presence.keys.len(), presence.by_reference.len()), (0, 0));
        assert_eq!((presence.changed.len(), presence.leaves_waiting), (0, 0));
    }

    #[test]
    fn nothing_is_left_of_topics_without_subscribers() {
        let mut presence = presence_with_others();
        TOPICS.iter().for_each(|topic| presence.forget_remote(topic));
        assert_eq!(presence.poll_diff(), None);
        assert_nothing_is_left(&presence);
    }

    #[test]
    fn leaves_that_were_not_sent_are_forgotten_with_their_topic() {
        let mut presence = presence_with_others();
        presence.forget_topic_of(NodeId(1), TOPICS[0]);
        assert_eq!(presence.leaves_waiting, 2);
        TOPICS.iter().for_each(|topic| presence.forget_remote(topic));
        assert_eq!(presence.poll_diff(), None);
        assert_nothing_is_left(&presence);
    }

    #[test]
    fn nothing_is_left_of_a_node_once_its_leaves_are_sent() {
        let mut presence = presence_with_others();
        presence.forget_node(NodeId(1));
        assert_eq!(presence.poll_diff().unwrap().topic, TOPICS[0]);
        assert_eq!(presence.poll_diff(), None);
        assert_nothing_is_left(&presence);
    }
}
