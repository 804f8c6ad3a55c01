//! Limits of a bus.

use std::time::Duration;

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
