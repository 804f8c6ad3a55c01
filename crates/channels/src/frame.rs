//! The content of frames, independent of the serializer.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::Error as _;

use crate::reference::{JoinRef, Ref};

/// The events and the topic that the protocol reserves.
pub mod event {
    /// Client: join the topic.
    pub const JOIN: &str = "phx_join";
    /// Client: leave the topic.
    pub const LEAVE: &str = "phx_leave";
    /// Server: the reply to one message.
    pub const REPLY: &str = "phx_reply";
    /// Server: the channel ended; the client does not rejoin by itself.
    pub const CLOSE: &str = "phx_close";
    /// Server: the channel failed; the client rejoins.
    pub const ERROR: &str = "phx_error";
    /// Client: keep-alive, on the topic [`PHOENIX_TOPIC`].
    pub const HEARTBEAT: &str = "heartbeat";
    pub const PHOENIX_TOPIC: &str = "phoenix";
}

/// A message from a client, borrowed from its frame.
///
/// Topic and event are copied only if they have JSON escapes. Both may be too long for a channel;
/// [`crate::route`] refuses such messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The ref of the join that this message belongs to, or null.
    pub join_ref: Ref,
    /// The message's own ref, which its reply repeats; null when no reply is expected.
    pub reference: Ref,
    pub topic: Cow<'a, str>,
    pub event: Cow<'a, str>,
    pub payload: Payload<'a>,
}

impl JoinRef {
    pub fn of(join: &Message<'_>) -> JoinRef {
        JoinRef::new(&join.join_ref, &join.reference)
    }
}

/// The payload of a message: JSON text or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// One JSON value as text. Decoders check it; encoders copy it unchecked.
    Json(&'a str),
    /// Bytes, supported by the V2 serializer only.
    Binary(&'a [u8]),
}

impl<'a> Payload<'a> {
    /// The payload `{}`.
    pub const EMPTY: Payload<'static> = Payload::Json("{}");

    /// Parses JSON into an application's type. Bytes and other shapes are errors.
    ///
    /// ```
    /// use watchfire_channels::Payload;
    ///
    /// let numbers: Vec<u8> = Payload::Json("[1,2]").json()?;
    /// assert_eq!(numbers, [1, 2]);
    /// assert!(Payload::Binary(b"[1,2]").json::<Vec<u8>>().is_err());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn json<T: Deserialize<'a>>(self) -> Result<T, serde_json::Error> {
        match self {
            Payload::Json(text) => serde_json::from_str(text),
            Payload::Binary(_) => Err(serde_json::Error::custom("the payload is binary, not JSON")),
        }
    }
}

/// The kind of WebSocket message for the encoded bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Text,
    /// Bytes in the V2 binary format.
    Binary,
}

/// The server's reply to one message of a client.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The join's own join_ref for a reply to the join, later [`crate::JoinRef::shown`], or
    /// [`Ref::NULL`] when the reply comes from no channel.
    pub join_ref: &'a Ref,
    /// The ref of the client's message.
    pub reference: &'a Ref,
    /// The topic of the client's message.
    pub topic: &'a str,
    /// `ok` or `error` by convention; any text is allowed.
    pub status: &'a str,
    /// Any JSON value, or bytes.
    pub response: Payload<'a>,
}

/// A message from the server to one channel.
#[derive(Clone, Copy, Debug)]
pub struct Push<'a> {
    /// The channel's [`crate::JoinRef::shown`].
    pub join_ref: &'a Ref,
    pub topic: &'a str,
    pub event: &'a str,
    /// A JSON object, or bytes.
    pub payload: Payload<'a>,
}

/// A message to every subscriber of a topic. The bytes are equal for all with one serializer.
#[derive(Clone, Copy, Debug)]
pub struct Broadcast<'a> {
    pub topic: &'a str,
    pub event: &'a str,
    /// A JSON object, or bytes.
    pub payload: Payload<'a>,
}
