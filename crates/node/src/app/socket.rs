use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use hub::{SubscriptionId, TrackError};
use serde::{Deserialize, Serialize};
use vocab::{Instant, NodeId, ShardId};

use crate::endpoint::Endpoint;
use crate::presence::PresenceBoard;

use super::{Body, PayloadError, Reply};

/// One joined channel, wherever it lives. Past the channel's end it finds nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChannelAddress {
    pub(crate) node: NodeId,
    pub(crate) shard: ShardId,
    pub(crate) subscription: SubscriptionId,
    /// How many others the subscription's slot has held before.
    pub(crate) serial: u32,
}

/// Which message a reply answers.
#[derive(Clone, Debug)]
pub(crate) struct ReplyTo {
    pub channel: ChannelAddress,
    pub reference: channels::Ref,
}

/// What one peer of a page passes to another through the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Relayed {
    /// A piece of content.
    Segment,
    /// What two peers say to find a direct path.
    Signal,
}

impl Relayed {
    /// The event it arrives as.
    pub fn event(self) -> &'static str {
        match self {
            Relayed::Segment => "relay",
            Relayed::Signal => "signal",
        }
    }
}

/// What a callback wants done, in order, once it has returned.
#[derive(Debug)]
pub(crate) enum Effect {
    Push {
        event: String,
        body: Body,
    },
    Broadcast {
        event: String,
        body: Body,
        to_self: bool,
    },
    /// Send a binary push to one channel, and answer the message when it was accepted there.
    Relay {
        what: Relayed,
        to: ChannelAddress,
        data: Bytes,
        ack: ReplyTo,
    },
}

/// A client's channel, as a callback sees it.
///
/// Pushes and broadcasts leave in the order they were asked for, when the callback has returned.
pub struct Socket<'a> {
    pub(crate) topic: &'a str,
    pub(crate) now: Instant,
    pub(crate) address: ChannelAddress,
    /// Where the client is, when limits per address hold for it.
    pub(crate) counted: Option<IpAddr>,
    pub(crate) reference: &'a channels::Ref,
    pub(crate) assigns: Option<&'a Arc<dyn Any + Send + Sync>>,
    pub(crate) presence: &'a mut hub::PresenceOwner,
    pub(crate) board: &'a PresenceBoard,
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl Socket<'_> {
    /// The topic that the client joined.
    pub fn topic(&self) -> &str {
        self.topic
    }

    /// When this call happens, on the server's own clock.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// This channel's address, for [`Endpoint::push`] and [`Endpoint::send`].
    pub fn address(&self) -> ChannelAddress {
        self.address
    }

    /// A handle to the whole server.
    pub fn endpoint(&self) -> &Endpoint {
        self.endpoint
    }

    /// What the application kept of this socket when it connected.
    pub fn assigns<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.assigns.and_then(|assigns| assigns.downcast_ref())
    }

    /// Send to this client alone.
    pub fn push(&mut self, event: &str, body: impl Into<Body>) -> Result<(), PayloadError> {
        let body = body.into().checked_object()?;
        self.effects.push(Effect::Push { event: event.into(), body });
        Ok(())
    }

    /// Send to everyone on the topic, this client included.
    pub fn broadcast(&mut self, event: &str, body: impl Into<Body>) -> Result<(), PayloadError> {
        self.broadcast_to(event, body.into(), true)
    }

    /// Send to everyone on the topic but this client.
    pub fn broadcast_from(
        &mut self,
        event: &str,
        body: impl Into<Body>,
    ) -> Result<(), PayloadError> {
        self.broadcast_to(event, body.into(), false)
    }

    fn broadcast_to(&mut self, event: &str, body: Body, to_self: bool) -> Result<(), PayloadError> {
        let body = body.checked_object()?;
        self.effects.push(Effect::Broadcast { event: event.into(), body, to_self });
        Ok(())
    }

    /// Answer this message later, from anywhere; then return [`super::Outcome::NoReply`].
    pub fn reply_later(&self) -> PendingReply {
        PendingReply { endpoint: self.endpoint.clone(), to: self.reply_to() }
    }

    pub(crate) fn reply_to(&self) -> ReplyTo {
        ReplyTo { channel: self.address, reference: self.reference.clone() }
    }

    pub(crate) fn relay(&mut self, what: Relayed, to: ChannelAddress, data: Bytes) {
        let ack = self.reply_to();
        self.effects.push(Effect::Relay { what, to, data, ack });
    }

    /// Show `key` as present on this topic, with `meta`, a JSON object.
    pub fn track(&mut self, key: &str, meta: serde_json::Value) -> Result<(), TrackError> {
        self.board.on(self.topic).track(self.presence, self.topic, key, &meta.to_string())
    }

    /// Replace the meta that this channel tracks under `key`.
    pub fn update_presence(
        &mut self,
        key: &str,
        meta: serde_json::Value,
    ) -> Result<(), TrackError> {
        self.board.on(self.topic).update(self.presence, self.topic, key, &meta.to_string())
    }

    /// Stop showing `key`.
    pub fn untrack(&mut self, key: &str) {
        self.board.on(self.topic).untrack(self.presence, self.topic, key);
    }

    /// Push `presence_state`: everyone present on the topic.
    pub fn push_presence_state(&mut self) {
        let state = self.board.on(self.topic).state(self.topic);
        let body = Body::Json(state.into());
        self.effects.push(Effect::Push { event: "presence_state".into(), body });
    }
}

/// A reply that the application still owes. Dropped unsent, the client's push times out.
#[derive(Debug)]
pub struct PendingReply {
    endpoint: Endpoint,
    to: ReplyTo,
}

impl PendingReply {
    /// Send it. It is lost without an error when the channel is gone by now.
    pub fn send(self, reply: Reply) {
        self.endpoint.reply(self.to, reply);
    }
}
