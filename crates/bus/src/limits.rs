//! Limits of a bus.

use std::time::Duration;

/// Limits of a bus, and what happens at each.
///
/// Times are kept to within a tenth of a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusLimits {
    /// Bytes in one node's queue, the bookkeeping of each message included, over which a message
    /// that may be lost is dropped. An empty queue takes any one message.
    pub droppable_bytes_max: usize,
    /// Bytes in one node's queue over which a message that may not be lost, or an announcement,
    /// cuts the link. An empty queue takes any one message, and a new link all announcements.
    pub queue_bytes_max: usize,
    /// Largest message. A larger one is refused to its sender; from a peer it cuts the link.
    pub message_bytes_max: usize,
    /// Longest wait of a subscribe for the other nodes. When it passes, it is ready all the same, and
    /// counted.
    pub ack_timeout: Duration,
    /// How long a topic without subscribers stays announced.
    pub linger: Duration,
    /// Topics without subscribers that stay announced at once. When the limit is reached, the oldest is withdrawn.
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
