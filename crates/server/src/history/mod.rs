//! The recent messages of topics with a history.
//!
//! On one machine, its processes replicate them: `watchfire_hub::history::Replicas` decides, and this file carries
//! its packets over the bus and its messages to the shards. Everything happens under one lock, so that messages
//! reach the shards and the other processes in the order of their positions.
//!
//! With `[cluster] nats`, streams of JetStream store them, and no process owns a topic: see `streams`.

mod metrics;
#[cfg(feature = "cluster")]
mod streams;
mod topics;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant as SystemInstant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use watchfire_channels::Patterns;
use watchfire_hub::history::{
    Bounds, Environment, Log, Message, Origin, Output, Packet, Position, Positioned, Replicas,
};
use watchfire_types::{Instant, NodeId};

use self::metrics::HistoryMetrics;
pub(crate) use self::metrics::Recovery;
use self::topics::{HistoryTopics, PatternList};
use crate::cluster::{BoxFuture, Cluster, ClusterPart, PartLink};
use crate::machines::ClusterError;
use crate::metrics::{MetricSource, MetricWriter};
use crate::settings::ClusterSettings;

/// How long a process among several waits for links to the others before it owns its first topic.
const SETTLE_PERIOD: Duration = Duration::from_millis(500);

/// A message between the histories of two processes.
#[derive(Debug, Serialize, Deserialize)]
enum ProcessMessage<'a> {
    /// A message of the replicas.
    Replicas(Cow<'a, Packet>),
    /// The patterns of the sender with a history. The first message on a link.
    Patterns(PatternList),
}

/// Brings messages to the shards of this process.
pub(crate) trait LocalDelivery: Send + Sync {
    /// Sends a message to the subscribers of its topic. `after` is the position of the message before.
    fn deliver(&self, topic: &Arc<str>, after: Position, position: Position, message: &Message);

    /// Ends the channels of the subscribers of a topic: they have missed messages.
    fn reset(&self, topic: &Arc<str>);

    /// A log exists now that joins may wait for.
    fn ready(&self);

    /// Ends the channels of topics of which a shard has missed messages, because its queue was full.
    fn retry(&self);
}

/// The shards of this process, once they are known.
type Local = Arc<OnceLock<Box<dyn LocalDelivery>>>;
/// Gets the outcome of a message.
type Done = Box<dyn FnOnce(Result<Stored, NotStored>) + Send>;
/// Gets a log that was read; `None` when it could not be read.
type OnRead = Box<dyn FnOnce(Option<Excerpt>) + Send>;

/// The logs of this process.
pub struct History {
    link: PartLink,
    started_at: SystemInstant,
    topics: Arc<HistoryTopics>,
    local: Local,
    replicas: Mutex<Replicas<Topics>>,
    /// On a server of several machines. Then the replicas have no topics.
    storage: Option<Arc<dyn Storage>>,
    metrics: HistoryMetrics,
}

/// A storage outside of this server, from which its processes follow the messages of topics.
trait Storage: Send + Sync {
    /// Connects. Before, messages are not stored, and nothing is read.
    fn start(self: Arc<Self>) -> BoxFuture<'static, Result<(), ClusterError>>;

    fn publish(&self, topic: &str, event: &str, payload: &str, id: Option<&str>, done: Done);

    /// See [`History::open`].
    fn open(&self, topic: &str) -> bool;

    /// See [`History::read`].
    fn read(&self, topic: &str, wanted: Wanted) -> Option<Excerpt>;

    /// See [`History::read_soon`].
    fn read_soon(&self, topic: &str, wanted: Wanted, on_read: OnRead);

    fn add_shard(&self, topic: &str);

    fn remove_shard(&self, topic: &str);

    /// The rules of another process are known.
    fn note_rules(&self);

    fn tick(&self);

    fn write_metrics(&self, metrics: &HistoryMetrics, writer: &mut MetricWriter);
}

/// The facts that the replicas need about this process.
struct Topics {
    topics: Arc<HistoryTopics>,
    cluster: Arc<Cluster>,
}

