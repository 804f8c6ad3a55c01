//! Invalid input: its sender gets an error, and other clients are not affected.

use std::sync::mpsc;
use std::time::Duration;

use watchfire_sockets::CloseCause;

use super::support::{Client, TestServer, masked, masked_header, receive, upgrade_request};

#[test]
fn an_announced_message_over_the_limit_is_refused_before_a_byte_is_kept() {
    let server = TestServer::open();
    let (mut client, _) = server.websocket("/echo");
    client.send(masked_header(0x82, 100_000_000));
    client.send_ignoring_errors([0; 100_000]);
    assert_eq!(client.read_close(), Some(1009));
    assert_eq!(server.closed(), CloseCause::TooBig);
    assert_eq!(server.totals().partial_bytes_now, 0);
    assert_eq!(server.totals().closes_too_big, 1);
}

#[test]
fn the_fragments_of_a_message_count_together() {
    let server = TestServer::limited(|limits| limits.message_bytes_max = 1000);
    let (mut client, _) = server.websocket("/echo");
    client.send(masked(0x02, &[0; 600]));
    client.send(masked(0x80, &[0; 401]));
    assert_eq!(client.read_close(), Some(1009));
    assert_eq!(server.closed(), CloseCause::TooBig);
    server.eventually("nothing is kept", |totals| totals.partial_bytes_now == 0);
}

#[test]
fn an_unmasked_frame_is_a_protocol_error() {
    let server = TestServer::open();
    let (mut client, _) = server.websocket("/echo");
    client.send(b"\x81\x05hello");
    assert_eq!(client.read_close(), Some(1002));
    assert_eq!(server.closed(), CloseCause::Protocol);
    assert_eq!(server.totals().closes_protocol, 1);
}

#[test]
fn all_bytes_after_a_protocol_error_are_dropped() {
    let server = TestServer::open();
    let (mut client, _) = server.websocket("/echo");
    client.send(b"\x81\x05hello");
    for _ in 0..100 {
        client.send_ignoring_errors([0x81; 100_000]);
    }
    assert_eq!(client.read_close(), Some(1002));
    assert_eq!(server.totals().messages, 0);
}

#[test]
fn a_request_that_is_not_http_1_is_answered_with_400() {
    let server = TestServer::open();
    for request in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"hello?\r\n\r\n",
        b"GET / HTTP/3.7\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
    ] {
        let mut client = server.sending(request);
        assert_eq!(client.read_response().0, 400, "{request:?}");
        client.expect_end();
    }
    assert_eq!(server.totals().head_errors, 5);
}

#[test]
fn a_head_with_bare_lf_line_ends_is_answered_with_400() {
    let server = TestServer::open();
    for head in [
        "GET / HTTP/1.1\nhost: test\n\n",
        "GET / HTTP/1.1\r\nhost: test\na: b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: test\r\n\n",
        "\nGET / HTTP/1.1\r\nhost: test\r\n\r\n",
    ] {
        let mut client = server.sending(head);
        assert_eq!(client.read_response().0, 400, "{head:?}");
        client.expect_end();
        // Refused as soon as the line end arrives, before the head is complete.
        let mut in_pieces = server.connect();
        for byte in head.bytes() {
            in_pieces.send_ignoring_errors([byte]);
        }
        assert_eq!(in_pieces.read_response().0, 400, "{head:?} byte by byte");
    }
    assert_eq!(server.totals().http_requests, 0);
}

#[test]
fn an_http_1_1_request_needs_one_host_header() {
    let server = TestServer::open();
    let answer = |head: &str| {
        let mut client = server.sending(head);
        client.read_response()
    };
    let expected = (400, "an HTTP/1.1 request needs exactly one host header\n".to_owned());
    assert_eq!(answer("GET / HTTP/1.1\r\n\r\n"), expected);
    assert_eq!(answer("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n"), expected);
    assert_eq!(answer(&upgrade_request("/echo").replace("host: test\r\n", "")), expected);
    assert_eq!(answer("GET / HTTP/1.1\r\nhost:\r\n\r\n").0, 400);
    assert_eq!(answer("GET / HTTP/1.1\r\nhost: user@test\r\n\r\n").0, 400);
    assert_eq!(answer("GET / HTTP/1.0\r\n\r\n").0, 200);
    assert_eq!(server.totals().head_errors, 5);
}

