use std::time::Duration;

use bytes::Bytes;
use watchfire_channels::handshake::{OriginPattern, OriginPolicy, Params, Scheme, negotiate};
use watchfire_channels::longpoll::{
    Input, LINES_MAX, LongPoll, LongPollLimits, Output, decode_body, escape_message,
};
use watchfire_channels::{
    ConversationLimits, JoinRef, Message, Pattern, Payload, Push, Reply, Serializer, decode_binary,
    decode_text, encode_push, encode_reply, route,
};
use watchfire_types::Instant;

/// A V1 frame that decodes says the same when it is written and read again.
pub fn frame_v1(bytes: &[u8]) {
    let Ok(message) = decode_binary(Serializer::V1, bytes) else { return };
    says_the_same_again(&message);
}

/// A V2 frame that decodes says the same when it is written and read again.
pub fn frame_v2(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Ok(message) = decode_text(Serializer::V2, text) else { return };
    says_the_same_again(&message);
}

fn says_the_same_again(message: &Message<'_>) {
    let Message { join_ref, reference, topic, event, payload } = message;
    decide(message);

    let mut text = Vec::new();
    let push = Push { join_ref, topic, event, payload: *payload };
    encode_push(Serializer::V2, &push, &mut text).expect("JSON can always be pushed");
    let text = str::from_utf8(&text).expect("text is UTF-8");
    let again = decode_text(Serializer::V2, text).expect("what is written can be read");
    let said = (&again.join_ref, &again.topic, &again.event, &again.payload);
    assert_eq!(said, (join_ref, topic, event, payload));

    for serializer in [Serializer::V1, Serializer::V2] {
        let mut text = Vec::new();
        let reply = Reply { join_ref, reference, topic, status: "ok", response: *payload };
        encode_reply(serializer, &reply, &mut text).expect("JSON can always be replied");
        let text = str::from_utf8(&text).expect("text is UTF-8");
        let again = decode_text(serializer, text).expect("what is written can be read");
        assert_eq!((&again.reference, &again.topic), (reference, topic));
        assert_eq!(again.event, "phx_reply");
    }
    let frame =
        str::from_utf8(&escape_message(text.as_bytes())).map(serde_json::from_str::<String>);
    assert_eq!(frame.expect("text is UTF-8").expect("a JSON string"), text);
}

fn decide(message: &Message<'_>) {
    let limits = ConversationLimits::default();
    let join = JoinRef::of(message);
    for joined in [None, Some(&join)] {
        let _ = route(message, joined, 3, &limits);
    }
    if let Ok(pattern) = Pattern::parse(&message.event) {
        let _ = pattern.matches(&message.topic);
    }
}

/// A binary V2 frame that decodes is made of what it was decoded to.
pub fn frame_v2_binary(bytes: &[u8]) {
    let Ok(message) = decode_binary(Serializer::V2, bytes) else { return };
    decide(&message);
    let Payload::Binary(data) = message.payload else { panic!("{:?}", message.payload) };
    let texts =
        [&*message.join_ref.text(), &*message.reference.text(), &*message.topic, &*message.event];
    let mut again = vec![0];
    again.extend(texts.iter().map(|text| text.len() as u8));
    texts.iter().for_each(|text| again.extend_from_slice(text.as_bytes()));
    again.extend_from_slice(data);
    assert_eq!(again, bytes);
}

/// The query of a socket's URL.
pub fn handshake_query(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Ok(params) = Params::parse(text) else { return };
    let _ = params.serializer();
    if let Some(text) = params.text("vsn") {
        assert_eq!(params.map()["vsn"], text);
    }
    let json = serde_json::to_string(params.map()).expect("a map is always JSON");
    assert_eq!(serde_json::from_str(&json).ok(), Some(params.into_map()));
}

/// An origin, a host and a pattern, one a line.
pub fn handshake_origin(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (origin, host, pattern) = (line(), line(), line());
    assert!(OriginPolicy::Any.allows(Some(origin), Scheme::Http, host));
    let _ = OriginPolicy::Host(host.to_owned()).allows(Some(origin), Scheme::Https, host);
    let _ = OriginPolicy::SameOrigin.allows(Some(origin), Scheme::Https, host);
    if let Ok(pattern) = pattern.parse::<OriginPattern>() {
        let _ = OriginPolicy::List(vec![pattern]).allows(Some(origin), Scheme::Http, host);
    }
}

/// The header that asks for subprotocols: what is granted was asked for.
pub fn handshake_subprotocol(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Ok(granted) = negotiate(text.split('\n'), &["own".to_owned()]) else { return };
    if let Some(protocol) = granted.protocol {
        assert!(text.split(['\n', ',']).any(|asked| asked.trim() == protocol));
    }
}

/// The body of a POST, with and without its own content type.
pub fn longpoll_body(bytes: &[u8]) {
    let _ = decode_body(None, bytes);
    let Ok(frames) = decode_body(Some("application/x-ndjson"), bytes) else { return };
    assert!(frames.len() <= LINES_MAX);
}

/// A long-poll session through whatever happens to it: no message is lost before its end, none
/// comes twice or out of order, each poll is answered once, and little waits.
pub fn longpoll_session(bytes: &[u8]) {
    let limits = LongPollLimits {
        window: Duration::from_millis(100),
        queued_messages_max: 8,
        queued_bytes_max: 20,
    };
    let mut now = Instant::ZERO;
    let mut session = LongPoll::new(now);
    let mut outputs = Vec::new();
    let (mut sent, mut told, mut polls, mut ended) = (0_u8, 0_u8, Vec::new(), false);
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
                Input::PollGone { connection: gone }
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
                    polls.swap_remove(poll.expect("nobody waits there"));
                    for message in messages {
                        told += 1;
                        assert_eq!(message[0], told);
                    }
                }
                Output::End { .. } => {
                    assert!(!ended, "it ended twice");
                    ended = true;
                }
            }
        }
        assert_eq!(session.has_ended(), ended);
        assert!(polls.len() <= 1, "two polls are parked");
        assert_eq!(session.is_parked(), !polls.is_empty());
        assert!(session.queued_bytes() <= limits.queued_bytes_max);
        assert!(ended || !session.is_parked() || told == sent, "a poll is kept from its messages");
    }
}
