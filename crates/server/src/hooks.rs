//! The recipients of a backend's decisions: each sends the decision to the shard of its channel, or to
//! the client that connects. The crate `watchfire-hooks` asks the backend.
//!
//! The channel that asks is in `rules`; `shard` asks about clients that connect.

use std::any::Any;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;
use watchfire_channels::Ref;
use watchfire_hooks::{ChannelId, ConnectVerdict, LeaveNotice, Recipient, Verdict};
use watchfire_types::{ShardId, SocketId};

use crate::channel_api::{Body, ChannelAddress, Endpoint, ShardMessage};

/// How long a decision waits when the queue of its shard is full.
const SHARD_RETRY: Duration = Duration::from_millis(20);

/// The place where a client that connects waits.
pub(crate) enum ConnectReply {
    /// An upgrade request that is parked in a shard, which gets a boxed [`ConnectVerdict`].
    Shard { shard: ShardId, key: u32, socket: SocketId },
    /// A request for a long-poll session, in the router.
    Router(oneshot::Sender<ConnectVerdict>),
}

impl ConnectReply {
    pub fn recipient(self, endpoint: &Endpoint) -> Recipient {
        let endpoint = endpoint.clone();
        Recipient::Connect(Box::new(move |verdict| {
            Box::pin(async move {
                match self {
                    ConnectReply::Shard { shard, key, socket } => {
                        let info = Box::new(verdict);
                        let message = ShardMessage::ContinueConnect { key, socket, info };
                        deliver(&endpoint, shard, message).await;
                    }
                    // It fails when the client has gone.
                    ConnectReply::Router(waiting) => drop(waiting.send(verdict)),
                }
            })
        }))
    }
}

/// The parts of a join that waits.
pub(crate) struct JoinTicket {
    pub channel: ChannelId,
    /// `None`: the rule sends no such notice.
    pub leave: Option<LeaveNotice>,
}

impl JoinTicket {
    /// The join of this channel gets a [`DecidedJoin`].
    pub fn recipient(mut self, to: ChannelAddress, endpoint: &Endpoint) -> Recipient {
        let endpoint = endpoint.clone();
        Recipient::Channel(Box::new(move |verdict| {
            if let (Some(leave), Verdict::Allowed(_)) = (&mut self.leave, &verdict) {
                leave.grant();
            }
            let info: Box<dyn Any + Send> = Box::new(DecidedJoin { verdict, ticket: self });
            Box::pin(async move {
                deliver(&endpoint, to.shard, ShardMessage::ContinueJoin { to, info }).await;
            })
        }))
    }
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

impl ClientMessage {
    /// The channel of this message gets a [`DecidedMessage`].
    pub fn recipient(self, to: ChannelAddress, endpoint: &Endpoint) -> Recipient {
        let endpoint = endpoint.clone();
        Recipient::Channel(Box::new(move |verdict| {
            let decided = Some((self, verdict));
            let info = Box::new(DecidedMessage { decided, endpoint: endpoint.clone() });
            Box::pin(async move {
                deliver(&endpoint, to.shard, ShardMessage::Info { to, info }).await;
            })
        }))
    }
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
    /// The message and the decision, for the channel.
    pub fn take(mut self) -> Option<(ClientMessage, Verdict)> {
        self.decided.take()
    }
}

impl Drop for DecidedMessage {
    fn drop(&mut self) {
        let Some((message, Verdict::Allowed(allowed))) = self.decided.take() else { return };
        if !allowed.is_silent {
            let body = allowed.payload.map_or(message.body, |json| Body::Json(json.into()));
            self.endpoint.broadcast(&message.topic, &message.event, body).ok();
        }
    }
}

/// Sends a decision to a shard. Without the decision, the client would wait for ever.
async fn deliver(endpoint: &Endpoint, to: ShardId, mut message: ShardMessage) {
    while let Err(refused) = endpoint.send_or_return(to, message) {
        message = refused;
        sleep(SHARD_RETRY).await;
    }
}