#[test]
fn a_payload_length_that_is_not_minimally_encoded_is_a_protocol_error() {
    let server = TestServer::open();
    let mask = [0; 4];
    for length in [
        &[0x80 | 126, 0, 5][..],
        &[0x80 | 126, 0, 125],
        &[0x80 | 127, 0, 0, 0, 0, 0, 0, 0, 5],
        &[0x80 | 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff],
    ] {
        let (mut client, _) = server.websocket("/echo");
        client.send([&[0x82], length, &mask].concat());
        assert_eq!(client.read_close(), Some(1002), "{length:?}");
        assert_eq!(server.closed(), CloseCause::Protocol);
    }
}

#[test]
fn a_head_over_the_limit_is_answered_with_431() {
    let server = TestServer::open();
    let mut client =
        server.sending(format!("GET / HTTP/1.1\r\nhost: test\r\ncookie: {}", "c".repeat(20_000)));
    assert_eq!(client.read_response().0, 431);
    // A complete head is too large as well.
    let mut client = server
        .sending(format!("GET / HTTP/1.1\r\nhost: test\r\ncookie: {}\r\n\r\n", "c".repeat(20_000)));
    assert_eq!(client.read_response().0, 431);
    let mut client = server.sending(format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(101)));
    assert_eq!(client.read_response().0, 431);
    server.eventually("nothing is kept", |totals| totals.partial_bytes_now == 0);
}

#[test]
fn an_incomplete_upgrade_is_ended_with_408_even_if_bytes_keep_arriving() {
    let timeout = Duration::from_millis(300);
    let server = TestServer::limited(|limits| {
        limits.head_timeout = timeout;
        limits.close_timeout = timeout;
    });
    let mut half = server.sending(&upgrade_request("/echo").as_bytes()[..50]);
    let mut trickling = server.connect();
    let mut writer = trickling.stream.try_clone().unwrap();
    std::thread::spawn(move || {
        use std::io::Write as _;
        while writer.write_all(b"a").is_ok() {}
    });
    let silent = server.connect();
    assert_eq!(half.read_response().0, 408);
    let status = trickling.read_response().0;
    // The head may become too large before the timeout.
    assert!([408, 431].contains(&status), "{status}");
    let mut silent = silent;
    silent.expect_end();
    drop((half, trickling, silent));
    server.eventually("all connections are closed", |totals| totals.connections_now == 0);
}

#[test]
fn requests_that_arrive_while_the_event_loop_is_late_are_answered() {
    let timeout = Duration::from_secs(1);
    let server = TestServer::limited(|limits| limits.head_timeout = timeout);
    // The loop reads fewer sockets before it looks for late ones.
    let mut clients: Vec<_> = (0..600).map(|_| server.connect()).collect();
    server.eventually("all are accepted", |totals| totals.connections_now == 600);
    let (started, has_started) = mpsc::channel();
    let (sent, all_sent) = mpsc::channel();
    let sending = std::thread::spawn(move || {
        receive(&has_started);
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n");
        }
        sent.send(()).unwrap();
        clients
    });
    server.on_shard(0, move |_, _| {
        started.send(()).unwrap();
        receive(&all_sent);
        std::thread::sleep(timeout * 3 / 2);
    });
    let mut clients = sending.join().unwrap();
    for client in &mut clients {
        assert_eq!(client.read_response().0, 200);
    }
}

#[test]
fn a_body_that_stalls_ends_its_connection() {
    let server = TestServer::limited(|limits| limits.head_timeout = Duration::from_millis(200));
    let mut client =
        server.sending("POST /length HTTP/1.1\r\nhost: test\r\ncontent-length: 10\r\n\r\nhalf");
    server.eventually("hyper has it", |totals| totals.http_requests == 1);
    server.eventually("hyper gave up", |totals| totals.http_now == 0);
    let _ = client.read_response();
    client.expect_end();
}

#[test]
fn an_idle_connection_between_requests_ends_silently() {
    let server =
        TestServer::limited(|limits| limits.keep_alive_timeout = Duration::from_millis(200));
    let mut client = server.connect();
    assert_eq!(client.get("/").0, 200);
    client.expect_end();
}

