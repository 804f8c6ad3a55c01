//! Which nodes have subscribers on which topics, and which nodes know it.
//!
//! Without I/O: a driver sends its outputs, and passes received frames and ticks to it.
//!
//! Each announcement has a number, and the numbers count up. An acknowledgement is of all numbers
//! up to one, so what a node knows is one number, and so is what is ready: the least of them.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::Arc;

use watchfire_types::NodeId;

use crate::nodes::Nodes;
use crate::{NODES_MAX, Readiness};

/// Times, in ticks of the driver, and bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InterestLimits {
    pub ack_ticks: u32,
    pub linger_ticks: u32,
    pub lingering_topics_max: usize,
}

pub(crate) struct Interest {
    limits: InterestLimits,
    /// Topics with subscribers here, or with subscribers until recently.
    here: HashMap<Arc<str>, Here>,
    /// Topics with a [`Here::is_listed`] and when they came, the longest in it first.
    lingering: VecDeque<(u32, Arc<str>)>,
    /// Topics that other nodes have subscribers on, by the topic's hash under our own random keys.
    ///
    /// 25 bytes a topic and the table's free room, where names would be several times that. Two
    /// topics with one hash would be taken for one, so the end of one would be the end of both:
    /// among a million topics, the odds are 1 to 37 million.
    elsewhere: HashMap<u64, Nodes, BuildHasherDefault<AsItIs>>,
    hasher: RandomState,
    /// Linked, or about to be.
    peers: Vec<Option<Peer>>,
    /// The newest number.
    last_seq: u64,
    /// The number that stands for all announcements to the newest node.
    newest_peer_seq: u64,
    ready_up_to: u64,
    now: u32,
    /// [`Interest::last_seq`] at the end of each of the last ticks.
    ticks: VecDeque<u64>,
}

/// A topic with subscribers here.
#[derive(Debug)]
struct Here {
    subscribers: u32,
    /// The tick in which the last one went.
    idle_since: u32,
    /// The number of its announcement.
    seq: u64,
    /// It is in [`Interest::lingering`]: once at most, however often it comes and goes.
    is_listed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    /// All topics were announced to it, and each new one is.
    is_told: bool,
    /// The last number that it was asked to acknowledge.
    asked: u64,
    acked: u64,
}

/// The result of a subscribe.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Subscribed {
    pub readiness: Readiness,
    /// The number under which the topic is to be announced to [`Interest::told`].
    pub announce: Option<u64>,
}

/// An acknowledgement of what was never asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NeverAsked;

/// The result of a tick.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticked {
    /// The highest ready number, when it changed.
    pub ready_up_to: Option<u64>,
    /// The numbers that some node did not acknowledge in time.
    pub late: u64,
    /// To be withdrawn from [`Interest::told`].
    pub withdrawn: Vec<Arc<str>>,
}

impl Interest {
    pub fn new(limits: InterestLimits, hasher: RandomState) -> Self {
        Interest {
            limits,
            here: HashMap::new(),
            lingering: VecDeque::new(),
            elsewhere: HashMap::default(),
            hasher,
            peers: vec![None; usize::from(NODES_MAX)],
            last_seq: 0,
            newest_peer_seq: 0,
            ready_up_to: 0,
            now: 0,
            ticks: VecDeque::new(),
        }
    }

    /// One more subscriber here.
    pub fn subscribe(&mut self, topic: &str) -> Subscribed {
        let (seq, announce) = match self.here.get_mut(topic) {
            Some(here) => {
                here.subscribers += 1;
                (here.seq, None)
            }
            None => {
                self.last_seq += 1;
                let seq = self.last_seq;
                let here = Here { subscribers: 1, idle_since: 0, seq, is_listed: false };
                self.here.insert(topic.into(), here);
                for peer in self.peers.iter_mut().flatten().filter(|peer| peer.is_told) {
                    peer.asked = seq;
                }
                self.recount();
                (seq, Some(seq))
            }
        };
        // A node that came after the topic must receive the announcement too.
        let needed = seq.max(self.newest_peer_seq);
        let readiness = match needed <= self.ready_up_to {
            true => Readiness::Ready,
            false => Readiness::Waits(needed),
        };
        Subscribed { readiness, announce }
    }

    /// One subscriber less here. Returns a topic to be withdrawn at once, which need not be this.
    pub fn unsubscribe(&mut self, topic: &str) -> Option<Arc<str>> {
        let Some((name, _)) = self.here.get_key_value(topic) else {
            debug_assert!(false, "an unsubscribe follows a subscribe");
            return None;
        };
        let name = name.clone();
        let here = self.here.get_mut(topic).expect("it was there a moment ago");
        debug_assert!(here.subscribers > 0, "each subscribe is followed by one unsubscribe");
        here.subscribers = here.subscribers.saturating_sub(1);
        if here.subscribers > 0 {
            return None;
        }
        here.idle_since = self.now;
        if !std::mem::replace(&mut here.is_listed, true) {
            self.lingering.push_back((self.now, name));
        }
        match self.lingering.len() > self.limits.lingering_topics_max {
            true => self.end_oldest(0),
            false => None,
        }
    }

