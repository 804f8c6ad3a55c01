//! A long-poll session in simulated time.

use std::time::Duration;

use bytes::Bytes;
use watchfire_channels::Kind;
use watchfire_channels::longpoll::{
    self, EndReason, Input, LongPoll, LongPollLimits, Output, Status, escape_message,
};
use watchfire_types::Instant;

#[test]
fn a_poll_gets_all_queued_messages_oldest_first() {
    let mut client = Client::connected_at(0);
    assert_eq!(client.send(0, "one"), []);
    assert_eq!(client.send(1, "two"), []);
    assert_eq!(client.poll(2, 7), [answer(7, Status::Ok, &["one", "two"])]);
    assert_eq!(client.session.queued_bytes(), 0);
}

#[test]
fn a_poll_without_queued_messages_waits_and_is_answered_by_the_first_message() {
    let mut client = Client::connected_at(0);
    assert_eq!(client.poll(0, 7), []);
    assert!(client.session.is_parked());
    assert_eq!(client.send(3, "one"), [answer(7, Status::Ok, &["one"])]);
    assert_eq!(client.send(3, "two"), []);
    assert_eq!(client.poll(4, 8), [answer(8, Status::Ok, &["two"])]);
}

#[test]
fn a_poll_is_answered_204_after_the_window() {
    let mut client = Client::connected_at(0);
    client.poll(5, 7);
    assert_eq!(client.next_wake(), Some(at(15)));
    assert_eq!(client.tick(14), []);
    assert_eq!(client.tick(15), [answer(7, Status::NoContent, &[])]);
    assert_eq!(client.tick(16), []);
}

#[test]
fn a_newer_poll_replaces_an_older_one() {
    let mut client = Client::connected_at(0);
    client.poll(0, 7);
    assert_eq!(client.poll(4, 8), [answer(7, Status::NoContent, &[])]);
    assert_eq!(client.next_wake(), Some(at(14)), "the new poll has its own window");
    assert_eq!(client.send(5, "one"), [answer(8, Status::Ok, &["one"])]);
}

#[test]
fn a_session_ends_after_one_and_a_half_windows_without_a_poll() {
    let mut client = Client::connected_at(0);
    assert_eq!(client.next_wake(), Some(at(15)));
    assert_eq!(client.tick(14), []);
    assert_eq!(client.tick(15), [Output::End { reason: EndReason::IdleTimeout }]);
    assert!(client.session.has_ended());
    assert_eq!(client.next_wake(), None);
}

#[test]
fn the_idle_time_begins_when_a_poll_is_answered() {
    let mut client = Client::connected_at(0);
    client.poll(0, 7);
    client.tick(10);
    assert_eq!(client.tick(24), []);
    assert_eq!(client.tick(25), [Output::End { reason: EndReason::IdleTimeout }]);
}

#[test]
fn a_client_that_closes_a_poll_and_polls_again_misses_nothing() {
    let mut client = Client::connected_at(0);
    client.poll(0, 7);
    assert_eq!(client.input(2, Input::PollClosed { connection: 7 }), []);
    assert!(!client.session.is_parked());
    assert_eq!(client.send(3, "one"), []);
    assert_eq!(client.poll(4, 8), [answer(8, Status::Ok, &["one"])]);
}

#[test]
fn the_end_of_an_older_connection_does_not_affect_the_poll_that_replaced_it() {
    let mut client = Client::connected_at(0);
    client.poll(0, 7);
    client.poll(1, 8);
    assert_eq!(client.input(2, Input::PollClosed { connection: 7 }), []);
    assert_eq!(client.send(3, "one"), [answer(8, Status::Ok, &["one"])]);
}

#[test]
fn messages_without_a_poll_do_not_keep_a_session_alive() {
    let mut client = Client::connected_at(0);
    client.send(14, "one");
    assert_eq!(client.tick(15), [Output::End { reason: EndReason::IdleTimeout }]);
}

#[test]
fn one_message_over_the_limit_ends_the_session() {
    let mut client = Client::connected_at(0);
    client.limits.queued_messages_max = 2;
    assert_eq!(client.send(0, "one"), []);
    assert_eq!(client.send(0, "two"), []);
    assert_eq!(client.send(0, "three"), [Output::End { reason: EndReason::TooManyMessages }]);
}

