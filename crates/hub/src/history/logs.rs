//! The messages of all topics of a server of one machine.
//!
//! One process has the logs: the only one, or the supervisor of several, which has no clients and ends only
//! with the server. So each message has one writer, and a worker that is killed takes no message with it.
//!
//! # Positions
//!
//! The messages of a topic are numbered without a gap. All topics have the same epoch, a random number that is
//! another one after a restart. A topic has no log before its first message. Its position then is the
//! highest number that a forgotten log had, and its numbers begin above:
//!
//! ```text
//! topic   log          position
//! a       1, 2, 3      3
//! b       none         0
//! a is forgotten       3: a client that comes back with 3 has missed nothing, one with 2 is told
//! b       4, 5         5: a client of b that had 0 before is told nothing while it is connected
//! ```
//!
//! # Bounds
//!
//! The bounds of a topic limit each log, not their number. A server with a topic for each user keeps some
//! 500 bytes for a topic with one message of 200 bytes (`tests/history_memory.rs`); a million users who came
//! once would take 500 MB. So:
//!
//! - A log without subscribers goes [`IDLE_PERIOD`] after its messages have expired.
//! - Over `memory_bytes_max`, which is checked at each tick, the least recently used go: first logs without
//!   messages, then the messages of the others, and then their logs. Sorting all topics is the expensive
//!   step, so an eighth is freed at once.
//!
//! The driver calls one method for each event. The calls return what is to be sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchfire_types::Instant;

use super::followers::{ReadTopic, Stored};
use super::log::{Bounds, Kept, Log, Message, Positioned};
use super::position::{EPOCH_MASK, Position};
use super::sweep::Sweep;

/// How long a log stays after its last message has expired, if no client is subscribed.
const IDLE_PERIOD: Duration = Duration::from_secs(600);
/// The memory of a topic besides its name and its messages.
const TOPIC_OVERHEAD_BYTES: usize = size_of::<Entry>() + 112;

/// The sizes of all logs, and what was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogTotals {
    pub logs: usize,
    pub messages: usize,
    pub memory_bytes: usize,
    /// Logs that lost their messages because there were too many bytes in all logs.
    pub dropped_logs: u64,
}

/// The place of a message that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The position before it.
    pub after: Position,
    pub position: Position,
    /// Whether the topic had no log before.
    pub is_first: bool,
}

/// All logs, on their way to the program that replaces this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogsImage {
    pub epoch: u64,
    pub forgotten: u64,
    pub topics: Vec<TopicImage>,
}

/// The log of one topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicImage {
    pub topic: String,
    pub bounds: Bounds,
    pub last: u64,
    pub complete_from: u64,
    /// The kept messages, with their sequences and ages.
    pub messages: Vec<(u64, Duration, Message)>,
}

struct Entry {
    log: Log,
    bounds: Bounds,
    /// Shards of this process with subscribers.
    shards: u32,
    used_at: Instant,
    /// The share of this topic in the totals: messages and bytes.
    counted: (usize, usize),
}

/// The messages of all topics.
pub struct Logs {
    epoch: u64,
    memory_bytes_max: usize,
    /// Boxed, because a map has a place for two for each entry.
    topics: BTreeMap<Arc<str>, Box<Entry>>,
    /// The highest sequence in a log that was forgotten.
    forgotten: u64,
    sweep: Sweep,
    totals: LogTotals,
}

impl Logs {
    /// Logs with a random epoch. `memory_bytes_max` bounds the memory of all of them.
    pub fn new(epoch: u64, memory_bytes_max: usize) -> Self {
        Logs {
            epoch: epoch & EPOCH_MASK,
            memory_bytes_max,
            topics: BTreeMap::new(),
            forgotten: 0,
            sweep: Sweep::default(),
            totals: LogTotals::default(),
        }
    }

    /// All logs as they are now. Its messages share their memory with the logs.
    pub fn image(&self, now: Instant) -> LogsImage {
        let topics = self.topics.iter().map(|(topic, entry)| TopicImage {
            topic: (**topic).into(),
            bounds: entry.bounds,
            last: entry.log.last,
            complete_from: entry.log.complete_from,
            messages: (entry.log.since(0))
                .map(|kept| (kept.sequence, now.since(kept.stored_at), kept.message.clone()))
                .collect(),
        });
        let topics = topics.collect();
        LogsImage { epoch: self.epoch, forgotten: self.forgotten, topics }
    }