impl Environment for Topics {
    fn bounds(&self, topic: &str) -> Option<Bounds> {
        self.topics.bounds(topic)
    }

    fn is_subscribed(&self, topic: &str) -> bool {
        self.cluster.is_subscribed(topic)
    }
}

/// A message that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its position. `None`: only the process that writes the log knows it.
    pub position: Option<Position>,
}

/// Why a message is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// The storage did not confirm the message in time. Usually nobody gets it. If only the confirmation
    /// is lost, subscribers get the message nevertheless.
    Unavailable,
    /// The storage takes at most this number of bytes, and never takes the message.
    TooLarge {
        /// The most bytes of event and payload.
        bytes_max: usize,
    },
}

/// The messages that a client asks for when it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// None.
    Nothing,
    /// All after a position. `None`: the client's text is not a position.
    After(Option<Position>),
    /// The last ones.
    Last(usize),
}

/// A log as it is at one moment.
#[derive(Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The last position.
    pub position: Position,
    /// The messages after a position, or the last ones. `None`: some after the position are missing.
    pub messages: Option<Vec<Positioned>>,
}

impl Excerpt {
    fn of(log: &Log, wanted: Wanted) -> Excerpt {
        let messages = match wanted {
            Wanted::Nothing => Some(Vec::new()),
            Wanted::After(position) => position.and_then(|position| log.since(position)),
            Wanted::Last(count) => Some(log.newest(count)),
        };
        Excerpt { position: log.position(), messages }
    }
}

impl History {
    pub(crate) fn new(
        link: PartLink,
        seed: u64,
        memory_bytes_max: usize,
        settings: &ClusterSettings,
    ) -> Result<Self, ClusterError> {
        let known_topics = Arc::<HistoryTopics>::default();
        let cluster = link.cluster().clone();
        let settle = if cluster.is_alone() { Duration::ZERO } else { SETTLE_PERIOD };
        let (me, settled_at) = (cluster.me(), Instant::ZERO + settle);
        let local = Local::default();
        let storage: Option<Arc<dyn Storage>> = match settings.is_on() {
            false => None,
            #[cfg(feature = "cluster")]
            true => {
                let (topics, local) = (known_topics.clone(), local.clone());
                Some(Arc::new(streams::StreamStorage::new(
                    settings,
                    topics,
                    local,
                    memory_bytes_max,
                )?))
            }
            #[cfg(not(feature = "cluster"))]
            true => None, // The check of the settings has refused it.
        };
        let topics = Topics { topics: known_topics.clone(), cluster };
        Ok(History {
            link,
            started_at: SystemInstant::now(),
            topics: known_topics,
            local,
            replicas: Mutex::new(Replicas::new(me, topics, seed, memory_bytes_max, settled_at)),
            storage,
            metrics: HistoryMetrics::default(),
        })
    }

    /// Connects to the storage, if there is one.
    pub(crate) async fn start(&self) -> Result<(), ClusterError> {
        match &self.storage {
            Some(storage) => storage.clone().start().await,
            None => Ok(()),
        }
    }

    /// Sets which topics have a history, once the channels are known.
    pub(crate) fn set_topics(&self, patterns: Patterns<Option<Bounds>>) {
        self.topics.set_own(patterns);
    }

    /// Sets the shards of this process.
    pub(crate) fn connect(&self, local: impl LocalDelivery + 'static) {
        self.local.set(Box::new(local)).ok();
    }

    /// Whether a topic has a history, in this process or in another.
    pub fn has(&self, topic: &str) -> bool {
        self.topics.bounds(topic).is_some()
    }

    /// Whether a topic has a history by the rules of this process. Then it has no binary messages.
    pub fn has_by_own_rules(&self, topic: &str) -> bool {
        self.topics.own_bounds(topic).is_some()
    }

