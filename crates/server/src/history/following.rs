//! Topics whose messages are stored outside of this process: its caches of them.
//!
//! `watchfire_hub::history::Followers` decides which messages are next, missing or kept; a [`Source`] sends and
//! receives them. This file carries them to the shards, under one lock, so that they arrive in the order of
//! their positions.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant as SystemInstant};

use parking_lot::Mutex;
use watchfire_hub::history::{Bounds, FollowerOutput, FollowerTotals, Followers, ReadRequest};
use watchfire_types::Instant;

use super::metrics::HistoryMetrics;
use super::topics::HistoryTopics;
use super::{Done, Excerpt, Local, NotStored, OnRead, Storage, Wanted};
use crate::cluster::BoxFuture;
use crate::machines::ClusterError;
use crate::metrics::MetricWriter;

/// The time before the start of this process on its clock. Messages that were stored then have a time, too.
const BEFORE_START: Duration = Duration::from_secs(100 * 365 * 86_400);
/// The longest wait of a reader.
const READ_TIMEOUT: Duration = Duration::from_secs(3);
/// Readers that wait. A further one gets nothing.
const READERS_MAX: usize = 10_000;

/// The place where the messages are stored.
pub(super) trait Source: Send + Sync + Sized + 'static {
    /// Connects. What it receives goes to [`Following::with`].
    fn start(following: Arc<Following<Self>>) -> BoxFuture<'static, Result<(), ClusterError>>;

    /// Stores a message: its event and its payload.
    fn publish(
        &self,
        topic: &str,
        bounds: &Bounds,
        message: (&str, &str),
        id: Option<&str>,
        done: Done,
    );

    /// Receives the messages of a topic that are stored from now on.
    fn follow(&self, topic: Arc<str>, bounds: &Bounds);

    fn unfollow(&self, topic: Arc<str>, bounds: &Bounds);

    /// Reads a topic, for [`Followers::handle_read`].
    fn read(&self, topic: Arc<str>, bounds: &Bounds, request: ReadRequest);

    /// A sequence that was stored: a client may have messages up to it from another process.
    fn last(&self, bounds: &Bounds) -> u64;

    /// Replaces the link to the place.
    fn link(&self, _stream: UnixStream) {}

    /// Called ten times a second.
    fn tick(&self) {}

    fn write_metrics(
        &self,
        totals: &FollowerTotals,
        metrics: &HistoryMetrics,
        writer: &mut MetricWriter,
    );
}

/// The topics that this process follows.
pub(super) struct Following<S> {
    pub topics: Arc<HistoryTopics>,
    local: Local,
    started_at: SystemInstant,
    followers: Mutex<Followers>,
    pub source: S,
    readers: Mutex<Vec<Reader>>,
}

/// A call that waits for a topic.
struct Reader {
    topic: Box<str>,
    wanted: Wanted,
    until: Instant,
    on_read: OnRead,
}

impl<S: Source> Following<S> {
    pub fn new(
        source: S,
        topics: Arc<HistoryTopics>,
        local: Local,
        memory_bytes_max: usize,
    ) -> Arc<Self> {
        Arc::new(Following {
            topics,
            local,
            started_at: SystemInstant::now(),
            followers: Mutex::new(Followers::new(memory_bytes_max)),
            source,
            readers: Mutex::default(),
        })
    }

    fn now(&self) -> Instant {
        Instant::ZERO + BEFORE_START + self.started_at.elapsed()
    }

    /// Runs an action, and does what the followers want after it. The lock is held meanwhile: what they want
    /// goes to queues, which never wait.
    pub fn with<T>(&self, act: impl FnOnce(&mut Followers, Instant) -> T) -> T {
        let now = self.now();
        let mut is_ready = false;
        let result = {
            let mut followers = self.followers.lock();
            let result = act(&mut followers, now);
            while let Some(output) = followers.poll_output() {
                is_ready |= output == FollowerOutput::Ready;
                self.apply(output);
            }
            result
        };
        if is_ready {
            self.answer_readers();
        }
        result
    }

