//! Listeners on which a proxy names each client with the PROXY protocol.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tungstenite::Message;
use watchfire_sockets::{
    Certificates, HandoffTarget, ProxyProtocol, SocketLimits, SocketServerSettings,
};
use watchfire_types::NodeId;

use super::support::{Certificate, Client, Event, TestServer, receive};

const V1: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 51000 443\r\n";
const V1_IPV6: &[u8] = b"PROXY TCP6 2001:db8::7 2001:db8::1 51000 443\r\n";
/// Of 192.0.2.7:51000, with three additional bytes.
const V2: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0f\xc0\0\x02\x07\xc6\x33\x64\x01\xc7\x38\x01\xbb\
    \x04\0\0";
const V2_LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
const V2_UNIX: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x31\0\xd8";
const V2_TOO_SHORT: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0b";
const V2_TOO_LONG: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff";
const CLIENT: &str = "192.0.2.7:51000";
const WHOAMI: &[u8] = b"GET /whoami HTTP/1.1\r\nhost: test\r\n\r\n";

fn settings(limits: SocketLimits, tls: Option<Arc<Certificates>>) -> SocketServerSettings {
    let loopback: IpAddr = "127.0.0.1".parse().unwrap();
    let trusts = Arc::new(move |address| address == loopback);
    let proxy_protocol = ProxyProtocol { listeners: vec![0], trusts };
    SocketServerSettings { shards: 1, limits, tls, proxy_protocol, ..Default::default() }
}

fn proxied(limits: SocketLimits) -> TestServer {
    TestServer::try_start(settings(limits, None)).unwrap()
}

fn proxied_at(node: NodeId, limits: SocketLimits, tls: Option<Arc<Certificates>>) -> TestServer {
    TestServer::try_start_at(node, settings(limits, tls)).unwrap()
}

fn ok(body: &str) -> (u16, String) {
    (200, body.to_owned())
}

#[test]
fn the_header_names_the_client_of_every_request() {
    let server = proxied(SocketLimits::default());
    for (header, address) in [(V1, CLIENT), (V2, CLIENT), (V1_IPV6, "[2001:db8::7]:51000")] {
        let mut client = server.sending([header, WHOAMI].concat());
        assert_eq!(client.read_response(), ok(address));
        assert_eq!(client.get("/whoami"), ok(address));
        assert_eq!(client.get("/whoami"), ok(address));
    }
    server.eventually("all are closed", |totals| totals.connections_now == 0);
    assert_eq!((server.totals().proxy_header_errors, server.totals().proxy_untrusted), (0, 0));
}

#[test]
fn a_header_may_arrive_in_pieces() {
    let server = proxied(SocketLimits::default());
    for header in [V1, V2] {
        let mut client = server.connect();
        for byte in header.iter().chain(WHOAMI) {
            client.send([*byte]);
        }
        assert_eq!(client.read_response(), ok(CLIENT));
    }
}

#[test]
fn the_proxys_own_connections_keep_their_address() {
    let server = proxied(SocketLimits::default());
    for header in [V2_LOCAL, b"PROXY UNKNOWN\r\n"] {
        let mut client = server.sending([header, WHOAMI].concat());
        let address = client.stream.local_addr().unwrap().to_string();
        assert_eq!(client.read_response(), ok(&address));
    }
}

#[test]
fn a_websocket_opens_behind_a_header() {
    let server = proxied(SocketLimits::default());
    let client = server.sending(V2);
    let (mut peer, _) = tungstenite::client("ws://localhost/echo", client.stream).unwrap();
    assert!(matches!(receive(&server.events), Event::Opened(..)));
    peer.send(Message::text("through the proxy")).unwrap();
    assert_eq!(peer.read().unwrap(), Message::text("through the proxy"));
}

#[test]
fn a_connection_from_another_address_is_closed_whatever_it_sends() {
    let server = TestServer::try_start(SocketServerSettings {
        listen: vec!["[::1]:0".parse().unwrap()],
        ..settings(SocketLimits::default(), None)
    });
    // Some machines have no IPv6.
    let Ok(server) = server else { return };
    for (count, bytes) in (1..).zip([V1, WHOAMI, b""]) {
        let mut client = server.connect();
        // The connection may already be closed.
        client.stream.write_all(bytes).ok();
        client.expect_end();
        assert_eq!(server.totals().proxy_untrusted, count);
    }
    assert_eq!(server.totals().connections_now, 0);
}

#[test]
fn an_invalid_header_closes_its_connection_only() {
    let server = proxied(SocketLimits::default());
    let mut good = server.sending(V1);
    let long = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 1000]].concat();
    let invalid = [WHOAMI, V2_UNIX, V2_TOO_SHORT, V2_TOO_LONG, &long, b"PROXY TCP4 x\r\n"];
    for (count, bytes) in (1..).zip(invalid) {
        let mut client = server.sending(bytes);
        client.expect_end();
        server.eventually("it is counted", |totals| totals.proxy_header_errors == count);
    }
    good.send(WHOAMI);
    assert_eq!(good.read_response(), ok(CLIENT));
}

