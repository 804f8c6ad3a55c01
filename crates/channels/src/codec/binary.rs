//! V2 binary frames: a kind, one length byte per field, the fields, and the payload to the end.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::text;
use crate::error::{DecodeError, EncodeError, Field};
use crate::frame::{Broadcast, Message, Payload, Push, Reply, event};
use crate::reference::{REF_BYTES_MAX, Ref};

const PUSH: u8 = 0;
const REPLY: u8 = 1;
const BROADCAST: u8 = 2;
/// A broadcast that `@supabase/realtime-js` sends: it names an event of the application beside the event of the channel.
const CLIENT_BROADCAST: u8 = 3;
/// The event and the type of such a broadcast.
const CLIENT_BROADCAST_EVENT: &str = "broadcast";
/// Its bytes before the fields: the kind, five lengths, and the encoding of the payload.
const CLIENT_BROADCAST_HEAD: usize = 7;
/// The payload of such a broadcast is JSON, and not bytes.
const JSON_ENCODING: u8 = 1;

pub(super) fn decode(frame: &[u8]) -> Result<Message<'_>, DecodeError> {
    match frame.first() {
        None | Some(&PUSH) => {}
        Some(&kind) => return Err(DecodeError::UnknownKind { kind }),
    }
    let ([join_ref, own_ref, topic, event], payload) = split(frame)?;
    message(join_ref, own_ref, topic, event, payload)
}

/// Decodes a server's frame. A reply has the event `phx_reply`, and its status is left out.
pub(super) fn decode_sent(frame: &[u8]) -> Result<Message<'_>, DecodeError> {
    match frame.first() {
        None | Some(&PUSH) => {
            let ([join_ref, topic, event], payload) = split(frame)?;
            message(join_ref, "", topic, event, payload)
        }
        Some(&REPLY) => {
            let ([join_ref, own_ref, topic, _status], payload) = split(frame)?;
            message(join_ref, own_ref, topic, event::REPLY, payload)
        }
        Some(&BROADCAST) => {
            let ([topic, event], payload) = split(frame)?;
            message("", "", topic, event, payload)
        }
        Some(&kind) => Err(DecodeError::UnknownKind { kind }),
    }
}

/// The text frame that says the same as a client's broadcast of the kind [`CLIENT_BROADCAST`]. `None`: the frame is of
/// another kind. The last field of such a frame has hints for Supabase's own server, which are left out.
pub(super) fn broadcast_as_text(frame: &[u8]) -> Option<Result<String, DecodeError>> {
    (frame.first() == Some(&CLIENT_BROADCAST)).then(|| {
        let ([join_ref, own_ref, topic, event, _hints], payload) =
            split_after(CLIENT_BROADCAST_HEAD, frame)?;
        if frame[CLIENT_BROADCAST_HEAD - 1] != JSON_ENCODING {
            return Err(DecodeError::BytesInBroadcast);
        }
        let payload: &RawValue = serde_json::from_str(text(payload)?)
            .map_err(|error| DecodeError::NotJson { line: error.line(), column: error.column() })?;
        let payload = ClientBroadcast { r#type: CLIENT_BROADCAST_EVENT, event, payload };
        let elements = (
            absent_if_empty(join_ref),
            absent_if_empty(own_ref),
            topic,
            CLIENT_BROADCAST_EVENT,
            payload,
        );
        Ok(serde_json::to_string(&elements).expect("texts and JSON can be written"))
    })
}

#[derive(Serialize)]
struct ClientBroadcast<'a> {
    r#type: &'a str,
    event: &'a str,
    payload: &'a RawValue,
}

fn absent_if_empty(reference: &str) -> Option<&str> {
    Some(reference).filter(|text| !text.is_empty())
}

/// The fields of a frame, and its payload. The kind comes first, then the length of each field.
fn split<const FIELDS: usize>(frame: &[u8]) -> Result<([&str; FIELDS], &[u8]), DecodeError> {
    split_after(1 + FIELDS, frame)
}

/// As [`split`], for a frame whose fields begin after `head_len` bytes.
fn split_after<const FIELDS: usize>(
    head_len: usize,
    frame: &[u8],
) -> Result<([&str; FIELDS], &[u8]), DecodeError> {
    let truncated = |needed| DecodeError::Truncated { len: frame.len(), needed };
    let (head, mut rest) = frame.split_at_checked(head_len).ok_or_else(|| truncated(head_len))?;
    let lengths = head[1..=FIELDS].iter().map(|len| usize::from(*len));
    let fields_len = lengths.clone().sum::<usize>();
    if rest.len() < fields_len {
        return Err(truncated(head_len + fields_len));
    }
    let mut fields = [""; FIELDS];
    for (field, len) in fields.iter_mut().zip(lengths) {
        let (bytes, after) = rest.split_at(len);
        *field = text(bytes)?;
        rest = after;
    }
    Ok((fields, rest))
}

fn message<'a>(
    join_ref: &str,
    own_ref: &str,
    topic: &'a str,
    event: &'a str,
    payload: &'a [u8],
) -> Result<Message<'a>, DecodeError> {
    Ok(Message {
        join_ref: reference(Field::JoinRef, join_ref)?,
        reference: reference(Field::Ref, own_ref)?,
        topic: Cow::Borrowed(topic),
        event: Cow::Borrowed(event),
        payload: Payload::Binary(payload),
    })
}

/// An empty ref is an absent one.
fn reference(field: Field, text: &str) -> Result<Ref, DecodeError> {
    if text.is_empty() {
        return Ok(Ref::NULL);
    }
    Ref::from_text(text).map_err(|error| DecodeError::FieldTooLong {
        field,
        len: error.len,
        max: REF_BYTES_MAX,
    })
}

pub(super) fn encode_push(
    push: &Push<'_>,
    data: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let fields = [
        (Field::JoinRef, &*push.join_ref.text()),
        (Field::Topic, push.topic),
        (Field::Event, push.event),
    ];
    write(PUSH, &fields, data, out)
}

pub(super) fn encode_reply(
    reply: &Reply<'_>,
    data: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let fields = [
        (Field::JoinRef, &*reply.join_ref.text()),
        (Field::Ref, &*reply.reference.text()),
        (Field::Topic, reply.topic),
        (Field::Status, reply.status),
    ];
    write(REPLY, &fields, data, out)
}

pub(super) fn encode_broadcast(
    broadcast: &Broadcast<'_>,
    data: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let fields = [(Field::Topic, broadcast.topic), (Field::Event, broadcast.event)];
    write(BROADCAST, &fields, data, out)
}

fn write(
    kind: u8,
    fields: &[(Field, &str)],
    data: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let start = out.len();
    out.push(kind);
    for &(field, text) in fields {
        let Ok(len) = u8::try_from(text.len()) else {
            out.truncate(start);
            let max = usize::from(u8::MAX);
            return Err(EncodeError::FieldTooLong { field, len: text.len(), max });
        };
        out.push(len);
    }
    for (_, text) in fields {
        out.extend_from_slice(text.as_bytes());
    }
    out.extend_from_slice(data);
    Ok(())
}