    /// Publishes a message to the subscribers of all processes. Messages with the same `id` are stored
    /// once, if the storage knows ids.
    ///
    /// `done` gets the outcome. It is called once, in this call or later by another thread, and must not
    /// wait. The messages that one thread publishes to a topic keep their order.
    pub(crate) fn publish(
        &self,
        topic: &str,
        event: &str,
        payload: &str,
        id: Option<&str>,
        done: impl FnOnce(Result<Stored, NotStored>) + Send + 'static,
    ) {
        if let Some(storage) = &self.storage {
            return storage.publish(topic, event, payload, id, Box::new(done));
        }
        let message = Message { event: event.into(), payload: payload.into() };
        let position = self.with(|replicas, now| replicas.publish(now, topic, message));
        done(Ok(Stored { position }));
    }

    /// Whether a topic has a log. If not, it is being made, and `LocalDelivery::ready` follows.
    pub fn open(&self, topic: &str) -> bool {
        if let Some(storage) = &self.storage {
            return storage.open(topic);
        }
        self.with(|replicas, now| replicas.open(now, topic))
    }

    /// Reads a log. `None`: the topic has none here.
    pub fn read(&self, topic: &str, wanted: Wanted) -> Option<Excerpt> {
        match &self.storage {
            Some(storage) => storage.read(topic, wanted),
            None => self.replicas.lock().log(topic).map(|log| Excerpt::of(log, wanted)),
        }
    }

    /// Reads a log that may be outside of this server. `on_read` gets it, in this call or within seconds;
    /// `None`: the topic has none here.
    pub fn read_soon(
        &self,
        topic: &str,
        wanted: Wanted,
        on_read: impl FnOnce(Option<Excerpt>) + Send + 'static,
    ) {
        match &self.storage {
            Some(storage) => storage.read_soon(topic, wanted, Box::new(on_read)),
            None => {
                // The process may be about to become the writer. Then the next call finds the log.
                self.open(topic);
                on_read(self.read(topic, wanted));
            }
        }
    }

    /// The process that writes the log of a topic, or is about to; this one if it can read it itself.
    pub fn owner_of(&self, topic: &str) -> NodeId {
        if self.storage.is_some() {
            return self.link.cluster().me();
        }
        self.replicas.lock().owner_of(topic)
    }

    /// A shard has its first joined client of a topic.
    pub(crate) fn add_shard(&self, topic: &str) {
        if let Some(storage) = &self.storage {
            return storage.add_shard(topic);
        }
        self.with(|replicas, now| replicas.add_shard(now, topic));
    }

    /// The last client of a shard has left a topic.
    pub(crate) fn remove_shard(&self, topic: &str) {
        if let Some(storage) = &self.storage {
            return storage.remove_shard(topic);
        }
        self.with(|replicas, now| replicas.remove_shard(now, topic));
    }

    /// Counts the outcome of a join.
    pub(crate) fn count(&self, recovery: Recovery) {
        self.metrics.count(recovery);
    }

    /// Does what is due. Called ten times a second.
    pub(crate) fn tick(&self) {
        match &self.storage {
            Some(storage) => storage.tick(),
            None => self.with(Replicas::handle_tick),
        }
        if let Some(local) = self.local.get() {
            local.retry();
        }
    }

    /// Runs an action, and does what the replicas want after it. The lock is held meanwhile: what they
    /// want goes to queues, which never wait.
    fn with<T>(&self, act: impl FnOnce(&mut Replicas<Topics>, Instant) -> T) -> T {
        let now = Instant::ZERO + self.started_at.elapsed();
        let mut replicas = self.replicas.lock();
        let result = act(&mut replicas, now);
        let mut unsent = VecDeque::new();
        while let Some(output) = replicas.poll_output() {
            unsent.extend(self.apply(output));
        }
        for (topic, origin, message) in unsent {
            replicas.hold(now, &topic, origin, message);
        }
        result
    }

