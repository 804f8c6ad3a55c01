//! The histories of a server of several machines: streams of NATS JetStream store the messages.
//!
//! `watchfire_hub::history::Followers` decides which messages are next, missing or kept;
//! `watchfire_cluster::nats::streams` sends and receives them. This file carries them to the shards, under one lock, so
//! that they arrive in the order of their positions.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant as SystemInstant};

use parking_lot::Mutex;
use watchfire_cluster::nats::streams::{
    Compared, StreamHandler, StreamLimits, StreamMessage, StreamRead, StreamRequest, Streams,
    Unpublished,
};
use watchfire_hub::history::{
    Bounds, FollowerOutput, Followers, Message, Position, ReadTopic, Stored as Kept,
};
use watchfire_types::Instant;

use super::metrics::HistoryMetrics;
use super::topics::HistoryTopics;
use super::{Done, Excerpt, Local, NotStored, OnRead, Storage, Stored, Wanted};
use crate::cluster::BoxFuture;
use crate::machines::{ClusterError, stream_settings};
use crate::metrics::MetricWriter;
use crate::settings::ClusterSettings;

/// The time before the start of this process on its clock. Messages that were stored then have a time, too.
const BEFORE_START: Duration = Duration::from_secs(100 * 365 * 86_400);
/// The longest wait of a reader.
const READ_TIMEOUT: Duration = Duration::from_secs(3);
/// Readers that wait. A further one gets nothing.
const READERS_MAX: usize = 10_000;

/// The topics that this process follows.
pub(super) struct StreamStorage {
    topics: Arc<HistoryTopics>,
    local: Local,
    started_at: SystemInstant,
    followers: Mutex<Followers>,
    streams: Streams,
    readers: Mutex<Vec<Reader>>,
}

/// A call that waits for a topic.
struct Reader {
    topic: Box<str>,
    wanted: Wanted,
    until: Instant,
    on_read: OnRead,
}

fn limits_of(bounds: &Bounds) -> StreamLimits {
    StreamLimits { messages: bounds.messages, age: bounds.age }
}

fn kept(message: StreamMessage) -> Kept {
    let StreamMessage { sequence, age, event, payload } = message;
    Kept { sequence, age, message: Message { event: event.into(), payload: payload.into() } }
}

impl StreamStorage {
    pub fn new(
        settings: &ClusterSettings,
        topics: Arc<HistoryTopics>,
        local: Local,
        memory_bytes_max: usize,
    ) -> Result<Self, ClusterError> {
        Ok(StreamStorage {
            topics,
            local,
            started_at: SystemInstant::now(),
            followers: Mutex::new(Followers::new(memory_bytes_max)),
            streams: Streams::new(stream_settings(settings)?),
            readers: Mutex::default(),
        })
    }

    fn now(&self) -> Instant {
        Instant::ZERO + BEFORE_START + self.started_at.elapsed()
    }

