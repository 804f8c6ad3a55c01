//! Who closes, with which code, and what the tenant hears of it.

use std::time::Duration;

use edge::{CloseCause, EdgeLimits, frame};

use super::support::{House, masked};

#[test]
fn a_clients_close_is_answered_with_its_own_code() {
    let house = House::open();
    for code in [1000u16, 1001, 4001] {
        let (mut client, _) = house.websocket("/listen");
        client.send(masked(0x88, &code.to_be_bytes()));
        assert_eq!(client.read_close(), Some(code));
        assert_eq!(house.closed(), CloseCause::ByPeer);
    }
    assert_eq!(house.totals().closes_by_peer, 3);
}

#[test]
fn a_client_that_vanishes_is_gone_for_its_tenant() {
    let house = House::open();
    let (client, socket) = house.websocket("/listen");
    drop(client);
    assert_eq!(house.closed(), CloseCause::ByPeer);
    let sent = house.on_shard(0, move |_, sockets| {
        (sockets.len(), sockets.send(socket, &frame::text_frame(b"anyone?")))
    });
    assert_eq!(sent, (0, Err(edge::SendError::Gone)));
    house.eventually("its slot is free", |totals| totals.connections_now == 0);
}

#[test]
fn our_close_tells_the_tenant_at_once_and_awaits_the_clients() {
    let house = House::open();
    let (mut client, socket) = house.websocket("/echo");
    house.on_shard(0, move |_, sockets| {
        let _ = sockets.send(socket, &frame::text_frame(b"last words"));
        sockets.close(socket, 1008, "rules");
        sockets.close(socket, 1011, "twice");
    });
    assert_eq!(house.closed(), CloseCause::ByUs(1008));
    assert_eq!(client.read_frame().payload, b"last words");
    assert_eq!(client.read_frame().payload, b"\x03\xf0rules");
    // Still talking: nobody hears it.
    client.text("but");
    assert_eq!(house.totals().connections_now, 1);
    client.send(masked(0x88, b"\x03\xf0"));
    client.expect_end();
    drop(client);
    house.eventually("the connection is gone", |totals| totals.connections_now == 0);
    assert_eq!((house.totals().closes_by_us, house.totals().messages), (1, 0));
}

#[test]
fn we_never_close_with_1000_or_a_code_that_may_not_be_sent() {
    let house = House::open();
    for code in [1000, 1005, 1006, 0, 5000] {
        let (mut client, socket) = house.websocket("/listen");
        house.on_shard(0, move |_, sockets| sockets.close(socket, code, ""));
        assert_eq!(house.closed(), CloseCause::ByUs(1001));
        assert_eq!(client.read_frame().close_code(), Some(1001));
    }
}

#[test]
fn a_client_that_does_not_answer_our_close_is_cut_off() {
    let limits = EdgeLimits { close_timeout: Duration::from_millis(200), ..EdgeLimits::default() };
    let house = House::with(limits);
    let (mut client, socket) = house.websocket("/listen");
    house.on_shard(0, move |_, sockets| sockets.close(socket, 1001, ""));
    assert_eq!(client.read_close(), Some(1001));
    house.eventually("it is cut off", |totals| totals.connections_now == 0);
}

#[test]
fn a_silent_websocket_is_closed_with_1001_and_a_heartbeat_keeps_it() {
    let limits = EdgeLimits { idle_timeout: Duration::from_millis(600), ..EdgeLimits::default() };
    let house = House::with(limits);
    let (mut silent, _) = house.websocket("/listen");
    let (mut lively, _) = house.websocket("/echo");
    let closed = std::thread::spawn(move || silent.read_frame().close_code());
    while house.totals().closes_idle == 0 {
        lively.text("heartbeat");
        assert_eq!(lively.read_frame().payload, b"heartbeat");
    }
    assert_eq!(closed.join().unwrap(), Some(1001));
    assert_eq!(house.closed(), CloseCause::Idle);
    assert_eq!(house.totals().websockets_now, 1);
}

#[test]
fn a_reused_slot_does_not_hear_what_was_meant_for_its_last_socket() {
    let house = House::open();
    let (first, old) = house.websocket("/listen");
    drop(first);
    assert_eq!(house.closed(), CloseCause::ByPeer);
    house.eventually("its slot is free", |totals| totals.connections_now == 0);
    let (mut second, new) = house.websocket("/listen");
    assert_eq!(old.index, new.index);
    house.on_shard(0, move |_, sockets| {
        assert!(sockets.send(old, &frame::text_frame(b"for the old one")).is_err());
        sockets.close(old, 1001, "");
        sockets.answer(old, &[]);
        assert!(sockets.send(new, &frame::text_frame(b"for the new one")).is_ok());
    });
    assert_eq!(second.read_frame().payload, b"for the new one");
}
