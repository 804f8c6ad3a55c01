//! Encodes Phoenix messages into WebSocket frames and long-poll responses.

use bytes::Bytes;
use watchfire_channels::{EncodeError, JoinRef, Kind, Message, Payload, Ref, Refusal, Serializer};

use watchfire_hub::history::Position;

use super::reply::Reply;

/// A message in one serializer's format, without a frame header.
pub struct Encoded {
    kind: Kind,
    /// Whether it is an event of a stream, which has no frame around it.
    is_event: bool,
    bytes: Vec<u8>,
}

impl Encoded {
    /// The bytes of the message.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The message's fields, for an operator who watches its client.
    pub fn decoded(&self, serializer: Serializer) -> Option<Message<'_>> {
        match self.kind {
            Kind::Text => {
                let text = std::str::from_utf8(&self.bytes).ok()?;
                watchfire_channels::decode_text(serializer, text).ok()
            }
            Kind::Binary => watchfire_channels::decode_sent_binary(&self.bytes).ok(),
        }
    }

    /// The message as a whole WebSocket frame, or as an event of a stream.
    pub fn into_frame(self) -> Bytes {
        match self.kind {
            Kind::Text if self.is_event => self.bytes.into(),
            Kind::Text => watchfire_sockets::frame::text_frame(&self.bytes),
            Kind::Binary => watchfire_sockets::frame::binary_frame(&self.bytes),
        }
    }

    /// The message as a JSON string for the `messages` of a long-poll response. `None` for bytes,
    /// which long poll cannot carry.
    pub fn into_longpoll_message(self) -> Option<Bytes> {
        match self.kind {
            Kind::Binary => None,
            Kind::Text => {
                let text = std::str::from_utf8(&self.bytes).expect("messages are UTF-8");
                Some(serde_json::to_vec(text).expect("a text has a JSON form").into())
            }
        }
    }
}

fn encoded(
    serializer: Serializer,
    capacity: usize,
    encode: impl FnOnce(&mut Vec<u8>) -> Result<Kind, EncodeError>,
) -> Option<Encoded> {
    let mut bytes = Vec::with_capacity(capacity);
    let kind = encode(&mut bytes)
        .inspect_err(|error| tracing::debug!(%error, "cannot encode a message"))
        .ok()?;
    Some(Encoded { kind, is_event: serializer == Serializer::Events, bytes })
}

/// The approximate size of the fields around a payload, for the initial capacity of a buffer.
const ENVELOPE_BYTES: usize = 96;

fn len(payload: Payload<'_>) -> usize {
    match payload {
        Payload::Json(text) => text.len(),
        Payload::Binary(bytes) => bytes.len(),
    }
}

/// Encodes a message to every subscriber of a topic; on a topic with a history, with its position.
/// `None`: this serializer cannot carry the body.
pub fn broadcast(
    serializer: Serializer,
    topic: &str,
    event: &str,
    payload: Payload<'_>,
    position: Option<Position>,
) -> Option<Encoded> {
    let broadcast = watchfire_channels::Broadcast { topic, event, payload };
    encoded(serializer, ENVELOPE_BYTES + len(payload), |out| match position {
        None => watchfire_channels::encode_broadcast(serializer, &broadcast, out),
        Some(position) => {
            let reference = Ref::from_text(&position.to_string()).expect("a position is short");
            watchfire_channels::encode_broadcast_with_ref(serializer, &broadcast, &reference, out)
        }
    })
}

/// Encodes the position from which the client of a stream continues after a cut.
pub fn position(position: Position) -> Option<Encoded> {
    let reference = Ref::from_text(&position.to_string()).expect("a position is short");
    encoded(Serializer::Events, ENVELOPE_BYTES, |out| {
        Ok(watchfire_channels::encode_event_id(&reference, out))
    })
}

/// Encodes a message to one channel. `None`: this serializer cannot carry the body.
pub fn push(
    serializer: Serializer,
    join_ref: &JoinRef,
    topic: &str,
    event: &str,
    payload: Payload<'_>,
) -> Option<Encoded> {
    let push = watchfire_channels::Push { join_ref: &join_ref.shown(), topic, event, payload };
    encoded(serializer, ENVELOPE_BYTES + len(payload), |out| {
        watchfire_channels::encode_push(serializer, &push, out)
    })
}

/// Encodes the reply to one message. `None`: this serializer cannot carry the body.
pub fn reply(
    serializer: Serializer,
    join_ref: &Ref,
    reference: &Ref,
    topic: &str,
    reply: &Reply,
) -> Option<Encoded> {
    let response = reply.response.as_payload();
    let status = &reply.status;
    let message = watchfire_channels::Reply { join_ref, reference, topic, status, response };
    encoded(serializer, ENVELOPE_BYTES + len(response), |out| {
        watchfire_channels::encode_reply(serializer, &message, out)
    })
}

/// Encodes a refusal that the protocol itself defines.
pub fn refusal(
    serializer: Serializer,
    message: &Message<'_>,
    refusal: &Refusal,
) -> Option<Encoded> {
    encoded(serializer, ENVELOPE_BYTES, |out| {
        Ok(watchfire_channels::encode_refusal(serializer, message, refusal, out))
    })
}

/// Encodes the reply to a heartbeat.
pub fn heartbeat_reply(serializer: Serializer, reference: &Ref) -> Option<Encoded> {
    encoded(serializer, ENVELOPE_BYTES, |out| {
        Ok(watchfire_channels::encode_heartbeat_reply(serializer, reference, out))
    })
}

/// Encodes the end of a channel that closed normally.
pub fn close(serializer: Serializer, join_ref: &JoinRef, topic: &str) -> Option<Encoded> {
    encoded(serializer, ENVELOPE_BYTES, |out| {
        Ok(watchfire_channels::encode_close(serializer, join_ref, topic, out))
    })
}

/// Encodes the end of a channel that crashed.
pub fn error(serializer: Serializer, join_ref: &JoinRef, topic: &str) -> Option<Encoded> {
    encoded(serializer, ENVELOPE_BYTES, |out| {
        Ok(watchfire_channels::encode_error(serializer, join_ref, topic, out))
    })
}
