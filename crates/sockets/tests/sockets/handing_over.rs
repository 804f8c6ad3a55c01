//! Connections that are handed over to the process that owns them, or to one with more room.

use std::net::TcpListener;
use std::os::fd::OwnedFd;

use tungstenite::Message;
use watchfire_sockets::{
    ClientAddress, HandoffConnection, HandoffTarget, SocketLimits, SocketServerSettings,
};
use watchfire_types::{NodeId, ShardId};

use super::support::{
    Certificate, Client, Event, Frame, TestServer, masked, receive, upgrade_request,
};

const FIRST: NodeId = NodeId(0);
const SECOND: NodeId = NodeId(1);

fn server(node: NodeId, shards: usize, limits: SocketLimits) -> TestServer {
    let settings = SocketServerSettings { shards, limits, ..SocketServerSettings::default() };
    TestServer::try_start_at(node, settings).unwrap()
}

/// Two servers that hand over to each other the requests that the other owns.
fn two_servers() -> (TestServer, TestServer) {
    let first = server(FIRST, 1, SocketLimits::default());
    let second = server(SECOND, 2, SocketLimits::default());
    first.route_handoffs(HandoffTarget::Owner(SECOND), &second);
    second.route_handoffs(HandoffTarget::Owner(FIRST), &first);
    (first, second)
}

/// A client and the accepted end of its connection, outside any server.
fn unowned_connection() -> (Client, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::connect(listener.local_addr().unwrap());
    (client, listener.accept().unwrap().0.into())
}

fn handoff(fd: impl Into<OwnedFd>, bytes: impl AsRef<[u8]>) -> HandoffConnection {
    HandoffConnection {
        fd: fd.into(),
        bytes: bytes.as_ref().to_vec(),
        client: ClientAddress::OfSocket,
        hops: 1,
        declined: 0,
    }
}

#[test]
fn a_request_that_another_process_owns_is_handed_over_with_all_its_bytes() {
    let (first, second) = two_servers();
    let mut client = first.connect();
    let mut request = upgrade_request("/node-1/echo").into_bytes();
    request.extend(masked(0x81, b"early"));
    client.send(&request);
    assert!(client.read_head().starts_with("HTTP/1.1 101 "));
    assert!(matches!(receive(&second.events), Event::Opened(..)));
    assert_eq!(client.read_frame(), Frame::text("early"));
    client.text("late");
    assert_eq!(client.read_frame(), Frame::text("late"));

    // The sender counts after the receiver may have answered.
    first.eventually("it is handed over", |totals| {
        (totals.handoffs, totals.connections_now) == (1, 0)
    });
    assert_eq!(first.totals().websockets, 0);
    let there = second.totals();
    assert_eq!((there.adoptions, there.connections_now, there.accepts), (1, 1, 0));
    drop(client);
    second.eventually("the connection is closed", |totals| totals.connections_now == 0);
}

#[test]
fn one_connection_may_be_handed_over_for_each_of_its_requests() {
    let (first, second) = two_servers();
    let mut client = first.connect();
    let address = client.stream.local_addr().unwrap().to_string();
    assert_eq!(client.get("/"), (200, "hello".into()));
    assert_eq!(client.get("/node-1/whoami"), (200, address.clone()));
    assert_eq!(client.get("/node-1/whoami"), (200, address));
    client.send("GET /node-1/wait HTTP/1.1\r\nhost: test\r\n\r\n");
    let Event::Parked(ShardId(shard), _) = receive(&second.events) else { panic!("not parked") };
    second.on_shard(shard.into(), |handler, sockets| handler.answer_all(sockets, "waited"));
    assert_eq!(client.read_response(), (200, "waited".into()));
    first.eventually("it is handed over", |totals| totals.handoffs == 1);
    assert_eq!(second.totals().adoptions, 1);
}

#[test]
fn a_head_that_arrived_in_two_parts_is_handed_over_whole() {
    let (first, second) = two_servers();
    let request = upgrade_request("/node-1/echo");
    let mut clients = Vec::new();
    for cut in [1, 40, request.len() - 1] {
        let mut client = first.sending(&request[..cut]);
        first.eventually("the first part is kept", |totals| totals.partial_bytes_now > 0);
        client.send(&request[cut..]);
        assert!(client.read_head().starts_with("HTTP/1.1 101 "), "cut at {cut}");
        assert!(matches!(receive(&second.events), Event::Opened(..)));
        client.text("whole");
        assert_eq!(client.read_frame(), Frame::text("whole"));
        first.eventually("nothing is kept", |totals| totals.partial_bytes_now == 0);
        clients.push(client);
    }
}

