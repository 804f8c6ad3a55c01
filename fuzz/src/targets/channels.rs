use std::time::Duration;

use bytes::Bytes;
use watchfire_channels::handshake::{OriginPattern, OriginPolicy, Params, negotiate};
use watchfire_channels::longpoll::{
    Input, LINES_MAX, LongPoll, LongPollLimits, Output, decode_body, escape_message,
};
use watchfire_channels::{
    Broadcast, ConversationLimits, JoinRef, Message, Pattern, Payload, Push, Ref, Reply,
    Serializer, decode_binary, decode_text, encode_broadcast, encode_push, encode_reply, route,
};
use watchfire_types::Instant;

/// A V1 frame that decodes keeps its content when it is encoded and decoded again.
pub fn frame_v1(bytes: &[u8]) {
    let Ok(message) = decode_binary(Serializer::V1, bytes) else { return };
    check_round_trip(&message);
}

/// A V2 frame that decodes keeps its content when it is encoded and decoded again.
pub fn frame_v2(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Ok(message) = decode_text(Serializer::V2, text) else { return };
    check_round_trip(&message);
}

fn check_round_trip(message: &Message<'_>) {
    let Message { join_ref, reference, topic, event, payload } = message;
    check_routing(message);

    let mut text = Vec::new();
    let push = Push { join_ref, topic, event, payload: *payload };
    encode_push(Serializer::V2, &push, &mut text).expect("a JSON payload encodes in a push");
    let text = str::from_utf8(&text).expect("text is UTF-8");
    let again = decode_text(Serializer::V2, text).expect("an encoded push decodes");
    let decoded = (&again.join_ref, &again.topic, &again.event, &again.payload);
    assert_eq!(decoded, (join_ref, topic, event, payload));

    for serializer in [Serializer::V1, Serializer::V2] {
        let mut text = Vec::new();
        let reply = Reply { join_ref, reference, topic, status: "ok", response: *payload };
        encode_reply(serializer, &reply, &mut text).expect("a JSON payload encodes in a reply");
        let text = str::from_utf8(&text).expect("text is UTF-8");
        let again = decode_text(serializer, text).expect("an encoded reply decodes");
        assert_eq!((&again.reference, &again.topic), (reference, topic));
        assert_eq!(again.event, "phx_reply");
    }
    let frame =
        str::from_utf8(&escape_message(text.as_bytes())).map(serde_json::from_str::<String>);
    assert_eq!(frame.expect("text is UTF-8").expect("a JSON string"), text);
}

fn check_routing(message: &Message<'_>) {
    let limits = ConversationLimits::default();
    let join = JoinRef::of(message);
    for joined in [None, Some(&join)] {
        let _ = route(message, joined, 3, &limits);
    }
    if let Ok(pattern) = Pattern::parse(&message.event) {
        let _ = pattern.matches(&message.topic);
    }
}

/// A binary V2 frame that decodes consists of exactly the decoded fields.
pub fn frame_v2_binary(bytes: &[u8]) {
    let Ok(message) = decode_binary(Serializer::V2, bytes) else { return };
    check_routing(&message);
    let Payload::Binary(data) = message.payload else { panic!("{:?}", message.payload) };
    let texts =
        [&*message.join_ref.text(), &*message.reference.text(), &*message.topic, &*message.event];
    let mut again = vec![0];
    again.extend(texts.iter().map(|text| text.len() as u8));
    texts.iter().for_each(|text| again.extend_from_slice(text.as_bytes()));
    again.extend_from_slice(data);
    assert_eq!(again, bytes);
}

/// Any topic survives a broadcast, also as a message of a long poll.
pub fn broadcast(bytes: &[u8]) {
    let Ok(topic) = str::from_utf8(bytes) else { return };
    let payload = Payload::Json("[1]");
    for serializer in [Serializer::V1, Serializer::V2] {
        let mut frame = Vec::new();
        let broadcast = Broadcast { topic, event: "e", payload };
        encode_broadcast(serializer, &broadcast, &mut frame).expect("a topic of any text encodes");
        let frame = str::from_utf8(&frame).expect("text is UTF-8");
        let in_answer = escape_message(frame.as_bytes());
        assert_eq!(serde_json::from_slice::<String>(&in_answer).expect("a JSON string"), frame);
        // A topic of more than 16 KiB, with its escapes, is not parsed.
        if topic.len() <= 2_000 {
            let read = decode_text(serializer, frame).expect("an encoded broadcast decodes");
            assert_eq!((&*read.topic, read.payload), (topic, payload));
        }
    }
}

