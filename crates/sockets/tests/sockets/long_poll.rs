//! Parked GETs.

use bytes::Bytes;
use watchfire_sockets::CloseCause;

use super::support::{Event, TestServer, receive};

const WAIT: &str = "GET /wait HTTP/1.1\r\nhost: test\r\n\r\n";

#[test]
fn a_parked_request_is_answered_when_a_response_is_available() {
    let server = TestServer::open();
    let mut client = server.connect();
    for round in 0..5 {
        client.send(WAIT);
        assert!(matches!(receive(&server.events), Event::Parked(..)));
        let body = format!("round {round}");
        let response = body.clone();
        server.on_shard(0, move |handler, sockets| handler.answer_all(sockets, &response));
        assert_eq!(client.read_response(), (200, body));
    }
    let totals = server.totals();
    assert_eq!((totals.parked, totals.parked_now, totals.http_requests), (5, 0, 0));
}

#[test]
fn the_handler_is_called_once_for_a_client_that_leaves_before_its_answer() {
    let server = TestServer::open();
    let client = server.sending(WAIT);
    let Event::Parked(_, socket) = receive(&server.events) else { panic!("not parked") };
    drop(client);
    assert_eq!(receive(&server.events), Event::Closed(socket, CloseCause::ByPeer));
    server.on_shard(0, move |_, sockets| {
        assert_eq!(sockets.parked(), 0);
        sockets.answer(socket, &[Bytes::from_static(b"too late")]);
    });
    server.eventually("the connection is closed", |totals| totals.connections_now == 0);
    // After its answer, a client that leaves causes no event.
    let mut client = server.sending(WAIT);
    server.answer_parked("here");
    assert_eq!(client.read_response(), (200, "here".into()));
    drop(client);
    server.eventually("the connection is closed", |totals| totals.connections_now == 0);
    assert!(server.events.try_recv().is_err());
}

#[test]
fn a_connection_without_keep_alive_ends_after_its_answer() {
    let server = TestServer::open();
    for request in [
        "GET /wait HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n",
        "GET /wait HTTP/1.0\r\n\r\n",
    ] {
        let mut client = server.sending(request);
        server.answer_parked("last");
        assert!(client.read_head().contains("\r\nconnection: close\r\n"));
        assert_eq!(client.read_exact(4), b"last");
        client.expect_end();
    }
}

#[test]
fn only_a_get_without_a_body_can_wait() {
    let server = TestServer::open();
    for request in [
        "POST /wait HTTP/1.1\r\nhost: test\r\ncontent-length: 0\r\n\r\n",
        "GET /wait HTTP/1.1\r\nhost: test\r\ncontent-length: 1\r\n\r\nx",
    ] {
        let mut client = server.sending(request);
        assert_eq!(client.read_response().0, 400);
    }
}

#[test]
fn an_answer_larger_than_the_kernels_buffer_is_sent_whole_before_the_next() {
    let server = TestServer::limited(|limits| limits.send_buffer_bytes = 16 * 1024);
    let mut client = server.connect();
    // The next requests arrive now, and wait until the answer is sent.
    client.send(WAIT);
    client.send("GET / HTTP/1.1\r\nhost: test\r\n\r\nGET /at-once HTTP/1.1\r\nhost: test\r\n\r\n");
    assert!(matches!(receive(&server.events), Event::Parked(..)));
    let body = "y".repeat(2_000_000);
    let response = body.clone();
    server.on_shard(0, move |handler, sockets| handler.answer_all(sockets, &response));
    assert!(server.totals().queued_bytes_now > 0);
    let (status, received) = client.read_response();
    assert!(status == 200 && received == body);
    assert_eq!(client.read_response(), (200, "hello".into()));
    assert_eq!(client.read_response(), (200, "at once".into()));
}

const AT_ONCE: &str = "GET /at-once HTTP/1.1\r\nhost: test\r\n\r\n";

#[test]
fn requests_behind_a_parked_one_are_bounded() {
    let server = TestServer::open();
    let mut client = server.sending(WAIT);
    assert!(matches!(receive(&server.events), Event::Parked(..)));
    let mut flood = client.stream.try_clone().unwrap();
    socket2::SockRef::from(&flood).set_send_buffer_size(16 * 1024).unwrap();
    flood.set_write_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    // The kernel's buffers fill, then the client's write blocks.
    let written = {
        use std::io::Write as _;
        let requests = AT_ONCE.repeat(1000);
        let mut written = 0;
        loop {
            // A write may stop inside a request; the next one continues from there.
            match flood.write(&requests.as_bytes()[written % AT_ONCE.len()..]) {
                Ok(len) => written += len,
                Err(_) => break written,
            }
        }
    };
    let totals = server.totals();
    assert!(written > 100_000 && totals.partial_bytes_now < 100_000, "{totals:?}");
    server.on_shard(0, |handler, sockets| handler.answer_all(sockets, "now"));
    assert_eq!(client.read_response(), (200, "now".into()));
    for _ in 0..written / AT_ONCE.len() {
        assert_eq!(client.read_response(), (200, "at once".into()));
    }
}

#[test]
fn an_answer_in_many_parts_arrives_as_one_response() {
    let server = TestServer::open();
    let mut client = server.sending(WAIT);
    let Event::Parked(_, socket) = receive(&server.events) else { panic!("not parked") };
    server.on_shard(0, move |_, sockets| {
        let mut parts = vec![Bytes::from_static(b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n")];
        parts.extend((0..20).map(|_| Bytes::from_static(b"z")));
        sockets.answer(socket, &parts);
    });
    assert_eq!(client.read_response(), (200, "z".repeat(20)));
}
