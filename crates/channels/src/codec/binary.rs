//! V2 binary frames: a kind, one length byte per field, the fields, and the payload to the end.

use std::borrow::Cow;

use super::text;
use crate::error::{DecodeError, EncodeError, Field};
use crate::frame::{Broadcast, Message, Payload, Push, Reply};
use crate::reference::{REF_BYTES_MAX, Ref};

const PUSH: u8 = 0;
const REPLY: u8 = 1;
const BROADCAST: u8 = 2;
/// A client's push starts with its kind and four lengths.
const PUSH_HEAD_BYTES: usize = 5;

pub(super) fn decode(frame: &[u8]) -> Result<Message<'_>, DecodeError> {
    match frame.first() {
        None | Some(&PUSH) => {}
        Some(&kind) => return Err(DecodeError::UnknownKind { kind }),
    }
    let truncated = |needed| DecodeError::Truncated { len: frame.len(), needed };
    let (head, mut rest) =
        frame.split_first_chunk::<PUSH_HEAD_BYTES>().ok_or_else(|| truncated(PUSH_HEAD_BYTES))?;
    let lengths = [head[1], head[2], head[3], head[4]].map(usize::from);
    let fields_len = lengths.iter().sum::<usize>();
    if rest.len() < fields_len {
        return Err(truncated(PUSH_HEAD_BYTES + fields_len));
    }
    let mut fields = [""; 4];
    for (field, len) in fields.iter_mut().zip(lengths) {
        let (bytes, after) = rest.split_at(len);
        *field = text(bytes)?;
        rest = after;
    }
    let [join_ref, own_ref, topic, event] = fields;
    Ok(Message {
        join_ref: reference(Field::JoinRef, join_ref)?,
        reference: reference(Field::Ref, own_ref)?,
        topic: Cow::Borrowed(topic),
        event: Cow::Borrowed(event),
        payload: Payload::Binary(rest),
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
