//! Clients that send as fast as they can do not keep messages to other clients waiting.

use watchfire_sockets::frame;

use super::support::{Frame, TestServer, masked};

/// Clients that flood the server, and the bytes that each sends.
const FLOODING: usize = 12;
const FLOOD_BYTES: usize = 512 * 1024;
/// Sends that wait. The handler of the tests does ten of them in each turn.
const WAITING: usize = 120;

#[test]
fn pending_work_goes_on_while_clients_flood_the_server() {
    let server = TestServer::open();
    let (mut reader, socket) = server.websocket("/listen");
    let one = masked(0x81, b"");
    let flood = one.repeat(FLOOD_BYTES / one.len());
    let all = (FLOODING * flood.len() / one.len()) as u64;
    let clients: Vec<_> = (0..FLOODING).map(|_| server.websocket("/listen").0).collect();
    std::thread::scope(|scope| {
        for mut client in clients.iter().map(|client| client.try_clone()) {
            let flood = &flood;
            scope.spawn(move || client.send(flood));
        }
        server.eventually("the flood has begun", |totals| totals.messages > 0);
        server.on_shard(0, move |handler, _| {
            let frame = |n: usize| (socket, frame::text_frame(n.to_string().as_bytes()));
            handler.backlog = (0..WAITING).map(frame).collect();
        });
        for n in (0..WAITING).rev() {
            assert_eq!(reader.read_frame(), Frame::text(&n.to_string()));
        }
        // A turn that reads from all clients would have read everything by now.
        let read = server.totals().messages;
        assert!(
            read < all,
            "{read} of {all} messages were read before the waiting sends were done"
        );
    });
    server.eventually("all is read", |totals| totals.messages == all);
}
