//! The presences that this process knows.

use std::borrow::Cow;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use watchfire_hub::{Diff, OwnChange, Presence};
use watchfire_types::NodeId;

use crate::cluster::{ClusterPart, PartLink};
use crate::metrics::Metrics;

/// The number of *stripes*. A stripe is one lock and the presences of the topics behind it.
pub(crate) const STRIPES: usize = 16;
/// Changes in one message to another process. In tests, few changes take several messages.
const CHANGES_PER_MESSAGE: usize = if cfg!(test) { 2 } else { 500 };

/// Presences of every topic, replicated between processes.
///
/// A process knows the presences of its own clients. Of other processes it knows those on the
/// topics that it subscribes to.
pub struct ReplicatedPresence {
    link: PartLink,
    metrics: Arc<Metrics>,
    stripes: Vec<Mutex<Presence>>,
}

/// A message about the sender's presences on a topic.
#[derive(Serialize, Deserialize)]
enum Message<'a> {
    /// They changed.
    Changes { topic: &'a str, changes: Cow<'a, [OwnChange]> },
    /// The receiver's subscription has ended, so all that the receiver knows of them is outdated.
    /// If it has subscribed again, its new state follows.
    Ended { topic: &'a str },
}

impl ReplicatedPresence {
    pub(crate) fn new(seed: u64, link: PartLink, metrics: Arc<Metrics>) -> Self {
        let cluster = link.cluster();
        let stripe = |number| {
            Mutex::new(match cluster.is_alone() {
                true => Presence::new(seed ^ number),
                false => Presence::of_node(seed ^ number, cluster.me()),
            })
        };
        let stripes = (0..STRIPES as u64).map(stripe).collect();
        ReplicatedPresence { link, metrics, stripes }
    }

    /// Locks the stripe of a topic.
    pub fn on(&self, topic: &str) -> MutexGuard<'_, Presence> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(topic);
        self.stripes[(hash % STRIPES as u64) as usize].lock()
    }

    /// How many presences the clients of this process have.
    pub(crate) fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.lock().own_len()).sum()
    }

    /// The memory of all presences.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.lock().memory_bytes()).sum()
    }

    /// How many topics of a stripe have changes that were not sent.
    pub(crate) fn changed(&self, stripe: usize) -> usize {
        self.stripes[stripe].lock().changed()
    }

    /// Takes the changes of one topic of a stripe: the topic that waits longest.
    pub(crate) fn take_diff(&self, stripe: usize) -> Option<Diff> {
        self.stripes[stripe].lock().poll_diff()
    }

    /// Sends changes of this process's presences to the other processes.
    pub(crate) fn publish(&self, topic: &str, own: &[OwnChange]) {
        for changes in own.chunks(CHANGES_PER_MESSAGE) {
            self.link.publish_state(topic, || Message::Changes { topic, changes: changes.into() });
        }
    }
}

#[doc(hidden)]
impl ClusterPart for ReplicatedPresence {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, from: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        let (topic, changes) = match postcard::from_bytes(message)? {
            Message::Changes { topic, changes } => (topic, changes),
            Message::Ended { topic } => {
                self.on(topic).forget_topic_of(from, topic);
                return Ok(());
            }
        };
        // The subscription may have ended while the message was on its way.
        if !self.link.cluster().is_subscribed(topic) {
            return Ok(());
        }
        let mut presence = self.on(topic);
        let rejected = |change: &&OwnChange| presence.import(from, topic, change).is_err();
        if changes.iter().filter(rejected).count() > 0 {
            self.metrics.refused("presence_of_another_process");
        }
        Ok(())
    }

    fn introduce_to(&self, node: NodeId, topic: &str) {
        // Keep the lock, so that no other thread sends a later change before this state.
        let mut presence = self.on(topic);
        for changes in presence.export(topic).chunks(CHANGES_PER_MESSAGE) {
            self.link.send_state(node, &Message::Changes { topic, changes: changes.into() });
        }
    }

    fn unsubscribed(&self, node: NodeId, topic: &str) {
        self.link.send_state(node, &Message::Ended { topic });
    }

    fn forget(&self, topic: &str) {
        self.on(topic).forget_remote(topic);
    }

    fn node_down(&self, node: NodeId) {
        for stripe in &self.stripes {
            stripe.lock().forget_node(node);
        }
    }
}

#[cfg(test)]
mod simulation;

#[cfg(test)]
pub(crate) fn message_samples() -> Vec<crate::cluster::Samples> {
    use crate::cluster::samples;
    use watchfire_hub::Exported;
    let reference = postcard::from_bytes(&[7]).expect("a reference is a number");
    let joined =
        Exported { key: "k".into(), meta: "{}".into(), reference, previous: Some(reference) };
    let changes = [OwnChange::Joined(joined), OwnChange::Left { key: "k".into(), reference }];
    vec![
        samples!(enum Message<'_>:
            Message::Changes { topic: "t", changes: changes.as_slice().into() },
            Message::Ended { topic: "t" },
        ),
        samples!(enum OwnChange: changes[0].clone(), changes[1].clone()),
    ]
}
