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
