//! Publishers that wait for the readers of their topic.
//!
//! # The reason
//!
//! A publisher is faster than its readers: it gives the server 4 MB in a tenth of a second, and a
//! reader takes them in half a second. If the server closed each reader whose queue is full, it would
//! lose readers that do all they can. If it queued without a limit, it would grow. So the publisher
//! waits: its socket is not read, its POST or call of the API is not answered.
//!
//! # When a topic has no room
//!
//! - **Broadcasts of it are on their way**: published, but not yet given to each subscriber by each
//!   event loop of this process. They have at most a half of `limits.queued_bytes_max` bytes, and one
//!   more message. A message for the history of its topic counts until it is stored, too.
//! - **A subscriber is awaited**: its queue is over a half of the limit, was not at a quarter since, and
//!   moves. Each event loop reports the topics of which it awaits a subscriber (`shard/backpressure.rs`).
//! - **Another process awaits a subscriber**. Processes report such topics ten times a second, and a
//!   report counts for [`REPORT_PERIOD`].
//!
//! # The bounds
//!
//! No reader is awaited for longer than `socket.crowded_timeout`, and no publisher waits for longer than
//! twice that time. Then it goes on, and the queues that are still full close their sockets. The frames
//! of broadcasts are counted once for all queues that share them. While they have more than
//! `limits.shared_bytes_max` bytes, no queue exceeds its own limit, also if it moves.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use watchfire_types::ShardId;

use crate::settings::Settings;

/// How long a report of another process counts: three of its ticks.
const REPORT_PERIOD: Duration = Duration::from_millis(300);
/// Topics in one report. Publishers of further topics wait only when their turn comes.
const REPORTED_MAX: usize = 256;
/// The cost of a broadcast besides its payload. An event loop has a place for 1,024 of a topic.
const OVERHEAD: usize = 1024;

/// Tells an event loop that a topic has room. It may fail: each looks at its next tick, too.
pub(super) type CallShard = Box<dyn Fn(ShardId, &str) + Send + Sync>;

/// The room of all topics of this process.
pub(crate) struct Flows {
    call_shard: CallShard,
    topics: Mutex<HashMap<Box<str>, Flow>>,
    /// Bytes of encoded broadcasts, each counted once.
    shared_bytes: AtomicUsize,
    shared_bytes_max: usize,
    /// Bytes of one topic that may be on their way.
    in_flight_max: usize,
    crowded_timeout: Duration,
}

/// The reasons for which a topic has no room.
#[derive(Default)]
struct Flow {
    in_flight: usize,
    /// The event loops of this process that await a subscriber.
    awaiting: Vec<ShardId>,
    /// Until when the last report of another process counts.
    elsewhere: Option<Instant>,
    waiting: Vec<Waiter>,
}

/// A publisher that is told when a topic has room.
pub(crate) enum Waiter {
    Shard(ShardId),
    Call(oneshot::Sender<()>),
}

/// A message that is not stored yet.
pub(crate) struct InFlight {
    flows: Arc<Flows>,
    topic: Box<str>,
    payload_bytes: usize,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.flows.land(&self.topic, self.payload_bytes);
    }
}

impl Flow {
    fn has_room(&self, in_flight_max: usize) -> bool {
        self.in_flight <= in_flight_max && self.awaiting.is_empty() && self.elsewhere.is_none()
    }
}

impl fmt::Debug for Flows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flows of {} topics", self.topics.lock().len())
    }
}

impl Flows {
    pub fn new(settings: &Settings, call_shard: CallShard) -> Arc<Self> {
        Arc::new(Flows {
            call_shard,
            topics: Mutex::default(),
            shared_bytes: AtomicUsize::new(0),
            shared_bytes_max: settings.limits.shared_bytes_max.try_into().unwrap_or(usize::MAX),
            in_flight_max: settings.limits.queued_bytes_max as usize / 2,
            crowded_timeout: settings.socket.crowded_timeout,
        })
    }

    /// The longest wait of a publisher.
    pub fn wait_max(&self) -> Duration {
        self.crowded_timeout * 2
    }

    /// Whether queues may hold more than their own limit.
    pub fn has_shared_room(&self) -> bool {
        self.shared_bytes.load(Ordering::Relaxed) <= self.shared_bytes_max
    }

