use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use channels::Serializer;
use channels::longpoll::{BodyError, Status};
use tokio::sync::oneshot;
use vocab::PeerId;

use crate::app::{Body, ChannelAddress, Connected, Relayed, Reply, ReplyTo};
use crate::broadcast::Broadcast;
use crate::planes::Connection;
use crate::token::SessionId;

/// What other threads ask of a shard.
pub(crate) enum Mail {
    /// Give this to the topic's subscribers here.
    Broadcast(Arc<Broadcast>),
    /// Close the sockets that carry this id.
    Disconnect { id: String },
    /// Push to one channel.
    Push { to: ChannelAddress, event: String, body: Body },
    /// Hand to one channel's `handle_info`.
    Info { to: ChannelAddress, info: Box<dyn Any + Send> },
    /// Answer one message.
    Reply { to: ReplyTo, reply: Reply },
    /// Pass relayed data on, and answer its sender.
    Relay { what: Relayed, to: ChannelAddress, data: Bytes, ack: ReplyTo },
    /// Topics are ready that joins waited for.
    Ready,
    /// A sprites' poll waits no longer.
    AnswerPoll { peer: PeerId, connection: Connection },
    /// Open a long-poll session; answers with its token.
    OpenSession {
        serializer: Serializer,
        connected: Connected,
        counted: Option<IpAddr>,
        token: oneshot::Sender<String>,
    },
    /// A POST for a long-poll session; answers with the status for its body.
    Post {
        session: SessionId,
        content_type: Option<String>,
        body: Bytes,
        status: oneshot::Sender<Result<Status, BodyError>>,
    },
}
