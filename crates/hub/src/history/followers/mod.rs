//! One process's caches of topics whose messages are stored elsewhere: in streams of NATS JetStream, or, on one
//! machine, in the [`Logs`](super::Logs) of another process.
//!
//! A stream gives each message a sequence, which grows over all its topics, and sends what it has stored to
//! the processes that follow the topic, with the sequence before on the same topic. This module puts the
//! messages of each topic into order, notices what is missing, and keeps the last messages for clients that
//! come back. The driver sends and receives.
//!
//! # The faults without it
//!
//! The messages arrive at most once. A route between two NATS servers may stop, a slow process is cut off,
//! a new leader of the stream does not send what the old one has stored. So a message has a place:
//!
//! ```text
//! topic   sequences 11, 14, 20; last = 14
//! 14 after 11   old: ignored
//! 20 after 14   the next one: delivered
//! 31 after 20   17..20 may be missing if last = 14: 31 waits, and the driver reads what follows 14
//! ```
//!
//! A message after one that is not the last one here is the next one, too: the stream has dropped the last
//! one. But after an interruption it may have dropped messages that never arrived, so the driver reads.
//!
//! The last message of a topic has no later one that shows its loss. So the driver compares the topics with
//! the stream from time to time ([`Followers::handle_compared`]).
//!
//! # Complete
//!
//! A stream drops messages at its limits, the oldest first. `complete_from` is the first position after
//! which no message of the topic is missing here. A client with an earlier position, or of another epoch
//! (another stream), is told that it may have missed messages. When messages that clients of this process
//! have not got are gone, the channels of the topic end ([`Output::Reset`]): they join again, and are told.
//!
//! # Bounds
//!
//! A topic keeps at most what its rule says, and all topics together `memory_bytes_max`: over it, the topics
//! without clients that were not used for the longest time go, then the messages of the others. Messages that
//! wait for earlier ones have the bounds of the topic. Over them they are dropped, and read again later.

mod topic;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use watchfire_types::Instant;

use self::topic::{Arrival, Topic};
use super::log::{Bounds, Message, Positioned};
use super::position::Position;
use super::sweep::Sweep;

/// The shortest time that a topic without clients stays.
const IDLE_PERIOD_MIN: Duration = Duration::from_secs(60);

/// The wish of the followers to their driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowerOutput {
    /// Receive the messages of the topic that are stored from now on.
    Follow { topic: Arc<str>, bounds: Bounds },
    /// Receive them no more.
    Unfollow { topic: Arc<str>, bounds: Bounds },
    /// Read the messages of a topic, and give them to [`Followers::handle_read`].
    Read { topic: Arc<str>, bounds: Bounds, request: ReadRequest },
    /// Deliver a message to the subscribers of this process.
    Deliver { topic: Arc<str>, after: Position, position: Position, message: Message },
    /// The subscribers of this process have missed messages: end their channels.
    Reset { topic: Arc<str> },
    /// A topic was read. Joins may wait for it.
    Ready,
}

/// The messages to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// Names the read.
    pub number: u64,
    /// Only messages after this sequence.
    pub after: u64,
    /// The topic has a message with this sequence, unless the stream has dropped it since.
    pub until: u64,
}

/// A message of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub sequence: u64,
    /// The time since it was stored.
    pub age: Duration,
    pub message: Message,
}

/// The messages of a topic that a stream had after a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadTopic {
    /// The identity of the stream.
    pub epoch: u64,
    /// In the order of their sequences.
    pub messages: Vec<Stored>,
    /// No message after this sequence was dropped.
    pub complete_from: u64,
    /// All messages up to this sequence are among them.
    pub last: u64,
}

/// The sizes of all caches of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowerTotals {
    pub topics: usize,
    pub messages: usize,
    pub memory_bytes: usize,
    /// Topics that lost their messages because there were too many bytes.
    pub dropped_topics: u64,
    /// Topics of which a message was missing when a later one arrived, or when they were compared.
    pub gaps: u64,
    /// Topics whose clients were told that they missed messages.
    pub resets: u64,
}

/// One process's caches of topics.
pub struct Followers {
    memory_bytes_max: usize,
    /// Boxed, because a map has a place for two for each entry.
    topics: BTreeMap<Arc<str>, Box<Topic>>,
    last_read: u64,
    sweep: Sweep,
    totals: FollowerTotals,
    outputs: VecDeque<FollowerOutput>,
}

