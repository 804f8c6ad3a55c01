//! A worker's part of the histories that its supervisor keeps: see `keeper`.

use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use watchfire_cluster::bus::{Bus, BusLimits, Handler, LocalBus, Loss};
use watchfire_cluster::workers::SUPERVISOR;
use watchfire_hub::history::{
    Bounds, FollowerTotals, LogTotals, Message, ReadRequest, ReadTopic, Stored as Kept,
};
use watchfire_types::NodeId;

use super::Done;
use super::following::{Following, Source};
use super::messages::{FromKeeper, KEEPER, ToKeeper, encode};
use super::metrics::{HistoryMetrics, sizes_of};
use super::publishes::Publishes;
use crate::cluster::BoxFuture;
use crate::machines::ClusterError;
use crate::metrics::MetricWriter;

/// Reads that are on their way at once. Each answer has at most the bytes of a rule, 8 MiB, so these fit into
/// the queue of the link.
const READS_MAX: usize = 4;

/// A worker's way to the logs of its supervisor.
pub(crate) struct KeeperLink {
    /// The number of this worker.
    pub slot: NodeId,
    pub stream: UnixStream,
    /// Is told [`SUPERVISOR`] when the link is lost. Another one comes to [`Source::link`].
    pub lost: mpsc::UnboundedSender<NodeId>,
}

pub(super) struct SupervisorSource {
    slot: NodeId,
    bus: LocalBus,
    first: Mutex<Option<UnixStream>>,
    lost: mpsc::UnboundedSender<NodeId>,
    linked: Notify,
    publishes: Publishes,
    reads: Mutex<Reads>,
    /// The sizes of the supervisor's logs.
    kept: Mutex<LogTotals>,
}

/// The reads that the supervisor has not answered, and those that are sent after them.
#[derive(Default)]
struct Reads {
    sent: usize,
    waiting: VecDeque<(Arc<str>, ReadRequest)>,
}

impl SupervisorSource {
    pub fn new(link: KeeperLink) -> io::Result<Self> {
        let KeeperLink { slot, stream, lost } = link;
        Ok(SupervisorSource {
            slot,
            bus: LocalBus::start(slot, BusLimits::default())?,
            first: Mutex::new(Some(stream)),
            lost,
            linked: Notify::new(),
            publishes: Publishes::default(),
            reads: Mutex::default(),
            kept: Mutex::default(),
        })
    }

    fn link_to_keeper(&self, stream: UnixStream) {
        if let Err(error) = self.bus.link(KEEPER, stream) {
            tracing::error!(%error, "cannot link to the histories of the supervisor");
        }
    }

    fn send_reads(&self) {
        let mut reads = self.reads.lock();
        while reads.sent < READS_MAX
            && let Some((topic, request)) = reads.waiting.pop_front()
        {
            let ReadRequest { number, after, .. } = request;
            let message = encode(&ToKeeper::Read { number, topic: &topic, after });
            // Without a link, everything is read again with the next one.
            if self.bus.send(KEEPER, message, Loss::Cut).is_ok() {
                reads.sent += 1;
            }
        }
    }
}

impl Source for SupervisorSource {
    fn start(following: Arc<Following<Self>>) -> BoxFuture<'static, Result<(), ClusterError>> {
        Box::pin(async move {
            let source = &following.source;
            let Some(stream) = source.first.lock().take() else { return Ok(()) };
            source.bus.attach(Arc::new(Receiver(Arc::downgrade(&following))));
            source.link_to_keeper(stream);
            source.linked.notified().await;
            Ok(())
        })
    }

    fn publish(
        &self,
        topic: &str,
        bounds: &Bounds,
        message: (&str, &str),
        _id: Option<&str>,
        done: Done,
    ) {
        self.publishes.publish(&self.bus, topic, *bounds, message, done);
    }

    fn follow(&self, topic: Arc<str>, _: &Bounds) {
        // A read follows on the same link, so it does not matter when the subscription is ready.
        let _ = self.bus.subscribe(&topic);
    }

    fn unfollow(&self, topic: Arc<str>, _: &Bounds) {
        self.bus.unsubscribe(&topic);
    }

    fn read(&self, topic: Arc<str>, _: &Bounds, request: ReadRequest) {
        self.reads.lock().waiting.push_back((topic, request));
        self.send_reads();
    }

    fn last(&self, _: &Bounds) -> u64 {
        // The offsets of an epoch never go back.
        u64::MAX
    }

    fn link(&self, stream: UnixStream) {
        self.link_to_keeper(stream);
    }

    fn tick(&self) {
        self.publishes.fail_late();
    }

    fn write_metrics(
        &self,
        totals: &FollowerTotals,
        metrics: &HistoryMetrics,
        writer: &mut MetricWriter,
    ) {
        let mut sizes = sizes_of(totals);
        // One process tells those of the supervisor, which has no metrics of its own.
        if self.slot == NodeId(0) {
            let kept = *self.kept.lock();
            sizes.logs += kept.logs;
            sizes.messages += kept.messages;
            sizes.memory_bytes += kept.memory_bytes;
            sizes.dropped_logs += kept.dropped_logs;
        }
        metrics.write(&sizes, writer);
    }
}

