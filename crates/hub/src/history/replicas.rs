//! One process's logs, and its part of their replication.
//!
//! The *owner* of a topic is the process that is first for it by rendezvous hash. It writes the log and
//! sends each message to the processes with subscribers, and to the second process, the *deputy*. A
//! process becomes the owner with a *claim*: every other process gives up the topic, sends what the
//! claimant's log lacks, and grants it. A process that knows a better owner denies it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use watchfire_types::{FixedHash, Instant, NodeId, Rng};

use crate::history::log::{Bounds, Comparison, Log, Message, Origin};
use crate::history::packet::Packet;
use crate::history::position::{EPOCH_MASK, Position};

/// The memory of a topic besides its name and its messages.
const TOPIC_OVERHEAD_BYTES: usize = 512;
/// How long a log stays after its last message has expired, if no client is subscribed.
const IDLE_PERIOD: Duration = Duration::from_secs(600);
/// The longest wait for the responses to a claim.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(2);
/// The time between two requests for the same log.
const WANT_INTERVAL: Duration = Duration::from_millis(300);
/// How long a message waits for an owner. Then it is dropped and counted.
const HELD_PERIOD: Duration = Duration::from_secs(10);
/// The bytes of all messages that wait for an owner. A further one is dropped and counted.
const HELD_BYTES_MAX: usize = 16 << 20;
/// The bytes of all messages that were sent to an owner and are not confirmed. A further one is lost if
/// its owner ends before another process has it.
const SENT_BYTES_MAX: usize = 16 << 20;
/// How long a message waits for its confirmation before it is sent again.
const RESEND_PERIOD: Duration = Duration::from_secs(3);
/// Topics in one claim.
const CLAIM_TOPICS_MAX: usize = 500;
/// Ticks in which every log is checked once for expired messages.
const SWEEP_TICKS: usize = 50;

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
        /// The topic.
        topic: Arc<str>,
        /// The position of the message before it.
        after: Position,
        /// Its own position.
        position: Position,
        /// The message.
        message: Message,
    },
    /// The subscribers of this process have missed messages: end their channels.
    Reset {
        /// The topic.
        topic: Arc<str>,
    },
    /// The log of a topic exists now. Joins may wait for it.
    Ready,
    /// Send to one process. A full queue must end the link, unless it is a [`Packet::Publish`].
    Send {
        /// The process.
        to: NodeId,
        /// The message.
        packet: Packet,
    },
    /// Send to the processes that are subscribed to a topic. A full queue must end the link.
    Publish {
        /// The topic.
        topic: Arc<str>,
        /// The message.
        packet: Packet,
    },
    /// Subscribe this process to a topic, without a client.
    Subscribe {
        /// The topic.
        topic: Arc<str>,
    },
    /// End that subscription.
    Unsubscribe {
        /// The topic.
        topic: Arc<str>,
    },
}

/// The sizes of all logs of a process, and what was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Topics with a log.
    pub logs: usize,
    /// Kept messages.
    pub messages: usize,
    /// The memory of all logs.
    pub memory_bytes: usize,
    /// Logs that lost their messages because there were too many bytes in all logs.
    pub dropped_logs: u64,
    /// Messages that were not published, because no owner was there in time.
    pub dropped_publishes: u64,
    /// Logs that began again, because two processes had written at once.
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
    /// Shards with subscribers.
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

