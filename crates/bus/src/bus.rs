//! The bus API, independent of the transport.

use bytes::Bytes;
use thiserror::Error;
use watchfire_types::NodeId;

/// Carries messages between the nodes of one server.
///
/// Messages from one node to another arrive in order and at most once, while the link between them
/// is up. [`Handler::down`] reports its end; messages on their way are lost. [`Handler::up`]
/// reports a new link.
///
/// No call blocks. Any thread may call, including from within the [`Handler`].
pub trait Bus: Send + Sync + 'static {
    /// The node of this process.
    fn me(&self) -> NodeId;

    /// Adds a local subscriber of this topic. The first one is announced to all other nodes.
    ///
    /// The subscription is ready when all nodes know it, and their messages about the topic have
    /// been handled here. With [`Readiness::Waits`], [`Handler::ready`] may run before this call
    /// returns. A caller on another thread than the bus's should queue that event for itself.
    ///
    /// # Panics
    ///
    /// When the topic is longer than [`crate::TOPIC_BYTES_MAX`].
    fn subscribe(&self, topic: &str) -> Readiness;

    /// Removes a local subscriber. The last one is withdrawn from the other nodes after
    /// [`crate::BusLimits::linger`]. Until then, a new subscription is ready at once.
    fn unsubscribe(&self, topic: &str);

    /// Whether the topic is announced to the other nodes, or about to be: while it has subscribers,
    /// and until [`Handler::forgotten`].
    fn is_subscribed(&self, topic: &str) -> bool;

    /// Sends to every other node with subscribers on the topic. Returns their number.
    ///
    /// A message over the size limit is sent to none, and counted as dropped.
    fn publish(&self, topic: &str, message: Bytes, loss: Loss) -> usize;

    /// Sends to one node.
    fn send(&self, to: NodeId, message: Bytes, loss: Loss) -> Result<(), SendError>;

    /// Sends to every other node. A message over the size limit is sent to none, and counted as
    /// dropped.
    fn send_all(&self, message: Bytes, loss: Loss);

    /// The other nodes that are up, in order.
    fn nodes(&self) -> Vec<NodeId>;

    /// Counters since the start, and current levels.
    fn totals(&self) -> BusTotals;
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
    /// It is ready.
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
    /// The message is too long.
    #[error("a message has at most {max} bytes, not {len}")]
    Oversized {
        /// Its length in bytes.
        len: usize,
        /// The limit.
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

    /// A message from this node, published or sent.
    fn message(&self, from: NodeId, message: &[u8]);

    /// Every subscription that waits for this number, or a lower one, is ready.
    fn ready(&self, up_to: u64);
}

/// Counters of a bus since its start, and its current levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusTotals {
    /// Messages handled.
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
    /// Nodes that are up.
    pub nodes: usize,
    /// Topics announced by this node.
    pub topics_local: usize,
    /// Topics announced by other nodes.
    pub topics_remote: usize,
    /// Bytes in all queues.
    pub queued_bytes: usize,
}
