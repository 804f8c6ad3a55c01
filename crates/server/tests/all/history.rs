//! Promises of topics with a history, through a whole server of one process.

use std::time::Duration;

use crate::start;
use crate::support::{metric, settings};
use serde_json::{Value, json};
use watchfire::{
    Body, ByteSize, ChannelRule, HistoryRule, JoinRule, PayloadError, PublishError, PublishRule,
    RunningServer, Settings,
};
use watchfire_testkit::{Client, eventually};

fn rule(pattern: &str, history: Option<HistoryRule>) -> ChannelRule {
    let (join, publish) = (JoinRule::Anyone, PublishRule::Clients);
    ChannelRule { join, publish, history, ..ChannelRule::of(pattern) }
}

fn history_settings(history: HistoryRule) -> Settings {
    let mut settings = settings();
    settings.limits.messages_per_second_per_socket = u16::MAX;
    settings.channels.rules = vec![rule("news:*", Some(history)), rule("plain:*", None)];
    settings
}

fn with_histories() -> RunningServer {
    start(history_settings(HistoryRule::default()))
}

fn publish(server: &RunningServer, topic: &str, n: u64) {
    server.endpoint().broadcast(topic, "note", json!({ "n": n })).expect("a valid payload");
}

fn joined(client: &mut Client, topic: &str, history: Value) -> (bool, String) {
    let reply = client.join(topic, json!({ "history": history }));
    assert_eq!(reply["status"], "ok", "{reply}");
    let recovered = reply["response"]["recovered"].as_bool().expect("whether it is recovered");
    (recovered, reply["response"]["position"].as_str().expect("a position").to_owned())
}

/// The next message: its number and its position.
fn next(client: &mut Client) -> (u64, String) {
    let message = client.receive();
    assert_eq!(message[3], "note", "{message}");
    let position = message[1].as_str().expect("a position").to_owned();
    (message[4]["n"].as_u64().expect("a number"), position)
}

#[test]
fn a_client_that_rejoins_gets_what_it_missed_and_then_new_messages() {
    let server = with_histories();
    let mut client = Client::connect(server.address());
    let (recovered, first) = joined(&mut client, "news:1", json!(null));
    assert!(!recovered && first.ends_with(":0"), "{first}");
    (1..=2).for_each(|n| publish(&server, "news:1", n));
    assert_eq!(next(&mut client).0, 1);
    let (n, position) = next(&mut client);
    assert_eq!((n, position), (2, first.replace(":0", ":2")));
    drop(client);

    (3..=5).for_each(|n| publish(&server, "news:1", n));
    let mut client = Client::connect(server.address());
    let (recovered, position) =
        joined(&mut client, "news:1", json!({ "after": first.replace(":0", ":2") }));
    assert!(recovered && position.ends_with(":5"), "{position}");
    publish(&server, "news:1", 6);
    for n in 3..=6 {
        assert_eq!(next(&mut client), (n, first.replace(":0", &format!(":{n}"))));
    }
    assert_eq!(metric(&server, "watchfire_history_recoveries_total{outcome=\"recovered\"}"), 1);
}

#[test]
fn a_new_client_may_ask_for_the_last_messages() {
    let server = with_histories();
    (1..=5).for_each(|n| publish(&server, "news:1", n));
    let mut client = Client::connect(server.address());
    let (recovered, _) = joined(&mut client, "news:1", json!({ "last": 2 }));
    assert!(!recovered);
    assert_eq!([next(&mut client).0, next(&mut client).0], [4, 5]);
}

#[test]
fn positions_that_cannot_be_continued_are_not_recovered() {
    let bounds = HistoryRule { messages: 3, ..HistoryRule::default() };
    let server = start(history_settings(bounds));
    let mut client = Client::connect(server.address());
    let (_, first) = joined(&mut client, "news:1", json!(null));
    (1..=5).for_each(|n| publish(&server, "news:1", n));
    let of = |offset: &str| first.replace(":0", offset);
    let bad = [
        of(":0"),
        of(":1"),
        of(":6"),
        of(":-1"),
        of(":x"),
        "other:2".into(),
        "".into(),
        "x".repeat(100_000),
    ];
    for position in bad {
        let mut client = Client::connect(server.address());
        let (recovered, now) = joined(&mut client, "news:1", json!({ "after": position }));
        assert!(!recovered && now.ends_with(":5"), "{position:.40}");
    }
    for history in [json!(7), json!({ "after": 7 }), json!([]), json!({ "last": -1 })] {
        assert!(!joined(&mut Client::connect(server.address()), "news:1", history).0);
    }
    let mut client = Client::connect(server.address());
    assert!(joined(&mut client, "news:1", json!({ "after": of(":2") })).0);
    assert_eq!([3, 4, 5], std::array::from_fn(|_| next(&mut client).0));
}

