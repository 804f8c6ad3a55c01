//! Rates, delays, loss and changes of links, measured with sockets of the kernel.

use crate::start;
use socket2::SockRef;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use watchfire_testkit::eventually;
use watchfire_wire::{Direction, DropCause, Link, PeerPlan, Wire, WirePlan};

fn two_peers(link: Link) -> WirePlan {
    let peers = ["a", "b"].map(|name| PeerPlan::open(name, link)).into();
    WirePlan { seed: 7, peers, ..WirePlan::default() }
}

fn address(wire: &Wire, peer: &str, port: u16) -> SocketAddr {
    SocketAddr::new(wire.peer(peer).unwrap().addresses().public[0], port)
}

fn bind(wire: &Wire, peer: &str) -> UdpSocket {
    let at = address(wire, peer, 5000);
    let socket = wire.peer(peer).unwrap().enter(|| UdpSocket::bind(at).unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

#[test]
#[ignore = "needs network namespaces and TUN devices: `make rust-test` runs it where they are"]
fn a_packet_takes_the_delay_and_at_most_a_millisecond_more() {
    let direction = Direction { delay: Duration::from_millis(25), ..Direction::default() };
    let wire = start(two_peers(Link::symmetric(direction)));
    let [a, b] = ["a", "b"].map(|peer| bind(&wire, peer));
    let (delay, more) = (Duration::from_millis(50), Duration::from_millis(1));
    let mut taken = Vec::new();
    // The machine may be busy, so the fastest of many counts.
    while taken.len() < 10 || (taken.len() < 200 && *taken.iter().min().unwrap() >= delay + more) {
        let sent = Instant::now();
        a.send_to(b"hello", b.local_addr().unwrap()).unwrap();
        b.recv(&mut [0; 10]).unwrap();
        taken.push(sent.elapsed());
    }
    assert!(taken.iter().all(|time| *time >= delay), "{taken:?}");
    assert!(*taken.iter().min().unwrap() < delay + more, "{taken:?}");
}

#[test]
#[ignore = "needs network namespaces and TUN devices: `make rust-test` runs it where they are"]
fn a_tcp_transfer_has_the_rate_of_its_link_within_two_percent() {
    const RATE: u64 = 20_000_000;
    let delay = Duration::from_millis(5);
    // A queue that TCP cannot fill, so that the link is never idle while TCP recovers from a loss.
    let queue_bytes = 64 << 20;
    let up = Direction { bits_per_second: Some(RATE), delay, queue_bytes, ..Direction::default() };
    let wire = start(two_peers(Link { up, down: Direction::default() }));
    let at = address(&wire, "b", 80);
    let [a, b] = ["a", "b"].map(|peer| wire.peer(peer).unwrap());
    let listener = b.enter(|| TcpListener::bind(at).unwrap()).unwrap();
    let mut sender = a.enter(|| TcpStream::connect(at).unwrap()).unwrap();
    // Reno doubles its window until a packet is lost, so packets always wait for the link, also when this machine is busy.
    SockRef::from(&sender).set_tcp_congestion(b"reno").unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    std::thread::spawn(move || while sender.write_all(&[0; 65_536]).is_ok() {});
    let mut buffer = [0; 65_536];
    let mut receive = |bytes: usize| {
        let mut left = bytes;
        while left > 0 {
            left = left.saturating_sub(receiver.read(&mut buffer).unwrap());
        }
        let pair = wire.figures().pairs[&(a.index(), b.index())];
        (Instant::now(), pair.delivered.bytes)
    };
    // TCP begins slowly.
    let (mut began, mut before) = receive(1_000_000);
    // A machine that is too busy loses packets in the device, which says nothing about the link. Then it is measured again.
    for _ in 0..5 {
        let lost = wire.overruns().unwrap();
        // Four seconds: a thread that the machine wakes 40 ms late changes the result by 1 %.
        let (ended, after) = receive(10_000_000);
        let rate = (after - before) as f64 * 8.0 / (ended - began).as_secs_f64();
        if wire.overruns().unwrap() == lost {
            let error = rate / RATE as f64 - 1.0;
            assert!(error.abs() < 0.02, "{rate} bits a second, {error:+.4}");
            return;
        }
        (began, before) = (ended, after);
    }
    panic!("packets overran the device in each of five measurements");
}

/// The numbers of the datagrams that arrive, of 200.
fn arrived(seed: u64, loss: f64) -> BTreeSet<u32> {
    let direction = Direction { loss, ..Direction::default() };
    let up = Link { up: direction, down: Direction::default() };
    let wire = start(WirePlan { seed, ..two_peers(up) });
    let [a, b] = ["a", "b"].map(|peer| bind(&wire, peer));
    for number in 0_u32..200 {
        a.send_to(&number.to_be_bytes(), b.local_addr().unwrap()).unwrap();
    }
    let decided = || {
        let figures = wire.figures();
        let sent = figures.pairs.get(&(0, 1)).map_or(0, |pair| pair.sent.packets);
        sent + figures.dropped(DropCause::Lost)
    };
    eventually("all are decided", || decided() >= 200);
    wire.set_link("a", Link::default()).unwrap();
    let mut arrived = BTreeSet::new();
    let mut bytes = [0; 4];
    // Datagrams keep their order, so all have come before the last one.
    a.send_to(&u32::MAX.to_be_bytes(), b.local_addr().unwrap()).unwrap();
    while !arrived.contains(&u32::MAX) {
        b.recv(&mut bytes).unwrap();
        arrived.insert(u32::from_be_bytes(bytes));
    }
    arrived.remove(&u32::MAX);
    arrived
}

#[test]
#[ignore = "needs network namespaces and TUN devices: `make rust-test` runs it where they are"]
fn the_same_seed_loses_the_same_packets() {
    let first = arrived(1, 0.2);
    assert!((130..190).contains(&first.len()), "{} of 200 arrived", first.len());
    assert_eq!(arrived(1, 0.2), first);
    assert_ne!(arrived(2, 0.2), first);
}

#[test]
#[ignore = "needs network namespaces and TUN devices: `make rust-test` runs it where they are"]
fn a_link_can_be_cut_and_restored_while_the_network_runs() {
    let wire = start(two_peers(Link::default()));
    let [a, b] = ["a", "b"].map(|peer| bind(&wire, peer));
    let send = |text: &[u8]| a.send_to(text, b.local_addr().unwrap()).unwrap();
    let receive = || {
        let mut buffer = [0; 10];
        let len = b.recv(&mut buffer).unwrap();
        buffer[..len].to_vec()
    };
    send(b"one");
    assert_eq!(receive(), b"one");
    let cut = Direction { loss: 1.0, ..Direction::default() };
    wire.set_link("b", Link::symmetric(cut)).unwrap();
    send(b"two");
    eventually("it is lost", || wire.figures().dropped(DropCause::Lost) > 0);
    wire.set_link("b", Link::default()).unwrap();
    send(b"three");
    assert_eq!(receive(), b"three");
    assert!(wire.set_link("c", Link::default()).is_err());
}
