//! A long-poll session in pretend time.

use std::time::Duration;

use bytes::Bytes;
use watchfire_channels::Kind;
use watchfire_channels::longpoll::{
    self, EndReason, Input, LongPoll, LongPollLimits, Output, Status, escape_message,
};
use watchfire_types::Instant;

#[test]
fn a_poll_takes_all_that_waits_oldest_first() {
    let mut client = Client::connected_at(0);
    assert_eq!(client.is_sent(0, "one"), []);
    assert_eq!(client.is_sent(1, "two"), []);
    assert_eq!(client.polls(2, 7), [answer(7, Status::Ok, &["one", "two"])]);
    assert_eq!(client.session.queued_bytes(), 0);
}

#[test]
fn a_poll_with_nothing_to_take_waits_and_is_answered_by_the_first_message() {
    let mut client = Client::connected_at(0);
    assert_eq!(client.polls(0, 7), []);
    assert!(client.session.is_parked());
    assert_eq!(client.is_sent(3, "one"), [answer(7, Status::Ok, &["one"])]);
    assert_eq!(client.is_sent(3, "two"), []);
    assert_eq!(client.polls(4, 8), [answer(8, Status::Ok, &["two"])]);
}

#[test]
fn a_poll_is_answered_204_after_the_window() {
    let mut client = Client::connected_at(0);
    client.polls(5, 7);
    assert_eq!(client.next_wake(), Some(at(15)));
    assert_eq!(client.ticks(14), []);
    assert_eq!(client.ticks(15), [answer(7, Status::NoContent, &[])]);
    assert_eq!(client.ticks(16), []);
}

#[test]
fn the_last_of_two_polls_wins() {
    let mut client = Client::connected_at(0);
    client.polls(0, 7);
    assert_eq!(client.polls(4, 8), [answer(7, Status::NoContent, &[])]);
    assert_eq!(client.next_wake(), Some(at(14)), "the new poll has a window of its own");
    assert_eq!(client.is_sent(5, "one"), [answer(8, Status::Ok, &["one"])]);
}

#[test]
fn a_session_ends_after_one_and_a_half_windows_without_a_poll() {
    let mut client = Client::connected_at(0);
    assert_eq!(client.next_wake(), Some(at(15)));
    assert_eq!(client.ticks(14), []);
    assert_eq!(client.ticks(15), [Output::End { reason: EndReason::Silent }]);
    assert!(client.session.has_ended());
    assert_eq!(client.next_wake(), None);
}

#[test]
fn the_silence_begins_when_a_poll_is_answered() {
    let mut client = Client::connected_at(0);
    client.polls(0, 7);
    client.ticks(10);
    assert_eq!(client.ticks(24), []);
    assert_eq!(client.ticks(25), [Output::End { reason: EndReason::Silent }]);
}

#[test]
fn a_client_that_hangs_up_may_come_back_and_misses_nothing() {
    let mut client = Client::connected_at(0);
    client.polls(0, 7);
    assert_eq!(client.input(2, Input::PollGone { connection: 7 }), []);
    assert!(!client.session.is_parked());
    assert_eq!(client.is_sent(3, "one"), []);
    assert_eq!(client.polls(4, 8), [answer(8, Status::Ok, &["one"])]);
}

#[test]
fn the_end_of_an_older_connection_does_not_touch_the_poll_that_replaced_it() {
    let mut client = Client::connected_at(0);
    client.polls(0, 7);
    client.polls(1, 8);
    assert_eq!(client.input(2, Input::PollGone { connection: 7 }), []);
    assert_eq!(client.is_sent(3, "one"), [answer(8, Status::Ok, &["one"])]);
}

#[test]
fn messages_without_a_poll_do_not_keep_a_session_alive() {
    let mut client = Client::connected_at(0);
    client.is_sent(14, "one");
    assert_eq!(client.ticks(15), [Output::End { reason: EndReason::Silent }]);
}