#[test]
fn connections_whose_request_is_late_are_counted() {
    let server = TestServer::limited(|limits| {
        limits.head_timeout = Duration::from_millis(500);
        limits.keep_alive_timeout = Duration::from_millis(200);
    });
    let mut kept_alive = server.connect();
    assert_eq!(kept_alive.get("/").0, 200);
    kept_alive.expect_end();
    assert_eq!(server.totals().closes_late, 0);
    server.connect().expect_end();
    assert_eq!(server.totals().closes_late, 1);
    assert_eq!(server.sending("GET / HTTP/1.1\r\n").read_response().0, 408);
    assert_eq!(server.totals().closes_late, 2);
}

#[test]
fn partial_messages_of_all_sockets_share_one_bound() {
    let server = TestServer::limited(|limits| limits.partial_bytes_max = 200_000);
    let mut clients = Vec::new();
    for _ in 0..7 {
        let (mut client, _) = server.websocket("/echo");
        client.send(masked_header(0x82, 60_000));
        client.send([0; 20_000]);
        clients.push(client);
    }
    server.eventually("all of it is kept", |totals| totals.partial_bytes_now > 140_000);
    assert_eq!(server.totals().partial_refusals, 0);

    let (mut greedy, _) = server.websocket("/echo");
    greedy.send(masked_header(0x82, 1_000_000));
    greedy.send_ignoring_errors([0; 300_000]);
    assert_eq!(greedy.read_close(), Some(1013));
    assert_eq!(server.closed(), CloseCause::ByUs(1013));
    assert_eq!(server.totals().partial_refusals, 1);

    let (mut other, _) = server.websocket("/echo");
    other.text("fine");
    assert_eq!(other.read_frame().payload, b"fine");
    for client in &mut clients {
        client.send([0; 40_000]);
        assert_eq!(client.read_frame().payload.len(), 60_000);
    }
    server.eventually("nothing is kept", |totals| totals.partial_bytes_now == 0);
}

#[test]
fn partial_heads_count_for_the_same_bound() {
    let server = TestServer::limited(|limits| limits.partial_bytes_max = 30_000);
    let half_head = format!("GET / HTTP/1.1\r\nhost: test\r\ncookie: {}", "c".repeat(10_000));
    let mut clients: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(&half_head);
    }
    server.eventually("both are kept", |totals| totals.partial_bytes_now >= 20_000);
    let mut third = server.sending(&half_head);
    assert_eq!(third.read_response().0, 503);
    clients[0].send("\r\n\r\n");
    assert_eq!(clients[0].read_response(), (200, "hello".into()));
}

#[test]
fn a_connection_over_the_limit_is_answered_503_and_closed() {
    let server = TestServer::limited(|limits| limits.sockets_max = 2);
    let (first, _) = server.websocket("/echo");
    let (_second, _) = server.websocket("/echo");
    let mut third = server.connect();
    assert_eq!(third.read_response(), (503, "too many connections\n".into()));
    third.expect_end();
    assert_eq!(server.totals().accept_refusals, 1);
    drop(first);
    assert_eq!(server.closed(), CloseCause::ByPeer);
    server.eventually("there is room", |totals| totals.connections_now == 1);
    server.websocket("/echo");
}

#[test]
fn a_flood_from_one_client_does_not_delay_another() {
    let server = TestServer::open();
    let (flooding, _) = server.websocket("/listen");
    let mut flood = flooding.stream.try_clone().unwrap();
    let flooding_thread = std::thread::spawn(move || {
        use std::io::Write as _;
        let frames = masked(0x81, &[b'x'; 1000]).repeat(1000);
        while flood.write_all(&frames).is_ok() {}
    });
    server.eventually("it floods", |totals| totals.messages > 10_000);
    let (mut other, _) = server.websocket("/echo");
    for _ in 0..100 {
        other.text("heartbeat");
        assert_eq!(other.read_frame().payload, b"heartbeat");
        assert_eq!(Client::connect(server.server.local_addr()).get("/").0, 200);
    }
    flooding.stream.shutdown(std::net::Shutdown::Both).unwrap();
    flooding_thread.join().unwrap();
}