    /// The logs of an image, which has passed between two programs.
    pub fn of_image(now: Instant, image: LogsImage, memory_bytes_max: usize) -> Self {
        let LogsImage { epoch, forgotten, topics } = image;
        let mut logs = Logs { forgotten, ..Logs::new(epoch, memory_bytes_max) };
        for TopicImage { topic, bounds, last, complete_from, messages } in topics {
            let entry = logs.entry(now, &topic);
            entry.bounds = bounds;
            entry.log = Log::after(complete_from);
            for (sequence, age, message) in messages {
                let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
                let stored_at = Instant::from_nanos(now.as_nanos().saturating_sub(age));
                entry.log.push(now, &bounds, Kept { sequence, stored_at, message });
            }
            entry.log.last = last;
            logs.count(&topic);
        }
        logs
    }

    pub fn totals(&self) -> LogTotals {
        LogTotals { logs: self.topics.len(), ..self.totals }
    }

    /// Writes a message.
    pub fn publish(
        &mut self,
        now: Instant,
        topic: &str,
        bounds: Bounds,
        message: Message,
    ) -> Placed {
        self.write(now, topic, bounds, None, message)
    }

    /// Writes a message that another process has numbered.
    pub fn append(
        &mut self,
        now: Instant,
        topic: &str,
        bounds: Bounds,
        sequence: u64,
        message: Message,
    ) -> Placed {
        self.write(now, topic, bounds, Some(sequence), message)
    }

    /// Writes a message with a number, or with the next one.
    fn write(
        &mut self,
        now: Instant,
        topic: &str,
        bounds: Bounds,
        sequence: Option<u64>,
        message: Message,
    ) -> Placed {
        let Some(entry) = self.topics.get_mut(topic) else {
            self.entry(now, topic);
            let placed = self.write(now, topic, bounds, sequence, message);
            return Placed { is_first: true, ..placed };
        };
        (entry.bounds, entry.used_at) = (bounds, now);
        let before = entry.log.last;
        let sequence = sequence.unwrap_or(before + 1);
        entry.log.push(now, &bounds, Kept { sequence, stored_at: now, message });
        entry.count(topic, &mut self.totals);
        let at = |offset| Position { epoch: self.epoch, offset };
        Placed { after: at(before), position: at(sequence), is_first: false }
    }

    /// The position of the last message.
    pub fn position(&self, topic: &str) -> Position {
        let offset = self.topics.get(topic).map_or(self.forgotten, |entry| entry.log.last);
        Position { epoch: self.epoch, offset }
    }

    /// The kept messages after a position, oldest first. `None`: some were dropped, or the position is none
    /// of the topic.
    pub fn since(
        &mut self,
        now: Instant,
        topic: &str,
        position: Position,
    ) -> Option<Vec<Positioned>> {
        let Position { epoch, offset } = position;
        if epoch != self.epoch {
            return None;
        }
        let Some(entry) = self.topics.get_mut(topic) else {
            return (offset == self.forgotten).then(Vec::new);
        };
        entry.log.expire(now, &entry.bounds);
        let is_complete = (entry.log.complete_from..=entry.log.last).contains(&offset);
        is_complete.then(|| entry.log.since(offset).map(|kept| kept.positioned(epoch)).collect())
    }

    /// How many messages of a topic are kept.
    pub fn kept(&self, topic: &str) -> usize {
        self.topics.get(topic).map_or(0, |entry| entry.counted.0)
    }

    /// The last messages, oldest first.
    pub fn newest(&mut self, now: Instant, topic: &str, count: usize) -> Vec<Positioned> {
        let Some(entry) = self.topics.get_mut(topic) else { return Vec::new() };
        entry.log.expire(now, &entry.bounds);
        entry.log.newest(count).map(|kept| kept.positioned(self.epoch)).collect()
    }