    /// Counts an encoded broadcast until the last queue has sent it.
    pub fn counted(self: &Arc<Self>, frame: Bytes) -> Bytes {
        struct Counted(Bytes, Arc<Flows>);
        impl AsRef<[u8]> for Counted {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        impl Drop for Counted {
            fn drop(&mut self) {
                self.1.shared_bytes.fetch_sub(self.0.len(), Ordering::Relaxed);
            }
        }
        self.shared_bytes.fetch_add(frame.len(), Ordering::Relaxed);
        Bytes::from_owner(Counted(frame, self.clone()))
    }

    /// A broadcast is on its way until [`Flows::land`].
    pub fn depart(&self, topic: &str, payload_bytes: usize) {
        self.update(topic, |flow| flow.in_flight += payload_bytes + OVERHEAD);
    }

    pub fn land(&self, topic: &str, payload_bytes: usize) {
        self.update(topic, |flow| flow.in_flight -= payload_bytes + OVERHEAD);
    }

    /// A message is on its way until the returned value is dropped.
    pub fn in_flight(self: &Arc<Self>, topic: &str, payload_bytes: usize) -> InFlight {
        self.depart(topic, payload_bytes);
        InFlight { flows: self.clone(), topic: topic.into(), payload_bytes }
    }

    /// An event loop begins, or ceases, to await a subscriber.
    pub fn set_awaiting(&self, topic: &str, shard: ShardId, awaits: bool) {
        self.update(topic, |flow| {
            flow.awaiting.retain(|other| *other != shard);
            if awaits {
                flow.awaiting.push(shard);
            }
        });
    }

    /// Another process awaits a subscriber.
    pub fn note_elsewhere(&self, topic: &str) {
        self.update(topic, |flow| flow.elsewhere = Some(Instant::now() + REPORT_PERIOD));
    }

    /// Ends the reports that count no longer. Returns the topics to report to other processes.
    pub fn tick(&self) -> Vec<Box<str>> {
        let now = Instant::now();
        let mut topics = self.topics.lock();
        let has_ended = |flow: &Flow| flow.elsewhere.is_some_and(|until| until <= now);
        let ended: Vec<Box<str>> = topics
            .iter()
            .filter(|(_, flow)| has_ended(flow))
            .map(|(topic, _)| topic.clone())
            .collect();
        let own = topics.iter_mut().filter(|(_, flow)| !flow.awaiting.is_empty());
        let reported = own.map(|(topic, _)| topic.clone()).take(REPORTED_MAX).collect();
        drop(topics);
        ended.iter().for_each(|topic| self.update(topic, |flow| flow.elsewhere = None));
        reported
    }

    /// Whether publishers of a topic have to wait.
    pub fn has_room(&self, topic: &str) -> bool {
        let topics = self.topics.lock();
        self.crowded_timeout.is_zero()
            || topics.get(topic).is_none_or(|flow| flow.has_room(self.in_flight_max))
    }

    /// Calls a waiter as soon as a topic has room. Returns false, and calls none, if it has room now.
    pub fn wait(&self, topic: &str, waiter: impl FnOnce() -> Waiter) -> bool {
        let mut topics = self.topics.lock();
        let Some(flow) = topics.get_mut(topic) else { return false };
        if self.crowded_timeout.is_zero() || flow.has_room(self.in_flight_max) {
            return false;
        }
        let waiter = waiter();
        let is_known = |known: &Waiter| matches!((known, &waiter), (Waiter::Shard(a), Waiter::Shard(b)) if a == b);
        if !flow.waiting.iter().any(is_known) {
            // Without the calls that gave up.
            flow.waiting.retain(|waiter| !matches!(waiter, Waiter::Call(call) if call.is_closed()));
            flow.waiting.push(waiter);
        }
        true
    }

    fn update(&self, topic: &str, change: impl FnOnce(&mut Flow)) {
        let mut topics = self.topics.lock();
        let flow = match topics.get_mut(topic) {
            Some(flow) => flow,
            None => topics.entry(topic.into()).or_default(),
        };
        change(flow);
        // Waiters are called at a half, so that each of them gets through more than one message.
        let called = match flow.has_room(self.in_flight_max / 2) {
            true => std::mem::take(&mut flow.waiting),
            false => Vec::new(),
        };
        if flow.has_room(0) {
            topics.remove(topic);
        }
        drop(topics);
        for waiter in called {
            match waiter {
                Waiter::Shard(shard) => (self.call_shard)(shard, topic),
                Waiter::Call(waiter) => drop(waiter.send(())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishers_wait_while_many_bytes_are_not_stored() {
        let flows = Flows::new(&Settings::default(), Box::new(|_, _| {}));
        let half = Settings::default().limits.queued_bytes_max as usize / 2;
        let messages: Vec<InFlight> = (0..3).map(|_| flows.in_flight("t", half / 3)).collect();
        assert!(!flows.has_room("t") && flows.has_room("u"));
        drop(messages);
        assert!(flows.has_room("t"));
        assert!(flows.topics.lock().is_empty());
    }
}
