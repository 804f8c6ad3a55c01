//! The topics with subscribers on each node, and what other nodes know of this node's.
//!
//! Without I/O: a driver sends its outputs, and passes received frames and ticks to it.
//!
//! # The fault without acknowledgements
//!
//! A client joins a topic on node 1, as its first subscriber there. Node 1 announces the topic, and
//! answers the join immediately. Node 2 publishes a message of the topic before the announcement
//! arrives, and so does not send it to node 1. The client has joined, and misses a message. It also
//! sees no presences of node 2 yet, although they were there before it.
//!
//! So a join waits for the other nodes. Node 1 announces the topic with the number 7. Node 2 first sends
//! its state of the topic ([`Handler::interested`](super::Handler::interested)), then the
//! acknowledgement of 7. Both go over the same link, which keeps their order, so with the
//! acknowledgement everything earlier is there. When every node has acknowledged 7, the join is
//! answered.
//!
//! # One number for each node
//!
//! 100,000 topics on 50 nodes would be five million pairs of "this node knows this topic". Instead,
//! announcements have increasing numbers, and an acknowledgement covers all numbers up to its own. So
//! the knowledge of a node is one number, and the least of the 50 is the one that is ready. One
//! acknowledgement answers all announcements of one read, and a new link announces everything with the
//! number of its last topic.
//!
//! # A topic that comes and goes
//!
//! A user who reloads a page leaves the only topic of that user and joins it again. Each time, every
//! node would be told, and the join would wait for all of them. So a topic stays announced after its last
//! subscriber has left, and a join within that time does not wait.
//!
//! # Bounds
//!
//! - A join waits at most [`BusLimits::ack_timeout`](super::BusLimits::ack_timeout), a second by
//!   default. Then it goes on, and `late` counts it: a node that hangs must not stop all joins.
//! - A topic without subscribers stays announced for 5 to 10 seconds by default, and at most 100,000
//!   such topics do. At the limit, the oldest is withdrawn.
//! - A topic of other nodes takes 25 bytes and a share of the free space of the table, for any number of
//!   nodes.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::Arc;

use watchfire_types::NodeId;

use crate::bus::nodes::Nodes;
use crate::bus::{NODES_MAX, Readiness};

/// Times in ticks of the driver, and bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InterestLimits {
    pub ack_ticks: u32,
    pub linger_ticks: u32,
    pub lingering_topics_max: usize,
}

pub(crate) struct Interest {
    limits: InterestLimits,
    /// Local topics: those with subscribers, or with subscribers until recently.
    local: HashMap<Arc<str>, LocalTopic>,
    /// Topics with [`LocalTopic::is_listed`] and the tick of their entry, oldest first.
    lingering: VecDeque<(u32, Arc<str>)>,
    /// The nodes with subscribers on each topic, by the topic's hash under random keys.
    ///
    /// A topic takes 25 bytes and a share of the table's free space; names would take several times
    /// that. Two topics with the same hash are treated as one, so withdrawing one withdraws both.
    /// Among a million topics, the probability of such a pair is 1 to 37 million.
    remote: HashMap<u64, Nodes, BuildHasherDefault<IdentityHasher>>,
    hasher: RandomState,
    /// Nodes with a link, or with one that is about to be used.
    peers: Vec<Option<Peer>>,
    /// The newest number.
    last_seq: u64,
    /// The newest number when the newest node was added: acknowledging it covers all topics.
    newest_peer_seq: u64,
    ready_up_to: u64,
    now: u32,
    /// [`Interest::last_seq`] at the end of each of the last ticks.
    ticks: VecDeque<u64>,
}

#[derive(Debug)]
struct LocalTopic {
    subscribers: u32,
    /// The tick in which the last subscriber left.
    idle_since: u32,
    /// The number of its announcement.
    seq: u64,
    /// Whether it is in [`Interest::lingering`], which has each topic at most once.
    is_listed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    /// Whether all topics have been announced to it. If so, new ones are too.
    is_synced: bool,
    /// The last number that it should acknowledge.
    requested: u64,
    acked: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Subscribed {
    pub readiness: Readiness,
    /// The number for the announcement to all synced nodes; `None` if it was announced before.
    pub announce: Option<u64>,
}

/// An acknowledgement of a number that was not sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnexpectedAck;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticked {
    /// The highest ready number, when it changed.
    pub ready_up_to: Option<u64>,
    /// How many numbers were not acknowledged in time.
    pub late: u64,
    /// Topics to withdraw from all synced nodes.
    pub withdrawn: Vec<Arc<str>>,
}