struct Claim {
    topics: Vec<Arc<str>>,
    waiting: BTreeSet<NodeId>,
    started_at: Instant,
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
    topics: BTreeMap<Arc<str>, Topic>,
    claims: BTreeMap<u64, Claim>,
    last_claim: u64,
    /// Random: another process in this place has another one.
    life: u64,
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
            life: rng.next_u64(),
            last_number: 0,
            rng,
            memory_bytes_max,
            settled_at,
            up: BTreeSet::from([me]),
            topics: BTreeMap::new(),
            claims: BTreeMap::new(),
            last_claim: 0,
            holding: BTreeSet::new(),
            held_bytes: 0,
            sending: BTreeSet::new(),
            sent_bytes: 0,
            swept: None,
            totals: Totals::default(),
            outputs: VecDeque::new(),
        }
    }

    /// The next output. The driver takes all of them after each call.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The sizes of all logs.
    pub fn totals(&self) -> Totals {
        let memory_bytes = self.totals.memory_bytes + self.held_bytes + self.sent_bytes;
        Totals { logs: self.topics.len(), memory_bytes, ..self.totals }
    }

    /// The log of a topic.
    pub fn log(&self, topic: &str) -> Option<&Log> {
        self.topics.get(topic)?.log.as_ref()
    }

    /// The process that should own a topic: this one, or another that is up.
    pub fn owner_of(&self, topic: &str) -> NodeId {
        self.ranked(topic).0
    }

    /// The owner and the deputy.
    fn ranked(&self, topic: &str) -> (NodeId, Option<NodeId>) {
        let topic = FixedHash::new(0).text(topic);
        let rank = |node: NodeId| (topic.number(node.0.into()).finish(), node);
        let (mut first, mut second) = (rank(self.me), None);
        for node in self.up.iter().copied().filter(|node| *node != self.me).map(rank) {
            if node > first {
                (first, second) = (node, Some(first));
            } else if Some(node) > second {
                second = Some(node);
            }
        }
        (first.1, second.map(|(_, node)| node))
    }

    /// Publishes a message: writes it if this process owns the topic, or sends it to the owner.
    pub fn publish(&mut self, now: Instant, topic: &str, message: Message) {
        self.last_number += 1;
        let origin = Origin { node: self.me.0, life: self.life, number: self.last_number };
        self.route(now, topic, origin, message);
    }

    fn route(&mut self, now: Instant, topic: &str, origin: Origin, message: Message) {
        let waits = self.topics.get(topic).is_some_and(|entry| !entry.held.is_empty());
        let owner = self.owner_of(topic);
        if waits {
            self.hold(now, topic, origin, message);
        } else if owner != self.me {
            self.send_to_owner(now, topic, owner, origin, message);
        } else if self.is_owner(topic) {
            self.append(now, topic, origin, message);
        } else {
            self.hold(now, topic, origin, message);
            self.claim(now, vec![topic.into()]);
        }
    }

    /// Takes back a message that the driver could not send to its owner.
    pub fn hold(&mut self, now: Instant, topic: &str, origin: Origin, message: Message) {
        let bytes = message.len();
        if self.held_bytes + bytes > HELD_BYTES_MAX {
            self.totals.dropped_publishes += 1;
            return;
        }
        self.held_bytes += bytes;
        let entry = self.entry(now, topic);
        entry.held.push_back((now, origin, message));
        self.holding.insert(topic.into());
    }

    /// Sends a message to the owner. If this process published it, it stays here until another process
    /// than the owner has it.
    fn send_to_owner(
        &mut self,
        now: Instant,
        topic: &str,
        owner: NodeId,
        origin: Origin,
        message: Message,
    ) {
        let bytes = message.len();
        if origin.life == self.life && self.sent_bytes + bytes <= SENT_BYTES_MAX {
            self.sent_bytes += bytes;
            let entry = self.entry(now, topic);
            entry.sent.push_back((now, origin.number, message.clone()));
            self.sending.insert(topic.into());
        }
        self.send(owner, Packet::Publish { topic: topic.into(), origin, message });
    }

    /// Another process than the owner has these messages of this process.
    fn confirm(&mut self, topic: &str, is_confirmed: impl Fn(u64) -> bool) {
        let Some(entry) = self.topics.get_mut(topic).filter(|entry| !entry.sent.is_empty()) else {
            return;
        };
        let sent_bytes = &mut self.sent_bytes;
        entry.sent.retain(|(_, number, message)| {
            let is_done = is_confirmed(*number);
            *sent_bytes -= if is_done { message.len() } else { 0 };
            !is_done
        });
        if entry.sent.is_empty() {
            let has_log = entry.log.is_some();
            self.sending.remove(topic);
            // A process that only publishes to a topic keeps nothing of it.
            if !has_log {
                self.remove_if_unused(topic);
            }
        }
    }

    /// Sends the messages again that were sent this long ago, and are not confirmed.
    fn send_again(&mut self, now: Instant, after: Duration) {
        for topic in self.sending.clone() {
            let Some(entry) = self.topics.get_mut(&topic) else { continue };
            let is_due = entry.sent.front().is_some_and(|(at, ..)| now.since(*at) >= after);
            if !is_due {
                continue;
            }
            let sent = std::mem::take(&mut entry.sent);
            self.sending.remove(&topic);
            // Before those that wait already.
            let later = std::mem::take(&mut entry.held);
            for (_, number, message) in sent {
                self.sent_bytes -= message.len();
                let origin = Origin { node: self.me.0, life: self.life, number };
                self.route(now, &topic, origin, message);
            }
            let entry = self.topics.get_mut(&topic).expect("a topic with messages stays");
            if !later.is_empty() {
                entry.held.extend(later);
                self.holding.insert(topic.clone());
            }
        }
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
    }

    /// The last subscriber of a shard has left a topic.
    pub fn remove_shard(&mut self, now: Instant, topic: &str) {
        if let Some(entry) = self.topics.get_mut(topic) {
            entry.shards = entry.shards.saturating_sub(1);
            entry.used_at = now;
        }
    }

    /// Another process is up.
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
        self.send_again(now, Duration::ZERO);
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
        for topics in claimed.chunks(CLAIM_TOPICS_MAX) {
            self.claim(now, topics.to_vec());
        }
        self.finish_claims(now);
        self.release(now);
    }

    /// Another process is subscribed to a topic now.
    pub fn introduce_to(&mut self, now: Instant, node: NodeId, topic: &str) {
        let Some(entry) = self.topics.get(topic) else { return };
        let is_owner = entry.owner == Some(self.me);
        if let Some(log) = &entry.log
            && (is_owner || entry.owner.is_none())
        {
            let image = log.image(now, None);
            self.send(node, Packet::Log { topic: topic.into(), is_owner, image });
        }
    }

    /// This process is no longer subscribed to a topic, so its copy of another's log becomes outdated.
    pub fn forget(&mut self, topic: &str) {
        if let Some(entry) = self.topics.get_mut(topic)
            && entry.owner.is_some_and(|owner| owner != self.me)
        {
            entry.log = None;
            entry.owner = None;
            self.count(topic);
            self.remove_if_unused(topic);
        }
    }

    /// Handles a message of another process.
    pub fn receive(&mut self, now: Instant, from: NodeId, packet: Packet) {
        match packet {
            Packet::Publish { topic, origin, message } => {
                match self.owner_of(&topic) == self.me {
                    true => self.route(now, &topic, origin, message),
                    // The processes disagree for a moment. The next tick sends it on.
                    false => self.hold(now, &topic, origin, message),
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
        let is_late = |claim: &&mut Claim| now.since(claim.started_at) > CLAIM_TIMEOUT;
        self.claims.values_mut().filter(is_late).for_each(|claim| claim.waiting.clear());
        self.finish_claims(now);
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
            self.topics.insert(topic.into(), entry);
            self.count(topic);
        }
        self.topics.get_mut(topic).expect("it was inserted")
    }

    fn send(&mut self, to: NodeId, packet: Packet) {
        self.outputs.push_back(Output::Send { to, packet });
    }

    fn random_epoch(&mut self) -> u64 {
        self.rng.next_u64() & EPOCH_MASK
    }

    /// Writes a message as the owner, unless it is in the log already.
    fn append(&mut self, now: Instant, topic: &str, origin: Origin, message: Message) {
        // A topic whose history was switched off everywhere: its messages are still delivered.
        let bounds = self.environment.bounds(topic).unwrap_or(Bounds::NOTHING);
        let (topic, entry) = self.topics.get_key_value(topic).expect("an owner has a log");
        let (topic, epoch) = (topic.clone(), entry.epoch);
        let entry = self.topics.get_mut(&topic).expect("it was found");
        let log = entry.log.as_mut().expect("an owner has a log");
        if log.has(origin) {
            return self.tell_origin(&topic, origin);
        }
        let after = log.position();
        log.note_origin(origin);
        let position = log.push(now, &bounds, epoch, message.clone());
        let was_idle = now.since(entry.used_at) > IDLE_PERIOD / 2;
        entry.used_at = now;
        if was_idle {
            // The deputy may have dropped its copy.
            entry.deputy = None;
            self.appoint_deputy(&topic);
        }
        self.count(&topic);
        let packet = Packet::Append {
            topic: (*topic).into(),
            after,
            epoch,
            origin,
            message: message.clone(),
        };
        self.outputs.push_back(Output::Publish { topic: topic.clone(), packet });
        self.outputs.push_back(Output::Deliver { topic, after, position, message });
    }

    /// Tells the process that published a message that it is not lost if one process ends.
    fn tell_origin(&mut self, topic: &str, origin: Origin) {
        let Origin { node, life, number } = origin;
        if life == self.life {
            self.confirm(topic, |sent| sent == number);
        } else if self.up.contains(&NodeId(node)) {
            self.send(NodeId(node), Packet::Published { topic: topic.into(), number });
        }
    }

    fn receive_append(
        &mut self,
        now: Instant,
        from: NodeId,
        topic: &str,
        after: Position,
        (epoch, origin): (u64, Origin),
        message: Message,
    ) {
        if self.is_owner(topic) || !self.environment.is_subscribed(topic) {
            return;
        }
        let Some(bounds) = self.environment.bounds(topic) else {
            // This process does not know yet that the topic has a history. Its subscribers get the
            // message as any other.
            if origin.life == self.life {
                self.confirm(topic, |sent| sent == origin.number);
            }
            let position = Position { epoch, offset: after.offset.saturating_add(1) };
            let topic = topic.into();
            self.outputs.push_back(Output::Deliver { topic, after, position, message });
            return;
        };
        let entry = self.entry(now, topic);
        let Some(log) = entry.log.as_mut().filter(|log| log.position() == after) else {
            let position = Position { epoch, offset: after.offset.saturating_add(1) };
            if !entry.log.as_ref().is_some_and(|log| log.contains(position)) {
                self.want(now, topic, from);
            }
            return;
        };
        log.note_origin(origin);
        let position = log.push(now, &bounds, epoch, message.clone());
        (entry.owner, entry.used_at) = (Some(from), now);
        let is_deputy = entry.is_kept;
        self.count(topic);
        if origin.life == self.life {
            self.confirm(topic, |sent| sent == origin.number);
        } else if is_deputy {
            self.tell_origin(topic, origin);
        }
        self.outputs.push_back(Output::Deliver { topic: topic.into(), after, position, message });
    }

    fn receive_log(&mut self, now: Instant, from: NodeId, topic: &str, is_owner: bool, log: Log) {
        if self.environment.bounds(topic).is_none() {
            return;
        }
        let me = self.me;
        let entry = self.entry(now, topic);
        entry.wanted_at = None;
        let is_mine = entry.owner == Some(me);
        let comparison = match &entry.log {
            Some(known) => known.compare(&log),
            None => Comparison::Newer,
        };
        match comparison {
            Comparison::Newer | Comparison::Diverged if is_mine => {
                // A process that responded too late to the claim. Claim again, with its log.
                entry.owner = None;
                self.claim(now, vec![topic.into()]);
                self.merge(topic, log, comparison);
                self.finish_claims(now);
            }
            _ if entry.claim.is_some() => self.merge(topic, log, comparison),
            Comparison::Diverged | Comparison::Older if is_owner && !is_mine => {
                // The owner has not seen messages that this process has: it has to know.
                let image = entry.log.as_ref().map(|known| known.image(now, None));
                entry.owner = Some(from);
                if comparison == Comparison::Diverged {
                    entry.log = Some(log);
                    self.outputs.push_back(Output::Reset { topic: topic.into() });
                }
                if let Some(image) = image {
                    self.send(from, Packet::Log { topic: topic.into(), is_owner: false, image });
                }
            }
            Comparison::Newer => {
                entry.owner = is_owner.then_some(from);
                self.extend(topic, log);
            }
            Comparison::Same if is_owner && !is_mine => entry.owner = Some(from),
            Comparison::Same | Comparison::Older | Comparison::Diverged => {}
        }
        self.count(topic);
        if self.sending.contains(topic)
            && let Some(log) = self.log(topic)
        {
            let numbers: BTreeSet<u64> = log.numbers_of(self.life).collect();
            self.confirm(topic, |sent| numbers.contains(&sent));
        }
    }

    /// Joins a log with that of this process, which claims the topic.
    fn merge(&mut self, topic: &str, log: Log, comparison: Comparison) {
        let entry = self.topics.get_mut(topic).expect("the topic is claimed");
        match comparison {
            Comparison::Same => {}
            Comparison::Older => entry.has_changed = true, // The sender lacks messages.
            Comparison::Newer => {
                entry.has_changed = true;
                self.extend(topic, log);
            }
            Comparison::Diverged => entry.is_diverged = true,
        }
    }

    /// Takes a log that continues this process's one, and delivers what is new.
    fn extend(&mut self, topic: &str, newer: Log) {
        let entry = self.topics.get_mut(topic).expect("the caller has found it");
        self.outputs.push_back(Output::Ready);
        let Some(log) = entry.log.as_mut() else {
            entry.log = Some(newer);
            return;
        };
        let mut after = log.position();
        let new = match newer.contains(after) {
            true => log.extend(newer),
            false => {
                *log = newer;
                None
            }
        };
        let Some(new) = new else {
            self.outputs.push_back(Output::Reset { topic: topic.into() });
            return;
        };
        for (position, message) in new {
            self.outputs.push_back(Output::Deliver {
                topic: topic.into(),
                after,
                position,
                message,
            });
            after = position;
        }
    }

    fn want(&mut self, now: Instant, topic: &str, from: NodeId) {
        let entry = self.entry(now, topic);
        if entry.wanted_at.is_none_or(|at| now.since(at) >= WANT_INTERVAL) {
            entry.wanted_at = Some(now);
            self.send(from, Packet::Want { topic: topic.into() });
        }
    }

    /// Begins to claim those of these topics that this process should own and does not claim yet.
    fn claim(&mut self, now: Instant, mut topics: Vec<Arc<str>>) {
        topics.retain(|topic| {
            self.environment.bounds(topic).is_some() && self.entry(now, topic).claim.is_none()
        });
        if topics.is_empty() {
            return;
        }
        self.last_claim += 1;
        let number = self.last_claim;
        for topic in &topics {
            let entry = self.entry(now, topic);
            entry.claim = Some(number);
            (entry.is_diverged, entry.has_changed) = (false, false);
        }
        let waiting = BTreeSet::new();
        self.claims.insert(number, Claim { topics, waiting, started_at: now });
        for node in self.up.clone() {
            self.send_claim(number, node);
        }
        self.finish_claims(now);
    }

    fn send_claim(&mut self, number: u64, node: NodeId) {
        if node == self.me {
            return;
        }
        let claim = self.claims.get_mut(&number).expect("the claim waits");
        claim.waiting.insert(node);
        let claimed = claim.topics.iter().filter_map(|topic| {
            let entry = self.topics.get(topic).filter(|entry| entry.claim == Some(number))?;
            Some(((**topic).into(), entry.log.as_ref().map(Log::position)))
        });
        let topics = claimed.collect();
        self.send(node, Packet::Claim { number, topics });
    }

    fn receive_claim(
        &mut self,
        now: Instant,
        from: NodeId,
        number: u64,
        topics: Vec<(String, Option<Position>)>,
    ) {
        let mut denied = Vec::new();
        for (topic, known) in topics {
            if self.owner_of(&topic) != from {
                denied.push(topic);
                continue;
            }
            let Some(entry) = self.topics.get_mut(&*topic) else { continue };
            // This process writes nothing more before it has the topic again.
            entry.claim = None;
            entry.owner = Some(from);
            if let Some(log) = &entry.log
                && Some(log.position()) != known
            {
                let image = log.image(now, known);
                let packet = Packet::Log { topic: topic.clone(), is_owner: false, image };
                self.send(from, packet);
            }
            if !self.environment.is_subscribed(&topic) {
                self.forget(&topic);
            }
        }
        self.send(from, Packet::Granted { number, denied });
        self.release(now);
    }

    fn receive_granted(&mut self, now: Instant, from: NodeId, number: u64, denied: &[String]) {
        let Some(claim) = self.claims.get_mut(&number) else { return };
        claim.waiting.remove(&from);
        for topic in denied {
            if let Some(entry) = self.topics.get_mut(&**topic)
                && entry.claim == Some(number)
            {
                entry.claim = None; // The next tick sends what is held to the better owner.
            }
        }
        self.finish_claims(now);
    }

    /// Ends the claims that every process has answered.
    fn finish_claims(&mut self, now: Instant) {
        if now < self.settled_at {
            return;
        }
        let is_over = |(number, claim): (&u64, &Claim)| claim.waiting.is_empty().then_some(*number);
        let over: Vec<u64> = self.claims.iter().filter_map(is_over).collect();
        for number in over {
            let Some(claim) = self.claims.remove(&number) else { continue };
            for topic in claim.topics {
                let is_claimed = |entry: &Topic| entry.claim == Some(number);
                if self.topics.get(&topic).is_some_and(is_claimed) {
                    self.own(now, &topic);
                }
            }
        }
    }

    /// Begins to own a topic.
    fn own(&mut self, now: Instant, topic: &Arc<str>) {
        if self.owner_of(topic) != self.me {
            self.topics.get_mut(topic).expect("the topic was claimed").claim = None;
            return self.release_topic(now, topic);
        }
        let epoch = self.random_epoch();
        let me = self.me;
        let entry = self.topics.get_mut(topic).expect("the topic was claimed");
        (entry.claim, entry.owner, entry.epoch) = (None, Some(me), epoch);
        let is_new = entry.log.is_none() || entry.is_diverged;
        if entry.is_diverged {
            self.totals.diverged_logs += 1;
            self.outputs.push_back(Output::Reset { topic: topic.clone() });
        }
        match &entry.log {
            Some(log) if entry.is_diverged => entry.log = Some(log.restarted(epoch)),
            Some(_) => {}
            None => entry.log = Some(Log::new(epoch)),
        }
        entry.is_diverged = false;
        if is_new || entry.has_changed {
            let image = entry.log.as_ref().expect("it has a log").image(now, None);
            let packet = Packet::Log { topic: (**topic).into(), is_owner: true, image };
            self.outputs.push_back(Output::Publish { topic: topic.clone(), packet });
            self.outputs.push_back(Output::Ready);
        }
        self.topics.get_mut(topic).expect("it was found").deputy = None;
        self.appoint_deputy(topic);
        self.count(topic);
        self.release_topic(now, topic);
    }

    fn appoint_deputy(&mut self, topic: &Arc<str>) {
        let (_, deputy) = self.ranked(topic);
        let entry = self.topics.get_mut(topic).expect("it is owned");
        if entry.deputy != deputy {
            entry.deputy = deputy;
            if let Some(deputy) = deputy {
                self.send(deputy, Packet::Keep { topic: (**topic).into() });
            }
        }
    }

    /// Publishes messages that waited for an owner.
    fn release(&mut self, now: Instant) {
        for topic in self.holding.clone() {
            self.release_topic(now, &topic);
        }
    }

    fn release_topic(&mut self, now: Instant, topic: &Arc<str>) {
        let owner = self.owner_of(topic);
        let Some(entry) = self.topics.get_mut(topic) else { return };
        while entry.held.front().is_some_and(|(at, ..)| now.since(*at) > HELD_PERIOD) {
            let (.., message) = entry.held.pop_front().expect("it was found");
            self.held_bytes -= message.len();
            self.totals.dropped_publishes += 1;
        }
        if entry.held.is_empty() {
            self.holding.remove(topic);
            return;
        }
        let is_owner = entry.owner == Some(self.me);
        if owner == self.me && !is_owner {
            return self.claim(now, vec![topic.clone()]);
        }
        let held = std::mem::take(&mut entry.held);
        self.holding.remove(topic);
        for (_, origin, message) in held {
            self.held_bytes -= message.len();
            if owner == self.me {
                self.append(now, topic, origin, message);
            } else {
                self.send_to_owner(now, topic, owner, origin, message);
            }
        }
    }

    /// Updates the totals after a change of a topic.
    fn count(&mut self, topic: &str) {
        let Some(entry) = self.topics.get_mut(topic) else { return };
        let messages = entry.log.as_ref().map_or(0, Log::len);
        let log_bytes = entry.log.as_ref().map_or(0, Log::memory_bytes);
        let bytes = TOPIC_OVERHEAD_BYTES + topic.len() + log_bytes;
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
        if self.topics.get(topic).is_some_and(is_unused) {
            self.remove(topic);
        }
    }

    /// Drops expired messages, and logs that were not used for long, of some topics.
    fn sweep(&mut self, now: Instant) {
        let count = self.topics.len() / SWEEP_TICKS + 1;
        let from = match &self.swept {
            Some(topic) => Bound::Excluded(topic.clone()),
            None => Bound::Unbounded,
        };
        let names = self.topics.range((from, Bound::Unbounded)).map(|(topic, _)| topic.clone());
        let names: Vec<Arc<str>> = names.take(count).collect();
        self.swept = names.last().filter(|_| names.len() == count).cloned();
        for topic in names {
            let bounds = self.environment.bounds(&topic).unwrap_or(Bounds::NOTHING);
            let entry = self.topics.get_mut(&topic).expect("it was found");
            if let Some(log) = &mut entry.log {
                log.expire(now, &bounds);
            }
            let is_idle = now.since(entry.used_at) > bounds.age.saturating_add(IDLE_PERIOD);
            if is_idle && entry.shards == 0 && !entry.has_messages() && entry.claim.is_none() {
                self.remove(&topic);
            }
            self.count(&topic);
        }
    }

    /// Drops the messages of the logs that were not used for the longest time, and then their topics.
    fn shrink(&mut self) {
        let mut by_use: Vec<(Instant, Arc<str>)> =
            self.topics.iter().map(|(topic, entry)| (entry.used_at, topic.clone())).collect();
        by_use.sort();
        // Some more than needed, so that not every message leads to this.
        let enough = self.memory_bytes_max / 8 * 7;
        for (_, topic) in &by_use {
            if self.totals.memory_bytes <= enough {
                return;
            }
            let entry = self.topics.get_mut(topic).expect("it was found");
            if let Some(log) = entry.log.as_mut().filter(|log| !log.is_empty()) {
                log.clear();
                self.totals.dropped_logs += 1;
                self.count(topic);
            }
        }
        for (_, topic) in &by_use {
            if self.totals.memory_bytes <= enough {
                return;
            }
            let entry = &self.topics[topic];
            if entry.shards == 0 && !entry.has_messages() && entry.claim.is_none() {
                self.remove(topic);
            }
        }
    }
}