#[test]
fn a_partial_head_in_a_handoff_is_completed() {
    let server = server(SECOND, 1, SocketLimits::default());
    let (mut client, connection) = unowned_connection();
    let request = upgrade_request("/node-1/echo");
    server.server.adopter().adopt(handoff(connection, &request[..60])).unwrap();
    server.eventually("the first part is kept", |totals| totals.partial_bytes_now > 0);
    client.send(&request[60..]);
    assert!(client.read_head().starts_with("HTTP/1.1 101 "));
    assert!(matches!(receive(&server.events), Event::Opened(..)));
    server.eventually("nothing is kept", |totals| totals.partial_bytes_now == 0);
}

#[test]
fn invalid_bytes_in_a_handoff_are_answered_and_harm_no_other_client() {
    let server = server(SECOND, 1, SocketLimits::default());
    let adopter = server.server.adopter();
    let large = format!("GET / HTTP/1.1\r\ncookie: {}", "c".repeat(20_000));
    for (bytes, status) in [(&b"hello?\r\n\r\n"[..], 400), (large.as_bytes(), 431)] {
        let (mut client, connection) = unowned_connection();
        adopter.adopt(handoff(connection, bytes)).unwrap();
        assert_eq!(client.read_response().0, status);
    }
    // A descriptor without a connection, and a connection that ended in transit.
    let file = std::fs::File::open("/dev/null").unwrap();
    adopter.adopt(handoff(file, "GET / HTTP/1.1\r\nhost: test\r\n\r\n")).unwrap();
    let (client, connection) = unowned_connection();
    drop(client);
    adopter.adopt(handoff(connection, "GET / HTT")).unwrap();
    let (client, connection) = unowned_connection();
    adopter
        .adopt(HandoffConnection {
            hops: u8::MAX,
            ..handoff(connection, "GET / HTTP/1.1\r\nhost: test\r\n\r\n")
        })
        .unwrap();
    let mut client = client;
    assert_eq!(client.read_response(), (200, "hello".into()));
    drop(client);
    server.eventually("all connections are closed", |totals| totals.connections_now == 0);
    assert_eq!(server.totals().partial_bytes_now, 0);
    assert_eq!(server.connect().get("/").0, 200);
}

#[test]
fn a_request_that_is_handed_over_too_often_is_refused() {
    let (first, second) = two_servers();
    let mut client = first.connect();
    let (status, reason) = client.get("/in-circles");
    assert_eq!((status, reason.as_str()), (500, "no process accepts this request\n"));
    client.expect_end();
    assert_eq!(first.totals().adoptions + second.totals().adoptions, 4);
}

#[test]
fn a_connection_that_cannot_be_handed_over_is_answered_503() {
    let first = server(FIRST, 1, SocketLimits::default());
    let mut client = first.connect();
    let (status, reason) = client.get("/node-1/whoami");
    assert_eq!((status, reason.as_str()), (503, "the server is busy\n"));
    client.expect_end();
    assert_eq!(first.totals().handoffs, 0);
    drop(client);
    first.eventually("the connection is closed", |totals| totals.connections_now == 0);
}

#[test]
fn a_request_handed_over_to_a_full_server_is_answered_503() {
    let first = server(FIRST, 1, SocketLimits::default());
    let second = server(SECOND, 1, SocketLimits { sockets_max: 1, ..SocketLimits::default() });
    first.route_handoffs(HandoffTarget::Owner(SECOND), &second);
    let (kept, _) = second.websocket("/echo");
    let mut client = first.connect();
    assert_eq!(client.get("/node-1/whoami"), (503, "too many connections\n".into()));
    client.expect_end();
    assert_eq!(second.totals().accept_refusals, 1);
    drop(kept);
    second.eventually("there is room", |totals| totals.connections_now == 0);
    assert_eq!(first.connect().get("/node-1/whoami").0, 200);
}

#[test]
fn a_server_that_has_ended_returns_connections() {
    let server = server(SECOND, 2, SocketLimits::default());
    let adopter = server.server.adopter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(server.server.drain(std::time::Duration::ZERO));
    let (_client, connection) = unowned_connection();
    let returned = adopter.adopt(handoff(connection, "GET")).unwrap_err();
    assert_eq!((returned.bytes.as_slice(), returned.hops), (&b"GET"[..], 1));
}

