//! The histories of a server of several machines: streams of NATS JetStream store the messages, and
//! `watchfire_cluster::nats::streams` sends and receives them.

use std::sync::{Arc, Weak};

use watchfire_cluster::nats::streams::{
    Compared, StreamHandler, StreamLimits, StreamMessage, StreamRead, StreamRequest, Streams,
    Unpublished,
};
use watchfire_hub::history::{
    Bounds, FollowerTotals, Message, Position, ReadRequest, ReadTopic, Stored as Kept,
};

use super::following::{Following, Source};
use super::metrics::{HistoryMetrics, sizes_of};
use super::{Done, NotStored, Stored};
use crate::cluster::BoxFuture;
use crate::machines::ClusterError;
use crate::metrics::MetricWriter;

fn limits_of(bounds: &Bounds) -> StreamLimits {
    StreamLimits { messages: bounds.messages, age: bounds.age }
}

fn kept(message: StreamMessage) -> Kept {
    let StreamMessage { sequence, age, event, payload } = message;
    Kept { sequence, age, message: Message { event: event.into(), payload: payload.into() } }
}

impl Source for Streams {
    fn start(following: Arc<Following<Self>>) -> BoxFuture<'static, Result<(), ClusterError>> {
        Box::pin(async move {
            let mut all: Vec<_> = following.topics.all_own_bounds().iter().map(limits_of).collect();
            all.sort_unstable();
            all.dedup();
            let handler = Arc::new(Handler(Arc::downgrade(&following)));
            following.source.start(handler, all).await.map_err(ClusterError::Histories)
        })
    }

    fn publish(
        &self,
        topic: &str,
        bounds: &Bounds,
        message: (&str, &str),
        id: Option<&str>,
        done: Done,
    ) {
        let done = Box::new(|outcome| {
            done(match outcome {
                Ok((epoch, offset)) => Ok(Stored { position: Some(Position { epoch, offset }) }),
                Err(Unpublished::Unconfirmed) => Err(NotStored::Unavailable),
                Err(Unpublished::TooLarge { bytes_max }) => Err(NotStored::TooLarge { bytes_max }),
            });
        });
        self.publish(topic, limits_of(bounds), message, id, done);
    }

    fn follow(&self, topic: Arc<str>, bounds: &Bounds) {
        self.follow(topic, limits_of(bounds));
    }

    fn unfollow(&self, topic: Arc<str>, bounds: &Bounds) {
        self.unfollow(topic, limits_of(bounds));
    }

    fn read(&self, topic: Arc<str>, bounds: &Bounds, request: ReadRequest) {
        let ReadRequest { number, after, until } = request;
        let limits = limits_of(bounds);
        self.read(StreamRequest { topic, limits, number, after, until });
    }

    fn last(&self, bounds: &Bounds) -> u64 {
        self.last(limits_of(bounds))
    }

    fn write_metrics(
        &self,
        totals: &FollowerTotals,
        metrics: &HistoryMetrics,
        writer: &mut MetricWriter,
    ) {
        metrics.write(&sizes_of(totals), writer);
        let streams = self.totals();
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
struct Handler(Weak<Following<Streams>>);

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
        storage.with(|followers, _| followers.to_compare(after, is_of_stream, last, count))
    }

    fn compared(&self, topic: &str, compared: &Compared) {
        let Compared { known, last, up_to, first } = *compared;
        if let Some(storage) = self.0.upgrade() {
            storage
                .with(|followers, _| followers.handle_compared(topic, known, last, up_to, first));
        }
    }
}
