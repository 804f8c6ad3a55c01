//! The last messages of one topic.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use watchfire_types::Instant;

use crate::history::position::Position;
use crate::tables::should_shrink;

/// The memory of the two texts of a kept message besides themselves: each has two counts, and the
/// allocator adds 16 bytes on average.
pub(super) const MESSAGE_OVERHEAD_BYTES: usize = 64;

/// How much of a topic is kept. The oldest messages are dropped at the first bound that is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    pub messages: usize,
    /// The longest time that a message is kept.
    pub age: Duration,
    /// The most bytes of all messages together.
    pub bytes: usize,
}

/// A message of a topic. Its copies share their memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub event: Arc<str>,
    pub payload: Arc<str>,
}

impl Message {
    pub fn len(&self) -> usize {
        self.event.len() + self.payload.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&*self.event, &*self.payload).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (event, payload) = <(String, String)>::deserialize(deserializer)?;
        Ok(Message { event: event.into(), payload: payload.into() })
    }
}

pub type Positioned = (Position, Message);

/// A message with the time at which it was stored.
pub(super) struct Kept {
    pub sequence: u64,
    pub stored_at: Instant,
    pub message: Message,
}

/// The last messages of one topic, in the order of their sequences.
pub(super) struct Log {
    messages: VecDeque<Kept>,
    bytes: usize,
    /// The sequence of the last message.
    pub last: u64,
    /// No message after this sequence was dropped.
    pub complete_from: u64,
}

impl Log {
    /// A log without messages, whose next message has a sequence above `last`.
    pub fn after(last: u64) -> Self {
        Log { messages: VecDeque::new(), bytes: 0, last, complete_from: last }
    }

    pub fn push(&mut self, now: Instant, bounds: &Bounds, kept: Kept) {
        self.last = kept.sequence;
        self.bytes += kept.message.len();
        self.messages.push_back(kept);
        self.expire(now, bounds);
    }

    /// Drops the messages that exceed a bound, and gives back the places of a burst of them.
    pub fn expire(&mut self, now: Instant, bounds: &Bounds) {
        while let Some(kept) = self.messages.front() {
            let exceeds = self.messages.len() > bounds.messages
                || self.bytes > bounds.bytes
                || now.since(kept.stored_at) > bounds.age;
            if !exceeds {
                break;
            }
            self.complete_from = self.complete_from.max(kept.sequence);
            self.bytes -= kept.message.len();
            self.messages.pop_front();
        }
        if should_shrink(self.messages.len(), self.messages.capacity()) {
            self.messages.shrink_to(self.messages.len() * 2);
        }
    }

    /// Drops all messages. The log still knows its last sequence.
    pub fn clear(&mut self) {
        self.complete_from = self.complete_from.max(self.last);
        self.messages = VecDeque::new();
        self.bytes = 0;
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The kept messages after a sequence, oldest first.
    pub fn since(&self, sequence: u64) -> impl Iterator<Item = &Kept> {
        let first = self.messages.partition_point(|kept| kept.sequence <= sequence);
        self.messages.range(first..)
    }

    /// The last messages, oldest first.
    pub fn newest(&self, count: usize) -> impl Iterator<Item = &Kept> {
        self.messages.range(self.messages.len().saturating_sub(count)..)
    }

    /// The number of kept messages, and their memory with the vacant places.
    pub fn size(&self) -> (usize, usize) {
        let places = self.messages.capacity() * size_of::<Kept>();
        (self.messages.len(), places + self.bytes + self.messages.len() * MESSAGE_OVERHEAD_BYTES)
    }
}

impl Kept {
    pub fn positioned(&self, epoch: u64) -> Positioned {
        (Position { epoch, offset: self.sequence }, self.message.clone())
    }
}