    /// Reads a topic for a process that follows it.
    pub fn read(&mut self, now: Instant, topic: &str, after: u64) -> ReadTopic {
        let (epoch, forgotten) = (self.epoch, self.forgotten);
        let Some(entry) = self.topics.get_mut(topic) else {
            return ReadTopic {
                epoch,
                messages: vec![],
                complete_from: forgotten,
                last: forgotten,
            };
        };
        entry.used_at = now;
        entry.log.expire(now, &entry.bounds);
        let stored = |kept: &Kept| Stored {
            sequence: kept.sequence,
            age: now.since(kept.stored_at),
            message: kept.message.clone(),
        };
        let Log { last, complete_from, .. } = entry.log;
        ReadTopic {
            epoch,
            messages: entry.log.since(after).map(stored).collect(),
            complete_from,
            last,
        }
    }

    /// A shard of this process has its first subscriber of a topic, whose position stays known from now on.
    pub fn add_shard(&mut self, now: Instant, topic: &str) {
        self.entry(now, topic).shards += 1;
        self.count(topic);
    }

    /// The last subscriber of a shard has left a topic.
    pub fn remove_shard(&mut self, now: Instant, topic: &str) {
        let Some(entry) = self.topics.get_mut(topic) else { return };
        entry.shards = entry.shards.saturating_sub(1);
        entry.used_at = now;
        // Without a message it has nothing to forget.
        if entry.shards == 0 && entry.log.last <= self.forgotten {
            self.remove(topic);
        }
    }

    /// Drops what is expired or unused. Called ten times a second.
    pub fn handle_tick(&mut self, now: Instant) {
        for topic in self.sweep.next(&self.topics) {
            let entry = self.topics.get_mut(&topic).expect("it was found");
            entry.log.expire(now, &entry.bounds);
            let is_idle = now.since(entry.used_at) > entry.bounds.age.saturating_add(IDLE_PERIOD);
            match is_idle && entry.shards == 0 {
                true => self.remove(&topic),
                false => self.count(&topic),
            }
        }
        if self.totals.memory_bytes > self.memory_bytes_max {
            self.shrink();
        }
    }

    /// Drops what was not used for the longest time, until an eighth of the memory is free.
    fn shrink(&mut self) {
        let enough = self.memory_bytes_max - self.memory_bytes_max / 8;
        let by_use = self.topics.iter().map(|(topic, entry)| (entry.used_at, topic.clone()));
        let mut by_use: Vec<(Instant, Arc<str>)> = by_use.collect();
        by_use.sort_unstable();
        for is_clearing in [false, true, false] {
            for (_, topic) in &by_use {
                if self.totals.memory_bytes <= enough {
                    return;
                }
                let Some(entry) = self.topics.get_mut(topic) else { continue };
                match entry.log.is_empty() {
                    false if is_clearing => {
                        entry.log.clear();
                        self.totals.dropped_logs += 1;
                        self.count(topic);
                    }
                    true if !is_clearing && entry.shards == 0 => self.remove(topic),
                    _ => {}
                }
            }
        }
    }

    fn entry(&mut self, now: Instant, topic: &str) -> &mut Entry {
        if !self.topics.contains_key(topic) {
            let entry = Entry {
                log: Log::after(self.forgotten),
                bounds: Bounds { messages: 0, age: Duration::ZERO, bytes: 0 },
                shards: 0,
                used_at: now,
                counted: (0, 0),
            };
            self.topics.insert(topic.into(), Box::new(entry));
        }
        self.topics.get_mut(topic).expect("it was inserted")
    }

    fn remove(&mut self, topic: &str) {
        let Some(entry) = self.topics.remove(topic) else { return };
        self.forgotten = self.forgotten.max(entry.log.last);
        self.totals.messages -= entry.counted.0;
        self.totals.memory_bytes -= entry.counted.1;
    }

    /// Updates the totals after a change of a topic.
    fn count(&mut self, topic: &str) {
        let entry = self.topics.get_mut(topic).expect("the caller has found it");
        entry.count(topic, &mut self.totals);
    }
}

impl Entry {
    /// Updates the totals after a change.
    fn count(&mut self, topic: &str, totals: &mut LogTotals) {
        let (old_messages, old_bytes) = self.counted;
        let (messages, bytes) = self.log.size();
        self.counted = (messages, bytes + TOPIC_OVERHEAD_BYTES + topic.len());
        totals.messages = totals.messages - old_messages + messages;
        totals.memory_bytes = totals.memory_bytes - old_bytes + self.counted.1;
    }
}
