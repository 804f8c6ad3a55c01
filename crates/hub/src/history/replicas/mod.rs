//! One process's logs, and its part of their replication.
//!
//! One process writes the log of a topic, its *owner*. The owner sends each message to the processes
//! with subscribers, and to the *deputy*, the process that would be the owner without it.
//!
//! - `claims`: which process owns a topic, and how another one takes over.
//! - `copies`: how the logs of the other processes follow the log of the owner.
//! - `unconfirmed`: messages that wait for an owner, or that no process has besides the owner.
//! - `sweep`: what is dropped, so that the memory is bounded.
//!
//! The driver calls one method for each event, and then takes every [`Output`].

mod claims;
mod copies;
mod sweep;
mod unconfirmed;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use watchfire_types::{Instant, NodeId, Rng};

use self::claims::Claim;
use self::unconfirmed::RESEND_PERIOD;
use crate::history::log::{Bounds, Log, Message, Origin};
use crate::history::packet::Packet;
use crate::history::position::Position;

/// The memory of a topic besides its name and its messages.
const TOPIC_OVERHEAD_BYTES: usize = size_of::<Topic>() + 112;

/// The facts that the replicas need about their process.
pub trait Environment: Send {
    /// The bounds of a topic's log. `None`: the topic has no history.
    fn bounds(&self, topic: &str) -> Option<Bounds>;
    /// Whether the other processes send the messages of a topic to this one.
    fn is_subscribed(&self, topic: &str) -> bool;
}

/// The wish of the replicas to their driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Deliver a message to the subscribers of this process.
    Deliver {
        topic: Arc<str>,
        /// The position of the message before it.
        after: Position,
        position: Position,
        message: Message,
    },
    /// The subscribers of this process have missed messages: end their channels.
    Reset { topic: Arc<str> },
    /// Logs of topics exist now. Joins may wait for them.
    Ready,
    /// Send to one process. A full queue must end the link, unless it is a [`Packet::Publish`].
    Send { to: NodeId, packet: Packet },
    /// Send to the processes that are subscribed to a topic. A full queue must end the link.
    Publish { topic: Arc<str>, packet: Packet },
    /// Subscribe this process to a topic, without a client.
    Subscribe { topic: Arc<str> },
    /// End that subscription.
    Unsubscribe { topic: Arc<str> },
}

/// The sizes of all logs of a process, and what was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub logs: usize,
    pub messages: usize,
    pub memory_bytes: usize,
    /// Logs that lost their messages because there were too many bytes in all logs.
    pub dropped_logs: u64,
    /// Messages that were not published, because no owner was there in time.
    pub dropped_publishes: u64,
    /// Logs that began again, because two processes had written at the same time.
    pub diverged_logs: u64,
}

#[derive(Default)]
struct Topic {
    log: Option<Log>,
    /// The process that writes the log, as far as this one knows.
    owner: Option<NodeId>,
    /// The number of this process's claim, while it waits.
    claim: Option<u64>,
    /// Whether a log that arrived during the claim cannot be joined with this one.
    is_diverged: bool,
    /// Whether the log changed during the claim.
    has_changed: bool,
    /// The epoch of this process's next messages.
    epoch: u64,
    /// Messages that wait for an owner.
    held: VecDeque<(Instant, Origin, Message)>,
    /// Messages of this process that were sent to an owner, until another process has them.
    sent: VecDeque<(Instant, u64, Message)>,
    wanted_at: Option<Instant>,
    shards: u32,
    /// Whether this process is subscribed as the deputy.
    is_kept: bool,
    /// Of an owner: the process that keeps a copy.
    deputy: Option<NodeId>,
    used_at: Instant,
    /// The share of this topic in the totals.
    counted: (usize, usize),
}

impl Topic {
    /// Whether messages wait here: for an owner, or for a confirmation.
    fn has_messages(&self) -> bool {
        !self.held.is_empty() || !self.sent.is_empty()
    }
}

/// One process's logs, and its part of their replication.
pub struct Replicas<E> {
    me: NodeId,
    environment: E,
    rng: Rng,
    memory_bytes_max: usize,
    /// No claim ends before: links to other processes may be on their way.
    settled_at: Instant,
    up: BTreeSet<NodeId>,
    /// Boxed, because a map has a place for two for each entry.
    topics: BTreeMap<Arc<str>, Box<Topic>>,
    claims: BTreeMap<u64, Claim>,
    last_claim: u64,
    /// The topics of the next claim.
    unclaimed: Vec<Arc<str>>,
    /// Random: another process in this place has another one.
    incarnation: u64,
    /// The number of the last message that this process published.
    last_number: u64,
    /// Topics with messages that wait for an owner.
    holding: BTreeSet<Arc<str>>,
    held_bytes: usize,
    /// Topics with messages that are not confirmed.
    sending: BTreeSet<Arc<str>>,
    sent_bytes: usize,
    /// The topic that the sweep checked last.
    swept: Option<Arc<str>>,
    totals: Totals,
    outputs: VecDeque<Output>,
    /// Whether to say [`Output::Ready`] after them: once, also for many topics.
    is_ready: bool,
}

