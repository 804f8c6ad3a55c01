//! Connections that are lent to hyper and returned.

use std::time::{Duration, Instant};

use watchfire_sockets::SocketLimits;
use watchfire_types::ShardId;

use super::support::{Client, Event, TestServer, receive, upgrade_request};

#[test]
fn a_connection_serves_pages_a_long_poll_a_post_and_an_upgrade_in_turn() {
    let server = TestServer::open();
    let mut client = server.connect();
    assert_eq!(client.get("/"), (200, "hello".into()));

    client.send("GET /wait HTTP/1.1\r\nhost: test\r\n\r\n");
    assert!(matches!(receive(&server.events), Event::Parked(..)));
    server.on_shard(0, |handler, sockets| {
        assert_eq!(sockets.parked(), 1);
        handler.answer_all(sockets, "now");
        assert_eq!(sockets.parked(), 0);
    });
    assert_eq!(client.read_response(), (200, "now".into()));

    assert_eq!(client.get("/"), (200, "hello".into()));
    client.send("POST /length HTTP/1.1\r\nhost: test\r\ncontent-length: 5\r\n\r\n12345");
    assert_eq!(client.read_response(), (200, "5".into()));
    client.upgrade("/echo");
    client.text("and on as a websocket");
    assert_eq!(client.read_frame().payload, b"and on as a websocket");
    let totals = server.totals();
    assert_eq!((totals.accepts, totals.http_requests, totals.http_now), (1, 3, 0));
    assert_eq!(totals.connections_now, 1);
}

#[test]
fn a_waiting_poll_outlives_all_timeouts_and_its_connection_is_kept_for_the_next_request() {
    let (short, keep_alive) = (Duration::from_millis(200), Duration::from_millis(800));
    let server = TestServer::limited(|limits| {
        (limits.head_timeout, limits.idle_timeout) = (short, short);
        (limits.slow_timeout, limits.keep_alive_timeout) = (short, keep_alive);
    });
    // Without a request, a connection ends after its time, which is the longest of all.
    let is_kept = |client: &mut Client, path| {
        let began = Instant::now();
        assert_eq!(client.get(path).0, 200);
        client.expect_end();
        assert!(began.elapsed() >= keep_alive, "it ended after {:?}", began.elapsed());
    };
    let mut poll = server.sending("GET /wait HTTP/1.1\r\nhost: test\r\n\r\n");
    is_kept(&mut server.connect(), "/");
    server.answer_parked("now");
    assert_eq!(poll.read_response(), (200, "now".into()));
    is_kept(&mut poll, "/at-once");
}

#[test]
fn a_handler_sees_the_clients_address() {
    let server = TestServer::open();
    let mut client = server.connect();
    let address = client.stream.local_addr().unwrap().to_string();
    assert_eq!(client.get("/whoami"), (200, address.clone()));
    assert_eq!(client.get("/whoami"), (200, address));
}

#[test]
fn a_request_may_follow_a_chunked_body() {
    let server = TestServer::open();
    let mut client = server.connect();
    let post = "POST /length HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n\
        4\r\nwiki\r\nb;x=y\r\npedia\r\n\r\n0a\r\n0\r\ntrailer: yes\r\n\r\n";
    client.send(post);
    assert_eq!(client.read_response(), (200, "15".into()));
    // One byte at a time, with the next request directly after the body.
    for byte in format!("{post}GET / HTTP/1.1\r\nhost: test\r\n\r\n").bytes() {
        client.send([byte]);
    }
    assert_eq!(client.read_response(), (200, "15".into()));
    assert_eq!(client.read_response(), (200, "hello".into()));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = TestServer::open();
    let mut client = server.connect();
    let get = |path| format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n");
    let post = "POST /length HTTP/1.1\r\nhost: test\r\ncontent-length: 3\r\n\r\nabc";
    client.send([get("/"), get("/at-once"), post.into(), get("/empty"), get("/wait")].concat());
    client.send([get("/at-once"), get("/"), upgrade_request("/echo")].concat());
    client.text("early");
    assert_eq!(client.read_response(), (200, "hello".into()));
    assert_eq!(client.read_response(), (200, "at once".into()));
    assert_eq!(client.read_response(), (200, "3".into()));
    assert_eq!(client.read_response(), (200, String::new()));
    server.answer_parked("now");
    assert_eq!(client.read_response(), (200, "now".into()));
    assert_eq!(client.read_response(), (200, "at once".into()));
    assert_eq!(client.read_response(), (200, "hello".into()));
    assert!(client.read_head().starts_with("HTTP/1.1 101 "));
    assert_eq!(client.read_frame().payload, b"early");
}