impl Followers {
    /// `memory_bytes_max` bounds the memory of all topics.
    pub fn new(memory_bytes_max: usize) -> Self {
        Followers {
            memory_bytes_max,
            topics: BTreeMap::new(),
            last_read: 0,
            sweep: Sweep::default(),
            totals: FollowerTotals::default(),
            outputs: VecDeque::new(),
        }
    }

    /// The next output. The driver takes all of them after each call.
    pub fn poll_output(&mut self) -> Option<FollowerOutput> {
        self.outputs.pop_front()
    }

    pub fn totals(&self) -> FollowerTotals {
        FollowerTotals { topics: self.topics.len(), ..self.totals }
    }

    /// Whether a topic was read. If not, it is followed and read, and [`FollowerOutput::Ready`] comes.
    pub fn open(&mut self, now: Instant, topic: &str, bounds: Bounds) -> bool {
        self.entry(now, topic, bounds).used_at = now;
        let is_read = self.topics[topic].epoch.is_some();
        if !is_read {
            self.read_again(topic);
        }
        is_read
    }

    /// The last position. `None`: the topic was not read.
    pub fn position(&self, topic: &str) -> Option<Position> {
        self.topics.get(topic)?.position()
    }

    /// The kept messages after a position, oldest first. `None`: some are missing here, or the position is
    /// one of another stream. `stream_last` is a sequence that the stream has reached: a client may come
    /// from a process that has got messages earlier than this one.
    pub fn since(
        &mut self,
        now: Instant,
        topic: &str,
        position: Position,
        stream_last: u64,
    ) -> Option<Vec<Positioned>> {
        let entry = self.topics.get_mut(topic)?;
        entry.log.expire(now, &entry.bounds);
        entry.since(position, stream_last)
    }

    /// How many messages of a topic are kept.
    pub fn kept(&self, topic: &str) -> usize {
        self.topics.get(topic).map_or(0, |entry| entry.counted.0)
    }

    /// The last messages, oldest first.
    pub fn newest(&mut self, now: Instant, topic: &str, count: usize) -> Vec<Positioned> {
        let Some(entry) = self.topics.get_mut(topic) else { return Vec::new() };
        entry.log.expire(now, &entry.bounds);
        entry.newest(count)
    }

    /// A shard has its first subscriber of a topic.
    pub fn add_shard(&mut self, now: Instant, topic: &str, bounds: Bounds) {
        let entry = self.entry(now, topic, bounds);
        entry.shards += 1;
        entry.is_joined_unread |= entry.epoch.is_none();
    }

    /// The last subscriber of a shard has left a topic.
    pub fn remove_shard(&mut self, now: Instant, topic: &str) {
        if let Some(entry) = self.topics.get_mut(topic) {
            entry.shards = entry.shards.saturating_sub(1);
            entry.used_at = now;
        }
    }

    /// A message was stored. `before` is the sequence of the message before it on its topic that the stream
    /// had then; 0 for none.
    pub fn handle_stored(&mut self, now: Instant, topic: &str, before: u64, stored: Stored) {
        let Some((topic, entry)) = self.topics.get_key_value(topic) else { return };
        let (topic, was_read) = (topic.clone(), entry.epoch.is_some());
        let entry = self.topics.get_mut(&topic).expect("it was found");
        match entry.note(now, before, stored) {
            Arrival::Old => {}
            Arrival::Next => self.deliver_next(now, &topic),
            Arrival::Early => {
                self.totals.gaps += u64::from(was_read && entry.read.is_none());
                self.read_again(&topic);
            }
        }
    }

    /// A topic was read.
    pub fn handle_read(&mut self, now: Instant, topic: &str, number: u64, read: ReadTopic) {
        let Some((topic, entry)) = self.topics.get_key_value(topic) else { return };
        let Some(request) = entry.read.filter(|request| request.number == number) else { return };
        let topic = topic.clone();
        let entry = self.topics.get_mut(&topic).expect("it was found");
        entry.read = None;
        entry.wanted = if entry.wanted > request.until { entry.wanted } else { 0 };
        match entry.epoch {
            None => {
                let is_joined = std::mem::take(&mut entry.is_joined_unread);
                entry.fill(now, read);
                self.count(&topic);
                if is_joined {
                    // Clients have joined without a position. They may have missed some of the messages.
                    self.reset(&topic);
                }
                self.outputs.push_back(FollowerOutput::Ready);
                self.deliver_next(now, &topic);
            }
            Some(epoch) if epoch != read.epoch || entry.known < read.complete_from => {
                return self.restart(&topic);
            }
            Some(_) => {
                entry.known = entry.known.max(read.last);
                entry.is_doubtful = false;
                for stored in read.messages {
                    let entry = self.topics.get_mut(&topic).expect("it was found");
                    let before = entry.log.last;
                    entry.note(now, before, stored);
                    self.deliver_next(now, &topic);
                }
                self.deliver_next(now, &topic);
            }
        }
        if self.topics.get(&topic).is_some_and(|entry| entry.is_behind()) {
            self.read_again(&topic);
        }
    }

