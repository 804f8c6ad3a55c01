//! Messages between the processes of one server.
//!
//! A [`Bus`] carries messages to the nodes that are interested in their topic, and passes received
//! messages to its [`Handler`]. [`LocalBus`] implements it for the processes of one machine. The
//! trait contains no sockets or processes, so a bus between machines could implement it too.
//!
//! # Interest
//!
//! A node with its first subscriber on a topic announces it to all others, and they acknowledge.
//! A broadcast goes only to nodes that announced its topic. This gives two guarantees:
//!
//! - **A ready subscription misses no later message.** By then, every node has acknowledged it. The
//!   acknowledgement follows, on the same ordered link, all messages sent in
//!   [`Handler::interested`]. So the other nodes' state of the topic has arrived too.
//! - **A new link starts without state.** Both sides announce all their topics again, and new
//!   subscriptions wait for the new node too.
//!
//! No wait is longer than [`BusLimits::ack_timeout`]: a node that hangs delays joins, but does not
//! prevent them. When the last subscriber leaves, the topic is withdrawn after
//! [`BusLimits::linger`], and within twice that time.
//!
//! # When a node is slow
//!
//! Only its own queue grows, up to a bound. From [`BusLimits::droppable_bytes_max`] on, messages
//! with [`Loss::Drop`] are dropped and counted. At [`BusLimits::queue_bytes_max`], a message with
//! [`Loss::Cut`] cuts the link: both sides get [`Handler::down`], and a new link sends all state
//! again. There is no back pressure, because two nodes that wait for each other would deadlock.
//!
//! An example: node 7 hangs, and another node sends it 10 MB a second. After 1.7 seconds 16 MiB are
//! queued, and broadcasts of clients are dropped. Changes of state still fit. If they arrive at 1 MB a
//! second, the queue reaches 64 MiB 50 seconds later and the link is cut. Otherwise node 7 would stay
//! wrong for ever: it would show a client that has left. The bytes of a broadcast are shared by all
//! queues, so they are in memory once. (A node of the same machine is killed when it hangs for 8
//! seconds, so this happens to nodes that are slow, and to nodes of other machines.)
//!
//! # Cost
//!
//! Measured with all nodes in one process, on two cores with other load, so times are approximate.
//! Messages have 256 bytes. Processor time includes both ends and the kernel.
//!
//! | | |
//! |---|---|
//! | one message, many in flight | 0.2 us of processor; 6 million a second |
//! | a single message | 14 us of processor at 51 nodes, 50 at one, mostly for waking |
//! | the call of `publish`, to 51 nodes | 4 to 12 us |
//! | until the last of 51 nodes has received it | 0.5 ms |
//! | round trip | 24 to 48 us |
//! | a topic with subscribers on other nodes | 36 bytes for any number of nodes: 12 each for 3 |
//! | a topic with local subscribers | 105 bytes |
//! | a new link announces 100,000 topics | 26 ms, of which 21 ms processor |
//! | 100,000 subscriptions until ready at 3 nodes | 120 to 210 ms |
//!
//! Opening and closing a link walks all topics under the lock: with 100,000 topics, concurrent
//! calls took up to 16 ms.
//!
//! Absent on purpose: authentication and encryption (a link is a socket pair made by a
//! supervisor), routing through other nodes, and delivery after a link has ended.

mod driver;
pub mod frame;
mod interest;
mod link;
mod local;
mod nodes;
mod outbox;
mod shared;
mod writing;

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use watchfire_types::NodeId;

pub use local::LocalBus;

/// The maximum number of nodes; ids are below it.
pub const NODES_MAX: u16 = 128;

/// The longest topic, in bytes.
pub const TOPIC_BYTES_MAX: usize = 4096;

/// Carries messages between the nodes of one server.
///
/// Messages from one node to another arrive in order and at most once, while the link between them
/// is up. [`Handler::down`] reports its end; messages on their way are lost. [`Handler::up`]
/// reports a new link.
///
/// No call blocks. Any thread may call, including from within the [`Handler`].
pub trait Bus: Send + Sync + 'static {
    fn me(&self) -> NodeId;

    /// Adds a local subscriber of this topic. The first one is announced to all other nodes.
    ///
    /// The subscription is ready when all nodes know it, and their messages about the topic have
    /// been handled here. With [`Readiness::Waits`], [`Handler::ready`] may run before this call
    /// returns. A caller on another thread than the bus's should queue that event for itself.
    ///
    /// # Panics
    ///
    /// When the topic is longer than [`TOPIC_BYTES_MAX`].
    fn subscribe(&self, topic: &str) -> Readiness;

    /// Removes a local subscriber. The last one is withdrawn from the other nodes after
    /// [`BusLimits::linger`]. Until then, a new subscription does not wait.
    fn unsubscribe(&self, topic: &str);

    /// Whether the topic is announced to the other nodes, or about to be: while it has subscribers,
    /// and until [`Handler::forgotten`].
    fn is_subscribed(&self, topic: &str) -> bool;

    /// Sends to every other node with subscribers on the topic. Returns their number.
    ///
    /// A message over the size limit is sent to none, and counted as dropped.
    fn publish(&self, topic: &str, message: Bytes, loss: Loss) -> usize;

    /// Sends to one node. The caller may write the message itself.
    fn send(&self, to: NodeId, message: Bytes, loss: Loss) -> Result<(), SendError>;

    /// Sends to one node through the bus's thread, as [`Bus::publish`] does. This is for a message that
    /// follows from what another node published just before: written by its caller, it may arrive first.
    fn send_in_turn(&self, to: NodeId, message: Bytes, loss: Loss) -> Result<(), SendError> {
        self.send(to, message, loss)
    }

    /// Sends to every other node. A message over the size limit is sent to none, and counted as
    /// dropped.
    fn send_all(&self, message: Bytes, loss: Loss);

    /// The other nodes that are up, in order.
    fn nodes(&self) -> Vec<NodeId>;

    /// Counters since the start, and current levels.
    fn totals(&self) -> BusTotals;

    /// The queues for the nodes that are up.
    fn queues(&self) -> Vec<NodeQueue> {
        Vec::new()
    }
}