#[test]
fn a_nearly_full_server_offers_new_connections_before_it_reads_a_byte() {
    let first = server(FIRST, 1, SocketLimits { sockets_max: 100, ..SocketLimits::default() });
    let second = server(SECOND, 1, SocketLimits::default());
    let crowd: Vec<Client> = (0..97).map(|_| first.connect()).collect();
    first.eventually("97 are connected", |totals| totals.connections_now == 97);

    // No process takes it, and there is room, so it stays here.
    let mut kept = first.connect();
    assert_eq!(kept.get("/"), (200, "hello".into()));
    assert_eq!(first.totals().handoffs, 0);

    first.route_handoffs(HandoffTarget::LessLoaded, &second);
    let mut given = first.connect();
    first.eventually("it is handed over", |totals| totals.handoffs == 1);
    second.eventually("it is adopted", |totals| totals.connections_now == 1);
    let address = given.stream.local_addr().unwrap().to_string();
    assert_eq!(given.get("/whoami"), (200, address));
    assert_eq!(first.totals().connections_now, 98);

    drop(crowd);
    first.eventually("there is room", |totals| totals.connections_now == 1);
    assert_eq!(first.connect().get("/").0, 200);
    assert_eq!(first.totals().handoffs, 1);
}

#[test]
fn a_full_server_offers_a_connection_before_it_refuses_it() {
    let first = server(FIRST, 1, SocketLimits { sockets_max: 2, ..SocketLimits::default() });
    let second = server(SECOND, 1, SocketLimits { sockets_max: 1, ..SocketLimits::default() });
    first.route_handoffs(HandoffTarget::AnyWithRoom, &second);
    let _two = (first.websocket("/echo"), first.websocket("/echo"));
    let (mut third, mut fourth) = (first.connect(), first.connect());
    assert_eq!(third.get("/").0, 200);
    assert_eq!(fourth.read_response(), (503, "too many connections\n".into()));
    // The response may arrive before the first server has counted.
    first.eventually("both were offered", |totals| totals.handoffs == 2);
    assert_eq!(second.totals().handoffs, 0);

    // A full server offers an adopted connection again, up to a limit.
    second.route_handoffs(HandoffTarget::AnyWithRoom, &first);
    let mut fifth = first.connect();
    assert_eq!(fifth.read_response(), (503, "too many connections\n".into()));
    let offers = |first: u64| first + second.totals().handoffs;
    first.eventually("it was offered again", |totals| offers(totals.handoffs) == 2 + 16);
}

#[test]
fn a_connection_refused_by_two_full_servers_goes_to_a_third() {
    let full = SocketLimits { sockets_max: 1, ..SocketLimits::default() };
    let servers =
        [full.clone(), full, SocketLimits::default()].map(|limits| server(FIRST, 1, limits));
    let [first, second, third] = &servers;
    let _kept = (first.websocket("/echo"), second.websocket("/echo"));
    first.route_handoffs(HandoffTarget::AnyWithRoom, second);
    second.route_handoffs(HandoffTarget::AnyWithRoom, third);
    let mut client = first.connect();
    let address = client.stream.local_addr().unwrap().to_string();
    assert_eq!(client.get("/whoami"), (200, address));
    assert_eq!(third.totals().adoptions, 1);
    assert_eq!(servers.map(|server| server.totals().accept_refusals), [0; 3]);
}

#[test]
fn a_tls_client_keeps_its_address_when_it_is_handed_over() {
    let certificate = Certificate::new();
    let first = certificate.server();
    let second = certificate.server_at(SECOND, SocketLimits::default());
    first.route_handoffs(HandoffTarget::Owner(SECOND), &second);
    let stream = certificate.connect(&first);
    let (mut peer, _) = tungstenite::client("wss://localhost/node-1/echo", stream).unwrap();
    assert!(matches!(receive(&second.events), Event::Opened(..)));
    for len in [5, 3_000_000] {
        let message = Message::binary(vec![7; len]);
        peer.send(message.clone()).unwrap();
        assert!(peer.read().unwrap() == message, "{len} bytes");
    }
    let mut page = Client::over(certificate.connect(&first));
    let address = page.stream.sock.local_addr().unwrap().to_string();
    assert_eq!(page.get("/node-1/whoami"), (200, address));
    drop((peer, page));
    second.eventually("both connections are closed", |totals| totals.connections_now == 0);
    assert_eq!(first.totals().connections_now, 0);
}

#[test]
fn a_full_tls_server_offers_clients_before_the_handshake() {
    let certificate = Certificate::new();
    let limits = SocketLimits { sockets_max: 1, ..SocketLimits::default() };
    let first = certificate.server_at(FIRST, limits);
    let second = certificate.server_at(SECOND, SocketLimits::default());
    first.route_handoffs(HandoffTarget::AnyWithRoom, &second);
    let (_only, _) =
        tungstenite::client("wss://localhost/echo", certificate.connect(&first)).unwrap();
    let mut page = Client::over(certificate.connect(&first));
    let address = page.stream.sock.local_addr().unwrap().to_string();
    assert_eq!(page.get("/whoami"), (200, address));
    first.eventually("it is handed over", |totals| totals.handoffs == 1);
    assert_eq!(second.totals().adoptions, 1);
}
