//! The frames of `tests/vectors/frames`, which are shared with other implementations.

use serde_json::Value;
use watchfire_channels::{
    Broadcast, DecodeError, JoinRef, Kind, Message, Payload, Push, Ref, Reply, Serializer,
};

const CLIENT: &str = include_str!("../../../../tests/vectors/frames/client.json");
const SERVER: &str = include_str!("../../../../tests/vectors/frames/server.json");
const REFUSED: &str = include_str!("../../../../tests/vectors/frames/refused.json");

#[test]
fn a_server_decodes_the_frames_of_clients() {
    for vector in vectors(CLIENT) {
        let frame = Frame::of(&vector);
        let message = frame.decode(serializer(&vector)).unwrap_or_else(|error| {
            panic!("{}: {error}", vector["name"]);
        });
        assert_message(&message, &vector);
    }
}

#[test]
fn a_server_encodes_the_frames_that_clients_expect() {
    for vector in vectors(SERVER) {
        let mut out = b"before".to_vec();
        let kind = encode(&vector, &mut out);
        let expected = match Frame::of(&vector) {
            Frame::Text(text) => (Kind::Text, text.into_bytes()),
            Frame::Binary(bytes) => (Kind::Binary, bytes),
        };
        let frame = out.strip_prefix(b"before").expect("an encoder only appends");
        assert_eq!((kind, frame), (expected.0, &*expected.1), "{}", vector["name"]);
    }
}

#[test]
fn a_server_refuses_invalid_frames_with_the_right_error() {
    for vector in vectors(REFUSED) {
        let frame = Frame::of(&vector);
        let error = frame.decode(serializer(&vector)).expect_err(text(&vector, "name"));
        let (name, close_code) = match error {
            DecodeError::NotUtf8 { .. } => ("not_utf8", 1007),
            DecodeError::NotJson { .. } => ("not_json", 1011),
            DecodeError::NotAMessage => ("not_a_message", 1011),
            DecodeError::NotAnArray => ("not_an_array", 1011),
            DecodeError::NotAnObject => ("not_an_object", 1011),
            DecodeError::TooFewElements { .. } => ("too_few_elements", 1011),
            DecodeError::MissingKey { .. } => ("missing_key", 1011),
            DecodeError::NotText { .. } => ("not_text", 1011),
            DecodeError::FieldTooLong { .. } => ("field_too_long", 1011),
            DecodeError::UnknownKind { .. } => ("unknown_kind", 1011),
            DecodeError::UnknownEncoding { .. } => ("unknown_encoding", 1011),
            DecodeError::Truncated { .. } => ("truncated", 1011),
        };
        assert_eq!(name, text(&vector, "error"), "{}: {error}", vector["name"]);
        assert_eq!(error.close_code(), close_code);
    }
}

fn vectors(json: &str) -> Vec<Value> {
    serde_json::from_str(json).expect("the vectors are a JSON array")
}

enum Frame {
    Text(String),
    Binary(Vec<u8>),
}

impl Frame {
    fn of(vector: &Value) -> Frame {
        match vector["text"].as_str() {
            Some(text) => Frame::Text(text.to_owned()),
            None => Frame::Binary(bytes(vector, "hex")),
        }
    }

    fn decode(&self, serializer: Serializer) -> Result<Message<'_>, DecodeError> {
        match self {
            Frame::Text(text) => watchfire_channels::decode_text(serializer, text),
            Frame::Binary(bytes) => watchfire_channels::decode_binary(serializer, bytes),
        }
    }
}

fn assert_message(message: &Message<'_>, vector: &Value) {
    let (expected, name) = (&vector["message"], &vector["name"]);
    assert_eq!(json(message.join_ref.as_json()), expected["join_ref"], "{name}");
    assert_eq!(json(message.reference.as_json()), expected["ref"], "{name}");
    assert_eq!(message.topic, text(expected, "topic"), "{name}");
    assert_eq!(message.event, text(expected, "event"), "{name}");
    match message.payload {
        Payload::Json(payload) => assert_eq!(json(payload), expected["payload"], "{name}"),
        Payload::Binary(data) => assert_eq!(data, bytes(expected, "payload_hex"), "{name}"),
    }
}

fn encode(vector: &Value, out: &mut Vec<u8>) -> Kind {
    let (serializer, message) = (serializer(vector), &vector["message"]);
    let (json, data);
    let payload = if message["payload_hex"].is_string() {
        data = bytes(message, "payload_hex");
        Payload::Binary(&data)
    } else {
        json = message["payload"].to_string();
        Payload::Json(&json)
    };
    let (join_ref, reference) = (&reference(&message["join_ref"]), &reference(&message["ref"]));
    let topic = message["topic"].as_str().unwrap_or_default();
    let event = message["event"].as_str().unwrap_or_default();
    let join = JoinRef::new(join_ref, &Ref::NULL);
    let kind = match text(vector, "kind") {
        "reply" => {
            let status = text(message, "status");
            let reply = Reply { join_ref, reference, topic, status, response: payload };
            watchfire_channels::encode_reply(serializer, &reply, out)
        }
        "push" => watchfire_channels::encode_push(
            serializer,
            &Push { join_ref, topic, event, payload },
            out,
        ),
        "broadcast" => watchfire_channels::encode_broadcast(
            serializer,
            &Broadcast { topic, event, payload },
            out,
        ),
        "close" => Ok(watchfire_channels::encode_close(serializer, &join, topic, out)),
        "error" => Ok(watchfire_channels::encode_error(serializer, &join, topic, out)),
        "heartbeat_reply" => {
            Ok(watchfire_channels::encode_heartbeat_reply(serializer, reference, out))
        }
        kind => panic!("no such kind of message: {kind}"),
    };
    kind.unwrap_or_else(|error| panic!("{}: {error}", vector["name"]))
}

fn serializer(vector: &Value) -> Serializer {
    match text(vector, "serializer") {
        "v1" => Serializer::V1,
        "v2" => Serializer::V2,
        name => panic!("no such serializer: {name}"),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} should be a string in {value}"))
}

fn bytes(value: &Value, key: &str) -> Vec<u8> {
    let digits = text(value, key);
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("decoders return valid JSON")
}

fn reference(value: &Value) -> Ref {
    Ref::from_json(&value.to_string()).expect("the vectors' refs are short")
}