    /// Runs an action, and does what the followers want after it. The lock is held meanwhile: what they want
    /// goes to queues, which never wait.
    fn with<T>(&self, act: impl FnOnce(&mut Followers, Instant) -> T) -> T {
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
                self.streams.follow(topic, limits_of(&bounds));
            }
            FollowerOutput::Unfollow { topic, bounds } => {
                self.streams.unfollow(topic, limits_of(&bounds));
            }
            FollowerOutput::Read { topic, bounds, request } => {
                let (limits, number) = (limits_of(&bounds), request.number);
                let (after, until) = (request.after, request.until);
                self.streams.read(StreamRequest { topic, limits, number, after, until });
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

impl Storage for StreamStorage {
    fn start(self: Arc<Self>) -> BoxFuture<'static, Result<(), ClusterError>> {
        Box::pin(async move {
            let mut all: Vec<_> = self.topics.all_own_bounds().iter().map(limits_of).collect();
            all.sort_unstable();
            all.dedup();
            let handler = Arc::new(Handler(Arc::downgrade(&self)));
            self.streams.start(handler, all).await.map_err(ClusterError::Histories)
        })
    }

    fn publish(&self, topic: &str, event: &str, payload: &str, id: Option<&str>, done: Done) {
        let Some(bounds) = self.topics.bounds(topic) else {
            return done(Err(NotStored::Unavailable));
        };
        let done = Box::new(|outcome| {
            done(match outcome {
                Ok((epoch, offset)) => Ok(Stored { position: Some(Position { epoch, offset }) }),
                Err(Unpublished::Unconfirmed) => Err(NotStored::Unavailable),
                Err(Unpublished::TooLarge { bytes_max }) => Err(NotStored::TooLarge { bytes_max }),
            });
        });
        self.streams.publish(topic, limits_of(&bounds), (event, payload), id, done);
    }

    fn open(&self, topic: &str) -> bool {
        let Some(bounds) = self.topics.bounds(topic) else { return true };
        self.with(|followers, now| followers.open(now, topic, bounds))
    }

    fn read(&self, topic: &str, wanted: Wanted) -> Option<Excerpt> {
        let limits = limits_of(&self.topics.bounds(topic)?);
        self.with(|followers, now| {
            let position = followers.position(topic)?;
            let messages = match wanted {
                Wanted::Nothing => Some(Vec::new()),
                Wanted::After(after) => after.and_then(|after| {
                    followers.since(now, topic, after, self.streams.last(limits))
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

    fn tick(&self) {
        self.with(Followers::handle_tick);
        if !self.readers.lock().is_empty() {
            self.answer_readers();
        }
    }

    fn write_metrics(&self, metrics: &HistoryMetrics, writer: &mut MetricWriter) {
        let totals = self.followers.lock().totals();
        metrics.write(
            totals.topics,
            totals.messages,
            totals.memory_bytes,
            totals.dropped_topics,
            writer,
        );
        let streams = self.streams.totals();
        writer.gauge(
            "history_streams_unavailable",
            "Streams of JetStream that cannot be used at present",
            streams.troubles,
        );
        for (name, help, value) in [
            ("history_published", "Messages that JetStream has stored", streams.published),
            (
                "history_unpublished",
                "Messages that JetStream did not confirm in time, or refused",
                streams.unpublished,
            ),
            ("history_received", "Messages that JetStream has sent", streams.received),
            ("history_reads", "Topics that were read from JetStream", streams.reads),
            (
                "history_failed_reads",
                "Reads that JetStream did not answer in time",
                streams.failed_reads,
            ),
            (
                "history_interruptions",
                "Connections to NATS that were made, and times that this process was too slow for one",
                streams.interruptions,
            ),
            ("history_gaps", "Topics of which messages did not arrive and were read", totals.gaps),
            (
                "history_resets",
                "Topics whose clients had missed messages and joined again",
                totals.resets,
            ),
        ] {
            writer.counter(name, help, value);
        }
    }
}

/// Passes the messages of the streams to the storage, while it exists.
struct Handler(Weak<StreamStorage>);

impl StreamHandler for Handler {
    fn stored(&self, topic: &str, before: u64, message: StreamMessage) {
        if let Some(storage) = self.0.upgrade() {
            storage
                .with(|followers, now| followers.handle_stored(now, topic, before, kept(message)));
        }
    }

    fn read(&self, topic: &str, number: u64, read: Option<StreamRead>) {
        let Some(storage) = self.0.upgrade() else { return };
        storage.with(|followers, now| match read {
            Some(StreamRead { epoch, messages, complete_from, last }) => {
                let messages = messages.into_iter().map(kept).collect();
                let read = ReadTopic { epoch, messages, complete_from, last };
                followers.handle_read(now, topic, number, read);
            }
            None => followers.handle_unread(topic, number),
        });
    }

    fn interrupted(&self) {
        if let Some(storage) = self.0.upgrade() {
            storage.with(|followers, _| followers.handle_interruption());
        }
    }

    fn replaced(&self, limits: StreamLimits) {
        if let Some(storage) = self.0.upgrade() {
            storage.with(|followers, _| {
                followers.restart_all(|bounds| limits_of(bounds) == limits);
            });
        }
    }

    fn to_compare(
        &self,
        limits: StreamLimits,
        after: Option<&Arc<str>>,
        last: u64,
        count: usize,
    ) -> Vec<(Arc<str>, u64)> {
        let Some(storage) = self.0.upgrade() else { return Vec::new() };
        let is_of_stream = |bounds: &Bounds| limits_of(bounds) == limits;
        storage.followers.lock().to_compare(after, is_of_stream, last, count)
    }

    fn compared(&self, topic: &str, compared: &Compared) {
        let Compared { known, last, up_to, first } = *compared;
        if let Some(storage) = self.0.upgrade() {
            storage
                .with(|followers, _| followers.handle_compared(topic, known, last, up_to, first));
        }
    }
}
