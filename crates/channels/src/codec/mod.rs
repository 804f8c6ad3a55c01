//! Encoding and decoding of frames.

mod binary;
mod elements;
mod events;
mod v1;
mod v2;

use std::str;

pub use self::binary::ClientBroadcast;
use crate::conversation::Refusal;
use crate::error::{DecodeError, EncodeError};
use crate::frame::{Broadcast, Kind, Message, Payload, Push, Reply, event};
use crate::reference::{JoinRef, Ref};

/// The format of a client's messages, chosen by the `vsn` of its URL; see
/// [`Serializer::from_vsn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Serializer {
    /// Objects: `{"topic":t,"event":e,"payload":p,"ref":r}`.
    V1,
    /// Arrays, `[join_ref,ref,topic,event,payload]`, and binary frames.
    V2,
    /// Server-sent events of one topic. No `vsn` asks for it, and its client sends nothing.
    Events,
}

/// Decodes a text frame.
///
/// Only the refs are copied, unless topic or event have escapes. The payload is checked to be JSON
/// of any depth, and not parsed further.
///
/// ```
/// use watchfire_channels::{Payload, Serializer};
///
/// let frame = r#"["3","4","rooms:lobby","new_msg",{"body":"hi"}]"#;
/// let message = watchfire_channels::decode_text(Serializer::V2, frame)?;
/// assert_eq!((&*message.topic, &*message.event), ("rooms:lobby", "new_msg"));
/// assert_eq!(message.payload, Payload::Json(r#"{"body":"hi"}"#));
/// # Ok::<(), watchfire_channels::DecodeError>(())
/// ```
pub fn decode_text(serializer: Serializer, frame: &str) -> Result<Message<'_>, DecodeError> {
    match serializer {
        Serializer::V1 => v1::decode(frame),
        Serializer::V2 => v2::decode(frame),
        Serializer::Events => Err(DecodeError::NotAMessage),
    }
}

/// Decodes a binary frame. On a V1 socket it must contain JSON text as well.
///
/// ```
/// use watchfire_channels::{Payload, Serializer};
///
/// let frame = b"\0\x01\x01\x0b\x0336rooms:lobbybin\x01\x02\xff";
/// let push = watchfire_channels::decode_binary(Serializer::V2, frame)?;
/// assert_eq!((&*push.topic, &*push.event), ("rooms:lobby", "bin"));
/// assert_eq!(push.payload, Payload::Binary(&[1, 2, 255]));
/// # Ok::<(), watchfire_channels::DecodeError>(())
/// ```
pub fn decode_binary(serializer: Serializer, frame: &[u8]) -> Result<Message<'_>, DecodeError> {
    match serializer {
        Serializer::V1 => v1::decode(text(frame)?),
        Serializer::V2 => binary::decode(frame),
        Serializer::Events => Err(DecodeError::NotAMessage),
    }
}

/// The V2 frame of Phoenix that says the same as a broadcast which `@supabase/realtime-js` sends as a binary frame of a kind
/// of its own, 3. `None` for a frame of any other kind. A payload of bytes begins with the application's event:
/// [`encode_broadcast`] makes of it the frame of kind 4 which that client reads, on a topic that begins with `realtime:`.
///
/// ```
/// use watchfire_channels::ClientBroadcast;
///
/// let frame = b"\x03\x01\x01\x04\x05\x00\x0136roomshout{\"n\":1}";
/// let ClientBroadcast::Text(text) = watchfire_channels::client_broadcast(frame).expect("a broadcast")? else {
///     panic!("its payload is JSON")
/// };
/// let payload = r#"{"type":"broadcast","event":"shout","payload":{"n":1}}"#;
/// assert_eq!(text, format!(r#"["3","6","room","broadcast",{payload}]"#));
/// # Ok::<(), watchfire_channels::DecodeError>(())
/// ```
pub fn client_broadcast(frame: &[u8]) -> Option<Result<ClientBroadcast, DecodeError>> {
    binary::client_broadcast(frame)
}

/// Decodes a binary frame that a server sent: a push, a reply or a broadcast. A reply has the event
/// `phx_reply`; its status is left out.
///
/// ```
/// use watchfire_channels::{Payload, event};
///
/// let frame = b"\x01\x01\x01\x0b\x0236rooms:lobbyok\x01\x02\xff";
/// let reply = watchfire_channels::decode_sent_binary(frame)?;
/// assert_eq!((&*reply.topic, &*reply.event), ("rooms:lobby", event::REPLY));
/// assert_eq!(reply.payload, Payload::Binary(&[1, 2, 255]));
/// # Ok::<(), watchfire_channels::DecodeError>(())
/// ```
pub fn decode_sent_binary(frame: &[u8]) -> Result<Message<'_>, DecodeError> {
    binary::decode_sent(frame)
}