#[test]
fn an_incomplete_header_is_closed_in_time_and_costs_no_memory() {
    let limits = SocketLimits { head_timeout: Duration::from_millis(300), ..Default::default() };
    let server = proxied(limits);
    let mut slow = server.sending(&V2[..20]);
    let mut silent = server.connect();
    server.eventually("both wait", |totals| totals.connections_now == 2);
    assert_eq!(server.totals().partial_bytes_now, 0);
    slow.expect_end();
    silent.expect_end();
    server.eventually("both are counted", |totals| totals.proxy_header_errors == 2);

    let mut half = server.sending(&V1[..20]);
    half.end_writing();
    half.expect_end();
    server.eventually("it is counted", |totals| totals.proxy_header_errors == 3);
    let gone = server.connect();
    drop(gone);
    server.eventually("all are closed", |totals| totals.connections_now == 0);
    assert_eq!(server.totals().proxy_header_errors, 3);
}

#[test]
fn another_listener_of_the_server_takes_no_header() {
    let listen = ["127.0.0.1:0", "127.0.0.2:0"].map(|address| address.parse().unwrap()).to_vec();
    let settings = SocketServerSettings { listen, ..settings(SocketLimits::default(), None) };
    let server = TestServer::try_start(settings).unwrap();
    let plain: SocketAddr = server.server.local_addrs()[1];
    let mut client = Client::connect(plain);
    let address = client.stream.local_addr().unwrap().to_string();
    assert_eq!(client.get("/whoami"), ok(&address));
    let mut client = Client::connect(plain);
    client.send(V1);
    client.send("\r\n");
    assert_eq!(client.read_response().0, 400);
}

#[test]
fn the_header_comes_before_tls() {
    let certificate = Certificate::new();
    let server = proxied_at(NodeId(0), SocketLimits::default(), Some(certificate.certificates()));
    for header in [V1, V2] {
        let mut stream = certificate.connect(&server);
        stream.sock.write_all(header).unwrap();
        let mut client = Client::over(stream);
        assert_eq!(client.get("/whoami"), ok(CLIENT));
        assert_eq!(client.get("/whoami"), ok(CLIENT));
    }
    let mut stream = certificate.connect(&server);
    stream.sock.write_all(V2_LOCAL).unwrap();
    let address = stream.sock.local_addr().unwrap().to_string();
    assert_eq!(Client::over(stream).get("/whoami"), ok(&address));
    server.eventually("all are closed", |totals| totals.connections_now == 0);
    assert_eq!(server.totals().tls_failures, 0);
}

#[test]
fn a_client_keeps_its_address_in_another_process() {
    let certificate = Certificate::new();
    for tls in [None, Some(certificate.certificates())] {
        let first = proxied_at(NodeId(0), SocketLimits::default(), tls.clone());
        let second = proxied_at(NodeId(1), SocketLimits::default(), tls.clone());
        first.route_handoffs(HandoffTarget::Owner(NodeId(1)), &second);
        let answers = match tls {
            None => {
                let mut client = first.sending(V2);
                [client.get("/node-1/whoami"), client.get("/node-1/whoami")]
            }
            Some(_) => {
                let mut stream = certificate.connect(&first);
                stream.sock.write_all(V2).unwrap();
                let mut client = Client::over(stream);
                [client.get("/node-1/whoami"), client.get("/node-1/whoami")]
            }
        };
        assert_eq!(answers, [ok(CLIENT), ok(CLIENT)]);
        // The sender counts after the receiver may have answered.
        first.eventually("it is handed over", |totals| totals.handoffs == 1);
        assert_eq!(second.totals().adoptions, 1);
    }
}

#[test]
fn a_full_server_offers_a_connection_before_its_header_is_read() {
    let certificate = Certificate::new();
    for tls in [None, Some(certificate.certificates())] {
        let limits = SocketLimits { sockets_max: 1, ..SocketLimits::default() };
        let first = proxied_at(NodeId(0), limits, tls.clone());
        let second = proxied_at(NodeId(1), SocketLimits::default(), tls.clone());
        first.route_handoffs(HandoffTarget::AnyWithRoom, &second);
        let _only = first.connect();
        first.eventually("the first is full", |totals| totals.connections_now == 1);
        let answer = match tls {
            None => {
                let mut client = first.sending(V1);
                client.get("/whoami")
            }
            Some(_) => {
                let mut stream = certificate.connect(&first);
                stream.sock.write_all(V1).unwrap();
                Client::over(stream).get("/whoami")
            }
        };
        assert_eq!(answer, ok(CLIENT));
        assert_eq!(second.totals().adoptions, 1);
    }
}

#[test]
fn a_drain_ends_connections_without_a_header() {
    let server = proxied(SocketLimits::default());
    let mut client = server.sending(&V1[..10]);
    server.eventually("it waits", |totals| totals.connections_now == 1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(server.server.drain(Duration::ZERO));
    client.expect_end();
}
