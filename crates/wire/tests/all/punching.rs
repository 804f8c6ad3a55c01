//! Which peers reach each other directly: each kind of NAT with each other kind, with sockets of the kernel.

use crate::start;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use watchfire_testkit::eventually;
use watchfire_wire::{DropCause, Link, NatKind, Peer, PeerPlan, Wire, WirePlan};

const PATIENCE: Duration = Duration::from_secs(20);
const SERVER_PORT: u16 = 3478;

/// Whether two peers that know each other's outer address from a server can exchange datagrams.
fn can_punch(a: NatKind, b: NatKind) -> bool {
    use NatKind::{Carrier, Ipv6Only, Open, PortRestricted, Symmetric, UdpBlocked};
    let is_strict = |kind| matches!(kind, PortRestricted | Carrier | Symmetric);
    match (a, b) {
        (UdpBlocked, _) | (_, UdpBlocked) => false,
        (Ipv6Only, other) | (other, Ipv6Only) => matches!(other, Open | Ipv6Only),
        (Symmetric, other) | (other, Symmetric) => !is_strict(other),
        _ => true,
    }
}

fn name(kind: NatKind, number: usize) -> String {
    format!("{kind} {number}")
}

/// Two peers of each kind, and a server with a public address.
fn peers_of_all_kinds() -> WirePlan {
    let peer = |kind, number| PeerPlan {
        nat: kind,
        ..PeerPlan::open(name(kind, number), Link::default())
    };
    let mut peers: Vec<_> =
        NatKind::ALL.into_iter().flat_map(|kind| [peer(kind, 0), peer(kind, 1)]).collect();
    peers.push(PeerPlan::open("server", Link::default()));
    WirePlan { seed: 7, peers, ..WirePlan::default() }
}

fn bind(peer: Peer<'_>, is_v6: bool, port: u16) -> UdpSocket {
    let any: IpAddr =
        if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let socket = peer.enter(|| UdpSocket::bind((any, port)).unwrap()).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

fn server_address(wire: &Wire, is_v6: bool) -> SocketAddr {
    let public = wire.peer("server").unwrap().addresses().public;
    let at = public.into_iter().find(|at| at.is_ipv6() == is_v6).unwrap();
    SocketAddr::new(at, SERVER_PORT)
}

/// One end of an attempt.
struct Side {
    socket: UdpSocket,
    server: SocketAddr,
    /// Its outer address, as the server has told it.
    seen_as: Option<SocketAddr>,
    /// Where packets of the other side come from.
    heard_from: Option<SocketAddr>,
}

impl Side {
    fn new(wire: &Wire, peer: &str, is_v6: bool) -> Side {
        let socket = bind(wire.peer(peer).unwrap(), is_v6, 0);
        Side { socket, server: server_address(wire, is_v6), seen_as: None, heard_from: None }
    }

    /// Sends to the server until it answers, and then to the other side.
    fn send(&self, other: &Side) {
        // An error: the peer has no address of this version, or an earlier packet was refused.
        let _ = match (self.seen_as, self.heard_from.or(other.seen_as)) {
            (Some(_), Some(to)) => self.socket.send_to(b"punch", to),
            _ => self.socket.send_to(b"ask", self.server),
        };
    }

    fn receive(&mut self) {
        let mut buffer = [0; 100];
        while let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
            match &buffer[..len] {
                b"punch" => self.heard_from = Some(from),
                seen => self.seen_as = Some(std::str::from_utf8(seen).unwrap().parse().unwrap()),
            }
        }
    }
}

fn answer(server: &UdpSocket) {
    let mut buffer = [0; 100];
    while let Ok((_, from)) = server.recv_from(&mut buffer) {
        let _ = server.send_to(from.to_string().as_bytes(), from);
    }
}

