//! One client's channel, as the application's callbacks see it.

use std::any::Any;
use std::borrow::Cow;
use std::net::IpAddr;

use bytes::Bytes;
use watchfire_auth::SocketToken;
use watchfire_channels::Ref;
use watchfire_hub::TrackError;
use watchfire_types::Instant;

use super::address::{ChannelAddress, ReplyTo};
use super::connect::{Guest, SocketData};
use super::endpoint::Endpoint;
use super::forward::ForwardKind;
use super::payload::{Body, PayloadError};
use super::reply::Reply;
use crate::presence::ReplicatedPresence;

/// An action that a callback requested. The shard runs it after the callback returns, in order.
#[derive(Debug)]
pub enum Effect {
    Push {
        event: String,
        body: Body,
    },
    Broadcast {
        event: String,
        body: Body,
        to_self: bool,
    },
    /// Publishes to the topic, which has a history. When the message is stored, the reply follows; an
    /// error otherwise.
    Store {
        event: String,
        payload: Cow<'static, str>,
        ack: Option<(Ref, Reply)>,
    },
    /// Replies to an earlier message of this client.
    Reply {
        to: ReplyTo,
        reply: Reply,
    },
    /// Sends a binary push to one channel, and replies when its queue has taken or refused it.
    Forward {
        kind: ForwardKind,
        to: ChannelAddress,
        data: Bytes,
        ack: ReplyTo,
    },
}