    /// A link to this node is about to be: what is subscribed from now on waits for it too. One
    /// that there is already is told no more, since the other end will have forgotten it.
    pub fn expect(&mut self, node: NodeId) {
        self.last_seq += 1;
        self.newest_peer_seq = self.last_seq;
        let peer = Peer { is_told: false, asked: self.last_seq, acked: 0 };
        self.peers[usize::from(node.0)] = Some(peer);
    }

    /// The link of this node is gone, and another one is about to be.
    pub fn replace(&mut self, node: NodeId) {
        self.forget(node);
        self.expect(node);
    }

    /// The link of this node is gone. Returns what is ready by that.
    pub fn down(&mut self, node: NodeId) -> Option<u64> {
        self.forget(node);
        self.peers[usize::from(node.0)] = None;
        self.recount()
    }

    /// What an expected node is to be told, and the number that goes with the last topic, since
    /// acknowledging that acknowledges all. Without topics it is acknowledged by that. From now on
    /// the node is one of those told.
    pub fn tell(&mut self, node: NodeId) -> (impl ExactSizeIterator<Item = &str>, u64) {
        let peer = self.peers[usize::from(node.0)].as_mut().expect("the node is expected");
        peer.is_told = true;
        peer.asked = self.last_seq;
        (self.here.keys().map(|topic| &**topic), self.last_seq)
    }

    /// Whether all topics were announced to this node.
    pub fn is_told(&self, node: NodeId) -> bool {
        self.peers[usize::from(node.0)].is_some_and(|peer| peer.is_told)
    }

    /// A node has handled all up to this number. Returns what is ready by that.
    pub fn acked(&mut self, node: NodeId, seq: u64) -> Result<Option<u64>, NeverAsked> {
        let peer = self.peers[usize::from(node.0)].as_mut().filter(|peer| seq <= peer.asked);
        let peer = peer.ok_or(NeverAsked)?;
        peer.acked = peer.acked.max(seq);
        Ok(self.recount())
    }

    /// A node has subscribers on this topic. Says whether that is new.
    pub fn subscribed(&mut self, node: NodeId, topic: &str) -> bool {
        self.elsewhere.entry(self.hasher.hash_one(topic)).or_default().insert(node)
    }

    /// A node has none any more.
    pub fn unsubscribed(&mut self, node: NodeId, topic: &str) {
        let hash = self.hasher.hash_one(topic);
        if let Some(nodes) = self.elsewhere.get_mut(&hash) {
            nodes.remove(node);
            if nodes.is_empty() {
                self.elsewhere.remove(&hash);
            }
        }
    }

    /// The nodes with subscribers on the topic of this hash, by the hasher it was made with.
    pub fn interested(&self, hash: u64) -> Nodes {
        self.elsewhere.get(&hash).copied().unwrap_or_default()
    }

    /// Whether the topic is announced, or about to be.
    pub fn hears(&self, topic: &str) -> bool {
        self.here.contains_key(topic)
    }

    pub fn topics_here(&self) -> usize {
        self.here.len()
    }

    pub fn topics_elsewhere(&self) -> usize {
        self.elsewhere.len()
    }

    /// Whether ticks change anything.
    pub fn needs_ticks(&self) -> bool {
        self.ready_up_to < self.last_seq || !self.lingering.is_empty()
    }

    /// A tick is over.
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
            ticked.withdrawn.extend(self.end_oldest(linger));
        }
        ticked
    }

    /// Takes the first topic off the list; returns it when it is to be withdrawn. One that came
    /// and went meanwhile, less than so many ticks ago, is listed again: so a topic lingers for
    /// twice that at most.
    fn end_oldest(&mut self, linger: u32) -> Option<Arc<str>> {
        let (_, name) = self.lingering.pop_front()?;
        let here = self.here.get_mut(&name).expect("what lingers is there");
        here.is_listed = false;
        if here.subscribers > 0 {
            return None;
        }
        if self.now.wrapping_sub(here.idle_since) < linger {
            here.is_listed = true;
            self.lingering.push_back((self.now, name));
            return None;
        }
        self.here.remove(&name);
        Some(name)
    }

    fn forget(&mut self, node: NodeId) {
        self.elsewhere.retain(|_, nodes| {
            nodes.remove(node);
            !nodes.is_empty()
        });
    }

    /// Returns what is ready now, when that is more than before.
    fn recount(&mut self) -> Option<u64> {
        let known = self.peers.iter().flatten().filter(|peer| peer.acked < peer.asked);
        let ready_up_to = known.map(|peer| peer.acked).min().unwrap_or(self.last_seq);
        let is_more = ready_up_to > self.ready_up_to;
        if is_more {
            self.ready_up_to = ready_up_to;
        }
        is_more.then_some(ready_up_to)
    }
}

/// For keys that are hashes.
#[derive(Default)]
pub(crate) struct AsItIs(u64);

impl Hasher for AsItIs {
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