    fn apply(&self, output: FollowerOutput) {
        let local = self.local.get();
        match output {
            FollowerOutput::Follow { topic, bounds } => {
                self.source.follow(topic, &bounds);
            }
            FollowerOutput::Unfollow { topic, bounds } => {
                self.source.unfollow(topic, &bounds);
            }
            FollowerOutput::Read { topic, bounds, request } => {
                self.source.read(topic, &bounds, request);
            }
            FollowerOutput::Deliver { topic, after, position, message } => {
                local.inspect(|local| local.deliver(&topic, after, position, &message));
            }
            FollowerOutput::Reset { topic } => drop(local.inspect(|local| local.reset(&topic))),
            FollowerOutput::Ready => drop(local.inspect(|local| local.ready())),
        }
    }

    /// Answers the readers whose topics are read, or that have waited for too long.
    fn answer_readers(&self) {
        let now = self.now();
        let readers = std::mem::take(&mut *self.readers.lock());
        for reader in readers {
            let excerpt = self.read(&reader.topic, reader.wanted);
            if excerpt.is_none() && now < reader.until {
                self.readers.lock().push(reader);
            } else {
                (reader.on_read)(excerpt);
            }
        }
    }
}

impl<S: Source> Storage for Following<S> {
    fn start(self: Arc<Self>) -> BoxFuture<'static, Result<(), ClusterError>> {
        S::start(self)
    }

    fn publish(&self, topic: &str, event: &str, payload: &str, id: Option<&str>, done: Done) {
        match self.topics.bounds(topic) {
            Some(bounds) => self.source.publish(topic, &bounds, (event, payload), id, done),
            None => done(Err(NotStored::Unavailable)),
        }
    }

    fn open(&self, topic: &str) -> bool {
        let Some(bounds) = self.topics.bounds(topic) else { return true };
        self.with(|followers, now| followers.open(now, topic, bounds))
    }

    fn read(&self, topic: &str, wanted: Wanted) -> Option<Excerpt> {
        let bounds = self.topics.bounds(topic)?;
        self.with(|followers, now| {
            let position = followers.position(topic)?;
            let messages = match wanted {
                Wanted::Nothing => Some(Vec::new()),
                Wanted::After(after) => after.and_then(|after| {
                    followers.since(now, topic, after, self.source.last(&bounds))
                }),
                Wanted::Last(count) => Some(followers.newest(now, topic, count)),
            };
            Some(Excerpt { position, messages })
        })
    }

    fn read_soon(&self, topic: &str, wanted: Wanted, on_read: OnRead) {
        let is_full = self.readers.lock().len() >= READERS_MAX;
        if is_full || self.open(topic) {
            return on_read(self.read(topic, wanted));
        }
        let until = self.now() + READ_TIMEOUT;
        self.readers.lock().push(Reader { topic: topic.into(), wanted, until, on_read });
        // It may have been read meanwhile.
        self.answer_readers();
    }

    fn kept(&self, topic: &str) -> usize {
        self.followers.lock().kept(topic)
    }

    fn add_shard(&self, topic: &str) {
        if let Some(bounds) = self.topics.bounds(topic) {
            self.with(|followers, now| followers.add_shard(now, topic, bounds));
        }
    }

    fn remove_shard(&self, topic: &str) {
        self.with(|followers, now| followers.remove_shard(now, topic));
    }

    fn note_rules(&self) {
        self.with(|followers, now| followers.set_bounds(now, |topic| self.topics.bounds(topic)));
    }

    fn link(&self, stream: UnixStream) {
        self.source.link(stream);
    }

    fn tick(&self) {
        self.with(Followers::handle_tick);
        if !self.readers.lock().is_empty() {
            self.answer_readers();
        }
        self.source.tick();
    }

    fn write_metrics(&self, metrics: &HistoryMetrics, writer: &mut MetricWriter) {
        let totals = self.followers.lock().totals();
        // Without the logs of the supervisor, which is another process.
        writer.memory("histories", totals.memory_bytes);
        self.source.write_metrics(&totals, metrics, writer);
    }
}