fn text(bytes: &[u8]) -> Result<&str, DecodeError> {
    // The fast check does not return the position, so check an invalid text again.
    simdutf8::basic::from_utf8(bytes).or_else(|_| {
        str::from_utf8(bytes)
            .map_err(|error| DecodeError::NotUtf8 { valid_up_to: error.valid_up_to() })
    })
}

/// Appends a reply to `out`. The crate's documentation has an example.
pub fn encode_reply(
    serializer: Serializer,
    reply: &Reply<'_>,
    out: &mut Vec<u8>,
) -> Result<Kind, EncodeError> {
    match (serializer, reply.response) {
        (Serializer::V1, Payload::Json(json)) => v1::encode_reply(reply, json, out),
        (Serializer::Events, Payload::Json(json)) => events::encode_reply(reply, json, out),
        (Serializer::V1 | Serializer::Events, Payload::Binary(_)) => {
            return Err(EncodeError::BinaryOverText);
        }
        (Serializer::V2, Payload::Json(json)) => v2::encode_reply(reply, json, out),
        (Serializer::V2, Payload::Binary(data)) => {
            binary::encode_reply(reply, data, out)?;
            return Ok(Kind::Binary);
        }
    }
    Ok(Kind::Text)
}

/// Appends a push to `out`.
///
/// ```
/// use watchfire_channels::{Payload, Push, Ref, Serializer};
///
/// let (join_ref, mut out) = (Ref::from_text("3")?, Vec::new());
/// let payload = Payload::Json(r#"{"left":2}"#);
/// let push = Push { join_ref: &join_ref, topic: "rooms:lobby", event: "tick", payload };
/// watchfire_channels::encode_push(Serializer::V2, &push, &mut out)?;
/// assert_eq!(out, br#"["3",null,"rooms:lobby","tick",{"left":2}]"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn encode_push(
    serializer: Serializer,
    push: &Push<'_>,
    out: &mut Vec<u8>,
) -> Result<Kind, EncodeError> {
    match (serializer, push.payload) {
        (Serializer::V1, Payload::Json(json)) => {
            v1::encode(&Ref::NULL, push.topic, push.event, json, out);
        }
        (Serializer::Events, Payload::Json(json)) => {
            events::encode(&Ref::NULL, push.event, json, out);
        }
        (Serializer::V1 | Serializer::Events, Payload::Binary(_)) => {
            return Err(EncodeError::BinaryOverText);
        }
        (Serializer::V2, Payload::Json(json)) => {
            v2::encode(push.join_ref, &Ref::NULL, push.topic, push.event, json, out);
        }
        (Serializer::V2, Payload::Binary(data)) => {
            binary::encode_push(push, data, out)?;
            return Ok(Kind::Binary);
        }
    }
    Ok(Kind::Text)
}

/// Appends a broadcast to `out`. The bytes are equal for all subscribers, so encode it once.
///
/// ```
/// use watchfire_channels::{Broadcast, Kind, Payload, Serializer};
///
/// let mut out = Vec::new();
/// let payload = Payload::Binary(&[1, 2, 255]);
/// let broadcast = Broadcast { topic: "rooms:lobby", event: "bin", payload };
/// let kind = watchfire_channels::encode_broadcast(Serializer::V2, &broadcast, &mut out)?;
/// assert_eq!(kind, Kind::Binary);
/// assert_eq!(out, b"\x02\x0b\x03rooms:lobbybin\x01\x02\xff");
/// # Ok::<(), watchfire_channels::EncodeError>(())
/// ```
pub fn encode_broadcast(
    serializer: Serializer,
    broadcast: &Broadcast<'_>,
    out: &mut Vec<u8>,
) -> Result<Kind, EncodeError> {
    encode_broadcast_with_ref(serializer, broadcast, &Ref::NULL, out)
}

