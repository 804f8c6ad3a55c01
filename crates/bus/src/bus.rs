//! The contract of a bus, for every engine that carries it.

use bytes::Bytes;
use thiserror::Error;
use watchfire_types::NodeId;

/// Carries messages between the nodes of one server.
///
/// Messages from one node to another arrive in order, at most once, for as long as
/// the link between them lives. [`Handler::down`] is the end of that: what was under way is lost,
/// and [`Handler::up`] begins anew.
///
/// No call waits. All may come from any thread, those of the [`Handler`] included.
pub trait Bus: Send + Sync + 'static {
    /// The node that this process is.
    fn me(&self) -> NodeId;

    /// One more subscriber of this topic is here; the first is announced to all other nodes.
    ///
    /// It is ready when all nodes know, and what they had to say about the topic has been handled
    /// here. [`Readiness::Waits`] may come true before this call returns to its thread: a caller
    /// on another thread than the bus's takes [`Handler::ready`] as mail, which it reads later.
    ///
    /// # Panics
    ///
    /// When the topic is longer than [`crate::TOPIC_BYTES_MAX`].
    fn subscribe(&self, topic: &str) -> Readiness;

    /// One subscriber less. The last is withdrawn from the other nodes after a while, in which the
    /// next one is ready at once.
    fn unsubscribe(&self, topic: &str);

    /// Whether this node's interest in the topic is announced to the other nodes, or about to be:
    /// while it has subscribers, and until it is [`Handler::forgotten`].
    fn hears(&self, topic: &str) -> bool;

    /// Send to every other node that has subscribers on the topic. Returns to how many it goes.
    ///
    /// A message over the engine's limit goes to none; it is counted as dropped.
    fn publish(&self, topic: &str, message: Bytes, loss: Loss) -> usize;

    /// Send to one node.
    fn send(&self, to: NodeId, message: Bytes, loss: Loss) -> Result<(), Undelivered>;

    /// Send to every other node. A message over the engine's limit goes to none; it is counted as
    /// dropped.
    fn send_all(&self, message: Bytes, loss: Loss);

    /// The other nodes that are up, in order.
    fn nodes(&self) -> Vec<NodeId>;

    /// The counters since its start.
    fn totals(&self) -> BusTotals;
}

/// What to do with a message when a queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It is dropped and counted.
    Drop,
    /// Its receiver would be wrong for good without it, so the link is cut; the next one begins
    /// anew, with all there is to know.
    Cut,
}

/// Whether a subscribe has to wait for the other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// There is nothing to wait for.
    Ready,
    /// It is ready when [`Handler::ready`] is called with this number or a larger one.
    Waits(u64),
}

/// Why a message did not go to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Undelivered {
    /// There is no link to the node, or it has just been cut.
    #[error("{0} is down")]
    Down(NodeId),
    /// The node's queue is full, and the message may be lost: it was dropped and counted.
    #[error("the queue for {0} is full")]
    Full(NodeId),
    /// The node's queue was full, and the message may not be lost: the link was cut.
    #[error("the queue for {0} was full, so the link was cut")]
    Cut(NodeId),
    /// The message is longer than the engine carries.
    #[error("a message has at most {max} bytes, this one {len}")]
    Oversized {
        /// Its length in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
}

/// Receives the events of a bus.
///
/// It is called on the bus's own thread, one call at a time, and in order for each node. While it
/// works nothing else moves, so what takes long belongs elsewhere. It may call the bus.
pub trait Handler: Send + Sync + 'static {
    /// A link to this node is up. Messages sent from now on arrive.
    fn up(&self, node: NodeId);

    /// The link to this node is gone, and with it the node's subscribers.
    fn down(&self, node: NodeId);

    /// This node has subscribers on the topic from now on, where it had none.
    ///
    /// Messages sent to it inside this call arrive before its subscribe is ready. What others
    /// publish meanwhile may come before that, and after: the node counts as interested already.
    fn interested(&self, node: NodeId, topic: &str);

    /// This topic has been withdrawn from the other nodes. They send no more updates about it, so
    /// the state received from them becomes stale. This call returns before another subscribe makes
    /// them send it again.
    fn forgotten(&self, topic: &str);

    /// A message from this node, published or sent.
    fn message(&self, from: NodeId, message: &[u8]);

    /// Every subscribe that waits for a number up to this is ready.
    fn ready(&self, up_to: u64);
}

/// Counters of a bus since its start, and its current levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusTotals {
    /// Messages handled.
    pub messages_in: u64,
    /// Messages written, once for each node.
    pub messages_out: u64,
    /// Bytes read, announcements and headers included.
    pub bytes_in: u64,
    /// Bytes written, announcements and headers included.
    pub bytes_out: u64,
    /// Messages dropped, once for each node whose queue was full.
    pub dropped: u64,
    /// Links that were cut: a full queue, a malformed frame, or a handler that panicked.
    pub cuts: u64,
    /// Announcements that some node had not acknowledged in time.
    pub late: u64,
    /// Nodes that are up now.
    pub nodes: usize,
    /// Topics announced now.
    pub topics_here: usize,
    /// Topics that some other node is interested in now.
    pub topics_elsewhere: usize,
    /// Bytes in all queues now.
    pub queued_bytes: usize,
}