/// The policy for a message when a queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The message is dropped and counted.
    Drop,
    /// The link is cut: the receiver needs the message. A new link sends all state again.
    Cut,
}

/// Whether a subscription must wait for the other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// It is ready when [`Handler::ready`] is called with at least this number.
    Waits(u64),
}

/// The reason why a message was not queued for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// There is no link to the node, or it is being cut.
    #[error("{0} is down")]
    Down(NodeId),
    /// The node's queue is full; the message was dropped and counted.
    #[error("the queue for {0} is full")]
    Full(NodeId),
    /// The node's queue was full; the link was cut.
    #[error("the queue for {0} was full, so the link was cut")]
    Cut(NodeId),
    #[error("a message has at most {max} bytes, not {len}")]
    Oversized {
        /// Its length in bytes.
        len: usize,
        max: usize,
    },
}

/// Receives the events of a bus.
///
/// It is called on the bus's own thread, one call at a time, in order for each node. It must be
/// quick, because the bus waits for it. It may call the bus.
pub trait Handler: Send + Sync + 'static {
    /// A link to this node is up. Messages sent from now on arrive.
    fn up(&self, node: NodeId);

    /// The link to this node is down; the node's subscribers are gone.
    fn down(&self, node: NodeId);

    /// This node now has subscribers on the topic.
    ///
    /// Messages sent to it inside this call arrive before its subscription is ready. Messages that
    /// other threads publish at the same time may arrive before or after those.
    fn interested(&self, node: NodeId, topic: &str);

    /// This node no longer has subscribers on the topic.
    ///
    /// The node may have subscribed again already. Messages sent to it inside this call arrive after
    /// those for its earlier subscription, and before those for the later one.
    fn uninterested(&self, _node: NodeId, _topic: &str) {}

    /// This topic has been withdrawn. The other nodes send no more updates about it, so state
    /// received from them becomes stale. This call returns before a new subscription makes them
    /// send it again.
    fn forgotten(&self, topic: &str);

    fn message(&self, from: NodeId, message: &[u8]);

    /// Every subscription that waits for this number, or a lower one, is ready.
    fn ready(&self, up_to: u64);
}

/// Counters of a bus since its start, and its current levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusTotals {
    pub messages_in: u64,
    /// Messages written, counted per node.
    pub messages_out: u64,
    /// Bytes read, including announcements and headers.
    pub bytes_in: u64,
    /// Bytes written, including announcements and headers.
    pub bytes_out: u64,
    /// Messages dropped, counted per node with a full queue.
    pub dropped: u64,
    /// Links that were cut because of a full queue, a malformed frame or a handler's panic.
    pub cuts: u64,
    /// Announcements that some node did not acknowledge in time.
    pub late: u64,
    pub nodes: usize,
    pub topics_local: usize,
    /// Topics announced by other nodes.
    pub topics_remote: usize,
    pub queued_bytes: usize,
}

/// The queue for one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeQueue {
    pub node: NodeId,
    /// Messages, announcements and acknowledgements.
    pub messages: usize,
    /// The age of the oldest one. `None`: the queue is empty.
    pub oldest: Option<Duration>,
    /// Messages dropped since the link is up.
    pub drops: u64,
}

/// Limits of a bus. Times are accurate to a tenth of a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusLimits {
    /// Bytes in one node's queue, including the overhead of each message. Above it, droppable
    /// messages are dropped. An empty queue accepts one message of any size.
    pub droppable_bytes_max: usize,
    /// Bytes in one node's queue. Above it, a required message or an announcement cuts the link. An
    /// empty queue accepts one message of any size, and a new link all announcements.
    pub queue_bytes_max: usize,
    /// Largest message. A larger one is refused; from a peer, it cuts the link.
    pub message_bytes_max: usize,
    /// Longest wait of a subscription for other nodes. Then it is ready, and counted as late.
    pub ack_timeout: Duration,
    /// How long a topic without subscribers stays announced.
    pub linger: Duration,
    /// Topics without subscribers that stay announced. At the limit, the oldest is withdrawn.
    pub lingering_topics_max: usize,
}

impl Default for BusLimits {
    fn default() -> Self {
        BusLimits {
            droppable_bytes_max: 16 * 1024 * 1024,
            queue_bytes_max: 64 * 1024 * 1024,
            message_bytes_max: 16 * 1024 * 1024 + 64 * 1024,
            ack_timeout: Duration::from_secs(1),
            linger: Duration::from_secs(5),
            lingering_topics_max: 100_000,
        }
    }
}