impl Interest {
    pub fn new(limits: InterestLimits, hasher: RandomState) -> Self {
        Interest {
            limits,
            local: HashMap::new(),
            lingering: VecDeque::new(),
            remote: HashMap::default(),
            hasher,
            peers: vec![None; usize::from(NODES_MAX)],
            last_seq: 0,
            newest_peer_seq: 0,
            ready_up_to: 0,
            now: 0,
            ticks: VecDeque::new(),
        }
    }

    /// Adds a local subscriber.
    pub fn subscribe(&mut self, topic: &str) -> Subscribed {
        let (seq, announce) = match self.local.get_mut(topic) {
            Some(local) => {
                local.subscribers += 1;
                (local.seq, None)
            }
            None => {
                self.last_seq += 1;
                let seq = self.last_seq;
                let local = LocalTopic { subscribers: 1, idle_since: 0, seq, is_listed: false };
                self.local.insert(topic.into(), local);
                for peer in self.peers.iter_mut().flatten().filter(|peer| peer.is_synced) {
                    peer.requested = seq;
                }
                self.update_ready();
                (seq, Some(seq))
            }
        };
        // A node that was added after the topic must know it too.
        let needed = seq.max(self.newest_peer_seq);
        let readiness = match needed <= self.ready_up_to {
            true => Readiness::Ready,
            false => Readiness::Waits(needed),
        };
        Subscribed { readiness, announce }
    }

    /// Removes a local subscriber. Returns a topic to withdraw now, which may be another one.
    pub fn unsubscribe(&mut self, topic: &str) -> Option<Arc<str>> {
        let Some((name, _)) = self.local.get_key_value(topic) else {
            debug_assert!(false, "an unsubscribe follows a subscribe");
            return None;
        };
        let name = name.clone();
        let local = self.local.get_mut(topic).expect("the key was just found");
        debug_assert!(local.subscribers > 0, "each subscribe is followed by one unsubscribe");
        local.subscribers = local.subscribers.saturating_sub(1);
        if local.subscribers > 0 {
            return None;
        }
        local.idle_since = self.now;
        if !std::mem::replace(&mut local.is_listed, true) {
            self.lingering.push_back((self.now, name));
        }
        match self.lingering.len() > self.limits.lingering_topics_max {
            true => self.expire_oldest(0),
            false => None,
        }
    }

    /// A link to this node is about to be used; new subscriptions wait for the node too. It gets no
    /// announcements until [`Interest::announce_all`], even if it had a link before.
    pub fn expect(&mut self, node: NodeId) {
        self.last_seq += 1;
        self.newest_peer_seq = self.last_seq;
        let peer = Peer { is_synced: false, requested: self.last_seq, acked: 0 };
        self.peers[usize::from(node.0)] = Some(peer);
    }

    /// The link of this node ended, and another one is about to be used.
    pub fn replace(&mut self, node: NodeId) {
        self.forget(node);
        self.expect(node);
    }

    /// The link of this node ended. Returns the ready number if that changed it.
    pub fn down(&mut self, node: NodeId) -> Option<u64> {
        self.forget(node);
        self.peers[usize::from(node.0)] = None;
        self.update_ready()
    }

    /// Whether this node has a link, or one that is about to be used.
    pub fn is_peer(&self, node: NodeId) -> bool {
        self.peers.get(usize::from(node.0)).is_some_and(Option::is_some)
    }

    /// The topics to announce to an expected node, and the number for the last one, whose
    /// acknowledgement covers all. Without topics, the caller passes that number to
    /// [`Interest::acked`]. From now on the node is synced.
    pub fn announce_all(&mut self, node: NodeId) -> (impl ExactSizeIterator<Item = &str>, u64) {
        let peer = self.peers[usize::from(node.0)].as_mut().expect("the node is expected");
        peer.is_synced = true;
        peer.requested = self.last_seq;
        (self.local.keys().map(|topic| &**topic), self.last_seq)
    }

