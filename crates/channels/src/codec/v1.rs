//! V1 text frames: `{"topic":t,"event":e,"payload":p,"ref":r}`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::elements::{decode_error, reference, text, write_text};
use crate::error::{DecodeError, Field};
use crate::frame::{Message, Payload, Reply, event};
use crate::reference::Ref;

pub(super) fn decode(frame: &str) -> Result<Message<'_>, DecodeError> {
    let entries: Entries<'_> = serde_json::from_str(frame)
        .map_err(|error| decode_error(&error, DecodeError::NotAnObject))?;
    let required = |entry: Option<_>, key| entry.ok_or(DecodeError::MissingKey { key });
    Ok(Message {
        join_ref: match entries.join_ref {
            Some(raw) => reference(Field::JoinRef, raw)?,
            None => Ref::NULL,
        },
        topic: text(Field::Topic, required(entries.topic, "topic")?)?,
        event: text(Field::Event, required(entries.event, "event")?)?,
        payload: Payload::Json(required(entries.payload, "payload")?.get()),
        reference: reference(Field::Ref, required(entries.reference, "ref")?)?,
    })
}

/// The known keys of an object. Others are ignored. Of a repeated key, the last value counts.
#[derive(Default)]
struct Entries<'a> {
    join_ref: Option<&'a RawValue>,
    reference: Option<&'a RawValue>,
    topic: Option<&'a RawValue>,
    event: Option<&'a RawValue>,
    payload: Option<&'a RawValue>,
}

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Entries<'de>, A::Error> {
        let mut entries = Entries::default();
        while let Some(key) = object.next_key::<Key<'de>>()? {
            let entry = match &*key.0 {
                "join_ref" => &mut entries.join_ref,
                "ref" => &mut entries.reference,
                "topic" => &mut entries.topic,
                "event" => &mut entries.event,
                "payload" => &mut entries.payload,
                _ => {
                    object.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            // `Option<&RawValue>` would read a null as a missing value.
            *entry = Some(object.next_value::<&RawValue>()?);
        }
        Ok(entries)
    }
}

/// A key of an object, borrowed if it has no escapes.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

pub(super) fn encode(reference: &Ref, topic: &str, event: &str, payload: &str, out: &mut Vec<u8>) {
    out.reserve(topic.len() + event.len() + payload.len() + 64);
    write_head(event, out);
    out.extend_from_slice(payload.as_bytes());
    write_tail(reference, topic, out);
}

pub(super) fn encode_reply(reply: &Reply<'_>, response: &str, out: &mut Vec<u8>) {
    out.reserve(reply.topic.len() + response.len() + 96);
    write_head(event::REPLY, out);
    out.extend_from_slice(br#"{"response":"#);
    out.extend_from_slice(response.as_bytes());
    out.extend_from_slice(br#","status":"#);
    write_text(reply.status, out);
    out.push(b'}');
    write_tail(reply.reference, reply.topic, out);
}

fn write_head(event: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"event":"#);
    write_text(event, out);
    out.extend_from_slice(br#","payload":"#);
}

fn write_tail(reference: &Ref, topic: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#","ref":"#);
    out.extend_from_slice(reference.as_json().as_bytes());
    out.extend_from_slice(br#","topic":"#);
    write_text(topic, out);
    out.push(b'}');
}
