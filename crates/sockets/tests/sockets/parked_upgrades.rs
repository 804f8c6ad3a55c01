//! Upgrade requests that wait until the handler opens or refuses them.

use watchfire_sockets::{CloseCause, Handshake, SocketLimits};
use watchfire_types::SocketId;

use super::support::{Client, Event, Frame, TestServer, Ticket, masked, receive, upgrade_request};

/// The key of [`upgrade_request`].
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// A client whose upgrade request waits; `more` are bytes in the same segment.
fn waiting(server: &TestServer, more: &[u8]) -> (Client, SocketId) {
    let client = server.sending([upgrade_request("/wait").as_bytes(), more].concat());
    let Event::Parked(_, socket) = receive(&server.events) else { panic!("not parked") };
    (client, socket)
}

fn open(server: &TestServer, socket: SocketId) -> bool {
    server.on_shard(0, move |handler, sockets| {
        let handshake = Handshake::new(KEY, Some("phoenix"));
        handler.parked.clear();
        sockets.open_parked(socket, &handshake, || Ticket::Echo as u32)
    })
}

#[test]
fn a_request_that_waited_becomes_a_websocket_and_no_frame_is_lost() {
    let server = TestServer::open();
    let second = masked(0x81, b"second");
    let early = [&masked(0x81, b"first")[..], &second[..5]].concat();
    let (mut client, socket) = waiting(&server, &early);
    assert_eq!((server.totals().parked_now, server.totals().websockets_now), (1, 0));
    assert!(open(&server, socket));
    client.send(&second[5..]);
    client.text("third");
    let head = client.read_head();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    assert!(head.contains("sec-websocket-protocol: phoenix"), "{head}");
    for text in ["first", "second", "third"] {
        assert_eq!(client.read_frame(), Frame::text(text));
    }
    assert_eq!((server.totals().parked_now, server.totals().websockets_now), (0, 1));
    // The shard counts the bytes that it holds after it has answered the frames in them.
    server.eventually("no bytes are held", |totals| totals.partial_bytes_now == 0);
    // It is opened once.
    assert!(!open(&server, socket));
    client.send(masked(0x88, &1001_u16.to_be_bytes()));
    assert_eq!(client.read_close(), Some(1001));
    assert_eq!(receive(&server.events), Event::Closed(socket, CloseCause::ByPeer));
}

#[test]
fn many_early_frames_wait_in_the_kernel() {
    let head_bytes_max = 4_096;
    let server = TestServer::with(SocketLimits { head_bytes_max, ..SocketLimits::default() });
    let (mut client, socket) = waiting(&server, b"");
    let texts: Vec<String> = (0..200).map(|n| format!("{n} {}", "x".repeat(1_000))).collect();
    let mut sender = client.try_clone();
    let sent = texts.clone();
    let sending = std::thread::spawn(move || sent.iter().for_each(|text| sender.text(text)));
    server.eventually("bytes are held", |totals| totals.partial_bytes_now >= head_bytes_max as u64);
    // One read brings at most 64 KiB.
    assert!(server.totals().partial_bytes_now < 2 * 64 * 1024 + 4_096);
    assert!(open(&server, socket));
    assert!(client.read_head().starts_with("HTTP/1.1 101 "));
    for text in &texts {
        assert_eq!(client.read_frame(), Frame::text(text));
    }
    sending.join().unwrap();
    server.eventually("no bytes are held", |totals| totals.partial_bytes_now == 0);
}

#[test]
fn a_request_that_waited_is_refused_and_its_frames_are_ignored() {
    let server = TestServer::open();
    let (mut client, socket) = waiting(&server, &masked(0x81, b"early"));
    server.on_shard(0, move |handler, sockets| {
        handler.parked.clear();
        sockets.refuse_parked(socket, 403, "");
        sockets.refuse_parked(socket, 403, "twice");
    });
    assert_eq!(client.read_response(), (403, String::new()));
    client.expect_end();
    drop(client);
    server.eventually("the connection is closed", |totals| totals.connections_now == 0);
    let totals = server.totals();
    assert_eq!((totals.parked_now, totals.partial_bytes_now, totals.refusals), (0, 0, 1));
    assert!(server.events.try_recv().is_err());
}

#[test]
fn a_client_that_leaves_while_its_request_waits_is_never_opened() {
    let server = TestServer::open();
    let (client, socket) = waiting(&server, b"");
    drop(client);
    assert_eq!(receive(&server.events), Event::Closed(socket, CloseCause::ByPeer));
    assert!(!open(&server, socket));
    server.eventually("the connection is closed", |totals| totals.connections_now == 0);
    assert_eq!(server.totals().websockets, 0);
}
