//! Properties of frames that the vectors cannot show: borrowing, bounds and errors.

use std::borrow::Cow;

use watchfire_channels::{
    Broadcast, ClientBroadcast, DecodeError, EncodeError, Field, Kind, Payload, Push, Ref, Reply,
    Serializer, decode_binary, decode_text,
};

#[test]
fn topic_event_and_payload_are_borrowed_from_the_frame() {
    let frame = r#"["1","2","rooms:lobby","new_msg",{ "body" : "hi" }]"#;
    let message = decode_text(Serializer::V2, frame).unwrap();
    assert!(matches!(message.topic, Cow::Borrowed("rooms:lobby")));
    assert!(matches!(message.event, Cow::Borrowed("new_msg")));
    assert_eq!(message.payload, Payload::Json(r#"{ "body" : "hi" }"#), "spaces are kept");
}

#[test]
fn a_payload_keeps_numbers_too_large_for_any_type() {
    let frame = r#"["1","2","a","e",{"n":123456789012345678901234567890,"m":1e9999}]"#;
    let message = decode_text(Serializer::V2, frame).unwrap();
    let payload = Payload::Json(r#"{"n":123456789012345678901234567890,"m":1e9999}"#);
    assert_eq!(message.payload, payload);
}

#[test]
fn a_million_open_brackets_are_an_error_without_a_stack_overflow() {
    let brackets = "[".repeat(1 << 20);
    for serializer in [Serializer::V1, Serializer::V2] {
        let as_frame = decode_text(serializer, &brackets);
        assert!(as_frame.is_err());
        let braces = r#"{"a":"#.repeat(1 << 18);
        assert!(decode_text(serializer, &braces).is_err());
    }
    let in_payload = format!(r#"["1","2","a","e",{brackets}"#);
    let error = decode_text(Serializer::V2, &in_payload).unwrap_err();
    assert!(matches!(error, DecodeError::NotJson { line: 1, .. }));
}

#[test]
fn a_deep_payload_is_accepted_as_text_without_recursion() {
    let payload = "[".repeat(1 << 20) + &"]".repeat(1 << 20);
    let frame = format!(r#"["1","2","a","e",{payload}]"#);
    let message = decode_text(Serializer::V2, &frame).unwrap();
    assert_eq!(message.payload, Payload::Json(&payload));
    let extra = format!(r#"["1","2","a","e",{{}},{payload}]"#);
    assert!(decode_text(Serializer::V2, &extra).is_ok());
}

#[test]
fn a_deep_ref_is_too_long() {
    let frame = format!(r#"[{}{},"2","a","e",{{}}]"#, "[".repeat(1000), "]".repeat(1000));
    let expected = DecodeError::FieldTooLong { field: Field::JoinRef, len: 2000, max: 255 };
    assert_eq!(decode_text(Serializer::V2, &frame), Err(expected));
    let just_fits = format!(r#"[{}{},"2","a","e",{{}}]"#, "[".repeat(127), "]".repeat(127));
    assert!(decode_text(Serializer::V2, &just_fits).is_ok());
}

#[test]
fn a_topic_of_ten_kilobytes_is_parsed_so_that_it_can_be_answered() {
    let topic = "t".repeat(10_000);
    let frame = format!(r#"["1","1","{topic}","phx_join",{{}}]"#);
    assert_eq!(decode_text(Serializer::V2, &frame).unwrap().topic, topic);
}

#[test]
fn a_topic_over_sixteen_kibibytes_is_not_parsed() {
    let frame = format!(r#"["1","1","{}","phx_join",{{}}]"#, "t".repeat(20_000));
    let expected = DecodeError::FieldTooLong { field: Field::Topic, len: 20_000, max: 16_384 };
    assert_eq!(decode_text(Serializer::V2, &frame), Err(expected));
}

#[test]
fn each_field_of_a_binary_frame_may_have_255_bytes() {
    let field = "x".repeat(255);
    let mut frame = vec![0, 255, 255, 255, 255];
    for _ in 0..4 {
        frame.extend_from_slice(field.as_bytes());
    }
    let message = decode_binary(Serializer::V2, &frame).unwrap();
    assert_eq!((&*message.topic, &*message.event), (&*field, &*field));
    assert_eq!(message.join_ref.text(), field);

    let (join_ref, reference) = (&message.join_ref, &message.reference);
    let reply = Reply {
        join_ref,
        reference,
        topic: &field,
        status: &field,
        response: Payload::Binary(&[]),
    };
    assert!(watchfire_channels::encode_reply(Serializer::V2, &reply, &mut Vec::new()).is_ok());
}

#[test]
fn a_field_too_long_for_a_binary_frame_is_an_encode_error_and_nothing_is_written() {
    let (long, mut out) = ("x".repeat(256), b"before".to_vec());
    let too_long = |field| Err(EncodeError::FieldTooLong { field, len: 256, max: 255 });
    let (join_ref, payload) = (&Ref::NULL, Payload::Binary(&[1]));

    let push = Push { join_ref, topic: "a", event: &long, payload };
    assert_eq!(
        watchfire_channels::encode_push(Serializer::V2, &push, &mut out),
        too_long(Field::Event)
    );
    let broadcast = Broadcast { topic: &long, event: "e", payload };
    let result = watchfire_channels::encode_broadcast(Serializer::V2, &broadcast, &mut out);
    assert_eq!(result, too_long(Field::Topic));
    let reply =
        Reply { join_ref, reference: join_ref, topic: "a", status: &long, response: payload };
    assert_eq!(
        watchfire_channels::encode_reply(Serializer::V2, &reply, &mut out),
        too_long(Field::Status)
    );
    assert_eq!(out, b"before");

    let push = Push { payload: Payload::Json("{}"), ..push };
    assert_eq!(watchfire_channels::encode_push(Serializer::V2, &push, &mut out), Ok(Kind::Text));
}

#[test]
fn a_v1_socket_does_not_support_binary_payloads() {
    let (join_ref, payload, mut out) = (&Ref::NULL, Payload::Binary(&[1]), Vec::new());
    let refused = Err(EncodeError::BinaryOverText);
    let push = Push { join_ref, topic: "a", event: "e", payload };
    assert_eq!(watchfire_channels::encode_push(Serializer::V1, &push, &mut out), refused);
    let broadcast = Broadcast { topic: "a", event: "e", payload };
    assert_eq!(watchfire_channels::encode_broadcast(Serializer::V1, &broadcast, &mut out), refused);
    let reply =
        Reply { join_ref, reference: join_ref, topic: "a", status: "ok", response: payload };
    assert_eq!(watchfire_channels::encode_reply(Serializer::V1, &reply, &mut out), refused);
    assert!(out.is_empty());
}

#[test]
fn a_v1_frame_from_the_server_has_no_join_ref() {
    let join_ref = &Ref::from_text("1").unwrap();
    let push = Push { join_ref, topic: "a", event: "e", payload: Payload::EMPTY };
    let mut out = Vec::new();
    watchfire_channels::encode_push(Serializer::V1, &push, &mut out).unwrap();
    assert_eq!(out, br#"{"event":"e","payload":{},"ref":null,"topic":"a"}"#);
}

#[test]
fn a_broadcast_of_kind_three_is_read_as_a_frame_of_phoenix_or_refused() {
    let frame = |hints: &str, encoding: u8, payload: &str| {
        let mut frame = vec![3, 1, 0, 4, 6, hints.len() as u8, encoding];
        frame.extend_from_slice(b"7room\xc3\xa9v\xc3\xa9n");
        frame.extend_from_slice(hints.as_bytes());
        frame.extend_from_slice(payload.as_bytes());
        frame
    };
    let read = |frame: &[u8]| watchfire_channels::client_broadcast(frame).expect("kind 3");
    let Ok(ClientBroadcast::Text(text)) = read(&frame(r#"{"persist":true}"#, 1, r#"[1, "a"]"#))
    else {
        panic!("a payload of JSON makes a text")
    };
    let message = decode_text(Serializer::V2, &text).unwrap();
    assert_eq!((&*message.join_ref.text(), &*message.reference.text()), ("7", ""));
    assert_eq!((&*message.topic, &*message.event), ("room", "broadcast"));
    let expected = r#"{"type":"broadcast","event":"évén","payload":[1, "a"]}"#;
    assert_eq!(message.payload, Payload::Json(expected));

    assert_eq!(read(&frame("", 2, "{}")), Err(DecodeError::UnknownEncoding { encoding: 2 }));
    for payload in ["", "{", r#"{}},"x":{"#, "{}]"] {
        let refused = read(&frame("", 1, payload));
        assert!(matches!(refused, Err(DecodeError::NotJson { .. })), "{payload}: {refused:?}");
    }
    assert_eq!(read(&[3, 1]), Err(DecodeError::Truncated { len: 2, needed: 7 }));
    let truncated = DecodeError::Truncated { len: 7, needed: 262 };
    assert_eq!(read(&[3, 0, 0, 0, 0, 255, 1]), Err(truncated));
    assert!(watchfire_channels::client_broadcast(b"\0\0\0\0\0").is_none());
}

#[test]
fn bytes_of_kind_three_become_kind_four_on_the_topics_of_that_client_alone() {
    let frame = b"\x03\x01\x01\x0d\x05\x02\0\x37\x38realtime:roomshout{}\x00\xff";
    let Some(Ok(ClientBroadcast::Binary(push))) = watchfire_channels::client_broadcast(frame)
    else {
        panic!("a payload of bytes makes a binary frame")
    };
    let message = watchfire_channels::decode_binary(Serializer::V2, &push).unwrap();
    assert_eq!((&*message.topic, &*message.event), ("realtime:room", "broadcast"));
    let sent = |topic, event, payload| {
        let (broadcast, mut out) = (Broadcast { topic, event, payload }, Vec::new());
        watchfire_channels::encode_broadcast(Serializer::V2, &broadcast, &mut out).unwrap();
        out
    };
    let expected = b"\x04\x0d\x05\0\0realtime:roomshout\x00\xff";
    assert_eq!(sent("realtime:room", "broadcast", message.payload), expected);
    let bytes = Payload::Binary(&[9, 9]);
    for (topic, event, payload) in [
        ("room", "broadcast", message.payload),
        ("realtime:room", "other", message.payload),
        ("realtime:room", "broadcast", bytes),
        ("realtime:room", "broadcast", Payload::Binary(&[1, 1, 0, 7])),
        // Bytes that say that they are JSON.
        ("realtime:room", "broadcast", Payload::Binary(&[1, 0, 1, b'e', b'{'])),
    ] {
        assert_eq!(sent(topic, event, payload)[0], 2, "{topic} {event}");
    }
}
