//! V2 text frames: `[join_ref,ref,topic,event,payload]`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::elements::{decode_error, reference, text, write_text};
use crate::error::{DecodeError, Field};
use crate::frame::{Message, Payload, Reply, event};
use crate::reference::Ref;

pub(super) fn decode(frame: &str) -> Result<Message<'_>, DecodeError> {
    let elements: Elements<'_> = serde_json::from_str(frame)
        .map_err(|error| decode_error(&error, DecodeError::NotAnArray))?;
    let [Some(join_ref), Some(own_ref), Some(topic), Some(event), Some(payload)] = elements.0
    else {
        return Err(DecodeError::TooFewElements { len: elements.0.iter().flatten().count() });
    };
    Ok(Message {
        join_ref: reference(Field::JoinRef, join_ref)?,
        reference: reference(Field::Ref, own_ref)?,
        topic: text(Field::Topic, topic)?,
        event: text(Field::Event, event)?,
        payload: Payload::Json(payload.get()),
    })
}

/// The first five elements of an array. Further ones are ignored, as in Phoenix.
struct Elements<'a>([Option<&'a RawValue>; 5]);

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ElementsVisitor)
    }
}

struct ElementsVisitor;

impl<'de> Visitor<'de> for ElementsVisitor {
    type Value = Elements<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of five elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Elements<'de>, A::Error> {
        let mut elements = [None; 5];
        for element in &mut elements {
            *element = array.next_element()?;
            if element.is_none() {
                return Ok(Elements(elements));
            }
        }
        while array.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Elements(elements))
    }
}

pub(super) fn encode(
    join_ref: &Ref,
    reference: &Ref,
    topic: &str,
    event: &str,
    payload: &str,
    out: &mut Vec<u8>,
) {
    out.reserve(topic.len() + event.len() + payload.len() + 24);
    write_head(join_ref, reference, topic, event, out);
    out.extend_from_slice(payload.as_bytes());
    out.push(b']');
}

pub(super) fn encode_reply(reply: &Reply<'_>, response: &str, out: &mut Vec<u8>) {
    out.reserve(reply.topic.len() + response.len() + 64);
    write_head(reply.join_ref, reply.reference, reply.topic, event::REPLY, out);
    out.extend_from_slice(br#"{"status":"#);
    write_text(reply.status, out);
    out.extend_from_slice(br#","response":"#);
    out.extend_from_slice(response.as_bytes());
    out.extend_from_slice(b"}]");
}

fn write_head(join_ref: &Ref, reference: &Ref, topic: &str, event: &str, out: &mut Vec<u8>) {
    out.push(b'[');
    out.extend_from_slice(join_ref.as_json().as_bytes());
    out.push(b',');
    out.extend_from_slice(reference.as_json().as_bytes());
    out.push(b',');
    write_text(topic, out);
    out.push(b',');
    write_text(event, out);
    out.push(b',');
}
