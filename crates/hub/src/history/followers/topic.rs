//! The cache of one topic.

use std::collections::BTreeMap;

use watchfire_types::Instant;

use super::{ReadRequest, ReadTopic, Stored};
use crate::history::log::{Bounds, Kept, Log, MESSAGE_OVERHEAD_BYTES, Message, Positioned};
use crate::history::position::Position;

/// The memory of a topic besides its name and its messages.
const TOPIC_OVERHEAD_BYTES: usize = size_of::<Topic>() + 112;

/// The place of a message that arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It was here before.
    Old,
    /// It follows the last one.
    Next,
    /// Messages before it are missing.
    Early,
}

/// The cache of one topic.
pub(super) struct Topic {
    pub bounds: Bounds,
    /// The identity of the stream. `None`: the topic was not read.
    pub epoch: Option<u64>,
    pub log: Log,
    /// No message of the topic up to this sequence is missing. At least the last one of the log.
    pub known: u64,
    /// Messages that arrived and are not in their order yet, by their sequences, each with the sequence
    /// before.
    early: BTreeMap<u64, (u64, Kept)>,
    early_bytes: usize,
    /// The highest sequence of the topic that is missing; 0 for none.
    pub wanted: u64,
    pub read: Option<ReadRequest>,
    /// Whether messages may have been lost since the topic was last read or compared.
    pub is_doubtful: bool,
    /// Shards of this process with subscribers.
    pub shards: u32,
    /// Whether one of them came before the topic was read.
    pub is_joined_unread: bool,
    pub used_at: Instant,
    /// The share of this topic in the totals: messages and bytes.
    pub counted: (usize, usize),
}

impl Topic {
    pub fn new(now: Instant, bounds: Bounds) -> Self {
        Topic {
            bounds,
            epoch: None,
            log: Log::after(0),
            known: 0,
            early: BTreeMap::new(),
            early_bytes: 0,
            wanted: 0,
            read: None,
            is_doubtful: false,
            shards: 0,
            is_joined_unread: false,
            used_at: now,
            counted: (0, 0),
        }
    }

    pub fn position(&self) -> Option<Position> {
        Some(Position { epoch: self.epoch?, offset: self.log.last })
    }

    /// Begins again. What arrived early stays unknown, because it may be of another stream.
    pub fn forget(&mut self) {
        *self = Topic {
            shards: self.shards,
            counted: self.counted,
            ..Topic::new(self.used_at, self.bounds)
        };
    }

    /// Takes what the stream has.
    pub fn fill(&mut self, now: Instant, read: ReadTopic) {
        self.epoch = Some(read.epoch);
        self.known = read.last;
        self.log = Log::after(read.complete_from);
        for stored in read.messages {
            self.log.push(now, &self.bounds, Kept::new(now, stored));
        }
        self.log.last = read.last;
    }

    /// Notes a message that comes after another one.
    pub fn note(&mut self, now: Instant, before: u64, stored: Stored) -> Arrival {
        let sequence = stored.sequence;
        if self.epoch.is_some() && sequence <= self.log.last {
            return Arrival::Old;
        }
        // 0 is no message, so it is not the last one.
        let is_after_last = before == self.log.last && before > 0;
        let is_next =
            self.epoch.is_some() && (is_after_last || before <= self.log.last && !self.is_doubtful);
        let kept = Kept::new(now, stored);
        self.early_bytes += kept.message.len();
        if let Some((_, old)) = self.early.insert(sequence, (before, kept)) {
            self.early_bytes -= old.message.len();
        }
        if is_next {
            return Arrival::Next;
        }
        self.wanted = self.wanted.max(before);
        let is_full =
            self.early.len() > self.bounds.messages.max(1) || self.early_bytes > self.bounds.bytes;
        if is_full {
            self.wanted = self.early.keys().next_back().copied().unwrap_or(0).max(self.wanted);
            self.early.clear();
            self.early_bytes = 0;
        }
        Arrival::Early
    }

    /// Whether messages are missing that have been noticed.
    pub fn is_behind(&self) -> bool {
        self.wanted > self.known.max(self.log.last) || !self.early.is_empty()
    }

    /// The next message in the order, with the position before it.
    pub fn take_next(&mut self, now: Instant) -> Option<(Position, Position, Message)> {
        let epoch = self.epoch?;
        loop {
            let entry = self.early.first_entry()?;
            let (sequence, before) = (*entry.key(), entry.get().0);
            if sequence > self.log.last && before > self.log.last {
                return None;
            }
            let (_, kept) = entry.remove();
            self.early_bytes -= kept.message.len();
            if sequence <= self.log.last {
                continue;
            }
            let after = Position { epoch, offset: self.log.last };
            self.known = self.known.max(sequence);
            let message = kept.message.clone();
            self.log.push(now, &self.bounds, kept);
            return Some((after, Position { epoch, offset: sequence }, message));
        }
    }

    pub fn since(&self, position: Position, stream_last: u64) -> Option<Vec<Positioned>> {
        let epoch = self.epoch.filter(|epoch| *epoch == position.epoch)?;
        let is_complete = position.offset >= self.log.complete_from
            && position.offset <= stream_last.max(self.known);
        let kept = self.log.since(position.offset);
        is_complete.then(|| kept.map(|kept| kept.positioned(epoch)).collect())
    }

    pub fn newest(&self, count: usize) -> Vec<Positioned> {
        let Some(epoch) = self.epoch else { return Vec::new() };
        self.log.newest(count).map(|kept| kept.positioned(epoch)).collect()
    }

    /// The kept messages, and the memory of the topic.
    pub fn size(&self, name: &str) -> (usize, usize) {
        let (messages, bytes) = self.log.size();
        let early = self.early.len() * (size_of::<(u64, Kept)>() + MESSAGE_OVERHEAD_BYTES);
        (messages, TOPIC_OVERHEAD_BYTES + name.len() + bytes + early + self.early_bytes)
    }
}

impl Kept {
    fn new(now: Instant, stored: Stored) -> Self {
        let age = u64::try_from(stored.age.as_nanos()).unwrap_or(u64::MAX);
        let stored_at = Instant::from_nanos(now.as_nanos().saturating_sub(age));
        Kept { sequence: stored.sequence, stored_at, message: stored.message }
    }
}