/// Any text survives as a ref.
pub fn reference(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Ok(reference) = Ref::from_text(text) else { return assert!(text.len() > 255) };
    assert_eq!(reference.text(), text);
    assert_eq!(Ref::from_json(reference.as_json()), Ok(reference));
}

/// The query of a socket's URL.
pub fn handshake_query(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Ok(params) = Params::parse(text) else { return };
    let _ = params.serializer();
    if let Some(text) = params.text("vsn") {
        assert_eq!(params.map()["vsn"], text);
    }
    let json = serde_json::to_string(params.map()).expect("a map serializes to JSON");
    assert_eq!(serde_json::from_str(&json).ok(), Some(params.into_map()));
}

/// An origin, a host and a pattern, one a line.
pub fn handshake_origin(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (origin, host, pattern) = (line(), line(), line());
    assert!(OriginPolicy::Any.allows(Some(origin), host));
    let _ = OriginPolicy::SameHost.allows(Some(origin), host);
    if let Ok(pattern) = pattern.parse::<OriginPattern>() {
        let _ = OriginPolicy::List(vec![pattern]).allows(Some(origin), host);
    }
}

/// The `Sec-WebSocket-Protocol` headers, one a line: the accepted subprotocol was requested.
pub fn handshake_subprotocol(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Ok(accepted) = negotiate(text.split('\n'), &["own".to_owned()]) else { return };
    if let Some(protocol) = accepted.protocol {
        assert!(text.split(['\n', ',']).any(|name| name.trim() == protocol));
    }
}

/// The body of a POST, with and without its own content type.
pub fn longpoll_body(bytes: &[u8]) {
    let _ = decode_body(None, bytes);
    let Ok(frames) = decode_body(Some("application/x-ndjson"), bytes) else { return };
    assert!(frames.len() <= LINES_MAX);
}

/// For any inputs, a long-poll session delivers each message once and in order until it ends. It
/// answers each poll once and keeps its queue within the limit.
pub fn longpoll_session(bytes: &[u8]) {
    let limits = LongPollLimits {
        window: Duration::from_millis(100),
        queued_messages_max: 8,
        queued_bytes_max: 20,
        leeway: 1,
    };
    let mut now = Instant::ZERO;
    let mut session = LongPoll::new(now);
    let mut outputs = Vec::new();
    let (mut sent, mut delivered, mut polls, mut ended) = (0_u8, 0_u8, Vec::new(), false);
    for (connection, step) in bytes.iter().take(250).enumerate() {
        let connection = connection as u64;
        let input = match step % 4 {
            0 => {
                polls.push(connection);
                Input::Poll { connection }
            }
            1 => {
                sent += 1;
                Input::Message(Bytes::from(vec![sent; usize::from(step >> 6) + 1]))
            }
            2 => {
                let gone = connection.saturating_sub(u64::from(step >> 6));
                polls.retain(|poll| *poll != gone);
                Input::PollClosed { connection: gone }
            }
            _ => {
                now += Duration::from_millis(u64::from(step >> 2));
                Input::Tick
            }
        };
        session.handle_input(now, &limits, input, &mut outputs);
        for output in outputs.drain(..) {
            match output {
                Output::Answer { connection, messages, .. } => {
                    let poll = polls.iter().position(|poll| *poll == connection);
                    polls.swap_remove(poll.expect("no poll waits on this connection"));
                    for message in messages {
                        delivered += 1;
                        assert_eq!(message[0], delivered);
                    }
                }
                Output::End { .. } => {
                    assert!(!ended, "the session ended twice");
                    ended = true;
                }
            }
        }
        assert_eq!(session.has_ended(), ended);
        assert!(polls.len() <= 1, "two polls are parked at once");
        assert_eq!(session.is_parked(), !polls.is_empty());
        assert!(session.queued_bytes() <= limits.queued_bytes_max);
        assert!(ended || !session.is_parked() || delivered == sent, "undelivered despite a poll");
    }
}
