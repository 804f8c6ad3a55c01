//! The lifecycle of a channel: the action for each message, and the join to which it belongs.

use watchfire_channels::{
    Action, ConversationLimits, JoinRef, Kind, Message, Payload, Ref, Refusal, Reply, Serializer,
};

#[test]
fn a_join_of_a_new_topic_joins() {
    assert_eq!(route(r#"["1","1","rooms:lobby","phx_join",{}]"#, None), Action::Join);
    assert_eq!(route(r#"[null,null,"rooms:lobby","phx_join",null]"#, None), Action::Join);
}

#[test]
fn a_join_of_a_joined_topic_replaces_the_old_channel() {
    let lobby = joined("1");
    assert_eq!(route(r#"["5","5","rooms:lobby","phx_join",{}]"#, Some(&lobby)), Action::Rejoin);
    assert_eq!(route(r#"["1","1","rooms:lobby","phx_join",{}]"#, Some(&lobby)), Action::Rejoin);
}

#[test]
fn a_socket_can_join_a_hundred_topics_and_no_more() {
    let (limits, join) = (ConversationLimits::default(), r#"["1","1","a","phx_join",{}]"#);
    assert_eq!(watchfire_channels::route(&read(join), None, 99, &limits), Action::Join);
    let action = watchfire_channels::route(&read(join), None, 100, &limits);
    assert_eq!(action, Action::Refuse(Refusal::TooManyChannels { max: 100 }));
    let lobby = joined("1");
    assert_eq!(watchfire_channels::route(&read(join), Some(&lobby), 100, &limits), Action::Rejoin);
}

#[test]
fn a_leave_is_answered_even_if_the_topic_is_not_joined() {
    let leave = r#"["1","2","rooms:lobby","phx_leave",{}]"#;
    assert_eq!(route(leave, Some(&joined("1"))), Action::Leave);
    assert_eq!(route(leave, None), Action::LeaveNotJoined);
}

#[test]
fn any_event_of_a_joined_topic_is_delivered_even_the_servers_own() {
    for event in ["new_msg", "phx_close", "phx_error", "phx_reply", "heartbeat", ""] {
        let frame = format!(r#"["1","2","rooms:lobby","{event}",{{}}]"#);
        assert_eq!(route(&frame, Some(&joined("1"))), Action::Deliver, "{event}");
    }
}

#[test]
fn any_event_of_a_topic_that_is_not_joined_is_unmatched() {
    for event in ["new_msg", "phx_close", "heartbeat", ""] {
        let frame = format!(r#"["1","2","rooms:lobby","{event}",{{}}]"#);
        assert_eq!(route(&frame, None), Action::Refuse(Refusal::Unmatched), "{event}");
    }
}

#[test]
fn a_heartbeat_may_have_any_payload_and_any_refs() {
    for frame in [
        r#"[null,"7","phoenix","heartbeat",{}]"#,
        r#"[null,7,"phoenix","heartbeat",null]"#,
        r#"["1",null,"phoenix","heartbeat",[1]]"#,
    ] {
        assert_eq!(route(frame, None), Action::Heartbeat);
    }
    let in_binary = b"\0\0\x01\x07\x097phoenixheartbeat";
    let heartbeat = watchfire_channels::decode_binary(Serializer::V2, in_binary).unwrap();
    let limits = ConversationLimits::default();
    assert_eq!(watchfire_channels::route(&heartbeat, None, 0, &limits), Action::Heartbeat);
}

#[test]
fn other_events_on_the_phoenix_topic_are_like_those_of_a_topic_that_is_not_joined() {
    let unmatched = Action::Refuse(Refusal::Unmatched);
    assert_eq!(route(r#"[null,"7","phoenix","hello",{}]"#, None), unmatched);
    assert_eq!(route(r#"[null,"7","phoenix","phx_leave",{}]"#, None), Action::LeaveNotJoined);
}

#[test]
fn a_message_with_the_join_ref_of_an_earlier_join_is_dropped_even_a_leave() {
    let lobby = joined("5");
    for event in ["new_msg", "phx_leave"] {
        let frame = format!(r#"["1","2","rooms:lobby","{event}",{{}}]"#);
        assert_eq!(route(&frame, Some(&lobby)), Action::Stale, "{event}");
    }
}

#[test]
fn a_message_without_a_join_ref_belongs_to_the_current_join() {
    let lobby = joined("5");
    assert_eq!(route(r#"[null,"2","rooms:lobby","new_msg",{}]"#, Some(&lobby)), Action::Deliver);
    assert_eq!(route(r#"[null,"2","rooms:lobby","phx_leave",{}]"#, Some(&lobby)), Action::Leave);
}

#[test]
fn a_join_ref_is_compared_with_its_type() {
    let number = JoinRef::of(&read(r#"[5,5,"rooms:lobby","phx_join",{}]"#));
    assert_eq!(route(r#"[5,6,"rooms:lobby","new_msg",{}]"#, Some(&number)), Action::Deliver);
    assert_eq!(route(r#"["5",6,"rooms:lobby","new_msg",{}]"#, Some(&number)), Action::Stale);
    assert_eq!(route(r#"[5,"6","rooms:lobby","new_msg",{}]"#, Some(&joined("5"))), Action::Stale);
}

#[test]
fn a_join_ref_in_a_binary_frame_is_compared_by_its_text() {
    let number = JoinRef::of(&read(r#"[5,5,"rooms:lobby","phx_join",{}]"#));
    let limits = ConversationLimits::default();
    let route = |frame| {
        let push = watchfire_channels::decode_binary(Serializer::V2, frame).unwrap();
        watchfire_channels::route(&push, Some(&number), 1, &limits)
    };
    assert_eq!(route(b"\0\x01\x01\x0b\x0356rooms:lobbybin\x01"), Action::Deliver);
    assert_eq!(route(b"\0\0\x01\x0b\x036rooms:lobbybin\x01"), Action::Deliver);
    assert_eq!(route(b"\0\x01\x01\x0b\x0346rooms:lobbybin\x01"), Action::Stale);
}

#[test]
fn after_a_join_without_join_ref_the_server_uses_its_ref_and_the_client_sends_none() {
    let lobby = JoinRef::of(&read(r#"[null,"4","rooms:lobby","phx_join",{}]"#));
    assert!(lobby.given().is_null(), "the join's own reply has no join_ref");
    assert_eq!(lobby.shown().as_json(), r#""4""#, "later replies have the join's ref");
    assert_eq!(route(r#"[null,"5","rooms:lobby","new_msg",{}]"#, Some(&lobby)), Action::Deliver);
    assert_eq!(route(r#"["4","5","rooms:lobby","new_msg",{}]"#, Some(&lobby)), Action::Stale);

    let mut out = Vec::new();
    watchfire_channels::encode_close(Serializer::V2, &lobby, "rooms:lobby", &mut out);
    assert_eq!(out, br#"["4","4","rooms:lobby","phx_close",{}]"#);
}

#[test]
fn a_reply_repeats_the_ref_as_received() {
    for reference in [r#""7""#, "7", "null", "1.50", "123456789012345678901234567890", "[1, 2]"] {
        let message = format!(r#"["1",{reference},"rooms:lobby","new_msg",{{}}]"#);
        let message = read(&message);
        let reply = Reply {
            join_ref: &message.join_ref,
            reference: &message.reference,
            topic: &message.topic,
            status: "ok",
            response: Payload::EMPTY,
        };
        let mut out = Vec::new();
        watchfire_channels::encode_reply(Serializer::V2, &reply, &mut out).unwrap();
        let expected = format!(
            r#"["1",{reference},"rooms:lobby","phx_reply",{{"status":"ok","response":{{}}}}]"#
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

#[test]
fn an_unmatched_message_is_refused_without_a_join_ref() {
    let join = r#"["1","1","nowhere","phx_join",{}]"#;
    let expected = r#"[null,"1","nowhere","phx_reply",{"status":"error","response":{"reason":"unmatched topic"}}]"#;
    assert_eq!(refuse(join, Refusal::Unmatched), expected);
}

#[test]
fn a_join_refused_by_the_protocol_keeps_its_join_ref() {
    let join = r#"["1","1","a","phx_join",{}]"#;
    assert_eq!(
        refuse(join, Refusal::JoinCrashed),
        r#"["1","1","a","phx_reply",{"status":"error","response":{"reason":"join crashed"}}]"#
    );
    assert_eq!(
        refuse(join, Refusal::TooManyChannels { max: 100 }),
        r#"["1","1","a","phx_reply",{"status":"error","response":{"reason":"too many channels joined"}}]"#
    );
}

#[test]
fn a_topic_that_is_too_long_is_refused_with_its_limit_and_the_socket_stays_open() {
    let topic = "t".repeat(256);
    let join = format!(r#"["1","1","{topic}","phx_join",{{}}]"#);
    let action = route(&join, None);
    assert_eq!(action, Action::Refuse(Refusal::TopicTooLong { len: 256 }));
    assert_eq!(
        refuse(&join, Refusal::TopicTooLong { len: 256 }),
        format!(
            r#"[null,"1","{topic}","phx_reply",{{"status":"error","response":{{"reason":"topic too long","bytes":256,"max":255}}}}]"#
        )
    );
    let just_fits = format!(r#"["1","1","{}","phx_join",{{}}]"#, "t".repeat(255));
    assert_eq!(route(&just_fits, None), Action::Join);
}

#[test]
fn an_event_that_is_too_long_is_refused_with_its_limit() {
    let event = "e".repeat(256);
    let push = format!(r#"["1","2","a","{event}",{{}}]"#);
    let action = route(&push, Some(&joined("1")));
    assert_eq!(action, Action::Refuse(Refusal::EventTooLong { len: 256 }));
    assert_eq!(
        refuse(&push, Refusal::EventTooLong { len: 256 }),
        r#"[null,"2","a","phx_reply",{"status":"error","response":{"reason":"event too long","bytes":256,"max":255}}]"#
    );
}

#[test]
fn an_empty_topic_matches_nothing() {
    assert_eq!(route(r#"["1","1","","phx_join",{}]"#, None), Action::Refuse(Refusal::Unmatched));
}

#[test]
fn a_v1_refusal_has_the_v1_shape() {
    let join = r#"{"topic":"nowhere","event":"phx_join","payload":{},"ref":"1"}"#;
    let join = watchfire_channels::decode_text(Serializer::V1, join).unwrap();
    let mut out = Vec::new();
    watchfire_channels::encode_refusal(Serializer::V1, &join, &Refusal::Unmatched, &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#"{"event":"phx_reply","payload":{"response":{"reason":"unmatched topic"},"status":"error"},"ref":"1","topic":"nowhere"}"#
    );
}

fn read(frame: &str) -> Message<'_> {
    watchfire_channels::decode_text(Serializer::V2, frame).unwrap()
}

fn route(frame: &str, joined: Option<&JoinRef>) -> Action {
    watchfire_channels::route(&read(frame), joined, 1, &ConversationLimits::default())
}

fn joined(join_ref: &str) -> JoinRef {
    let join_ref = Ref::from_text(join_ref).unwrap();
    JoinRef::new(&join_ref, &join_ref)
}

fn refuse(frame: &str, refusal: Refusal) -> String {
    let mut out = Vec::new();
    let kind = watchfire_channels::encode_refusal(Serializer::V2, &read(frame), &refusal, &mut out);
    assert_eq!(kind, Kind::Text);
    String::from_utf8(out).unwrap()
}
