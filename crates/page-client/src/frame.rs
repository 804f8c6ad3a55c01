//! The part of the Phoenix channels protocol, version 2, that a client of a page needs.

use bytes::Bytes;
use serde_json::{Value, json};
use watchfire_channels::{self as channels, Message, Serializer, event};

/// The kind of a binary frame that a client sends.
const PUSH: u8 = 0;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerFrame {
    pub topic: String,
    pub join_ref: Option<String>,
    pub content: FrameContent,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FrameContent {
    /// The reply to the push with this ref.
    Reply { reference: String, is_ok: bool, response: Value },
    /// A push or a broadcast.
    Event { event: String, payload: Payload },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Payload {
    Json(Value),
    Bytes(Bytes),
}

/// Encodes a push with a JSON payload.
pub(crate) fn text(
    join_ref: Option<&str>,
    reference: u64,
    topic: &str,
    event: &str,
    payload: &Value,
) -> String {
    json!([join_ref, reference.to_string(), topic, event, payload]).to_string()
}

/// Encodes a push with a binary payload, which `payload` appends.
pub(crate) fn binary(
    join_ref: &str,
    reference: u64,
    topic: &str,
    event: &str,
    payload: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let reference = reference.to_string();
    let fields = [join_ref, &reference, topic, event];
    let mut frame = vec![PUSH];
    for field in fields {
        frame.push(u8::try_from(field.len()).expect("topics, events and refs are short"));
    }
    fields.iter().for_each(|field| frame.extend_from_slice(field.as_bytes()));
    payload(&mut frame);
    frame
}

/// Decodes a text frame; `None` if it is invalid.
pub(crate) fn read_text(text: &str) -> Option<ServerFrame> {
    let message = channels::decode_text(Serializer::V2, text).ok()?;
    let channels::Payload::Json(payload) = message.payload else { return None };
    let payload: Value = serde_json::from_str(payload).ok()?;
    if !message.reference.is_null() && message.event == event::REPLY {
        let is_ok = payload.get("status").is_some_and(|status| status == "ok");
        let response = payload.get("response").cloned().unwrap_or(Value::Null);
        let reference = message.reference.text().into_owned();
        return Some(frame_of(&message, FrameContent::Reply { reference, is_ok, response }));
    }
    Some(frame_of(&message, event_of(&message, Payload::Json(payload))))
}

/// Decodes a binary frame; `None` if it is invalid. The server sends no binary replies to the requests of
/// this client.
pub(crate) fn read_binary(frame: &Bytes) -> Option<ServerFrame> {
    let message = channels::decode_sent_binary(frame).ok()?;
    let channels::Payload::Binary(payload) = message.payload else { return None };
    let payload = Payload::Bytes(frame.slice_ref(payload));
    Some(frame_of(&message, event_of(&message, payload)))
}

fn event_of(message: &Message<'_>, payload: Payload) -> FrameContent {
    FrameContent::Event { event: message.event.clone().into_owned(), payload }
}

fn frame_of(message: &Message<'_>, content: FrameContent) -> ServerFrame {
    let join_ref = &message.join_ref;
    let join_ref = (!join_ref.is_null()).then(|| join_ref.text().into_owned());
    ServerFrame { topic: message.topic.clone().into_owned(), join_ref, content }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_are_encoded_in_version_2() {
        let push = text(Some("1"), 2, "page:x", "have", &json!({ "have": "all" }));
        assert_eq!(push, r#"["1","2","page:x","have",{"have":"all"}]"#);
        let push = text(None, 3, "phoenix", "heartbeat", &json!({}));
        assert_eq!(push, r#"[null,"3","phoenix","heartbeat",{}]"#);
        let frame = binary("1", 22, "page:x", "relay", |frame| frame.extend_from_slice(b"bytes"));
        assert_eq!(frame, b"\x00\x01\x02\x06\x05122page:xrelaybytes");
    }

    #[test]
    fn replies_pushes_and_broadcasts_are_decoded() {
        let reply = r#"["1","2","page:x","phx_reply",{"status":"error","response":{"a":1}}]"#;
        let content = FrameContent::Reply {
            reference: "2".into(),
            is_ok: false,
            response: json!({ "a": 1 }),
        };
        let frame = ServerFrame { topic: "page:x".into(), join_ref: Some("1".into()), content };
        assert_eq!(read_text(reply), Some(frame));
        let push = read_binary(&Bytes::from_static(b"\x00\x01\x06\x051page:xrelaybytes")).unwrap();
        assert_eq!((&*push.topic, push.join_ref.as_deref()), ("page:x", Some("1")));
        let Payload::Bytes(bytes) = (match push.content {
            FrameContent::Event { payload, .. } => payload,
            FrameContent::Reply { .. } => panic!("a push is not a reply"),
        }) else {
            panic!("the payload is not binary")
        };
        assert_eq!(bytes, "bytes");
        let broadcast = read_binary(&Bytes::from_static(b"\x02\x01\x02tev!")).unwrap();
        assert_eq!(
            broadcast.content,
            FrameContent::Event { event: "ev".into(), payload: Payload::Bytes("!".into()) }
        );
    }

    #[test]
    fn invalid_frames_are_rejected() {
        for text in ["", "{}", "[1,2]", r#"[null,null,1,"e",{}]"#] {
            assert_eq!(read_text(text), None, "{text}");
        }
        let whole = b"\x00\x01\x06\x051page:xrelay";
        for end in 0..whole.len() {
            assert_eq!(read_binary(&Bytes::copy_from_slice(&whole[..end])), None, "{end}");
        }
        assert_eq!(read_binary(&Bytes::from_static(b"\x09\x00\x00\x00\x00")), None);
        assert_eq!(read_binary(&Bytes::from_static(b"\x02\x01\x00\xff")), None);
    }
}
