//! Frames as a client encodes and decodes them. Written apart from the server's codec, which is under test.

use serde_json::{Value, json};
use watchfire_channels::Serializer;

use crate::channel_api::Body;

/// A message from the server.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub join_ref: Option<String>,
    pub reference: Option<String>,
    pub topic: String,
    pub event: String,
    /// The status of a reply.
    pub status: Option<String>,
    pub payload: Content,
}

impl Received {
    pub fn is_reply(&self) -> bool {
        self.status.is_some()
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Json(Value),
    Bytes(Vec<u8>),
}

#[cfg(test)]
impl Content {
    pub fn json(&self) -> &Value {
        match self {
            Content::Json(value) => value,
            Content::Bytes(_) => &Value::Null,
        }
    }

    /// The number of a note of the model.
    pub fn number(&self) -> Option<u64> {
        match self {
            Content::Json(value) => value["n"].as_u64(),
            Content::Bytes(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        }
    }
}

impl From<Content> for Body {
    fn from(content: Content) -> Body {
        match content {
            Content::Json(value) => value.into(),
            Content::Bytes(bytes) => Body::Binary(bytes.into()),
        }
    }
}

/// A message of a client.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub join_ref: Option<String>,
    pub reference: String,
    pub topic: String,
    pub event: String,
    pub payload: Value,
}

impl Sent {
    pub fn text(&self, serializer: Serializer) -> String {
        let Sent { join_ref, reference, topic, event, payload } = self;
        match serializer {
            Serializer::V1 => {
                json!({ "topic": topic, "event": event, "payload": payload, "ref": reference })
            }
            Serializer::V2 | Serializer::Events => {
                json!([join_ref, reference, topic, event, payload])
            }
        }
        .to_string()
    }

    /// A binary push, with `data` instead of the payload.
    pub fn bytes(&self, data: &[u8]) -> Vec<u8> {
        let join_ref = self.join_ref.as_deref().unwrap_or("");
        let fields = [join_ref, &self.reference, &self.topic, &self.event];
        let mut frame = vec![0];
        frame.extend(fields.map(|field| field.len() as u8));
        fields.iter().for_each(|field| frame.extend_from_slice(field.as_bytes()));
        frame.extend_from_slice(data);
        frame
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

pub(crate) fn decode_text(serializer: Serializer, text: &str) -> Option<Received> {
    let value: Value = serde_json::from_str(text).ok()?;
    let (join_ref, reference, topic, event, payload) = match serializer {
        Serializer::V1 => {
            let at = |name: &str| &value[name];
            (&Value::Null, at("ref"), at("topic"), at("event"), at("payload"))
        }
        Serializer::V2 | Serializer::Events => {
            let all = value.as_array().filter(|all| all.len() == 5)?;
            (&all[0], &all[1], &all[2], &all[3], &all[4])
        }
    };
    let status = (event == "phx_reply").then(|| text_of(&payload["status"])).flatten();
    let payload = if status.is_some() { &payload["response"] } else { payload };
    Some(Received {
        join_ref: text_of(join_ref),
        reference: text_of(reference),
        topic: topic.as_str()?.into(),
        event: event.as_str()?.into(),
        status,
        payload: Content::Json(payload.clone()),
    })
}

pub(crate) fn decode_bytes(frame: &[u8]) -> Option<Received> {
    let (kind, rest) = frame.split_first()?;
    let fields = match kind {
        0 => 3,
        1 => 4,
        2 => 2,
        _ => return None,
    };
    let (lens, mut rest) = rest.split_at_checked(fields)?;
    let mut texts = Vec::new();
    for len in lens {
        let (text, after) = rest.split_at_checked(usize::from(*len))?;
        texts.push(String::from_utf8(text.into()).ok()?);
        rest = after;
    }
    let mut texts = texts.into_iter();
    let mut next = || texts.next().expect("as many as lengths");
    let (join_ref, reference) = match kind {
        0 => (Some(next()), None),
        1 => (Some(next()), Some(next())),
        _ => (None, None),
    };
    let (topic, last) = (next(), next());
    let (event, status) = if *kind == 1 { ("phx_reply".into(), Some(last)) } else { (last, None) };
    let payload = Content::Bytes(rest.into());
    Some(Received { join_ref, reference, topic, event, status, payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_reads_each_kind_of_frame() {
        let text = r#"["1","2","t","phx_reply",{"status":"ok","response":{"n":7}}]"#;
        let reply = decode_text(Serializer::V2, text).unwrap();
        assert_eq!((reply.status.as_deref(), reply.payload.number()), (Some("ok"), Some(7)));
        let text = r#"{"topic":"t","event":"note","payload":{"n":8},"ref":null}"#;
        let note = decode_text(Serializer::V1, text).unwrap();
        assert_eq!((note.reference, note.payload.number()), (None, Some(8)));
        let reply = decode_bytes(b"\x01\x01\x01\x01\x0212tok9").unwrap();
        assert_eq!((reply.reference.as_deref(), reply.payload.number()), (Some("2"), Some(9)));
        let note = decode_bytes(b"\x02\x01\x04tnote10").unwrap();
        assert_eq!((&*note.topic, note.payload.number()), ("t", Some(10)));
    }
}
