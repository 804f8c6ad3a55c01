//! Questions to the backend, and their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::oneshot;
use watchfire_channels::Ref;
use watchfire_types::{ShardId, SocketId};

use super::connect::ConnectVerdict;
use super::notices::LeaveNotice;
use super::request::ChannelId;
use super::verdict::Verdict;
use crate::channel_api::{Body, ChannelAddress, Endpoint};
use crate::settings::Hook;

/// A question to the backend. A client's channel gets a [`DecidedJoin`] or a [`DecidedMessage`]
/// later; a client that connects, a [`ConnectVerdict`].
pub(crate) struct Question {
    pub hook: Hook,
    /// The request as JSON.
    pub body: String,
    pub recipient: Recipient,
}

/// The place that gets the answer.
pub(crate) enum Recipient {
    /// A client that connects.
    Connect { to: ConnectReply, slot: Slot },
    /// A join that waits.
    Join { channel: ChannelAddress, ticket: JoinTicket, slot: Slot },
    /// A joined channel, and its message that waits.
    Message { channel: ChannelAddress, message: ClientMessage, slot: Slot },
}

/// The place where a client that connects waits.
pub(crate) enum ConnectReply {
    /// An upgrade request that is parked in a shard, which gets a boxed [`ConnectVerdict`].
    Shard { shard: ShardId, key: u32, socket: SocketId },
    /// A request for a long-poll session, in the router.
    Router(oneshot::Sender<ConnectVerdict>),
}

/// The parts of a join that waits.
pub(crate) struct JoinTicket {
    pub channel: ChannelId,
    /// `None`: the rule sends no such notice.
    pub leave: Option<LeaveNotice>,
}

/// The decision about a join. It is the message that continues the join.
pub(crate) struct DecidedJoin {
    pub verdict: Verdict,
    pub ticket: JoinTicket,
}

/// A client's message.
pub(crate) struct ClientMessage {
    pub topic: Box<str>,
    pub event: Box<str>,
    pub body: Body,
    pub reference: Ref,
}

/// The decision about a message, for its channel.
///
/// If the channel has ended meanwhile, this is dropped with the message. Then it sends the message
/// to the subscribers if that is allowed, because the backend counts on it.
pub(crate) struct DecidedMessage {
    decided: Option<(ClientMessage, Verdict)>,
    endpoint: Endpoint,
}

impl DecidedMessage {
    pub(super) fn new(message: ClientMessage, verdict: Verdict, endpoint: Endpoint) -> Self {
        DecidedMessage { decided: Some((message, verdict)), endpoint }
    }

    /// The message and the decision, for the channel.
    pub fn take(mut self) -> Option<(ClientMessage, Verdict)> {
        self.decided.take()
    }
}

impl Drop for DecidedMessage {
    fn drop(&mut self) {
        let Some((message, Verdict::Allowed(allowed))) = self.decided.take() else { return };
        if !allowed.is_silent {
            let body = allowed.payload.unwrap_or(message.body);
            self.endpoint.broadcast(&message.topic, &message.event, body).ok();
        }
    }
}

/// The place of a question, or of a message that waits, until it is dropped.
pub(crate) struct Slot(pub(super) Arc<AtomicU32>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