#[test]
fn one_message_more_than_may_wait_ends_the_session() {
    let mut client = Client::connected_at(0);
    client.limits.queued_messages_max = 2;
    assert_eq!(client.is_sent(0, "one"), []);
    assert_eq!(client.is_sent(0, "two"), []);
    assert_eq!(client.is_sent(0, "three"), [Output::End { reason: EndReason::TooManyMessages }]);
}

#[test]
fn one_byte_more_than_may_wait_ends_the_session() {
    let mut client = Client::connected_at(0);
    client.limits.queued_bytes_max = 10;
    assert_eq!(client.is_sent(0, "one"), [], "five bytes with its quotes");
    assert_eq!(client.is_sent(0, "two"), []);
    assert_eq!(client.session.queued_bytes(), 10);
    assert_eq!(client.is_sent(0, ""), [Output::End { reason: EndReason::TooManyBytes }]);
    assert_eq!(client.session.queued_bytes(), 0, "what waited is given back");
}

#[test]
fn a_message_of_any_size_passes_when_a_poll_is_parked() {
    let mut client = Client::connected_at(0);
    client.limits.queued_bytes_max = 10;
    client.polls(0, 7);
    let long = "x".repeat(1000);
    assert_eq!(client.is_sent(0, &long), [answer(7, Status::Ok, &[&long])]);
}

#[test]
fn an_ended_session_swallows_messages_and_tells_polls_that_it_is_gone() {
    let mut client = Client::connected_at(0);
    client.ticks(15);
    assert_eq!(client.is_sent(16, "one"), []);
    assert_eq!(client.ticks(99), []);
    assert_eq!(client.input(17, Input::PollGone { connection: 7 }), []);
    assert_eq!(client.polls(17, 8), [answer(8, Status::Gone, &[])]);
}

#[test]
fn a_broadcast_is_escaped_once_and_shared() {
    let broadcast = escape_message(br#"[null,null,"a","e",{}]"#);
    let (mut ada, mut bob) = (Client::connected_at(0), Client::connected_at(0));
    ada.polls(0, 1);
    bob.polls(0, 2);
    let to_ada = ada.input(0, Input::Message(broadcast.clone()));
    let to_bob = bob.input(0, Input::Message(broadcast.clone()));
    for outputs in [to_ada, to_bob] {
        let [Output::Answer { messages, .. }] = &*outputs else { panic!("{outputs:?}") };
        assert_eq!(messages[0].as_ptr(), broadcast.as_ptr());
    }
}

#[test]
fn a_binary_frame_has_no_form_over_long_poll() {
    assert_eq!(longpoll::message(Kind::Binary, &[0, 1, 2]), None);
    assert_eq!(longpoll::message(Kind::Text, b"[]"), Some(Bytes::from_static(br#""[]""#)));
    let refusal: serde_json::Value = serde_json::from_str(longpoll::BINARY_REFUSAL).unwrap();
    assert!(refusal["reason"].is_string());
}

/// A client's session and what came out of it.
struct Client {
    session: LongPoll,
    limits: LongPollLimits,
}

impl Client {
    fn connected_at(second: u64) -> Client {
        Client { session: LongPoll::new(at(second)), limits: LongPollLimits::default() }
    }

    fn input(&mut self, second: u64, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.session.handle_input(at(second), &self.limits, input, &mut outputs);
        outputs
    }

    fn polls(&mut self, second: u64, connection: u64) -> Vec<Output> {
        self.input(second, Input::Poll { connection })
    }

    fn is_sent(&mut self, second: u64, message: &str) -> Vec<Output> {
        self.input(second, Input::Message(escape_message(message.as_bytes())))
    }

    fn ticks(&mut self, second: u64) -> Vec<Output> {
        self.input(second, Input::Tick)
    }

    fn next_wake(&self) -> Option<Instant> {
        self.session.next_wake(&self.limits)
    }
}

fn at(second: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(second)
}

fn answer(connection: u64, status: Status, messages: &[&str]) -> Output {
    let messages = messages.iter().map(|message| escape_message(message.as_bytes())).collect();
    Output::Answer { connection, status, messages }
}
