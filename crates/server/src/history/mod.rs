//! The recent messages of topics with a history.
//!
//! Each kind of server stores them in another place, its [`Storage`]:
//!
//! | server | storage | |
//! |---|---|---|
//! | one process | its memory | `in_place` |
//! | several processes | the memory of the supervisor, which the workers follow | `keeper`, `of_supervisor`, `following` |
//! | several machines | streams of NATS JetStream, which all processes follow | `streams`, `following` |

mod following;
mod hand_over;
mod in_place;
mod keeper;
mod messages;
mod metrics;
mod of_supervisor;
mod publishes;
#[cfg(feature = "cluster")]
mod streams;
mod topics;

use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use watchfire_channels::Patterns;
use watchfire_hub::history::{Bounds, Message, Position, Positioned};
use watchfire_types::NodeId;

use self::following::Following;
pub(crate) use self::hand_over::{HandOverSockets, Taken};
use self::in_place::InPlace;
pub(crate) use self::keeper::LogKeeper;
use self::metrics::HistoryMetrics;
pub(crate) use self::metrics::Recovery;
pub(crate) use self::of_supervisor::KeeperLink;
use self::of_supervisor::SupervisorSource;
use self::topics::{HistoryTopics, PatternList};
use crate::cluster::{BoxFuture, ClusterPart, PartLink};
use crate::machines::ClusterError;
use crate::metrics::{MetricSource, MetricWriter};
use crate::settings::Settings;

/// A message between the histories of two processes: the patterns of the sender with a history. The first
/// message on a link.
#[derive(Debug, Serialize, Deserialize)]
struct TellPatterns(PatternList);

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

/// The histories of topics.
pub struct History {
    link: PartLink,
    topics: Arc<HistoryTopics>,
    local: Local,
    storage: Arc<dyn Storage>,
    metrics: HistoryMetrics,
}

/// The place of the messages.
trait Storage: Send + Sync {
    /// Connects. Before, messages are not stored, and nothing is read.
    fn start(self: Arc<Self>) -> BoxFuture<'static, Result<(), ClusterError>> {
        Box::pin(async { Ok(()) })
    }

    /// See [`History::publish`].
    fn publish(&self, topic: &str, event: &str, payload: &str, id: Option<&str>, done: Done);

    /// See [`History::open`].
    fn open(&self, topic: &str) -> bool;

    /// See [`History::read`].
    fn read(&self, topic: &str, wanted: Wanted) -> Option<Excerpt>;

    /// See [`History::read_soon`].
    fn read_soon(&self, topic: &str, wanted: Wanted, on_read: OnRead);

    /// See [`History::kept`].
    fn kept(&self, topic: &str) -> usize;

    /// See [`History::add_shard`].
    fn add_shard(&self, topic: &str);

    /// See [`History::remove_shard`].
    fn remove_shard(&self, topic: &str);

    /// The rules of another process are known.
    fn note_rules(&self) {}

    /// Replaces the link to the supervisor.
    fn link(&self, _stream: UnixStream) {}

    /// The logs, if they are in this process.
    fn keeper(&self) -> Option<LogKeeper> {
        None
    }

    /// Called ten times a second.
    fn tick(&self);

    fn write_metrics(&self, metrics: &HistoryMetrics, writer: &mut MetricWriter);
}

/// A message that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its position. `None`: the topic has no history.
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

