//! Closing by either side: the code, and the event for the handler.

use std::time::Duration;

use watchfire_sockets::{CloseCause, frame};

use super::support::{TestServer, masked};

#[test]
fn a_clients_close_is_answered_with_its_own_code() {
    let server = TestServer::open();
    for code in [1000u16, 1001, 4001] {
        let (mut client, _) = server.websocket("/listen");
        client.send(masked(0x88, &code.to_be_bytes()));
        assert_eq!(client.read_close(), Some(code));
        assert_eq!(server.closed(), CloseCause::ByPeer);
    }
    assert_eq!(server.totals().closes_by_peer, 3);
}

#[test]
fn the_handler_is_notified_of_a_client_that_disconnects() {
    let server = TestServer::open();
    let (client, socket) = server.websocket("/listen");
    drop(client);
    assert_eq!(server.closed(), CloseCause::ByPeer);
    let sent = server.on_shard(0, move |_, sockets| {
        (sockets.len(), sockets.send(socket, &frame::text_frame(b"anyone?")))
    });
    assert_eq!(sent, (0, Err(watchfire_sockets::SendError::Gone)));
    server.eventually("its slot is free", |totals| totals.connections_now == 0);
}

#[test]
fn our_close_notifies_the_handler_at_once_and_awaits_the_clients_close() {
    let server = TestServer::open();
    let (mut client, socket) = server.websocket("/echo");
    server.on_shard(0, move |_, sockets| {
        let _ = sockets.send(socket, &frame::text_frame(b"last words"));
        sockets.close(socket, 1008, "rules");
        sockets.close(socket, 1011, "twice");
    });
    assert_eq!(server.closed(), CloseCause::ByUs(1008));
    assert_eq!(client.read_frame().payload, b"last words");
    assert_eq!(client.read_frame().payload, b"\x03\xf0rules");
    // Messages after the close are ignored.
    client.text("but");
    assert_eq!(server.totals().connections_now, 1);
    client.send(masked(0x88, b"\x03\xf0"));
    client.expect_end();
    drop(client);
    server.eventually("the connection is gone", |totals| totals.connections_now == 0);
    assert_eq!((server.totals().closes_by_us, server.totals().messages), (1, 0));
}

#[test]
fn we_never_close_with_1000_or_an_invalid_code() {
    let server = TestServer::open();
    for code in [1000, 1005, 1006, 0, 5000] {
        let (mut client, socket) = server.websocket("/listen");
        server.on_shard(0, move |_, sockets| sockets.close(socket, code, ""));
        assert_eq!(server.closed(), CloseCause::ByUs(1001));
        assert_eq!(client.read_frame().close_code(), Some(1001));
    }
}

#[test]
fn a_client_that_does_not_answer_our_close_is_disconnected() {
    let server = TestServer::limited(|limits| limits.close_timeout = Duration::from_millis(200));
    let (mut client, socket) = server.websocket("/listen");
    server.on_shard(0, move |_, sockets| sockets.close(socket, 1001, ""));
    assert_eq!(client.read_close(), Some(1001));
    server.eventually("it is disconnected", |totals| totals.connections_now == 0);
}

#[test]
fn a_silent_websocket_is_closed_with_1001_and_a_heartbeat_keeps_it() {
    let server = TestServer::limited(|limits| limits.idle_timeout = Duration::from_millis(600));
    let (mut silent, _) = server.websocket("/listen");
    let (mut lively, _) = server.websocket("/echo");
    let closed = std::thread::spawn(move || silent.read_frame().close_code());
    while server.totals().closes_idle == 0 {
        lively.text("heartbeat");
        assert_eq!(lively.read_frame().payload, b"heartbeat");
    }
    assert_eq!(closed.join().unwrap(), Some(1001));
    assert_eq!(server.closed(), CloseCause::Idle);
    assert_eq!(server.totals().websockets_now, 1);
}

#[test]
fn a_reused_slot_does_not_receive_frames_for_its_last_socket() {
    let server = TestServer::open();
    let (first, old) = server.websocket("/listen");
    drop(first);
    assert_eq!(server.closed(), CloseCause::ByPeer);
    server.eventually("its slot is free", |totals| totals.connections_now == 0);
    let (mut second, new) = server.websocket("/listen");
    assert_eq!(old.index, new.index);
    server.on_shard(0, move |_, sockets| {
        assert!(sockets.send(old, &frame::text_frame(b"for the old one")).is_err());
        sockets.close(old, 1001, "");
        sockets.answer(old, &[]);
        assert!(sockets.send(new, &frame::text_frame(b"for the new one")).is_ok());
    });
    assert_eq!(second.read_frame().payload, b"for the new one");
}