impl<E: Environment> Replicas<E> {
    /// The replicas of one process. `memory_bytes_max` bounds the memory of all logs. No claim ends
    /// before `settled_at`.
    pub fn new(
        me: NodeId,
        environment: E,
        seed: u64,
        memory_bytes_max: usize,
        settled_at: Instant,
    ) -> Self {
        let mut rng = Rng::from_seed(seed);
        Replicas {
            me,
            environment,
            incarnation: rng.next_u64(),
            last_number: 0,
            rng,
            memory_bytes_max,
            settled_at,
            up: BTreeSet::from([me]),
            topics: BTreeMap::new(),
            claims: BTreeMap::new(),
            last_claim: 0,
            unclaimed: Vec::new(),
            holding: BTreeSet::new(),
            held_bytes: 0,
            sending: BTreeSet::new(),
            sent_bytes: 0,
            swept: None,
            totals: Totals::default(),
            outputs: VecDeque::new(),
            is_ready: false,
        }
    }

    /// The next output. The driver takes all of them after each call.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        output.or_else(|| std::mem::take(&mut self.is_ready).then_some(Output::Ready))
    }

    pub fn totals(&self) -> Totals {
        let memory_bytes = self.totals.memory_bytes + self.held_bytes + self.sent_bytes;
        Totals { logs: self.topics.len(), memory_bytes, ..self.totals }
    }

    pub fn log(&self, topic: &str) -> Option<&Log> {
        self.topics.get(topic)?.log.as_ref()
    }

    /// Publishes a message: writes it if this process owns the topic, or sends it to the owner. Returns
    /// its position if it is written.
    pub fn publish(&mut self, now: Instant, topic: &str, message: Message) -> Option<Position> {
        self.last_number += 1;
        let origin =
            Origin { node: self.me.0, incarnation: self.incarnation, number: self.last_number };
        self.route(now, topic, origin, message)
    }

    /// Returns the position of the message if this process has written it.
    fn route(
        &mut self,
        now: Instant,
        topic: &str,
        origin: Origin,
        message: Message,
    ) -> Option<Position> {
        let waits = self.topics.get(topic).is_some_and(|entry| !entry.held.is_empty());
        let owner = self.owner_of(topic);
        if waits {
            self.hold(now, topic, origin, message);
        } else if owner != self.me {
            self.send_to_owner(now, topic, owner, origin, message);
        } else if self.is_owner(topic) {
            return self.append(now, topic, origin, message);
        } else {
            self.hold(now, topic, origin, message);
            self.claim(now, vec![topic.into()]);
            // Among several processes, the others must grant the claim before it is written.
            let entry = self.topics.get(topic).filter(|entry| entry.held.is_empty())?;
            return entry.log.as_ref().map(Log::position);
        }
        None
    }

    /// Whether a topic has a log. If it has none, its owner is asked for it.
    pub fn open(&mut self, now: Instant, topic: &str) -> bool {
        let owner = self.owner_of(topic);
        let me = self.me;
        let entry = self.entry(now, topic);
        entry.used_at = now;
        if entry.log.is_some() {
            return true;
        }
        if owner == me {
            self.claim(now, vec![topic.into()]);
            return self.log(topic).is_some();
        }
        self.want(now, topic, owner);
        false
    }

    /// A shard has its first subscriber of a topic.
    pub fn add_shard(&mut self, now: Instant, topic: &str) {
        self.entry(now, topic).shards += 1;
        self.count(topic);
    }

    /// The last subscriber of a shard has left a topic.
    pub fn remove_shard(&mut self, now: Instant, topic: &str) {
        if let Some(entry) = self.topics.get_mut(topic) {
            entry.shards = entry.shards.saturating_sub(1);
            entry.used_at = now;
            self.count(topic);
        }
    }

    pub fn node_up(&mut self, now: Instant, node: NodeId) {
        self.up.insert(node);
        let numbers: Vec<u64> = self.claims.keys().copied().collect();
        for number in numbers {
            self.send_claim(number, node);
        }
        for topic in self.owned_by(self.me) {
            let owner = self.owner_of(&topic);
            if owner == self.me {
                self.appoint_deputy(&topic);
            } else {
                self.topics.get_mut(&topic).expect("it is owned").owner = None;
                self.send(owner, Packet::Owned { topic: (*topic).into() });
            }
        }
        self.release(now);
    }

    /// Another process is gone.
    pub fn node_down(&mut self, now: Instant, node: NodeId) {
        self.up.remove(&node);
        // It may have owned the topics of messages that no other process has.
        self.send_again(now, std::time::Duration::ZERO);
        for claim in self.claims.values_mut() {
            claim.waiting.remove(&node);
        }
        let mut claimed = Vec::new();
        for topic in self.owned_by(node) {
            self.topics.get_mut(&topic).expect("it is owned").owner = None;
            if self.owner_of(&topic) == self.me {
                claimed.push(topic);
            }
        }
        for topic in self.owned_by(self.me) {
            self.appoint_deputy(&topic);
        }
        self.claim(now, claimed);
        self.finish_claims(now);
        self.release(now);
    }

    /// Handles a message of another process.
    pub fn receive(&mut self, now: Instant, from: NodeId, packet: Packet) {
        match packet {
            Packet::Publish { topic, origin, message } => {
                if self.owner_of(&topic) == self.me {
                    self.route(now, &topic, origin, message);
                } else {
                    // The processes disagree for a moment. The next tick sends it on.
                    self.hold(now, &topic, origin, message);
                }
            }
            Packet::Published { topic, number } => self.confirm(&topic, |sent| sent == number),
            Packet::Append { topic, after, epoch, origin, message } => {
                self.receive_append(now, from, &topic, after, (epoch, origin), message);
            }
            Packet::Log { topic, is_owner, image } => {
                if let Some(log) = Log::of_image(now, image) {
                    self.receive_log(now, from, &topic, is_owner, log);
                }
            }
            Packet::Claim { number, topics } => self.receive_claim(now, from, number, topics),
            Packet::Granted { number, denied } => self.receive_granted(now, from, number, &denied),
            Packet::Owned { topic } => {
                if self.is_owner(&topic) {
                    self.topics.get_mut(&*topic).expect("it is owned").owner = None;
                    self.claim(now, vec![topic.into()]);
                }
            }
            Packet::Keep { topic } => {
                let entry = self.entry(now, &topic);
                if !entry.is_kept {
                    entry.is_kept = true;
                    self.outputs.push_back(Output::Subscribe { topic: topic.into() });
                }
            }
            Packet::Want { topic } => {
                if self.is_owner(&topic) {
                    self.introduce_to(now, from, &topic);
                } else if self.owner_of(&topic) == self.me {
                    self.claim(now, vec![topic.into()]);
                }
            }
        }
    }

    /// Does what is due. The driver calls it ten times a second.
    pub fn handle_tick(&mut self, now: Instant) {
        self.give_up_late_claims(now);
        self.send_unclaimed(now);
        self.send_again(now, RESEND_PERIOD);
        self.release(now);
        self.sweep(now);
        if self.totals.memory_bytes > self.memory_bytes_max {
            self.shrink();
        }
    }

    fn is_owner(&self, topic: &str) -> bool {
        self.topics.get(topic).is_some_and(|entry| entry.owner == Some(self.me))
    }

    fn owned_by(&self, node: NodeId) -> Vec<Arc<str>> {
        let owned = self.topics.iter().filter(|(_, entry)| entry.owner == Some(node));
        owned.map(|(topic, _)| topic.clone()).collect()
    }

    fn entry(&mut self, now: Instant, topic: &str) -> &mut Topic {
        if !self.topics.contains_key(topic) {
            let entry = Topic { used_at: now, ..Topic::default() };
            self.topics.insert(topic.into(), Box::new(entry));
            self.count(topic);
        }
        self.topics.get_mut(topic).expect("it was inserted")
    }

    fn send(&mut self, to: NodeId, packet: Packet) {
        self.outputs.push_back(Output::Send { to, packet });
    }

    /// Updates the totals after a change of a topic.
    fn count(&mut self, topic: &str) {
        let Some(entry) = self.topics.get_mut(topic) else { return };
        let messages = entry.log.as_ref().map_or(0, Log::len);
        let log_bytes = entry.log.as_ref().map_or(0, Log::memory_bytes);
        // A topic that clients have joined and that has no message is theirs, like their channels: their
        // number bounds it, and it must not cost another topic its messages.
        let is_theirs = entry.shards > 0 && messages == 0;
        let own_bytes = if is_theirs { 0 } else { TOPIC_OVERHEAD_BYTES + topic.len() };
        let bytes = own_bytes + log_bytes;
        let (old_messages, old_bytes) = std::mem::replace(&mut entry.counted, (messages, bytes));
        let totals = &mut self.totals;
        totals.messages = totals.messages - old_messages + messages;
        totals.memory_bytes = totals.memory_bytes - old_bytes + bytes;
    }

    fn remove(&mut self, topic: &str) {
        let Some(entry) = self.topics.remove(topic) else { return };
        self.totals.messages -= entry.counted.0;
        self.totals.memory_bytes -= entry.counted.1;
        if entry.is_kept {
            self.outputs.push_back(Output::Unsubscribe { topic: topic.into() });
        }
    }

    fn remove_if_unused(&mut self, topic: &str) {
        let is_unused = |entry: &Topic| {
            entry.shards == 0 && !entry.has_messages() && entry.claim.is_none() && !entry.is_kept
        };
        if self.topics.get(topic).is_some_and(|entry| is_unused(entry)) {
            self.remove(topic);
        }
    }
}
