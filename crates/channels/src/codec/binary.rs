//! V2 binary frames: a kind, one length byte per field, the fields, and the payload to the end.

use std::borrow::Cow;

use super::text;
use crate::error::{DecodeError, EncodeError, Field};
use crate::frame::{Broadcast, Message, Payload, Push, Reply, event};
use crate::reference::{REF_BYTES_MAX, Ref};

const PUSH: u8 = 0;
const REPLY: u8 = 1;
const BROADCAST: u8 = 2;

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

/// The fields of a frame, and its payload. The kind comes first, then the length of each field.
fn split<const FIELDS: usize>(frame: &[u8]) -> Result<([&str; FIELDS], &[u8]), DecodeError> {
    let truncated = |needed| DecodeError::Truncated { len: frame.len(), needed };
    let head_len = 1 + FIELDS;
    let (head, mut rest) = frame.split_at_checked(head_len).ok_or_else(|| truncated(head_len))?;
    let lengths = head[1..].iter().map(|len| usize::from(*len));
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
