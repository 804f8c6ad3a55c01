//! Joins that wait until their client has read.

use std::any::Any;

use watchfire_types::Instant;

use crate::channel_api::ChannelAddress;

/// A join that waits for room in its client's queue.
pub(super) struct CrowdedJoin {
    pub until: Instant,
    pub address: ChannelAddress,
    /// The message that continues it, if its channel let it wait before.
    pub continued: Option<Box<dyn Any + Send>>,
}