    /// Whether all topics were announced to this node.
    pub fn is_synced(&self, node: NodeId) -> bool {
        self.peers[usize::from(node.0)].is_some_and(|peer| peer.is_synced)
    }

    /// A node has acknowledged all up to this number. Returns the ready number if that changed it.
    pub fn acked(&mut self, node: NodeId, seq: u64) -> Result<Option<u64>, UnexpectedAck> {
        let peer = self.peers[usize::from(node.0)].as_mut().filter(|peer| seq <= peer.requested);
        let peer = peer.ok_or(UnexpectedAck)?;
        peer.acked = peer.acked.max(seq);
        Ok(self.update_ready())
    }

    /// A node has subscribers on this topic. Returns whether that is new.
    pub fn subscribed(&mut self, node: NodeId, topic: &str) -> bool {
        self.remote.entry(self.hasher.hash_one(topic)).or_default().insert(node)
    }

    /// A node has no subscribers on this topic any more.
    pub fn unsubscribed(&mut self, node: NodeId, topic: &str) {
        let hash = self.hasher.hash_one(topic);
        if let Some(nodes) = self.remote.get_mut(&hash) {
            nodes.remove(node);
            if nodes.is_empty() {
                self.remote.remove(&hash);
            }
        }
    }

    pub fn interested(&self, hash: u64) -> Nodes {
        self.remote.get(&hash).copied().unwrap_or_default()
    }

    /// Whether the topic is announced, or about to be.
    pub fn is_announced(&self, topic: &str) -> bool {
        self.local.contains_key(topic)
    }

    pub fn topics_local(&self) -> usize {
        self.local.len()
    }

    pub fn topics_remote(&self) -> usize {
        self.remote.len()
    }

    /// Whether [`Interest::tick`] has an effect.
    pub fn needs_ticks(&self) -> bool {
        self.ready_up_to < self.last_seq || !self.lingering.is_empty()
    }

    /// Advances the time by one tick.
    pub fn tick(&mut self) -> Ticked {
        self.now = self.now.wrapping_add(1);
        let mut ticked = Ticked::default();
        self.ticks.push_back(self.last_seq);
        if self.ticks.len() >= self.limits.ack_ticks.max(1) as usize
            && let Some(overdue) = self.ticks.pop_front()
            && overdue > self.ready_up_to
        {
            ticked.late = overdue - self.ready_up_to;
            self.ready_up_to = overdue;
            ticked.ready_up_to = Some(overdue);
        }
        let linger = self.limits.linger_ticks.max(1);
        while let Some((since, _)) = self.lingering.front()
            && self.now.wrapping_sub(*since) >= linger
        {
            ticked.withdrawn.extend(self.expire_oldest(linger));
        }
        ticked
    }

    /// Removes the first topic from the list, and returns it if it is to be withdrawn. A topic that
    /// had subscribers within the last `linger` ticks is listed again. So a topic lingers for at
    /// most twice that time.
    fn expire_oldest(&mut self, linger: u32) -> Option<Arc<str>> {
        let (_, name) = self.lingering.pop_front()?;
        let local = self.local.get_mut(&name).expect("a lingering topic is local");
        local.is_listed = false;
        if local.subscribers > 0 {
            return None;
        }
        if self.now.wrapping_sub(local.idle_since) < linger {
            local.is_listed = true;
            self.lingering.push_back((self.now, name));
            return None;
        }
        self.local.remove(&name);
        Some(name)
    }

    fn forget(&mut self, node: NodeId) {
        self.remote.retain(|_, nodes| {
            nodes.remove(node);
            !nodes.is_empty()
        });
    }

    /// Updates the ready number; returns it if it increased.
    fn update_ready(&mut self) -> Option<u64> {
        let known = self.peers.iter().flatten().filter(|peer| peer.acked < peer.requested);
        let ready_up_to = known.map(|peer| peer.acked).min().unwrap_or(self.last_seq);
        let is_more = ready_up_to > self.ready_up_to;
        if is_more {
            self.ready_up_to = ready_up_to;
        }
        is_more.then_some(ready_up_to)
    }
}

/// The hash of a key that is a hash itself.
#[derive(Default)]
pub(crate) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are whole hashes");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests;
