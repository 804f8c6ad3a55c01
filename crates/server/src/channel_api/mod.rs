//! The API for applications: channels, the rule that accepts sockets, and a handle to the server.
//!
//! An application implements [`Channel`]; its callbacks get a [`Socket`]. Code outside of a
//! callback uses an [`Endpoint`]. Watchfire's own features use the same API, with [`ClientSender`]
//! where their state sends to clients, and [`Parking`] where their HTTP requests wait.

mod address;
mod broadcast;
mod channel;
mod connect;
#[allow(missing_docs, reason = "for the crate of the operator's listener")]
mod connections;
pub mod encoding;
mod endpoint;
mod flows;
mod forward;
#[allow(missing_docs, reason = "for the crate of the operator's listener")]
mod found_topics;
mod messages;
mod parking;
mod payload;
#[allow(missing_docs, reason = "for the crate of the operator's listener")]
mod question;
mod registry;
mod reply;
mod sender;
mod shard_message;
mod socket;
mod states;
#[allow(missing_docs, reason = "for the crate of the operator's listener")]
mod watched_messages;

pub use address::ChannelAddress;
pub use address::ReplyTo;
pub use broadcast::Broadcast;
pub(crate) use broadcast::Placed;
pub use channel::{Channel, Crash, HandleIn, Joined, Outcome, Refusal};
pub use channel::{LaterReply, NotJoined};
pub use connect::{Connect, Connected, Guest, NoGuest, Refused, SocketData};
pub use connections::{
    ClientId, ConnectionId, ConnectionOrder, ConnectionQuery, ConnectionTransport, FoundConnection,
    FoundConnections, NotAConnection, TcpFigures,
};
pub use encoding::Encoded;
pub use endpoint::{Endpoint, PublishError, Published};
pub(crate) use flows::{Flows, Waiter};
pub use forward::{Forward, ForwardKind};
pub use found_topics::{FoundTopic, FoundTopics, TopicOrder, TopicQuery};
pub use messages::Address;
#[cfg(test)]
pub use messages::message_samples;
pub use parking::{ParkResponse, ParkRoute, ParkedRequest, Parking};
pub use payload::{Body, PayloadError};
pub use question::{ShardAnswer, ShardQuestion, ShardQuestions};
pub use registry::{AnyChannel, OnConnect, Registry, caught, caught_later};
pub use reply::Reply;
pub use reply::retry_after_ms;
pub use sender::ClientSender;
pub use shard_message::ShardMessage;
pub use socket::Effect;
pub use socket::{PendingReply, Socket};
pub use states::{AnyStates, StateId};
pub use watched_messages::{Direction, WatchAnswer, WatchedMessage, WatchedMessages};
pub use watchfire_channels::Payload;