impl History {
    /// `keeper` is the link to the supervisor, if it keeps the logs. `taken` are the logs of the program that
    /// this one replaces.
    pub(crate) fn new(
        link: PartLink,
        settings: &Settings,
        keeper: Option<KeeperLink>,
        taken: Option<Taken>,
    ) -> Result<Self, ClusterError> {
        let (topics, local) = (Arc::<HistoryTopics>::default(), Local::default());
        let memory_bytes_max = settings.channels.history_bytes_max;
        let memory_bytes_max = usize::try_from(memory_bytes_max).unwrap_or(usize::MAX);
        let (known, shards) = (topics.clone(), local.clone());
        let storage: Arc<dyn Storage> = match keeper {
            #[cfg(feature = "cluster")]
            _ if settings.cluster.is_on() => {
                let settings = crate::machines::stream_settings(&settings.cluster)?;
                let streams = watchfire_cluster::nats::streams::Streams::new(settings);
                Following::new(streams, known, shards, memory_bytes_max)
            }
            Some(keeper) => {
                let source = SupervisorSource::new(keeper).map_err(ClusterError::Keeper)?;
                Following::new(source, known, shards, memory_bytes_max)
            }
            None => {
                let bytes_max = settings.channels.history_bytes_max;
                let keeper = LogKeeper::start(bytes_max, Some(shards), taken);
                let keeper = keeper.map_err(ClusterError::Keeper)?;
                Arc::new(InPlace { topics: known, keeper })
            }
        };
        Ok(History { link, topics, local, storage, metrics: HistoryMetrics::default() })
    }

    /// Connects to the storage, if there is one.
    pub(crate) async fn start(&self) -> Result<(), ClusterError> {
        self.storage.clone().start().await
    }

    /// The logs, if they are in this process.
    pub(crate) fn keeper(&self) -> Option<LogKeeper> {
        self.storage.keeper()
    }

    /// Replaces the link to the supervisor.
    pub(crate) fn link_keeper(&self, stream: UnixStream) {
        self.storage.link(stream);
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
        let writes = self.metrics.writes.clone();
        let since = writes.0.add();
        let done = move |outcome: Result<Stored, NotStored>| {
            writes.0.remove(since);
            if outcome.is_err() {
                writes.1.inc();
            }
            done(outcome);
        };
        self.storage.publish(topic, event, payload, id, Box::new(done));
    }

    /// Whether the position of a topic is known. If not, it is being read, and `LocalDelivery::ready` follows.
    pub fn open(&self, topic: &str) -> bool {
        self.storage.open(topic)
    }

    /// Reads the kept messages. `None`: they are not known here yet.
    pub fn read(&self, topic: &str, wanted: Wanted) -> Option<Excerpt> {
        self.storage.read(topic, wanted)
    }

    /// Reads the kept messages, also if they are not here yet. `on_read` gets them, in this call or within
    /// seconds; `None`: they could not be read.
    pub fn read_soon(
        &self,
        topic: &str,
        wanted: Wanted,
        on_read: impl FnOnce(Option<Excerpt>) + Send + 'static,
    ) {
        self.storage.read_soon(topic, wanted, Box::new(on_read));
    }

    /// How many messages of a topic this process knows.
    pub(crate) fn kept(&self, topic: &str) -> usize {
        self.storage.kept(topic)
    }

    /// A shard has its first joined client of a topic.
    pub(crate) fn add_shard(&self, topic: &str) {
        self.storage.add_shard(topic);
    }

    /// The last client of a shard has left a topic.
    pub(crate) fn remove_shard(&self, topic: &str) {
        self.storage.remove_shard(topic);
    }

    /// Counts the outcome of a join.
    pub(crate) fn count(&self, recovery: Recovery) {
        self.metrics.count(recovery);
    }

    /// Does what is due. Called ten times a second.
    pub(crate) fn tick(&self) {
        self.storage.tick();
        if let Some(local) = self.local.get() {
            local.retry();
        }
    }
}

#[doc(hidden)]
impl ClusterPart for History {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, from: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        let TellPatterns(list) = postcard::from_bytes(message)?;
        self.topics.note(from, list);
        self.storage.note_rules();
        Ok(())
    }

    fn node_up(&self, node: NodeId) {
        self.link.send_state(node, &TellPatterns(self.topics.own_list()));
    }
}

#[doc(hidden)]
impl MetricSource for History {
    fn write_metrics(&self, writer: &mut MetricWriter) {
        self.storage.write_metrics(&self.metrics, writer);
    }
}

#[cfg(test)]
pub(crate) fn message_samples() -> Vec<crate::cluster::Samples> {
    use std::time::Duration;
    let bounds = Bounds { messages: 9, age: Duration::from_secs(9), bytes: 900 };
    vec![crate::cluster::samples!(TellPatterns:
        TellPatterns(vec![("t:*".into(), Some(bounds)), ("t".into(), None)]),
    )]
}
