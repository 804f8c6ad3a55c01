//! Sweeping: what is dropped, so that the memory of all logs is bounded.
//!
//! # The fault without it
//!
//! The bounds of a log limit each topic, not their number, and they are checked when a message is
//! written. A topic that nobody writes to any more would keep its last messages for ever. An application
//! with a topic for each user keeps 930 bytes for a topic with one message of 200 bytes
//! (`tests/history_memory.rs`). A million users who came once would take 930 MB.
//!
//! # The order of dropping
//!
//! - *Old messages.* Each tick checks the next fiftieth of the topics, in the order of their names. So at
//!   ten ticks a second every log is checked within five seconds, and with 100,000 topics a tick checks
//!   2,001 of them instead of all.
//! - *Unused topics.* A topic without subscribers goes [`IDLE_PERIOD`] after its messages have expired.
//!   Its position goes with it: a client that comes back later is told that messages may be missing.
//! - *The least recently used*, when all logs together exceed `memory_bytes_max`, which is checked at
//!   each tick. First the unused topics without messages go: anyone can make many of them by joining.
//!   Then the messages of the others go, and then their topics. A topic with subscribers stays, without
//!   messages, so that they still get the next ones with the right position.
//!
//! Sorting all topics by use is the expensive step. If it freed only what is over the bound, a busy
//! server would do it at every tick. So it frees an eighth: with 64 MiB, 8 MiB, which are the messages of
//! 19,000 such topics.
//!
//! A topic with a claim, or with messages that are not safe yet, is never removed here.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use watchfire_types::Instant;

use super::{Environment, Replicas};
use crate::history::log::{Bounds, Log};

/// How long a log stays after its last message has expired, if no client is subscribed.
pub(super) const IDLE_PERIOD: Duration = Duration::from_secs(600);
/// Ticks in which every log is checked once for expired messages.
const SWEEP_TICKS: usize = 50;

impl<E: Environment> Replicas<E> {
    /// Drops expired messages, and logs that were not used for long, of some topics.
    pub(super) fn sweep(&mut self, now: Instant) {
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

    /// Drops what was not used for the longest time: topics without messages, then messages, then topics.
    pub(super) fn shrink(&mut self) {
        let mut by_use: Vec<(Instant, Arc<str>)> =
            self.topics.iter().map(|(topic, entry)| (entry.used_at, topic.clone())).collect();
        by_use.sort();
        // Some more than needed, so that not every message leads to this.
        let enough = self.memory_bytes_max / 8 * 7;
        self.remove_empty(&by_use, enough);
        for (_, topic) in &by_use {
            if self.totals.memory_bytes <= enough {
                return;
            }
            let Some(entry) = self.topics.get_mut(topic) else { continue };
            if let Some(log) = entry.log.as_mut().filter(|log| !log.is_empty()) {
                log.clear();
                self.totals.dropped_logs += 1;
                self.count(topic);
            }
        }
        self.remove_empty(&by_use, enough);
    }

    /// Removes unused topics without messages until no more than `enough` bytes are left.
    fn remove_empty(&mut self, by_use: &[(Instant, Arc<str>)], enough: usize) {
        for (_, topic) in by_use {
            if self.totals.memory_bytes <= enough {
                return;
            }
            let Some(entry) = self.topics.get(topic) else { continue };
            let is_empty = entry.log.as_ref().is_none_or(Log::is_empty);
            if is_empty && entry.shards == 0 && !entry.has_messages() && entry.claim.is_none() {
                self.remove(topic);
            }
        }
    }
}
