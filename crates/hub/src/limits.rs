use thiserror::Error;

/// What may wait in a [`Hub`](crate::Hub).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubLimits {
    /// Deliveries that wait on one topic, the one under way included. Over it: the broadcast is
    /// refused.
    pub waiting_per_topic_max: usize,
    /// Deliveries that wait on all topics together. Over it: the broadcast is refused.
    pub waiting_max: usize,
}

impl Default for HubLimits {
    fn default() -> Self {
        HubLimits { waiting_per_topic_max: 1_024, waiting_max: 65_536 }
    }
}

/// Why a broadcast was refused: its subscribers are behind with what was broadcast before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BacklogFull {
    /// The topic has [`HubLimits::waiting_per_topic_max`] deliveries waiting.
    #[error("{max} deliveries wait on this topic already")]
    Topic {
        /// The limit.
        max: usize,
    },
    /// All topics together have [`HubLimits::waiting_max`] deliveries waiting.
    #[error("{max} deliveries wait already")]
    Hub {
        /// The limit.
        max: usize,
    },
}