/// Appends a broadcast with a ref to `out`. phoenix.js gives the ref to the listeners of the event. It
/// must not be a number, because a client could take it for the ref of its heartbeat. Bytes are sent
/// without the ref, because their frame has none.
///
/// ```
/// use watchfire_channels::{Broadcast, Payload, Ref, Serializer};
///
/// let mut out = Vec::new();
/// let broadcast = Broadcast { topic: "rooms:lobby", event: "msg", payload: Payload::Json("{}") };
/// let reference = Ref::from_text("k3f9:17").unwrap();
/// watchfire_channels::encode_broadcast_with_ref(Serializer::V2, &broadcast, &reference, &mut out)?;
/// assert_eq!(out, br#"[null,"k3f9:17","rooms:lobby","msg",{}]"#);
/// # Ok::<(), watchfire_channels::EncodeError>(())
/// ```
pub fn encode_broadcast_with_ref(
    serializer: Serializer,
    broadcast: &Broadcast<'_>,
    reference: &Ref,
    out: &mut Vec<u8>,
) -> Result<Kind, EncodeError> {
    let &Broadcast { topic, event, payload } = broadcast;
    match (serializer, payload) {
        (Serializer::V1, Payload::Json(json)) => v1::encode(reference, topic, event, json, out),
        (Serializer::Events, Payload::Json(json)) => events::encode(reference, event, json, out),
        (Serializer::V1 | Serializer::Events, Payload::Binary(_)) => {
            return Err(EncodeError::BinaryOverText);
        }
        (Serializer::V2, Payload::Json(json)) => {
            v2::encode(&Ref::NULL, reference, topic, event, json, out);
        }
        (Serializer::V2, Payload::Binary(data)) => {
            binary::encode_broadcast(broadcast, data, out)?;
            return Ok(Kind::Binary);
        }
    }
    Ok(Kind::Text)
}

/// Appends the id of the last message of a stream's topic, from which its client continues after a cut. For
/// [`Serializer::Events`] alone.
pub fn encode_event_id(id: &Ref, out: &mut Vec<u8>) -> Kind {
    events::encode_id(id, out);
    Kind::Text
}

/// Appends the close of a channel that ended normally; the client will not rejoin by itself.
pub fn encode_close(
    serializer: Serializer,
    join: &JoinRef,
    topic: &str,
    out: &mut Vec<u8>,
) -> Kind {
    // A stream ends with the event, so the event says why.
    let payload =
        if serializer == Serializer::Events { r#"{"reason":"channel_closed"}"# } else { "{}" };
    encode_end(serializer, join, topic, event::CLOSE, payload, out)
}

/// Appends the error of a channel that failed; the client rejoins.
pub fn encode_error(
    serializer: Serializer,
    join: &JoinRef,
    topic: &str,
    out: &mut Vec<u8>,
) -> Kind {
    encode_end(serializer, join, topic, event::ERROR, r#"{"reason":"channel_crash"}"#, out)
}

fn encode_end(
    serializer: Serializer,
    join: &JoinRef,
    topic: &str,
    event: &str,
    payload: &str,
    out: &mut Vec<u8>,
) -> Kind {
    let shown = join.shown();
    match serializer {
        Serializer::V1 => v1::encode(&shown, topic, event, payload, out),
        Serializer::V2 => v2::encode(&shown, &shown, topic, event, payload, out),
        Serializer::Events => events::encode(&Ref::NULL, event, payload, out),
    }
    Kind::Text
}

pub fn encode_heartbeat_reply(serializer: Serializer, reference: &Ref, out: &mut Vec<u8>) -> Kind {
    let reply = Reply {
        join_ref: &Ref::NULL,
        reference,
        topic: event::PHOENIX_TOPIC,
        status: "ok",
        response: Payload::EMPTY,
    };
    encode_json_reply(serializer, &reply, "{}", out)
}

/// Appends the error reply to a message that the protocol refuses.
///
/// ```
/// use watchfire_channels::{Refusal, Serializer};
///
/// let frame = r#"["1","1","nowhere","phx_join",{}]"#;
/// let (join, mut out) = (watchfire_channels::decode_text(Serializer::V2, frame)?, Vec::new());
/// watchfire_channels::encode_refusal(Serializer::V2, &join, &Refusal::Unmatched, &mut out);
/// assert!(out.ends_with(br#"{"reason":"unmatched topic"}}]"#));
/// # Ok::<(), watchfire_channels::DecodeError>(())
/// ```
pub fn encode_refusal(
    serializer: Serializer,
    message: &Message<'_>,
    refusal: &Refusal,
    out: &mut Vec<u8>,
) -> Kind {
    let response = refusal.response();
    let reply = Reply {
        join_ref: refusal.join_ref(message),
        reference: &message.reference,
        topic: &message.topic,
        status: "error",
        response: Payload::Json(&response),
    };
    encode_json_reply(serializer, &reply, &response, out)
}

fn encode_json_reply(
    serializer: Serializer,
    reply: &Reply<'_>,
    json: &str,
    out: &mut Vec<u8>,
) -> Kind {
    match serializer {
        Serializer::V1 => v1::encode_reply(reply, json, out),
        Serializer::V2 => v2::encode_reply(reply, json, out),
        Serializer::Events => events::encode_reply(reply, json, out),
    }
    Kind::Text
}
