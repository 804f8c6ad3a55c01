//! What the processes of a server say to one another.

use std::borrow::Cow;

use bytes::Bytes;
use channels::Ref;
use hub::{OwnChange, SubscriptionId};
use pages::Have;
use serde::{Deserialize, Serialize};
use vocab::{NodeId, PeerId, ShardId};

use crate::app::{Body, ChannelAddress, Relayed, Reply, ReplyTo};
use crate::page_board::PeerKind;
use crate::worlds::Light;

/// One message between two processes. They are of one build, so that its form may change with any.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Word<'a> {
    /// To everyone on a topic.
    Broadcast {
        topic: &'a str,
        event: &'a str,
        #[serde(borrow)]
        body: Told<'a>,
        except: Option<Address>,
    },
    /// Close the sockets that carry this id.
    Disconnect { id: &'a str },
    /// To one channel.
    Push { to: Address, event: &'a str, body: Told<'a> },
    /// The answer to one message.
    Reply { to: Asker<'a>, status: &'a str, body: Told<'a> },
    /// A segment or a signal for one peer of a page, which is to be acknowledged.
    Relay { what: Relayed, to: Address, data: &'a [u8], ack: Asker<'a> },
    /// What the presences on a topic did.
    Presences { topic: &'a str, changes: Cow<'a, [OwnChange]> },
    /// A peer is on a page, or has more of it.
    Peer { page: &'a str, peer: u64, at: Address, have: Copy, kind: PeerKind },
    /// A peer is on a page no more.
    PeerGone { page: &'a str, peer: u64 },
    /// A page that this process knew to be lit is so no more.
    WasLit { page: &'a str },
    /// How a page stands at this process, for whoever meets other worlds.
    Standing { page: &'a str, light: Light },
    /// Who has which place on a plane.
    Seats { plane: &'a str, changes: Vec<(u64, Seating)> },
    /// A sprite for a peer of a plane. One that comes back to its thrower is not sent on again.
    Sprite { plane: &'a str, to: u64, from: u64, arrival: &'a str, is_back: bool },
    /// How full this process is, or each of several.
    Census(Vec<(u16, Fill)>),
    /// A question, by a number of the asker's.
    Ask { number: u64, question: Question<'a> },
    /// The answer to a question.
    Answer { number: u64, text: &'a str },
}

/// How full a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fill {
    /// Websockets and long-poll sessions.
    pub clients: u64,
    /// Open connections of any kind: these are what a process has room for.
    pub connections: u64,
}

/// What one process asks another.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Question<'a> {
    /// Its metrics, as text.
    Metrics,
    /// Throw a sprite, for a peer that polls and whose seat is there. Answered as HTTP would be.
    Throw { plane: &'a str, peer: u64, throw: &'a [u8] },
    /// Leave the plane, likewise.
    Leave { plane: &'a str, peer: u64 },
}

/// How a place on a plane is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Seating {
    /// By somebody at the process that says so.
    Here,
    /// By nobody, but it is kept for a while.
    Vacant,
    /// It is closed.
    Gone,
}

/// How much of a page a peer has.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Copy {
    Nothing,
    Some,
    All,
}

/// A [`ChannelAddress`] on its way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Address {
    node: u16,
    shard: u16,
    subscription: u32,
    serial: u32,
}

/// A [`ReplyTo`] on its way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Asker<'a> {
    channel: Address,
    reference: &'a str,
}

/// A [`Body`] on its way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Told<'a> {
    Json(&'a str),
    Binary(&'a [u8]),
}

impl Word<'_> {
    pub fn to_bytes(&self) -> Bytes {
        postcard::to_stdvec(self).expect("a word is plain data").into()
    }

    pub fn parse(bytes: &[u8]) -> Result<Word<'_>, postcard::Error> {
        postcard::from_bytes(bytes)
    }
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
        // An index that no subscription has finds nobody, as one out of date does.
        let index = (address.subscription as usize).min(u32::MAX as usize - 1);
        ChannelAddress {
            node: NodeId(address.node),
            shard: ShardId(address.shard),
            subscription: SubscriptionId::from_index(index),
            serial: address.serial,
        }
    }
}

impl<'a> From<&'a ReplyTo> for Asker<'a> {
    fn from(to: &'a ReplyTo) -> Self {
        Asker { channel: to.channel.into(), reference: to.reference.as_json() }
    }
}

impl Asker<'_> {
    pub fn to_owned(&self) -> ReplyTo {
        let reference = Ref::from_json(self.reference).unwrap_or_default();
        ReplyTo { channel: self.channel.into(), reference }
    }
}

impl<'a> From<&'a Body> for Told<'a> {
    fn from(body: &'a Body) -> Self {
        match body {
            Body::Json(text) => Told::Json(text),
            Body::Binary(bytes) => Told::Binary(bytes),
        }
    }
}

impl From<Told<'_>> for Body {
    fn from(told: Told<'_>) -> Self {
        match told {
            Told::Json(text) => Body::Json(text.to_owned().into()),
            Told::Binary(bytes) => Body::Binary(Bytes::copy_from_slice(bytes)),
        }
    }
}

impl From<Have> for Copy {
    fn from(have: Have) -> Self {
        match have {
            Have::Nothing => Copy::Nothing,
            Have::Some => Copy::Some,
            Have::All => Copy::All,
        }
    }
}

impl From<Copy> for Have {
    fn from(copy: Copy) -> Self {
        match copy {
            Copy::Nothing => Have::Nothing,
            Copy::Some => Have::Some,
            Copy::All => Have::All,
        }
    }
}

pub(crate) fn reply(to: &ReplyTo, reply: &Reply) -> Bytes {
    Word::Reply { to: to.into(), status: &reply.status, body: (&reply.response).into() }.to_bytes()
}

pub(crate) fn peer(
    page: &str,
    peer: PeerId,
    at: ChannelAddress,
    have: Have,
    kind: PeerKind,
) -> Word<'_> {
    Word::Peer { page, peer: peer.0, at: at.into(), have: have.into(), kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_comes_back_as_it_was_said() {
        let channel = ChannelAddress {
            node: NodeId(3),
            shard: ShardId(1),
            subscription: SubscriptionId::from_index(70_000),
            serial: 9,
        };
        let to = ReplyTo { channel, reference: Ref::from_json(r#""a\"b""#).unwrap() };
        let bytes = reply(&to, &Reply::ok(serde_json::json!({ "n": 1 })));
        let Ok(Word::Reply { to: asker, status: "ok", body }) = Word::parse(&bytes) else {
            panic!("no reply came back")
        };
        assert_eq!(asker.to_owned().channel, channel);
        assert_eq!(asker.to_owned().reference, to.reference);
        assert_eq!(Body::from(body), Body::from(serde_json::json!({ "n": 1 })));
    }

    #[test]
    fn half_a_word_is_an_error() {
        let bytes = Word::Disconnect { id: "users:1" }.to_bytes();
        for end in 0..bytes.len() {
            assert!(Word::parse(&bytes[..end]).is_err());
        }
    }
}