/// One client's channel, as a callback sees it.
///
/// Pushes and broadcasts are sent after the callback returns, in the order of the calls.
///
/// ```
/// use watchfire::{HandleIn, Outcome, Socket};
///
/// fn rename(socket: &mut Socket<'_>, id: &str, name: &str) -> HandleIn {
///     let user = serde_json::json!({ "id": id, "name": name });
///     socket.update_presence(id, user.clone())?;
///     socket.broadcast_from("renamed", user)?;
///     Ok(Outcome::NoReply)
/// }
/// ```
pub struct Socket<'a> {
    pub(crate) topic: &'a str,
    pub(crate) now: Instant,
    pub(crate) address: ChannelAddress,
    /// The client's address, when limits per address apply to it.
    pub(crate) counted: Option<IpAddr>,
    pub(crate) reference: &'a Ref,
    /// The id of the socket: see [`crate::Connected::with_id`].
    pub(crate) id: Option<&'a str>,
    /// Of a join that waited: the message that continues it.
    pub(crate) continued: Option<Box<dyn Any + Send>>,
    pub(crate) data: Option<&'a SocketData>,
    pub(crate) presence: &'a mut watchfire_hub::PresenceOwner,
    pub(crate) presences: &'a ReplicatedPresence,
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl Socket<'_> {
    /// The client's address, when limits per address apply to it.
    pub fn counted_address(&self) -> Option<IpAddr> {
        self.counted
    }

    /// The topic that the client joined.
    pub fn topic(&self) -> &str {
        self.topic
    }

    /// The time of this call, on the server's own clock, which all event loops of a process share. A
    /// state can keep it, and [`Instant::since`] tells how much later another call is.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The address of this channel, for [`Endpoint::push`] and [`Endpoint::send`].
    pub fn address(&self) -> ChannelAddress {
        self.address
    }

    /// A handle to the whole server.
    pub fn endpoint(&self) -> &Endpoint {
        self.endpoint
    }

    /// The data that the application attached to this socket when it connected.
    ///
    /// ```
    /// fn name<'a>(socket: &'a watchfire::Socket<'_>) -> &'a str {
    ///     // The type that `Server::on_connect` gave to `Connected::with_assigns`.
    ///     socket.assigns::<String>().map_or("guest", |name| name)
    /// }
    /// ```
    pub fn assigns<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.data?.application.as_ref()?.downcast_ref()
    }

    /// The token with which this socket connected.
    pub(crate) fn token(&self) -> Option<&SocketToken> {
        self.data?.token.as_deref()
    }

    /// The client's address, if the server keeps it: see [`SocketData::address`].
    pub(crate) fn client_address(&self) -> Option<IpAddr> {
        self.data?.address
    }

    /// `None`: the client is not a guest.
    #[doc(hidden)]
    pub fn guest(&self) -> Option<&dyn Guest> {
        self.data?.guest.as_deref()
    }

    /// Sends to this client only.
    pub fn push(&mut self, event: &str, body: impl Into<Body>) -> Result<(), PayloadError> {
        let body = body.into().checked_object()?;
        self.effects.push(Effect::Push { event: event.into(), body });
        Ok(())
    }

    /// Sends to every subscriber of the topic, including this client. On a topic with a history,
    /// [`Endpoint::publish`] also tells whether the message is stored.
    pub fn broadcast(&mut self, event: &str, body: impl Into<Body>) -> Result<(), PayloadError> {
        self.broadcast_to(event, body.into(), true, None).map(drop)
    }

    /// Sends to every subscriber of the topic except this client.
    pub fn broadcast_from(
        &mut self,
        event: &str,
        body: impl Into<Body>,
    ) -> Result<(), PayloadError> {
        self.broadcast_to(event, body.into(), false, None).map(drop)
    }

    /// Sends to every subscriber of the topic, or to the others. Returns the reply to the message with this ref, which is to
    /// be sent now. `None`: the topic has a history, and the shard replies when the message is stored.
    pub(crate) fn publish(
        &mut self,
        event: &str,
        body: impl Into<Body>,
        to_self: bool,
        reference: &Ref,
        reply: Reply,
    ) -> Result<Option<Reply>, PayloadError> {
        self.broadcast_to(event, body.into(), to_self, Some((reference, reply)))
    }

    /// Returns the reply if nothing is to be stored.
    fn broadcast_to(
        &mut self,
        event: &str,
        body: Body,
        to_self: bool,
        ack: Option<(&Ref, Reply)>,
    ) -> Result<Option<Reply>, PayloadError> {
        let (event, has_history) = (event.into(), self.endpoint.history_of(self.topic).is_some());
        match body.checked_object()? {
            Body::Json(payload) if has_history => {
                let ack = ack.map(|(reference, reply)| (reference.clone(), reply));
                self.effects.push(Effect::Store { event, payload, ack });
                Ok(None)
            }
            body => {
                self.effects.push(Effect::Broadcast { event, body, to_self });
                Ok(ack.map(|(_, reply)| reply))
            }
        }
    }

    /// Prepares a reply that any thread can send later. The callback then returns
    /// [`crate::Outcome::NoReply`].
    ///
    /// ```
    /// use watchfire::{HandleIn, Outcome, Reply, Socket};
    ///
    /// fn add(socket: &mut Socket<'_>, a: u64, b: u64) -> HandleIn {
    ///     let reply = socket.reply_later();
    ///     std::thread::spawn(move || reply.send(Reply::ok(serde_json::json!({ "sum": a + b }))));
    ///     Ok(Outcome::NoReply)
    /// }
    /// ```
    pub fn reply_later(&self) -> PendingReply {
        PendingReply { endpoint: self.endpoint.clone(), to: self.reply_to() }
    }

    pub(crate) fn reply_to(&self) -> ReplyTo {
        ReplyTo { channel: self.address, reference: self.reference.clone() }
    }

    /// Replies to an earlier message of this client.
    pub(crate) fn reply_to_earlier(&mut self, reference: Ref, reply: Reply) {
        let to = ReplyTo { channel: self.address, reference };
        self.effects.push(Effect::Reply { to, reply });
    }

    /// Sends data to one channel. This message gets its reply when the queue there has taken or refused it.
    #[doc(hidden)]
    pub fn forward(&mut self, kind: ForwardKind, to: ChannelAddress, data: Bytes) {
        let ack = self.reply_to();
        self.effects.push(Effect::Forward { kind, to, data, ack });
    }

    /// Tracks `key` as present on this topic, with `meta`, a JSON object.
    ///
    /// ```
    /// // As the `joined` of a channel:
    /// fn joined(_: &mut (), socket: &mut watchfire::Socket<'_>) {
    ///     socket.push_presence_state();
    ///     socket.track("alice", serde_json::json!({ "status": "online" })).ok();
    /// }
    /// ```
    pub fn track(&mut self, key: &str, meta: serde_json::Value) -> Result<(), TrackError> {
        self.presences.on(self.topic).track(self.presence, self.topic, key, &meta.to_string())
    }

    /// Replaces the meta that this channel tracks under `key`.
    pub fn update_presence(
        &mut self,
        key: &str,
        meta: serde_json::Value,
    ) -> Result<(), TrackError> {
        self.presences.on(self.topic).update(self.presence, self.topic, key, &meta.to_string())
    }

    /// Stops tracking `key`.
    pub fn untrack(&mut self, key: &str) {
        self.presences.on(self.topic).untrack(self.presence, self.topic, key);
    }

    /// Pushes `presence_state`: everyone present on the topic.
    pub fn push_presence_state(&mut self) {
        let state = self.presences.on(self.topic).state(self.topic);
        let body = Body::Json(state.into());
        self.effects.push(Effect::Push { event: "presence_state".into(), body });
    }
}

/// A reply that is sent later. When it is dropped unsent, the client's push times out.
#[derive(Debug)]
pub struct PendingReply {
    endpoint: Endpoint,
    to: ReplyTo,
}

impl PendingReply {
    /// Sends the reply. When the channel has ended, the reply is lost without an error.
    pub fn send(self, reply: Reply) {
        self.endpoint.reply(self.to, reply);
    }
}
