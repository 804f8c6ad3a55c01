//! Addresses to listen on, and inherited listeners.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use watchfire_sockets::{Listeners, SocketLimits, SocketServerSettings};
use watchfire_testkit::{DEADLINE, eventually};
use watchfire_types::NodeId;

use super::support::{Certificate, Client, Event, TestServer, receive};

fn listening_on(listen: &[&str]) -> TestServer {
    let listen = listen.iter().map(|address| address.parse().unwrap()).collect();
    TestServer::try_start(SocketServerSettings {
        listen,
        shards: 2,
        ..SocketServerSettings::default()
    })
    .unwrap()
}

/// The address that the server sees for a client that connects to `ip`.
fn address_seen_by(server: &TestServer, ip: impl Into<IpAddr>) -> SocketAddr {
    let mut client = Client::connect(SocketAddr::new(ip.into(), server.server.local_addr().port()));
    let (status, seen) = client.get("/whoami");
    assert_eq!(status, 200);
    let seen: SocketAddr = seen.parse().unwrap();
    assert_eq!(seen.port(), client.stream.local_addr().unwrap().port());
    seen
}

#[test]
#[ignore = "needs IPv6: `make rust-test` runs it where it is"]
fn a_server_can_listen_on_an_ipv6_address() {
    let server = listening_on(&["[::1]:0"]);
    assert!(server.server.local_addr().is_ipv6());
    for _ in 0..8 {
        assert_eq!(address_seen_by(&server, Ipv6Addr::LOCALHOST).ip(), Ipv6Addr::LOCALHOST);
    }
    let port = server.server.local_addr().port();
    let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
#[ignore = "needs IPv6: `make rust-test` runs it where it is"]
fn unspecified_ipv6_and_ipv4_addresses_share_one_port() {
    for listen in [["[::]:0", "0.0.0.0:0"], ["0.0.0.0:0", "[::]:0"]] {
        let server = listening_on(&listen);
        let [one, other] = server.server.local_addrs() else { panic!("two addresses") };
        assert_eq!(one.port(), other.port());
        assert_eq!(address_seen_by(&server, Ipv4Addr::LOCALHOST).ip(), Ipv4Addr::LOCALHOST);
        assert_eq!(address_seen_by(&server, Ipv6Addr::LOCALHOST).ip(), Ipv6Addr::LOCALHOST);
    }
}

#[test]
#[ignore = "needs IPv6: `make rust-test` runs it where it is"]
fn the_unspecified_ipv6_address_also_accepts_ipv4_clients() {
    let server = listening_on(&["[::]:0"]);
    assert_eq!(address_seen_by(&server, Ipv4Addr::LOCALHOST).ip(), Ipv4Addr::LOCALHOST);
    assert_eq!(address_seen_by(&server, Ipv6Addr::LOCALHOST).ip(), Ipv6Addr::LOCALHOST);
}

/// Whether Nagle's algorithm is off for the socket that the server, which runs in this process, has accepted from a client.
fn sends_at_once(client: &TcpStream) -> bool {
    let remote = format!(":{:04X}", client.local_addr().unwrap().port());
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let mut connections = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // Another connection that has ended may have had the same port.
    let is_established = |columns: &[&str]| columns[3] == "01" && columns[2].ends_with(&remote);
    let accepted = connections.find(|columns| is_established(columns));
    let socket = format!("socket:[{}]", accepted.expect("an accepted connection")[9]);
    let mut files = fs::read_dir("/proc/self/fd").unwrap().map(|file| file.unwrap().path());
    let file = files.find(|path| fs::read_link(path).is_ok_and(|to| to.as_os_str() == &*socket));
    let number =
        file.expect("its descriptor").file_name().unwrap().to_str().unwrap().parse::<i32>();
    let process = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let copy = pidfd_getfd(process, number.unwrap(), PidfdGetfdFlags::empty()).unwrap();
    TcpStream::from(copy).nodelay().unwrap()
}

#[test]
fn nothing_that_a_client_is_sent_waits_for_its_acknowledgement() {
    let server = TestServer::open();
    let mut http = server.connect();
    assert_eq!(http.get("/").0, 200);
    assert!(sends_at_once(&http.stream), "plain HTTP");
    http.send("GET /wait HTTP/1.1\r\nhost: test\r\n\r\n");
    assert!(matches!(receive(&server.events), Event::Parked(..)));
    assert!(sends_at_once(&http.stream), "a long poll");
    let (websocket, _) = server.websocket("/listen");
    assert!(sends_at_once(&websocket.stream), "a WebSocket");

    let certificate = Certificate::new();
    let server = certificate.server();
    let mut secure = Client::over(certificate.connect(&server));
    assert_eq!(secure.get("/").0, 200);
    assert!(sends_at_once(&secure.stream.sock), "TLS");

    let server = inheriting(NodeId(0), listeners(1).remove(0));
    let (websocket, _) = server.websocket("/listen");
    assert!(sends_at_once(&websocket.stream), "an inherited listener");
}

/// Listeners for `processes` processes of one shard each.
fn listeners(processes: usize) -> Vec<Listeners> {
    let address = [SocketAddr::from(([127, 0, 0, 1], 0))];
    Listeners::open(&address, processes, true, &SocketLimits::default()).unwrap().split(processes)
}

fn inheriting(node: NodeId, inherited: Listeners) -> TestServer {
    let settings =
        SocketServerSettings { inherited: Some(inherited), ..SocketServerSettings::default() };
    TestServer::try_start_at(node, settings).unwrap()
}

fn copy(listeners: Listeners) -> (Listeners, Listeners) {
    let (addresses, sockets) = listeners.into_parts();
    let copies: Vec<OwnedFd> = sockets.iter().map(|socket| socket.try_clone().unwrap()).collect();
    let rebuild = |sockets| Listeners::from_parts(addresses.clone(), 1, sockets).unwrap();
    (rebuild(sockets), rebuild(copies))
}

fn drain(server: &TestServer) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(DEADLINE, server.server.drain(Duration::ZERO)).await.unwrap();
    });
}

