//! Addresses of joined channels and of the messages that wait for a reply.

use watchfire_hub::SubscriptionId;
use watchfire_types::{NodeId, ShardId};

/// One joined channel, in any process of the server. Messages to a channel that ended reach no
/// client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelAddress {
    pub(crate) node: NodeId,
    pub(crate) shard: ShardId,
    pub(crate) subscription: SubscriptionId,
    /// How many channels used this subscription's index before.
    pub(crate) serial: u32,
}

impl ChannelAddress {
    /// The first channel of an event loop, for tests of features.
    #[doc(hidden)]
    pub fn first_of(node: NodeId, shard: ShardId) -> Self {
        ChannelAddress { node, shard, subscription: SubscriptionId::from_index(0), serial: 0 }
    }

    /// The process in which the channel is.
    pub fn node(&self) -> NodeId {
        self.node
    }
}

/// The message that a reply answers.
#[derive(Clone, Debug)]
pub struct ReplyTo {
    pub channel: ChannelAddress,
    pub reference: watchfire_channels::Ref,
}