#[test]
#[ignore = "needs network namespaces and TUN devices: `make rust-test` runs it where they are"]
fn peers_punch_through_the_pairs_of_nats_that_permit_it_and_no_other() {
    let wire = start(peers_of_all_kinds());
    let servers = [false, true].map(|is_v6| {
        let server = wire.peer("server").unwrap();
        // The IPv6 socket would take the IPv4 port, too.
        let at = server_address(&wire, is_v6);
        let socket = server.enter(|| UdpSocket::bind(at).unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    });
    let kinds = NatKind::ALL;
    let mut attempts = Vec::new();
    for (n, a) in kinds.into_iter().enumerate() {
        for b in kinds[n..].iter().copied() {
            let is_v6 = [a, b].contains(&NatKind::Ipv6Only);
            let [one, two] = [name(a, 0), name(b, 1)].map(|name| Side::new(&wire, &name, is_v6));
            attempts.push((a, b, one, two));
        }
    }
    assert_eq!(attempts.len(), 36);
    let deadline = Instant::now() + PATIENCE;
    // Attempts that must fail get as many rounds as the slowest that must not, and 50 more.
    let mut further_rounds = 50;
    while further_rounds > 0 && Instant::now() < deadline {
        for (_, _, one, two) in &mut attempts {
            one.send(two);
            two.send(one);
        }
        servers.iter().for_each(answer);
        for (_, _, one, two) in &mut attempts {
            one.receive();
            two.receive();
        }
        let has_punched = |(_, _, one, two): &(_, _, Side, Side)| {
            one.heard_from.is_some() && two.heard_from.is_some()
        };
        let mut permitted = attempts.iter().filter(|(a, b, ..)| can_punch(*a, *b));
        if permitted.all(has_punched) {
            further_rounds -= 1;
        }
        std::thread::yield_now();
    }
    for (a, b, one, two) in &attempts {
        let has_punched = (one.heard_from.is_some(), two.heard_from.is_some());
        let expected = can_punch(*a, *b);
        assert_eq!(has_punched, (expected, expected), "{a} and {b}");
    }
    assert!(wire.figures().dropped(DropCause::Unsolicited) > 0);
}

#[test]
#[ignore = "needs network namespaces and TUN devices: `make rust-test` runs it where they are"]
fn every_kind_opens_tcp_connections_to_a_public_server() {
    let wire = start(peers_of_all_kinds());
    let server = wire.peer("server").unwrap();
    for is_v6 in [false, true] {
        let at = server_address(&wire, is_v6);
        let listener = server.enter(|| TcpListener::bind(at).unwrap()).unwrap();
        for kind in NatKind::ALL {
            if is_v6 != (kind == NatKind::Ipv6Only) {
                continue;
            }
            let peer = wire.peer(&name(kind, 0)).unwrap();
            let mut client =
                peer.enter(|| TcpStream::connect_timeout(&at, PATIENCE).unwrap()).unwrap();
            let (mut accepted, from) = listener.accept().unwrap();
            assert!(peer.addresses().public.contains(&from.ip()), "{kind}: {from}");
            client.write_all(b"hello").unwrap();
            let mut hello = [0; 5];
            accepted.read_exact(&mut hello).unwrap();
            accepted.write_all(&hello).unwrap();
            client.read_exact(&mut hello).unwrap();
            assert_eq!(&hello, b"hello", "{kind}");
        }
    }
}

fn begin_to_connect(peer: Peer<'_>, port: u16, to: SocketAddr) -> Socket {
    let socket = peer.enter(|| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()).unwrap();
    socket.bind(&SockAddr::from(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))).unwrap();
    socket.set_nonblocking(true).unwrap();
    let error = socket.connect(&SockAddr::from(to)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::INPROGRESS.raw_os_error()));
    socket
}

#[test]
#[ignore = "needs network namespaces and TUN devices: `make rust-test` runs it where they are"]
fn a_connection_to_a_nat_that_expects_none_is_neither_refused_nor_opened() {
    let wire = start(peers_of_all_kinds());
    let home = wire.peer(&name(NatKind::PortRestricted, 0)).unwrap();
    let to = SocketAddr::new(home.addresses().public[0], 80);
    let socket = begin_to_connect(wire.peer("server").unwrap(), 5000, to);
    eventually("a packet is dropped", || wire.figures().dropped(DropCause::Unsolicited) > 0);
    assert!(socket.take_error().unwrap().is_none());
    assert_eq!(socket.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
}

/// The result of a write or a read of one byte on a socket that does not block.
#[track_caller]
fn has_moved_a_byte(result: io::Result<usize>) -> bool {
    match result {
        Ok(bytes) => bytes == 1,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            false
        }
    }
}

#[test]
#[ignore = "needs network namespaces and TUN devices: `make rust-test` runs it where they are"]
fn two_port_restricted_peers_connect_by_tcp_when_both_begin() {
    let wire = start(peers_of_all_kinds());
    let peers = [0, 1].map(|n| wire.peer(&name(NatKind::PortRestricted, n)).unwrap());
    let [a, b] = peers.map(|peer| SocketAddr::new(peer.addresses().public[0], 4000));
    let sockets = [begin_to_connect(peers[0], 4000, b), begin_to_connect(peers[1], 4000, a)];
    eventually("both are connected", || sockets.iter().all(|socket| socket.peer_addr().is_ok()));
    let [mut one, mut two] = sockets.map(TcpStream::from);
    // Until the last step of the handshake a socket has a peer, and accepts no data yet.
    eventually("a byte is sent", || has_moved_a_byte(one.write(b"!")));
    eventually("a byte is received", || has_moved_a_byte(two.read(&mut [0])));
}

#[test]
#[ignore = "needs network namespaces and TUN devices: `make rust-test` runs it where they are"]
fn a_datagram_to_a_closed_port_brings_its_error_through_both_nats_of_a_carrier() {
    let wire = start(peers_of_all_kinds());
    let socket = bind(wire.peer(&name(NatKind::Carrier, 0)).unwrap(), false, 0);
    socket.connect(server_address(&wire, false)).unwrap();
    socket.send(b"hello").unwrap();
    eventually("a datagram is received", || match socket.recv(&mut [0; 10]) {
        Ok(_) => panic!("nobody answers"),
        Err(error) => error.kind() == ErrorKind::ConnectionRefused,
    });
}
