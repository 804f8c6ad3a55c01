//! Promises of `watchfire::testing`.

use crate::applications::joined;
use bytes::Bytes;
use serde_json::json;
use watchfire::{Body, Reply};

#[test]
fn everything_that_was_sent_before_is_received() {
    let (channels, [mut a, mut b]) = joined([1, 2]);
    for round in 0..200 {
        channels.endpoint().broadcast("desk:1", "news", json!({ "n": round })).unwrap();
        let expected = [("news".to_owned(), Body::from(json!({ "n": round })))];
        assert_eq!(b.received("desk:1"), expected);
        a.push("desk:1", "others", json!({ "n": round }));
        let expected = [("note".to_owned(), Body::from(json!({ "n": round })))];
        assert_eq!(b.received("desk:1"), expected);
    }
    assert!(a.received("desk:1").iter().all(|(event, _)| event == "news"), "no copy of its own");
}

#[test]
fn a_message_is_handled_when_send_returns_and_others_wait_for_later_calls() {
    let (_channels, [mut a, mut b]) = joined([1, 2]);
    a.send("desk:1", "others", json!({ "n": 1 }));
    a.send("desk:1", "order", json!({}));
    b.push("desk:1", "count", json!({}));
    assert_eq!(a.next("desk:1", "second"), json!({}));
    assert_eq!(b.next("desk:1", "note"), json!({ "n": 1 }));
    assert_eq!(a.received("desk:1"), [("first".to_owned(), Body::EMPTY)]);
    assert!(b.received("desk:1").is_empty());
}

#[test]
fn bytes_are_pushed_and_received() {
    let (_channels, [mut a, mut b]) = joined([1, 2]);
    let bytes = Bytes::from_static(b"\x00\xff");
    assert_eq!(a.push("desk:1", "bytes", bytes.clone()), Reply::ok(bytes.clone()));
    assert_eq!(b.next_bytes("desk:1", "bytes"), bytes);
}

#[test]
fn a_client_that_left_or_joined_again_receives_nothing_of_before() {
    let (channels, [mut a, mut b]) = joined([1, 2]);
    assert_eq!(a.leave("desk:1").status(), "ok");
    b.join("desk:1", json!({ "number": 5 }));
    channels.endpoint().broadcast("desk:1", "news", json!({})).unwrap();
    assert_eq!(b.received("desk:1"), [("news".to_owned(), Body::EMPTY)]);
    let closed = a.received("desk:1");
    assert_eq!(closed, [("phx_close".to_owned(), Body::EMPTY)]);
}

#[test]
#[should_panic(expected = "no note on desk:1: the server closed the socket with 1001")]
fn a_missing_message_fails_with_the_reason() {
    let (channels, []) = joined([]);
    let mut ada = channels.connect("user=ada").unwrap();
    ada.join("desk:1", json!({ "number": 1 }));
    channels.endpoint().disconnect("users:ada");
    ada.next("desk:1", "note");
}