    /// Does what the replicas want. Returns a message that could not be sent to its owner.
    fn apply(&self, output: Output) -> Option<(String, Origin, Message)> {
        let cluster = self.link.cluster();
        match output {
            Output::Send { to, packet: packet @ Packet::Publish { .. } } => {
                if self.link.send(to, &ProcessMessage::Replicas(Cow::Borrowed(&packet))).is_err()
                    && let Packet::Publish { topic, origin, message } = packet
                {
                    return Some((topic, origin, message));
                }
            }
            Output::Send { to, packet } => {
                self.link.send_state(to, &ProcessMessage::Replicas(Cow::Owned(packet)));
            }
            Output::Publish { topic, packet } => {
                let message = || ProcessMessage::Replicas(Cow::Owned(packet));
                self.link.publish_state(&topic, message);
            }
            // Nobody waits for the subscription, so it does not matter when it is ready.
            Output::Subscribe { topic } => drop(cluster.subscribe(&topic)),
            Output::Unsubscribe { topic } => cluster.unsubscribe(&topic),
            Output::Deliver { topic, after, position, message } => {
                if let Some(local) = self.local.get() {
                    local.deliver(&topic, after, position, &message);
                }
            }
            Output::Reset { topic } => {
                if let Some(local) = self.local.get() {
                    local.reset(&topic);
                }
            }
            Output::Ready => {
                if let Some(local) = self.local.get() {
                    local.ready();
                }
            }
        }
        None
    }
}

impl ClusterPart for History {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, from: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        match postcard::from_bytes(message)? {
            ProcessMessage::Replicas(packet) => {
                self.with(|replicas, now| replicas.receive(now, from, packet.into_owned()));
            }
            ProcessMessage::Patterns(list) => {
                self.topics.note(from, list);
                if let Some(storage) = &self.storage {
                    storage.note_rules();
                }
            }
        }
        Ok(())
    }

    fn introduce_to(&self, node: NodeId, topic: &str) {
        self.with(|replicas, now| replicas.introduce_to(now, node, topic));
    }

    fn forget(&self, topic: &str) {
        self.with(|replicas, _| replicas.forget(topic));
    }

    fn node_up(&self, node: NodeId) {
        // First, so that the other process knows the topics of all messages that follow.
        self.link.send_state(node, &ProcessMessage::Patterns(self.topics.own_list()));
        self.with(|replicas, now| replicas.node_up(now, node));
    }

    fn node_down(&self, node: NodeId) {
        self.with(|replicas, now| replicas.node_down(now, node));
    }
}

impl MetricSource for History {
    fn write_metrics(&self, writer: &mut MetricWriter) {
        match &self.storage {
            Some(storage) => storage.write_metrics(&self.metrics, writer),
            None => self.metrics.write_replicas(&self.replicas.lock().totals(), writer),
        }
    }
}

#[cfg(test)]
pub(crate) fn message_samples() -> Vec<crate::cluster::Samples> {
    use crate::cluster::samples;
    let topic = || "t".to_owned();
    let origin = Origin { node: 1, incarnation: 2, number: 3 };
    let message = || Message { event: "e".into(), payload: "{}".into() };
    let bounds = Bounds { messages: 9, age: Duration::from_secs(9), bytes: 900 };
    let mut log = Log::new(5);
    log.note_origin(origin);
    let position = log.push(Instant::ZERO, &bounds, 5, message());
    let image = log.image(Instant::ZERO, None);
    vec![
        samples!(enum ProcessMessage<'_>:
            ProcessMessage::Replicas(Cow::Owned(Packet::Want { topic: topic() })),
            ProcessMessage::Patterns(vec![("t:*".into(), Some(bounds)), ("t".into(), None)]),
        ),
        samples!(enum Packet:
            Packet::Publish { topic: topic(), origin, message: message() },
            Packet::Published { topic: topic(), number: 1 },
            Packet::Append { topic: topic(), after: position, epoch: 6, origin, message: message() },
            Packet::Log { topic: topic(), is_owner: true, image },
            Packet::Claim { number: 1, topics: vec![(topic(), Some(position)), (topic(), None)] },
            Packet::Granted { number: 1, denied: vec![topic()] },
            Packet::Owned { topic: topic() },
            Packet::Keep { topic: topic() },
            Packet::Want { topic: topic() },
        ),
    ]
}