impl Drop for SupervisorSource {
    fn drop(&mut self) {
        self.bus.stop();
        self.publishes.fail_all();
    }
}

/// Receives the messages of the supervisor, on the thread of the bus.
struct Receiver(Weak<Following<SupervisorSource>>);

impl Receiver {
    fn receive(&self, following: &Following<SupervisorSource>, message: FromKeeper<'_>) {
        let source = &following.source;
        let kept = |sequence, age, event: &str, payload: &str| Kept {
            sequence,
            age,
            message: Message { event: event.into(), payload: payload.into() },
        };
        match message {
            FromKeeper::Stored { topic, before, offset, event, payload, .. } => {
                let stored = kept(offset, Duration::ZERO, event, payload);
                following
                    .with(|followers, now| followers.handle_stored(now, topic, before, stored));
            }
            FromKeeper::Published { number, position } => source.publishes.end(number, position),
            FromKeeper::Topic { number, topic, epoch, messages, complete_from, last } => {
                let messages = messages.into_iter();
                let messages =
                    messages.map(|(at, age, event, payload)| kept(at, age, event, payload));
                let read = ReadTopic { epoch, messages: messages.collect(), complete_from, last };
                following.with(|followers, now| followers.handle_read(now, topic, number, read));
                let sent = &mut source.reads.lock().sent;
                *sent = sent.saturating_sub(1);
            }
            FromKeeper::Totals(logs, messages, memory_bytes, dropped_logs) => {
                *source.kept.lock() = LogTotals { logs, messages, memory_bytes, dropped_logs };
            }
        }
        source.send_reads();
    }
}

impl Handler for Receiver {
    fn up(&self, _: NodeId) {
        let Some(following) = self.0.upgrade() else { return };
        *following.source.reads.lock() = Reads::default();
        following.with(|followers, _| followers.handle_relink());
        following.source.linked.notify_one();
    }

    fn down(&self, _: NodeId) {
        if let Some(following) = self.0.upgrade() {
            following.source.publishes.fail_all();
            following.source.lost.send(SUPERVISOR).ok();
        }
    }

    fn interested(&self, _: NodeId, _: &str) {}

    fn forgotten(&self, _: &str) {}

    fn message(&self, _: NodeId, message: &[u8]) {
        let Some(following) = self.0.upgrade() else { return };
        match postcard::from_bytes(message) {
            Ok(message) => self.receive(&following, message),
            Err(error) => tracing::error!(%error, "cannot decode a message of the supervisor"),
        }
    }

    fn ready(&self, _: u64) {}
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::mpsc as std_mpsc;

    use watchfire_channels::Patterns;
    use watchfire_hub::history::Position;

    use super::*;
    use crate::history::topics::HistoryTopics;
    use crate::history::{Local, LocalDelivery, LogKeeper, NotStored, Storage, Stored, Wanted};

    const BOUNDS: Bounds = Bounds { messages: 100, age: Duration::from_secs(60), bytes: 1 << 20 };
    const DEADLINE: Duration = Duration::from_secs(20);

    /// Notes which messages and events reach the shards.
    struct Shards(std_mpsc::Sender<String>);