#[test]
fn a_recovery_that_does_not_fit_into_the_queue_is_refused() {
    let bounds =
        HistoryRule { messages: 1_000, bytes: ByteSize(8 << 20), ..HistoryRule::default() };
    let mut settings = history_settings(bounds);
    settings.limits.queued_bytes_max = 200_000;
    let server = start(settings);
    let (_, first) = joined(&mut Client::connect(server.address()), "news:1", json!(null));
    let text = "x".repeat(50_000);
    for n in 1..=3 {
        server.endpoint().broadcast("news:1", "note", json!({ "n": n, "text": text })).unwrap();
    }
    let mut client = Client::connect(server.address());
    assert!(!joined(&mut client, "news:1", json!({ "after": first })).0);
    assert_eq!(metric(&server, "watchfire_history_recoveries_total{outcome=\"too_large\"}"), 1);
    let after = first.replace(":0", ":2");
    let mut client = Client::connect(server.address());
    assert!(joined(&mut client, "news:1", json!({ "after": after })).0);
    assert_eq!(next(&mut client).0, 3);
}

#[test]
fn joins_during_a_stream_of_messages_miss_none_and_get_none_twice() {
    let server =
        start(history_settings(HistoryRule { messages: 100_000, ..HistoryRule::default() }));
    let (_, first) = joined(&mut Client::connect(server.address()), "news:1", json!(null));
    const LAST: u64 = 4_000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..=LAST {
                publish(&server, "news:1", n);
                // Shards and clients keep up, so that no queue is full.
                if n % 100 == 0 {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        });
        for _ in 0..8 {
            scope.spawn(|| {
                let (mut expected, mut position) = (1, first.clone());
                while expected <= LAST {
                    let mut client = Client::connect(server.address());
                    let (recovered, _) =
                        joined(&mut client, "news:1", json!({ "after": position }));
                    assert!(recovered, "after {position}");
                    for _ in 0..200.min(LAST + 1 - expected) {
                        let (n, at) = next(&mut client);
                        assert_eq!(n, expected);
                        (expected, position) = (expected + 1, at);
                    }
                }
            });
        }
    });
}

#[test]
fn a_topic_without_a_history_is_as_before() {
    let server = with_histories();
    let mut client = Client::connect(server.address());
    assert_eq!(client.join("plain:1", json!({ "history": { "last": 5 } }))["response"], json!({}));
    publish(&server, "plain:1", 1);
    assert_eq!(client.receive(), json!([null, null, "plain:1", "note", { "n": 1 }]));
    server.endpoint().broadcast("plain:1", "bytes", Body::Binary(b"\x01"[..].into())).unwrap();
    assert_eq!(client.receive_frame(), b"\x02\x07\x05plain:1bytes\x01");
    assert_eq!(metric(&server, "watchfire_history_logs"), 0);
}

#[test]
fn messages_of_clients_are_kept_and_bytes_are_refused() {
    let server = with_histories();
    let mut client = Client::connect(server.address());
    joined(&mut client, "news:1", json!(null));
    let reference = client.send_bytes("news:1", "note", b"\x01");
    assert_eq!(client.reply_to(&reference)["response"]["reason"], "bytes_not_kept");
    assert!(server.endpoint().broadcast("news:1", "n", Body::Binary(b"\x01"[..].into())).is_err());
    assert_eq!(client.push("news:1", "note", json!({ "n": 7 }))["status"], "ok");
    assert_eq!(next(&mut client).0, 7);
    let mut other = Client::connect(server.address());
    joined(&mut other, "news:1", json!({ "last": 1 }));
    assert_eq!(next(&mut other).0, 7);
}

#[test]
fn a_publisher_learns_the_position_of_its_stored_message() {
    let server = with_histories();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let publish =
        |topic: &str, body: Body| runtime.block_on(server.endpoint().publish(topic, "note", body));
    let mut client = Client::connect(server.address());
    joined(&mut client, "news:1", json!(null));
    let published = publish("news:1", json!({ "n": 1 }).into()).expect("it is stored");
    assert_eq!(published.position, Some(next(&mut client).1));
    let plain = publish("plain:1", json!({ "n": 1 }).into()).expect("it is published");
    assert_eq!(plain.position, None);
    let refused = publish("news:1", Body::Binary(b"\x01"[..].into())).unwrap_err();
    assert!(matches!(refused, PublishError::Payload(PayloadError::BytesWithHistory)), "{refused}");
}

#[test]
fn the_memory_of_all_logs_is_bounded() {
    let mut settings =
        history_settings(HistoryRule { messages: 100_000, ..HistoryRule::default() });
    settings.channels.history_bytes_max = 300_000;
    let server = start(settings);
    let mut client = Client::connect(server.address());
    let (_, first) = joined(&mut client, "news:0", json!(null));
    publish(&server, "news:0", 1);
    next(&mut client);
    let text = "x".repeat(10_000);
    for n in 1..=100 {
        server.endpoint().broadcast(&format!("news:{n}"), "note", json!({ "text": text })).unwrap();
    }
    let bytes = || metric(&server, "watchfire_history_bytes");
    eventually("the memory is released", || bytes() <= 300_000);
    assert!(metric(&server, "watchfire_history_dropped_logs_total") > 0);
    // The topic of a client keeps its position.
    assert!(
        joined(
            &mut Client::connect(server.address()),
            "news:0",
            json!({ "after": first.replace(":0", ":1") })
        )
        .0
    );
    assert!(!joined(&mut Client::connect(server.address()), "news:0", json!({ "after": first })).0);
}
