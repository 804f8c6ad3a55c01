//! Phoenix messages, put into the frames and answers that carry them.

use bytes::Bytes;
use channels::{EncodeError, JoinRef, Kind, Message, Payload, Ref, Refusal, Serializer};

use crate::app::Reply;

/// A message in one serializer's form, not yet in a frame.
pub(crate) struct Encoded {
    kind: Kind,
    bytes: Vec<u8>,
}

impl Encoded {
    /// A whole websocket frame.
    pub fn into_frame(self) -> Bytes {
        match self.kind {
            Kind::Text => edge::frame::text_frame(&self.bytes),
            Kind::Binary => edge::frame::binary_frame(&self.bytes),
        }
    }

    /// A JSON string for the `messages` of a long-poll answer; `None` for bytes, which long poll
    /// cannot carry.
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
    capacity: usize,
    encode: impl FnOnce(&mut Vec<u8>) -> Result<Kind, EncodeError>,
) -> Option<Encoded> {
    let mut bytes = Vec::with_capacity(capacity);
    let kind = encode(&mut bytes)
        .inspect_err(|error| tracing::debug!(%error, "message cannot be said"))
        .ok()?;
    Some(Encoded { kind, bytes })
}

/// What the fields around a payload take, roughly.
const ENVELOPE_BYTES: usize = 96;

fn len(payload: Payload<'_>) -> usize {
    match payload {
        Payload::Json(text) => text.len(),
        Payload::Binary(bytes) => bytes.len(),
    }
}

/// A message to everyone on a topic. `None`: this serializer cannot say it.
pub(crate) fn broadcast(
    serializer: Serializer,
    topic: &str,
    event: &str,
    payload: Payload<'_>,
) -> Option<Encoded> {
    let broadcast = channels::Broadcast { topic, event, payload };
    encoded(ENVELOPE_BYTES + len(payload), |out| {
        channels::encode_broadcast(serializer, &broadcast, out)
    })
}

/// A message to one channel. `None`: this serializer cannot say it.
pub(crate) fn push(
    serializer: Serializer,
    join_ref: &JoinRef,
    topic: &str,
    event: &str,
    payload: Payload<'_>,
) -> Option<Encoded> {
    let push = channels::Push { join_ref: &join_ref.shown(), topic, event, payload };
    encoded(ENVELOPE_BYTES + len(payload), |out| channels::encode_push(serializer, &push, out))
}

/// An answer to one message. `None`: this serializer cannot say it.
pub(crate) fn reply(
    serializer: Serializer,
    join_ref: &Ref,
    reference: &Ref,
    topic: &str,
    reply: &Reply,
) -> Option<Encoded> {
    let response = reply.response.as_payload();
    let status = &reply.status;
    let message = channels::Reply { join_ref, reference, topic, status, response };
    encoded(ENVELOPE_BYTES + len(response), |out| channels::encode_reply(serializer, &message, out))
}

/// The protocol's own refusal of a message.
pub(crate) fn refusal(
    serializer: Serializer,
    message: &Message<'_>,
    refusal: &Refusal,
) -> Option<Encoded> {
    encoded(ENVELOPE_BYTES, |out| Ok(channels::encode_refusal(serializer, message, refusal, out)))
}

/// The answer to a heartbeat.
pub(crate) fn heartbeat_reply(serializer: Serializer, reference: &Ref) -> Option<Encoded> {
    encoded(ENVELOPE_BYTES, |out| Ok(channels::encode_heartbeat_reply(serializer, reference, out)))
}

/// The end of a channel that closed normally.
pub(crate) fn close(serializer: Serializer, join_ref: &JoinRef, topic: &str) -> Option<Encoded> {
    encoded(ENVELOPE_BYTES, |out| Ok(channels::encode_close(serializer, join_ref, topic, out)))
}

/// The end of a channel that crashed.
pub(crate) fn error(serializer: Serializer, join_ref: &JoinRef, topic: &str) -> Option<Encoded> {
    encoded(ENVELOPE_BYTES, |out| Ok(channels::encode_error(serializer, join_ref, topic, out)))
}
