//! Messages between the endpoints of several processes.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use watchfire_channels::Ref;
use watchfire_hub::SubscriptionId;
use watchfire_types::{NodeId, ShardId};

use super::address::{ChannelAddress, ReplyTo};
use super::forward::ForwardKind;
use super::payload::Body;

/// A message between the endpoints of two processes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message<'a> {
    /// To every subscriber of a topic.
    Broadcast {
        topic: &'a str,
        event: &'a str,
        #[serde(borrow)]
        body: BodyRef<'a>,
        except: Option<Address>,
    },
    /// Close the sockets with this id.
    Disconnect { id: &'a str },
    /// The sender awaits subscribers of these topics, so publishers should wait.
    Awaiting {
        #[serde(borrow)]
        topics: Vec<&'a str>,
    },
    /// To one channel.
    Push { to: Address, event: &'a str, body: BodyRef<'a> },
    /// The reply to one message.
    Reply { to: ReplyAddress<'a>, status: &'a str, body: BodyRef<'a> },
    /// Data of one client for another, whose sender waits for a reply.
    Forward { kind: ForwardKind, to: Address, data: &'a [u8], ack: ReplyAddress<'a> },
}

/// A [`ChannelAddress`] between processes. Features send it too.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Address {
    node: u16,
    shard: u16,
    subscription: u32,
    serial: u32,
}

/// A [`ReplyTo`] between processes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReplyAddress<'a> {
    channel: Address,
    reference: &'a str,
}

/// A [`Body`] between processes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum BodyRef<'a> {
    Json(&'a str),
    Binary(&'a [u8]),
}

impl From<ChannelAddress> for Address {
    fn from(address: ChannelAddress) -> Self {
        let ChannelAddress { node, shard, subscription, serial } = address;
        let subscription = subscription.index() as u32;
        Address { node: node.0, shard: shard.0, subscription, serial }
    }
}

impl From<Address> for ChannelAddress {
    fn from(address: Address) -> Self {
        // An index that no subscription has reaches no client, as an outdated address does.
        let index = (address.subscription as usize).min(u32::MAX as usize - 1);
        ChannelAddress {
            node: NodeId(address.node),
            shard: ShardId(address.shard),
            subscription: SubscriptionId::from_index(index),
            serial: address.serial,
        }
    }
}

impl<'a> From<&'a ReplyTo> for ReplyAddress<'a> {
    fn from(to: &'a ReplyTo) -> Self {
        ReplyAddress { channel: to.channel.into(), reference: to.reference.as_json() }
    }
}

impl ReplyAddress<'_> {
    pub fn to_owned(&self) -> ReplyTo {
        let reference = Ref::from_json(self.reference).unwrap_or_default();
        ReplyTo { channel: self.channel.into(), reference }
    }
}

impl<'a> From<&'a Body> for BodyRef<'a> {
    fn from(body: &'a Body) -> Self {
        match body {
            Body::Json(text) => BodyRef::Json(text),
            Body::Binary(bytes) => BodyRef::Binary(bytes),
        }
    }
}

impl From<BodyRef<'_>> for Body {
    fn from(body: BodyRef<'_>) -> Self {
        match body {
            BodyRef::Json(text) => Body::Json(text.to_owned().into()),
            BodyRef::Binary(bytes) => Body::Binary(Bytes::copy_from_slice(bytes)),
        }
    }
}

/// Samples of the messages.
#[cfg(test)]
pub fn message_samples() -> Vec<crate::cluster::Samples> {
    use crate::cluster::samples;
    let at = Address { node: 1, shard: 2, subscription: 3, serial: 4 };
    let to = || ReplyAddress { channel: at, reference: "r" };
    let (text, bytes) = (BodyRef::Json("{}"), BodyRef::Binary(b"b"));
    let forward = Message::Forward { kind: ForwardKind(1), to: at, data: b"d", ack: to() };
    vec![
        samples!(enum Message<'_>:
            Message::Broadcast { topic: "t", event: "e", body: text, except: Some(at) },
            Message::Disconnect { id: "i" },
            Message::Awaiting { topics: vec!["t"] },
            Message::Push { to: at, event: "e", body: bytes },
            Message::Reply { to: to(), status: "ok", body: text },
            forward,
        ),
        samples!(enum BodyRef<'_>: text, bytes),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel_api::reply::Reply;

    #[test]
    fn a_reply_is_decoded_as_it_was_encoded() {
        let channel = ChannelAddress {
            node: NodeId(3),
            shard: ShardId(1),
            subscription: SubscriptionId::from_index(70_000),
            serial: 9,
        };
        let to = ReplyTo { channel, reference: Ref::from_json(r#""a\"b""#).unwrap() };
        let reply = Reply::ok(serde_json::json!({ "n": 1 }));
        let message = Message::Reply {
            to: (&to).into(),
            status: &reply.status,
            body: (&reply.response).into(),
        };
        let bytes = postcard::to_stdvec(&message).unwrap();
        let Ok(Message::Reply { to: reply_to, status: "ok", body }) = postcard::from_bytes(&bytes)
        else {
            panic!("a reply was encoded")
        };
        assert_eq!(reply_to.to_owned().channel, channel);
        assert_eq!(reply_to.to_owned().reference, to.reference);
        assert_eq!(Body::from(body), reply.response);
    }

    #[test]
    fn a_truncated_message_is_an_error() {
        let bytes = postcard::to_stdvec(&Message::Disconnect { id: "users:1" }).unwrap();
        for end in 0..bytes.len() {
            assert!(postcard::from_bytes::<Message<'_>>(&bytes[..end]).is_err());
        }
    }
}
