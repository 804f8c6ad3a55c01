//! V2 binary frames: a kind, one length byte per field, the fields, and the payload to the end.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::text;
use crate::error::{DecodeError, EncodeError, Field};
use crate::frame::{Broadcast, Message, Payload, Push, Reply, event};
use crate::realtime::{self, BINARY_ENCODING, BroadcastPayload, JSON_ENCODING};
use crate::reference::{REF_BYTES_MAX, Ref};

const PUSH: u8 = 0;
const REPLY: u8 = 1;
const BROADCAST: u8 = 2;
/// A broadcast that `@supabase/realtime-js` sends: it names an event of the application beside the event of the channel.
const CLIENT_BROADCAST: u8 = 3;
/// A broadcast as the same client reads it. Its lengths, its fields and its payload stand in a client's frame in the same
/// order, so the server passes on what it got: the length of the application's event, the length of hints, the encoding of
/// the payload, and then these three.
const USER_BROADCAST: u8 = 4;
/// The bytes of [`CLIENT_BROADCAST`] before the fields: the kind, five lengths, and the encoding of the payload.
const CLIENT_BROADCAST_HEAD: usize = 7;

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

/// The frame of Phoenix that says the same as a client's broadcast of the kind [`CLIENT_BROADCAST`]. `None`: the frame is
/// of another kind. The last field of such a frame has hints for Supabase's own server, which are left out.
pub(super) fn client_broadcast(frame: &[u8]) -> Option<Result<ClientBroadcast, DecodeError>> {
    (frame.first() == Some(&CLIENT_BROADCAST)).then(|| {
        let ([join_ref, own_ref, topic, event, _hints], payload) =
            split_after(CLIENT_BROADCAST_HEAD, frame)?;
        match frame[CLIENT_BROADCAST_HEAD - 1] {
            JSON_ENCODING => {}
            BINARY_ENCODING => {
                let fields = [join_ref, own_ref, topic, realtime::BROADCAST];
                let mut push = vec![PUSH];
                // Each field had a length of one byte.
                push.extend(fields.map(|field| field.len() as u8));
                fields.iter().for_each(|field| push.extend_from_slice(field.as_bytes()));
                push.extend_from_slice(&[event.len() as u8, 0, BINARY_ENCODING]);
                push.extend_from_slice(event.as_bytes());
                push.extend_from_slice(payload);
                return Ok(ClientBroadcast::Binary(push));
            }
            encoding => return Err(DecodeError::UnknownEncoding { encoding }),
        }
        let payload: &RawValue = serde_json::from_str(text(payload)?)
            .map_err(|error| DecodeError::NotJson { line: error.line(), column: error.column() })?;
        let payload = BroadcastPayload::new(event, payload);
        let elements = (
            absent_if_empty(join_ref),
            absent_if_empty(own_ref),
            topic,
            realtime::BROADCAST,
            payload,
        );
        let text = serde_json::to_string(&elements).expect("texts and JSON can be written");
        Ok(ClientBroadcast::Text(text))
    })
}

/// A frame of Phoenix for a client's broadcast of a kind of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientBroadcast {
    Text(String),
    Binary(Vec<u8>),
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
    let Some((lengths, rest)) = user_broadcast(broadcast, data) else {
        return write(BROADCAST, &fields, data, out);
    };
    let start = out.len();
    write(USER_BROADCAST, &fields[..1], rest, out)?;
    // The other lengths follow that of the topic.
    out.splice(start + 2..start + 2, lengths);
    Ok(())
}

/// The parts of what [`client_broadcast`] makes of bytes. `None`: it is another broadcast.
fn user_broadcast<'a>(broadcast: &Broadcast<'_>, data: &'a [u8]) -> Option<([u8; 3], &'a [u8])> {
    let is_user = broadcast.topic.starts_with(realtime::TOPIC_PREFIX)
        && broadcast.event == realtime::BROADCAST;
    let (&lengths, rest) = data.split_first_chunk::<3>().filter(|_| is_user)?;
    let [event, hints, encoding] = lengths;
    // The server sends JSON as text, so other encodings come from a client that made up these bytes.
    let has_form =
        usize::from(event) + usize::from(hints) <= rest.len() && encoding == BINARY_ENCODING;
    has_form.then_some((lengths, rest))
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