#[test]
fn a_thousand_pipelined_requests_do_not_overflow_the_stack() {
    let server = TestServer::open();
    let mut client = server.sending("GET /at-once HTTP/1.1\r\nhost: test\r\n\r\n".repeat(1000));
    for _ in 0..1000 {
        assert_eq!(client.read_response(), (200, "at once".into()));
    }
}

#[test]
fn a_client_that_expects_100_continue_gets_it() {
    let server = TestServer::open();
    let mut client = server.connect();
    client.send(
        "POST /length HTTP/1.1\r\nhost: test\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\n",
    );
    assert_eq!(client.read_head(), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("body");
    assert_eq!(client.read_response(), (200, "4".into()));
    assert_eq!(client.get("/"), (200, "hello".into()));
}

#[test]
fn an_unread_body_does_not_become_a_request() {
    let server = TestServer::open();
    // The whole body has arrived: it is drained, and the connection may continue or end.
    let mut client = server
        .sending("POST /unread HTTP/1.1\r\nhost: test\r\ncontent-length: 12\r\n\r\nGET / HTTP/1");
    assert_eq!(client.read_response(), (200, "unread".into()));
    // Most of the body is missing: the connection ends.
    let mut client = server
        .sending("POST /unread HTTP/1.1\r\nhost: test\r\ncontent-length: 1000000\r\n\r\nGET /");
    assert_eq!(client.read_response(), (200, "unread".into()));
    client.expect_end();
    drop(client);
    server.eventually("one connection or none is left", |totals| totals.connections_now <= 1);
}

#[test]
fn a_response_to_head_has_no_body_and_the_connection_continues() {
    let server = TestServer::open();
    let mut client = server.sending("HEAD / HTTP/1.1\r\nhost: test\r\n\r\n");
    assert!(client.read_head().contains("content-length: 5"));
    assert_eq!(client.get("/"), (200, "hello".into()));
    assert_eq!(client.get("/no-such-page").0, 404);
    assert_eq!(client.get("/"), (200, "hello".into()));
}

#[test]
fn a_connection_without_keep_alive_ends_after_its_response() {
    let server = TestServer::open();
    let mut client = server.sending("GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    assert_eq!(client.read_response(), (200, "hello".into()));
    client.expect_end();
    drop(client);
    let mut client = server.sending("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.read_response(), (200, "hello".into()));
    client.expect_end();
    drop(client);
    server.eventually("both connections are closed", |totals| totals.connections_now == 0);
}

#[test]
fn the_server_waits_for_the_end_of_a_client_only_if_it_may_have_sent_more() {
    let server = TestServer::open();
    let last = "GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
    let mut client = server.sending(last);
    assert_eq!(client.read_response(), (200, "hello".into()));
    server.eventually("its connection is closed", |totals| totals.connections_now == 0);
    client.expect_end();

    // A close with unread bytes would be a reset, which can destroy the response.
    let mut client = server.sending(format!("{last}more"));
    assert_eq!(client.read_response(), (200, "hello".into()));
    client.expect_end();
    assert_eq!(server.totals().connections_now, 1);
    drop(client);
    server.eventually("its connection is closed", |totals| totals.connections_now == 0);
}

#[test]
fn a_client_that_closed_its_sending_side_still_gets_its_response() {
    let server = TestServer::open();
    let mut client = server.sending("GET /large HTTP/1.1\r\nhost: test\r\n\r\n");
    client.end_writing();
    let (status, body) = client.read_response();
    assert_eq!((status, body.len()), (200, 3_000_000));
    client.expect_end();
}

#[test]
fn a_handler_that_panics_ends_only_its_own_connection() {
    let server = TestServer::open();
    let (mut other, _) = server.websocket("/echo");
    let mut client = server.sending("GET /panic HTTP/1.1\r\nhost: test\r\n\r\n");
    client.expect_end();
    other.text("still here");
    assert_eq!(other.read_frame().payload, b"still here");
    server.eventually("its connection is closed", |totals| {
        totals.connections_now == 1 && totals.http_now == 0
    });
}

#[test]
fn a_request_moves_to_the_shard_that_owns_its_resource() {
    let server = TestServer::build(2, SocketLimits::default(), None);
    for _ in 0..16 {
        let mut client = server.connect();
        assert_eq!(client.get("/"), (200, "hello".into()));
        client.send("GET /shard-1 HTTP/1.1\r\nhost: test\r\n\r\n");
        assert!(matches!(receive(&server.events), Event::Parked(ShardId(1), _)));
        server.on_shard(1, |handler, sockets| handler.answer_all(sockets, "moved"));
        assert_eq!(client.read_response(), (200, "moved".into()));
        assert_eq!(client.get("/"), (200, "hello".into()));
    }
    server.eventually("all connections are closed", |totals| totals.connections_now == 0);
}

#[test]
fn a_request_that_no_shard_accepts_is_answered_500() {
    let server = TestServer::build(2, SocketLimits::default(), None);
    for path in ["/circle", "/nowhere"] {
        let mut client = server.connect();
        assert_eq!(client.get(path).0, 500);
        client.expect_end();
    }
}

#[test]
fn a_refusal_states_its_reason_and_ends_the_connection() {
    let server = TestServer::open();
    let mut client = server.connect();
    assert_eq!(client.get("/forbidden"), (403, "not you\n".into()));
    client.expect_end();
    assert_eq!(server.totals().refusals, 1);
}

#[test]
fn the_response_to_an_incomplete_upgrade_names_the_missing_part() {
    let server = TestServer::open();
    let mut client = server.connect();
    assert_eq!(client.get("/echo"), (400, "the connection header lacks upgrade\n".into()));
    let mut client = server.sending(upgrade_request("/echo").replace("version: 13", "version: 8"));
    let head = client.read_head();
    assert!(head.starts_with("HTTP/1.1 426 ") && head.contains("sec-websocket-version: 13"));
}

#[test]
fn a_subprotocol_is_echoed() {
    let server = TestServer::open();
    let mut client = server.connect();
    let host = "sec-websocket-protocol: phoenix\r\nhost:";
    client.send(upgrade_request("/echo").replace("host:", host));
    assert!(client.read_head().contains("\r\nsec-websocket-protocol: phoenix\r\n"));
}

#[test]
fn sent_bytes_include_responses_of_hyper_of_the_shard_and_of_a_full_server() {
    let server = TestServer::limited(|limits| limits.sockets_max = 1);
    let mut client = server.connect();
    let mut sent = 0;
    for path in ["/", "/large", "/at-once", "/forbidden"] {
        client.send(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n"));
        let head = client.read_head();
        let len = head.to_ascii_lowercase();
        let len = len.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let len: usize = len.parse().unwrap();
        client.read_exact(len);
        sent += (head.len() + len) as u64;
        // Bytes are counted after the write, and the client may be faster.
        server.eventually(path, |totals| totals.bytes_out >= sent);
        assert_eq!(server.totals().bytes_out, sent, "after {path}");
    }
    client.expect_end();
    server.eventually("the connection is gone", |totals| totals.connections_now == 0);
    let _first = server.websocket("/echo");
    server.eventually("the handshake is counted", |totals| totals.bytes_out > sent);
    let before = server.totals().bytes_out;
    let mut second = server.connect();
    let head = second.read_head();
    let body = "too many connections\n";
    assert_eq!(second.read_exact(body.len()), body.as_bytes());
    let sent = (head.len() + body.len()) as u64;
    server.eventually("it is counted", |totals| totals.bytes_out - before == sent);
}

#[test]
fn received_bytes_include_bodies_that_hyper_reads() {
    let server = TestServer::open();
    let mut client = server.connect();
    let head = "POST /length HTTP/1.1\r\nhost: test\r\ncontent-length: 300000\r\n\r\n";
    client.send(head);
    client.send([b'x'; 300_000]);
    assert_eq!(client.read_response(), (200, "300000".into()));
    assert_eq!(server.totals().bytes_in, (head.len() + 300_000) as u64);
}
