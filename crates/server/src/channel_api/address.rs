//! Addresses of joined channels and of the messages that wait for a reply.

use serde::{Deserialize, Serialize};
use watchfire_hub::SubscriptionId;
use watchfire_types::{NodeId, ShardId};

/// One joined channel, in any process of the server. Messages to a channel that ended reach no
/// client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// The kind of data that one peer of a page sends to another through the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelayKind {
    /// A piece of a Bitswap message.
    Segment,
    /// A signal for setting up a WebRTC connection.
    Signal,
}

impl RelayKind {
    /// The event name of the push to the destination.
    pub fn event(self) -> &'static str {
        match self {
            RelayKind::Segment => "relay",
            RelayKind::Signal => "signal",
        }
    }
}
