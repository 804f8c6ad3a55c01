//! Messages from other threads to a shard.

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;
use watchfire_channels::Serializer;
use watchfire_channels::longpoll::{BodyError, Status};
use watchfire_types::{Instant, SocketId};

use super::address::{ChannelAddress, ReplyTo};
use super::broadcast::Broadcast;
use super::connect::Connected;
use super::forward::ForwardKind;
use super::parking::ParkedRequest;
use super::payload::Body;
use super::question::ShardQuestions;
use super::reply::Reply;
use crate::token::SessionId;

/// A message from another thread to a shard.
pub enum ShardMessage {
    /// Send this to the topic's subscribers on this shard.
    Broadcast(Arc<Broadcast>),
    /// The subscribers on this shard have missed messages of this topic, which has a history.
    Reset { topic: Arc<str> },
    /// A topic has room again: publishers of this shard wait for it.
    Room { topic: Box<str> },
    /// Close the sockets with this id.
    Disconnect { id: String },
    /// Answer a question about this shard's clients.
    Ask(Arc<ShardQuestions>),
    /// Push to one channel.
    Push { to: ChannelAddress, event: String, body: Body },
    /// Call one channel's `handle_info`.
    Info { to: ChannelAddress, info: Box<dyn Any + Send> },
    /// Call the `join` of one channel again, whose join waits.
    ContinueJoin { to: ChannelAddress, info: Box<dyn Any + Send> },
    /// Open the WebSocket of a request that waits, or refuse it.
    ContinueConnect { key: u32, socket: SocketId, info: Box<dyn Any + Send> },
    /// Reply to one message.
    Reply { to: ReplyTo, reply: Reply },
    /// Send data of a client to one channel, and reply to its sender. It arrived at this time, unless it
    /// is from another process.
    Forward {
        kind: ForwardKind,
        to: ChannelAddress,
        data: Bytes,
        ack: ReplyTo,
        arrived: Option<Instant>,
    },
    /// Topics, or logs, that joins wait for are ready.
    Ready,
    /// Answer a parked request.
    Wake(ParkedRequest),
    /// Open a long-poll session, and return its token.
    OpenSession {
        serializer: Serializer,
        connected: Connected,
        counted: Option<IpAddr>,
        token: oneshot::Sender<String>,
    },
    /// Handle the body of a long-poll POST, and return the status for it.
    Post {
        session: SessionId,
        content_type: Option<String>,
        body: Bytes,
        status: oneshot::Sender<Result<Status, BodyError>>,
    },
}
