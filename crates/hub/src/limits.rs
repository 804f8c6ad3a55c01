use thiserror::Error;

/// Limits of a [`Hub`](crate::Hub).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubLimits {
    /// Deliveries that wait on one topic, or are in progress. At the limit, broadcasts are refused.
    pub queued_per_topic_max: usize,
    /// Deliveries that wait on all topics together. At the limit, broadcasts are refused.
    pub queued_max: usize,
}

impl Default for HubLimits {
    fn default() -> Self {
        HubLimits { queued_per_topic_max: 1_024, queued_max: 65_536 }
    }
}

/// A broadcast was refused because too many earlier ones wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QueueFull {
    /// The topic has [`HubLimits::queued_per_topic_max`] deliveries waiting.
    #[error("the topic's queue is full: {max} deliveries wait")]
    Topic {
        /// The limit.
        max: usize,
    },
    /// All topics together have [`HubLimits::queued_max`] deliveries waiting.
    #[error("the hub's queue is full: {max} deliveries wait")]
    Hub {
        /// The limit.
        max: usize,
    },
}