#[test]
fn processes_that_inherit_one_port_share_its_clients() {
    let servers: Vec<TestServer> =
        (0..).map(NodeId).zip(listeners(2)).map(|(n, l)| inheriting(n, l)).collect();
    assert_eq!(servers[0].server.local_addr(), servers[1].server.local_addr());
    assert_eq!(servers[0].server.shard_senders().len(), 1);
    eventually("each process has a connection", || {
        assert_eq!(servers[0].connect().get("/").0, 200);
        servers.iter().all(|server| server.totals().accepts > 0)
    });
}

#[test]
fn clients_wait_for_the_successor_of_one_process_and_are_refused_after_the_last_copy() {
    let (listeners, copies) = copy(listeners(1).remove(0));
    let server = inheriting(NodeId(0), listeners);
    let address = server.server.local_addr();
    let (mut before, _) = server.websocket("/listen");
    let ending = std::thread::spawn(move || before.read_frame().close_code());
    drain(&server);
    assert_eq!(ending.join().unwrap(), Some(1012));

    let mut waiting = Client::connect(address);
    waiting.send("GET /wait HTTP/1.1\r\nhost: test\r\n\r\n");
    let (listeners, copies) = copy(copies);
    let successor = inheriting(NodeId(0), listeners);
    assert!(matches!(receive(&successor.events), Event::Parked(..)));
    successor.on_shard(0, |handler, sockets| handler.answer_all(sockets, "at last"));
    assert_eq!(waiting.read_response(), (200, "at last".into()));
    assert_eq!(server.totals().accepts, 1);

    // To end the whole server, the copies are closed first.
    drop(copies);
    drain(&successor);
    let refused = TcpStream::connect(address).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_paused_server_accepts_the_connections_that_waited_when_it_is_told_to() {
    let settings = SocketServerSettings { is_paused: true, shards: 2, ..Default::default() };
    let server = TestServer::try_start(settings).unwrap();
    let mut clients: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send("GET /whoami HTTP/1.1\r\nhost: a\r\n\r\n"));
    // Turns of both event loops, which would accept them.
    for shard in [0, 1, 0, 1] {
        server.on_shard(shard, |_, _| ());
    }
    assert_eq!(server.totals().accepts, 0);
    server.server.accept_clients();
    clients.iter_mut().for_each(|client| assert_eq!(client.read_response().0, 200));
}
