//! The topics with a history that have joined clients on a shard.

use std::collections::HashMap;

use watchfire_hub::SubscriptionId;
use watchfire_hub::history::Position;
use watchfire_types::Instant;

use crate::channel_api::ChannelAddress;

/// The topics with a history that have joined clients on this shard.
#[derive(Default)]
pub(super) struct HistoryTopics {
    /// The last position that was queued for the subscribers. `None`: the topic had no log yet.
    pub topics: HashMap<Box<str>, Option<Position>>,
    /// By subscription: the position up to which a client got the log, if broadcasts up to it may still
    /// be on their way.
    pub served: HashMap<SubscriptionId, Position>,
    /// Joins that wait for the log of their topic, and until when.
    pub awaiting: Vec<(Instant, ChannelAddress)>,
    /// Whether some of them may have a log now. A turn looks at all of them once, also after many messages.
    pub is_ready: bool,
}

impl HistoryTopics {
    /// Whether a client already has a message.
    pub fn has(&mut self, id: SubscriptionId, position: Position) -> bool {
        if self.served.is_empty() {
            return false;
        }
        let Some(served) = self.served.get(&id) else { return false };
        let has = position.offset <= served.offset;
        if position.offset >= served.offset {
            self.served.remove(&id);
        }
        has
    }
}
