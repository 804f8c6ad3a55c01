//! A server without free descriptors. The limit applies to a process, so this test has its own.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, SockAddr, Socket, Type};
use watchfire_sockets::{
    CloseCause, RequestHead, Route, SocketHandler, SocketLimits, SocketServerSettings, Sockets,
    frame,
};
use watchfire_types::{Instant, SocketId};

struct Silent;

impl SocketHandler for Silent {
    type Ticket = ();
    type Message = ();

    fn route(&mut self, _: Instant, _: SocketAddr, _: &RequestHead<'_>) -> Route<()> {
        Route::Http
    }
    fn handle_open(&mut self, _: &mut Sockets, _: SocketId, _: ()) -> u32 {
        0
    }
    fn handle_park(&mut self, _: &mut Sockets, _: SocketId, _: ()) -> u32 {
        0
    }
    fn handle_text(&mut self, _: &mut Sockets, _: SocketId, _: u32, _: &str) {}
    fn handle_binary(&mut self, sockets: &mut Sockets, socket: SocketId, _: u32, _: &[u8]) {
        let _ = sockets.send(socket, &frame::text_frame(b""));
    }
    fn handle_close(&mut self, _: &mut Sockets, _: SocketId, _: u32, _: CloseCause) {}
    fn handle_message(&mut self, _: &mut Sockets, _: ()) {}
    fn handle_tick(&mut self, _: &mut Sockets, _: Instant) {}
    fn run_pending_work(&mut self, _: &mut Sockets) -> bool {
        false
    }
    fn handle_drain(&mut self, _: &mut Sockets) {}
}

fn socket() -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

fn request(client: &mut Socket, address: &SockAddr) {
    client.connect(address).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 404");
}

#[test]
fn a_connection_without_a_free_descriptor_is_closed() {
    let limits = SocketLimits { sockets_max: 1_000_000, ..SocketLimits::default() };
    let settings = SocketServerSettings { shards: 1, limits, ..SocketServerSettings::default() };
    let server = watchfire_sockets::start(settings, axum::Router::new(), |_, _| Silent).unwrap();
    let address = server.local_addr().into();
    // After its first response, the server has opened all descriptors that it keeps.
    let mut first = socket();
    request(&mut first, &address);

    // The clients have their descriptors; two are left for the server.
    let mut clients: Vec<Socket> = (0..8).map(|_| socket()).collect();
    let all = getrlimit(Resource::Nofile);
    let few = clients.last().unwrap().as_raw_fd() as u64 + 3;
    setrlimit(Resource::Nofile, Rlimit { current: Some(few), maximum: all.maximum }).unwrap();
    for client in &clients {
        client.connect(&address).unwrap();
    }
    for client in &mut clients[2..] {
        assert_eq!(client.read(&mut [0; 16]).unwrap(), 0, "the server did not close it");
    }
    assert!(server.counters().totals().accept_refusals >= 6);

    // With free descriptors, the server accepts again.
    setrlimit(Resource::Nofile, all).unwrap();
    request(&mut socket(), &address);
}
