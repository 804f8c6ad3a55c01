//! What a frame says, whichever serializer wrote it.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::Error as _;

use crate::reference::Ref;

/// The events and the topic that the protocol itself uses.
pub mod event {
    /// Client: join the topic.
    pub const JOIN: &str = "phx_join";
    /// Client: leave the topic.
    pub const LEAVE: &str = "phx_leave";
    /// Server: the answer to one message.
    pub const REPLY: &str = "phx_reply";
    /// Server: the channel ended and should not be joined again by itself.
    pub const CLOSE: &str = "phx_close";
    /// Server: the channel failed; the client joins again.
    pub const ERROR: &str = "phx_error";
    /// Client: is anybody there? On the topic [`PHOENIX_TOPIC`].
    pub const HEARTBEAT: &str = "heartbeat";
    /// The topic of the heartbeat.
    pub const PHOENIX_TOPIC: &str = "phoenix";
}

/// A message from a client, borrowed from the frame that carried it.
///
/// Topic and event are copied only when the frame wrote them with JSON escapes. Both may be longer
/// than a channel takes; [`crate::route`] answers that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The ref of the join that this message belongs to, or null.
    pub join_ref: Ref,
    /// The message's own ref, which its reply repeats; null when no reply is awaited.
    pub reference: Ref,
    /// The topic.
    pub topic: Cow<'a, str>,
    /// The event.
    pub event: Cow<'a, str>,
    /// What it carries.
    pub payload: Payload<'a>,
}

/// What a message carries: JSON text as it came or goes over the wire, or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// Any one JSON value as text. Decoders have checked it; encoders copy it and trust it.
    Json(&'a str),
    /// Bytes, which only the V2 serializer can carry.
    Binary(&'a [u8]),
}

impl<'a> Payload<'a> {
    /// The payload `{}`.
    pub const EMPTY: Payload<'static> = Payload::Json("{}");

    /// Read JSON into a type of the application's own; an error for bytes and for other shapes.
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

/// Which kind of websocket message the encoded bytes are to be sent as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// JSON text.
    Text,
    /// Bytes in the V2 binary format.
    Binary,
}

/// The server's answer to one message of a client.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// [`Ref::NULL`] when no channel answers, the join's own for the join, later
    /// [`crate::JoinRef::shown`].
    pub join_ref: &'a Ref,
    /// The ref of the message that is answered.
    pub reference: &'a Ref,
    /// The topic of the message that is answered.
    pub topic: &'a str,
    /// `ok` and `error` by custom; any word will do.
    pub status: &'a str,
    /// Any JSON value, or bytes.
    pub response: Payload<'a>,
}

/// A message from the server to one channel.
#[derive(Clone, Copy, Debug)]
pub struct Push<'a> {
    /// The channel's [`crate::JoinRef::shown`].
    pub join_ref: &'a Ref,
    /// The channel's topic.
    pub topic: &'a str,
    /// The event.
    pub event: &'a str,
    /// A JSON object, or bytes.
    pub payload: Payload<'a>,
}

/// A message to every subscriber of a topic: the same bytes for all of one serializer.
#[derive(Clone, Copy, Debug)]
pub struct Broadcast<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The event.
    pub event: &'a str,
    /// A JSON object, or bytes.
    pub payload: Payload<'a>,
}