    /// A topic could not be read in time.
    pub fn handle_unread(&mut self, topic: &str, number: u64) {
        let Some((topic, entry)) = self.topics.get_key_value(topic) else { return };
        if entry.read.is_some_and(|request| request.number == number) {
            let topic = topic.clone();
            self.topics.get_mut(&topic).expect("it was found").read = None;
            if self.topics[&topic].epoch.is_some() {
                self.restart(&topic);
            }
        }
    }

    /// The topics after another one, in the order of their names, with the sequence up to which nothing of
    /// them is missing: to be compared with the stream, which has reached the sequence `stream_last`.
    pub fn to_compare(
        &self,
        after: Option<&Arc<str>>,
        is_of_stream: impl Fn(&Bounds) -> bool,
        stream_last: u64,
        count: usize,
    ) -> Vec<(Arc<str>, u64)> {
        let from = after.map_or(Bound::Unbounded, |topic| Bound::Excluded(topic.clone()));
        let topics = self.topics.range((from, Bound::Unbounded));
        let behind = topics.filter(|(_, entry)| {
            entry.epoch.is_some() && entry.known < stream_last && is_of_stream(&entry.bounds)
        });
        behind.take(count).map(|(topic, entry)| (topic.clone(), entry.known)).collect()
    }

    /// A topic was compared. Its last message has the sequence `last`; 0: no message after the sequence that
    /// [`Followers::to_compare`] gave. `up_to`: later messages were not looked at. `first` is the first
    /// sequence of the whole stream.
    pub fn handle_compared(&mut self, topic: &str, known: u64, last: u64, up_to: u64, first: u64) {
        let Some(entry) = self.topics.get_mut(topic).filter(|entry| entry.epoch.is_some()) else {
            return;
        };
        let topic: Arc<str> = topic.into();
        if first > entry.known.max(known).saturating_add(1) {
            // Messages that the stream has dropped may have been of this topic.
            self.restart(&topic);
        } else if last > entry.log.last {
            self.totals.gaps += u64::from(entry.read.is_none());
            entry.wanted = entry.wanted.max(last);
            self.read_again(&topic);
        } else {
            entry.known = entry.known.max(up_to);
            entry.is_doubtful = false;
        }
    }

    /// Messages of any topic may be lost: the connection to the stream was interrupted.
    pub fn handle_interruption(&mut self) {
        self.topics.values_mut().for_each(|entry| entry.is_doubtful = true);
    }

    /// The connection to the process that writes all topics is another one: what was sent before may be lost.
    pub fn handle_relink(&mut self) {
        self.handle_interruption();
        let topics: Vec<Arc<str>> = self.topics.keys().cloned().collect();
        for topic in topics {
            self.topics.get_mut(&topic).expect("it was found").read = None;
            self.read_again(&topic);
        }
    }

    /// The streams that hold these topics are others now.
    pub fn restart_all(&mut self, is_of_stream: impl Fn(&Bounds) -> bool) {
        let of_stream = self.topics.iter().filter(|(_, entry)| is_of_stream(&entry.bounds));
        let topics: Vec<Arc<str>> = of_stream.map(|(topic, _)| topic.clone()).collect();
        topics.iter().for_each(|topic| self.restart(topic));
    }

    /// The limits of topics have changed: those whose messages are elsewhere now begin again.
    pub fn set_bounds(&mut self, now: Instant, bounds: impl Fn(&str) -> Option<Bounds>) {
        let changed =
            self.topics.iter().filter(|(topic, entry)| bounds(topic) != Some(entry.bounds));
        let changed: Vec<Arc<str>> = changed.map(|(topic, _)| topic.clone()).collect();
        for topic in changed {
            let shards = self.topics[&topic].shards;
            self.reset(&topic);
            self.remove(&topic);
            if let Some(bounds) = bounds(&topic) {
                self.entry(now, &topic, bounds).shards = shards;
            }
        }
    }