#[test]
fn one_byte_over_the_limit_ends_the_session() {
    let mut client = Client::connected_at(0);
    client.limits.queued_bytes_max = 20;
    for text in ["one", "two", "two", "one"] {
        assert_eq!(client.send(0, text), [], "five bytes with its quotes");
    }
    assert_eq!(client.session.queued_bytes(), 20);
    assert_eq!(client.send(0, ""), [Output::End { reason: EndReason::TooManyBytes }]);
    assert_eq!(client.session.queued_bytes(), 0, "the queue is dropped");
}

#[test]
fn a_session_with_leeway_holds_more_and_an_answer_has_the_bytes_of_the_limit() {
    let mut client = Client::connected_at(0);
    (client.limits.queued_bytes_max, client.limits.leeway) = (20, 2);
    for n in 1..=8 {
        assert_eq!(client.send(0, &format!("n{n}0")), [], "five bytes with its quotes");
    }
    assert_eq!(client.poll(0, 7), [answer(7, Status::Ok, &["n10", "n20", "n30", "n40"])]);
    assert_eq!(client.session.queued_bytes(), 20);
    assert_eq!(client.poll(0, 8), [answer(8, Status::Ok, &["n50", "n60", "n70", "n80"])]);
    assert_eq!(client.session.queued_bytes(), 0);
}

#[test]
fn a_message_of_any_size_counts_at_most_a_quarter_of_the_limit() {
    let mut client = Client::connected_at(0);
    client.limits.queued_bytes_max = 1_000;
    let long = "x".repeat(5_000);
    for _ in 0..4 {
        assert_eq!(client.send(0, &long), []);
    }
    assert_eq!(client.send(0, ""), [Output::End { reason: EndReason::TooManyBytes }]);
}

#[test]
fn a_message_of_any_size_is_sent_when_a_poll_is_parked() {
    let mut client = Client::connected_at(0);
    client.limits.queued_bytes_max = 10;
    client.poll(0, 7);
    let long = "x".repeat(1000);
    assert_eq!(client.send(0, &long), [answer(7, Status::Ok, &[&long])]);
}

#[test]
fn an_ended_session_drops_messages_and_answers_polls_with_gone() {
    let mut client = Client::connected_at(0);
    client.tick(15);
    assert_eq!(client.send(16, "one"), []);
    assert_eq!(client.tick(99), []);
    assert_eq!(client.input(17, Input::PollClosed { connection: 7 }), []);
    assert_eq!(client.poll(17, 8), [answer(8, Status::Gone, &[])]);
}

#[test]
fn a_broadcast_is_escaped_once_and_shared() {
    let broadcast = escape_message(br#"[null,null,"a","e",{}]"#);
    let (mut ada, mut bob) = (Client::connected_at(0), Client::connected_at(0));
    ada.poll(0, 1);
    bob.poll(0, 2);
    let to_ada = ada.input(0, Input::Message(broadcast.clone()));
    let to_bob = bob.input(0, Input::Message(broadcast.clone()));
    for outputs in [to_ada, to_bob] {
        let [Output::Answer { messages, .. }] = &*outputs else { panic!("{outputs:?}") };
        assert_eq!(messages[0].as_ptr(), broadcast.as_ptr());
    }
}

#[test]
fn long_poll_does_not_support_binary_frames() {
    assert_eq!(longpoll::message(Kind::Binary, &[0, 1, 2]), None);
    assert_eq!(longpoll::message(Kind::Text, b"[]"), Some(Bytes::from_static(br#""[]""#)));
    let refusal: serde_json::Value = serde_json::from_str(longpoll::BINARY_REFUSAL).unwrap();
    assert!(refusal["reason"].is_string());
}

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

    fn poll(&mut self, second: u64, connection: u64) -> Vec<Output> {
        self.input(second, Input::Poll { connection })
    }

    fn send(&mut self, second: u64, message: &str) -> Vec<Output> {
        self.input(second, Input::Message(escape_message(message.as_bytes())))
    }

    fn tick(&mut self, second: u64) -> Vec<Output> {
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