    impl LocalDelivery for Shards {
        fn deliver(&self, _: &Arc<str>, _: Position, position: Position, message: &Message) {
            self.0.send(format!("{} at {}", message.payload, position.offset)).ok();
        }

        fn reset(&self, _: &Arc<str>) {
            self.0.send("reset".into()).ok();
        }

        fn ready(&self) {
            self.0.send("ready".into()).ok();
        }

        fn retry(&self) {}
    }

    struct Worker {
        following: Arc<Following<SupervisorSource>>,
        events: std_mpsc::Receiver<String>,
        lost: mpsc::UnboundedReceiver<NodeId>,
    }

    impl Worker {
        fn start(keeper: &LogKeeper, slot: u16) -> Worker {
            let (stream, of_keeper) = UnixStream::pair().unwrap();
            keeper.link(NodeId(slot), of_keeper);
            let (sender, lost) = mpsc::unbounded_channel();
            let link = KeeperLink { slot: NodeId(slot), stream, lost: sender };
            let mut patterns = Patterns::new();
            patterns.register("t:*", Some(BOUNDS)).unwrap();
            let topics = HistoryTopics::default();
            topics.set_own(patterns);
            let (sender, events) = std_mpsc::channel();
            let local =
                Local::new(OnceLock::from(Box::new(Shards(sender)) as Box<dyn LocalDelivery>));
            let source = SupervisorSource::new(link).unwrap();
            let following = Following::new(source, Arc::new(topics), local, 1 << 20);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(following.clone().start()).unwrap();
            Worker { following, events, lost }
        }

        fn next(&self) -> String {
            self.events.recv_timeout(DEADLINE).expect("the next event")
        }

        /// Opens a topic with a client of this worker.
        fn join(&self, topic: &str) {
            assert!(!self.following.open(topic));
            assert_eq!(self.next(), "ready");
            self.following.add_shard(topic);
        }

        fn publish(&self, topic: &str, payload: &str) -> Result<Stored, NotStored> {
            let (sender, outcome) = std_mpsc::channel();
            let done = Box::new(move |outcome| sender.send(outcome).expect("the test waits"));
            self.following.publish(topic, "e", payload, None, done);
            outcome.recv_timeout(DEADLINE).expect("an outcome")
        }
    }

    #[test]
    fn a_message_is_acknowledged_when_the_keeper_has_it_and_a_lost_link_loses_none() {
        let keeper = LogKeeper::start(1 << 20, None, None).unwrap();
        let (one, mut other) = (Worker::start(&keeper, 0), Worker::start(&keeper, 1));
        one.join("t:1");
        other.join("t:1");
        let stored = one.publish("t:1", "a").unwrap().position.unwrap();
        assert_eq!(
            (one.next(), other.next(), stored.offset),
            ("a at 1".into(), "a at 1".into(), 1)
        );
        // The other end of this one is closed: the link is lost, and its worker asks for another.
        let (_, closed) = UnixStream::pair().unwrap();
        keeper.link(NodeId(1), closed);
        assert_eq!(other.lost.blocking_recv(), Some(SUPERVISOR));
        one.publish("t:1", "b").unwrap();
        assert_eq!(other.publish("t:1", "not"), Err(NotStored::Unavailable));
        let (stream, of_keeper) = UnixStream::pair().unwrap();
        keeper.link(NodeId(1), of_keeper);
        other.following.source.link(stream);
        one.publish("t:1", "c").unwrap();
        assert_eq!([other.next(), other.next()], ["b at 2", "c at 3"]);
        let excerpt = other.following.read("t:1", Wanted::After(Some(stored))).unwrap();
        assert_eq!(excerpt.messages.map(|messages| messages.len()), Some(2));
    }

    #[test]
    fn a_message_over_the_limit_of_the_link_is_refused_and_the_next_one_is_not() {
        let keeper = LogKeeper::start(1 << 20, None, None).unwrap();
        let worker = Worker::start(&keeper, 0);
        let refused = worker.publish("t:1", &"x".repeat(17 << 20));
        assert!(matches!(refused, Err(NotStored::TooLarge { bytes_max }) if bytes_max > 16 << 20));
        assert!(worker.publish("t:1", "x").is_ok());
    }
}