    /// Drops what is expired or unused. Called ten times a second.
    pub fn handle_tick(&mut self, now: Instant) {
        for topic in self.sweep.next(&self.topics) {
            let entry = self.topics.get_mut(&topic).expect("it was found");
            entry.log.expire(now, &entry.bounds);
            let idle = now.since(entry.used_at);
            let is_unread = entry.epoch.is_none() && entry.shards > 0;
            if entry.shards == 0 && idle > entry.bounds.age.max(IDLE_PERIOD_MIN) {
                self.remove(&topic);
            } else {
                self.count(&topic);
                if is_unread {
                    self.read_again(&topic);
                }
            }
        }
        if self.totals.memory_bytes > self.memory_bytes_max {
            self.shrink();
        }
    }

    /// Frees an eighth: sorting all topics is the expensive step.
    fn shrink(&mut self) {
        let target = self.memory_bytes_max - self.memory_bytes_max / 8;
        let mut by_use: Vec<(bool, Instant, Arc<str>)> = self
            .topics
            .iter()
            .map(|(topic, entry)| (entry.shards > 0, entry.used_at, topic.clone()))
            .collect();
        by_use.sort_unstable();
        for (is_served, _, topic) in by_use {
            if self.totals.memory_bytes <= target {
                break;
            }
            if is_served && self.topics[&topic].counted.0 == 0 {
                continue;
            }
            self.totals.dropped_topics += 1;
            if is_served {
                self.topics.get_mut(&topic).expect("it was found").log.clear();
                self.count(&topic);
            } else {
                self.remove(&topic);
            }
        }
    }

    fn entry(&mut self, now: Instant, topic: &str, bounds: Bounds) -> &mut Topic {
        if !self.topics.contains_key(topic) {
            let topic: Arc<str> = topic.into();
            self.outputs.push_back(FollowerOutput::Follow { topic: topic.clone(), bounds });
            self.topics.insert(topic.clone(), Box::new(Topic::new(now, bounds)));
            self.count(&topic);
        }
        self.topics.get_mut(topic).expect("it was inserted")
    }

    fn remove(&mut self, topic: &Arc<str>) {
        let Some(entry) = self.topics.remove(topic) else { return };
        self.totals.messages -= entry.counted.0;
        self.totals.memory_bytes -= entry.counted.1;
        let (topic, bounds) = (topic.clone(), entry.bounds);
        self.outputs.push_back(FollowerOutput::Unfollow { topic, bounds });
    }

    /// Tells the clients of a topic that they missed messages, and reads it from its begin.
    fn restart(&mut self, topic: &Arc<str>) {
        let entry = self.topics.get_mut(topic).expect("the caller has found it");
        entry.forget();
        self.reset(topic);
        self.count(topic);
        self.read_again(topic);
    }

    fn reset(&mut self, topic: &Arc<str>) {
        if self.topics.get(topic).is_some_and(|entry| entry.shards > 0) {
            self.totals.resets += 1;
            self.outputs.push_back(FollowerOutput::Reset { topic: topic.clone() });
        }
    }

    fn read_again(&mut self, topic: &str) {
        let (topic, _) = self.topics.get_key_value(topic).expect("the caller has found it");
        let topic = topic.clone();
        let entry = self.topics.get_mut(&topic).expect("it was found");
        if entry.read.is_some() {
            return;
        }
        self.last_read += 1;
        let after = if entry.epoch.is_some() { entry.log.last } else { 0 };
        let request = ReadRequest { number: self.last_read, after, until: entry.wanted };
        entry.read = Some(request);
        let bounds = entry.bounds;
        self.outputs.push_back(FollowerOutput::Read { topic, bounds, request });
    }

    /// Delivers the messages that follow the last one without a gap.
    fn deliver_next(&mut self, now: Instant, topic: &Arc<str>) {
        let entry = self.topics.get_mut(topic).expect("the caller has found it");
        while let Some((after, position, message)) = entry.take_next(now) {
            let topic = topic.clone();
            self.outputs.push_back(FollowerOutput::Deliver { topic, after, position, message });
        }
        self.count(topic);
    }

    /// Updates the totals after a change of a topic.
    fn count(&mut self, topic: &str) {
        let Some(entry) = self.topics.get_mut(topic) else { return };
        let (old_messages, old_bytes) = entry.counted;
        entry.counted = entry.size(topic);
        let (messages, bytes) = entry.counted;
        let totals = &mut self.totals;
        totals.messages = totals.messages - old_messages + messages;
        totals.memory_bytes = totals.memory_bytes - old_bytes + bytes;
    }
}
