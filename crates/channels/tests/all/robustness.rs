//! No bytes from a client cause a panic, and encoded values decode to themselves.

use watchfire_channels::handshake::{OriginPolicy, Params, negotiate};
use watchfire_channels::{
    Broadcast, ConversationLimits, Message, Payload, Ref, Serializer, decode_binary, decode_text,
    longpoll,
};
use watchfire_types::Rng;

const SERIALIZERS: [Serializer; 2] = [Serializer::V1, Serializer::V2];

#[test]
fn random_bytes_never_panic_a_decoder() {
    let mut rng = Rng::from_seed(1);
    for _ in 0..20_000 {
        let len = rng.index(64);
        let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        decode_everything(&bytes);
    }
}

#[test]
fn json_like_bytes_never_panic_a_decoder() {
    let words = [
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "\"",
        "\\",
        "\\u",
        "d800",
        "null",
        "\"topic\":",
        "\"ref\":",
        "1e9",
        "-",
        "\"e\"",
        " ",
        "\n",
        "é",
        "%",
        "&",
        "=",
        "[]",
        "vsn",
    ];
    let mut rng = Rng::from_seed(2);
    for _ in 0..20_000 {
        let len = rng.index(24);
        let text: String = (0..len).map(|_| words[rng.index(words.len())]).collect();
        decode_everything(text.as_bytes());
    }
}

#[test]
fn damaged_frames_never_panic_a_decoder() {
    let frames: [&[u8]; 4] = [
        br#"["1","2","rooms:lobby","new_msg",{"body":"h\u00e9"}]"#,
        br#"{"topic":"rooms:lobby","event":"new_msg","payload":{"a":[1]},"ref":"1"}"#,
        b"\0\x01\x01\x0b\x0336rooms:lobbybin\x01\x02\xff",
        b"[\"1\",\"2\",\"a\",\"e\",{}]\nAAECgA==\n[null,null,\"b\",\"f\",[]]",
    ];
    let mut rng = Rng::from_seed(3);
    for _ in 0..20_000 {
        let mut frame = frames[rng.index(frames.len())].to_vec();
        for _ in 0..=rng.index(3) {
            match (rng.index(3), rng.index(frame.len().max(1))) {
                (0, at) => frame.truncate(at),
                (1, at) => frame.insert(at.min(frame.len()), rng.next_u64() as u8),
                (_, at) if at < frame.len() => frame[at] = rng.next_u64() as u8,
                _ => {}
            }
        }
        decode_everything(&frame);
    }
}

#[test]
fn any_topic_survives_a_broadcast() {
    let mut rng = Rng::from_seed(4);
    for _ in 0..2_000 {
        let len = rng.index(40);
        let topic: String =
            (0..len).filter_map(|_| char::from_u32(rng.next_u64() as u32 >> 21)).collect();
        let broadcast = Broadcast { topic: &topic, event: "e", payload: Payload::Json("[1]") };
        for serializer in SERIALIZERS {
            let mut out = Vec::new();
            watchfire_channels::encode_broadcast(serializer, &broadcast, &mut out).unwrap();
            let frame = String::from_utf8(out).unwrap();
            let read = decode_text(serializer, &frame).unwrap();
            assert_eq!((&*read.topic, read.payload), (&*topic, Payload::Json("[1]")));

            let in_answer = longpoll::escape_message(frame.as_bytes());
            assert_eq!(serde_json::from_slice::<String>(&in_answer).unwrap(), frame);
        }
    }
}

#[test]
fn any_text_survives_as_a_ref() {
    let mut rng = Rng::from_seed(5);
    for _ in 0..2_000 {
        let len = rng.index(60);
        let text: String =
            (0..len).filter_map(|_| char::from_u32(rng.next_u64() as u32 >> 24)).collect();
        let reference = Ref::from_text(&text).unwrap();
        assert_eq!(reference.text(), text);
        assert_eq!(Ref::from_json(reference.as_json()), Ok(reference));
    }
}

fn decode_everything(bytes: &[u8]) {
    for serializer in SERIALIZERS {
        if let Ok(message) = decode_binary(serializer, bytes) {
            process(&message);
        }
    }
    for content_type in [None, Some("application/x-ndjson")] {
        let _ = longpoll::decode_body(content_type, bytes);
    }
    let _ = longpoll::escape_message(bytes);
    let Ok(text) = str::from_utf8(bytes) else { return };
    for serializer in SERIALIZERS {
        if let Ok(message) = decode_text(serializer, text) {
            process(&message);
        }
    }
    if let Ok(params) = Params::parse(text) {
        let _ = params.serializer();
    }
    let _ = Serializer::from_vsn(Some(text));
    let _ = negotiate([text], &[]);
    OriginPolicy::SameHost.allows(Some(text), text);
}

/// Processes a decoded message like a server, which must not panic either.
fn process(message: &Message<'_>) {
    let limits = ConversationLimits::default();
    watchfire_channels::route(message, None, 0, &limits);
    if let Payload::Json(payload) = message.payload {
        let payload: Result<&serde_json::value::RawValue, _> = serde_json::from_str(payload);
        payload.expect("a payload is JSON");
    }
    let json: Result<&serde_json::value::RawValue, _> =
        serde_json::from_str(message.reference.as_json());
    json.expect("a ref is JSON");
    let _ = message.join_ref.text();
}
