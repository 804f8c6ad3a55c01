//! Measures the wire itself: how exact its rates and delays are, and what it costs. Needs root.
//!
//! ```sh
//! cargo run --release -p watchfire-wire --example calibrate
//! ```

use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use watchfire_wire::{Direction, Link, PeerPlan, Wire, WirePlan};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    println!("| measured | asked | found |\n|---|---|---|");
    for milliseconds in [0, 1, 10, 50, 200] {
        measure_delay(Duration::from_millis(milliseconds))?;
    }
    for megabits in [1, 10, 100, 1_000] {
        measure_rate(megabits * 1_000_000)?;
    }
    for mtu in [1_500, 9_000, 65_535] {
        measure_cost(mtu)?;
    }
    for peers in [2, 100] {
        measure_start(peers)?;
    }
    Ok(())
}

fn two_peers(up: Direction, mtu: u16) -> Result<Wire> {
    let link = Link { up, down: Direction::default() };
    let peers = ["a", "b"].map(|name| PeerPlan::open(name, link)).into();
    Ok(Wire::start(WirePlan { peers, mtu, ..WirePlan::default() })?)
}

fn measure_delay(delay: Duration) -> Result<()> {
    const ROUNDS: usize = 200;
    let wire = two_peers(Direction { delay, ..Direction::default() }, 1_500)?;
    let bind = |peer| -> Result<UdpSocket> {
        let at = SocketAddr::new(wire.peer(peer)?.addresses().public[0], 5000);
        Ok(wire.peer(peer)?.enter(|| UdpSocket::bind(at))??)
    };
    let (a, b) = (bind("a")?, bind("b")?);
    let mut taken = Vec::new();
    for _ in 0..ROUNDS {
        let sent = Instant::now();
        a.send_to(&[0; 100], b.local_addr()?)?;
        b.recv(&mut [0; 200])?;
        taken.push(sent.elapsed());
    }
    taken.sort();
    let [median, p99] = [ROUNDS / 2, ROUNDS * 99 / 100].map(|n| taken[n].saturating_sub(delay));
    println!(
        "| delay of a datagram, one way | {delay:?} | {median:.0?} more (median), {p99:.0?} (p99) |"
    );
    Ok(())
}

/// Sends over TCP and counts what arrives: bytes of IP packets, in the time, after a first part.
fn transfer(wire: &Wire, first: usize, bytes: usize) -> Result<(u64, Duration)> {
    let (a, b) = (wire.peer("a")?, wire.peer("b")?);
    let at = SocketAddr::new(b.addresses().public[0], 80);
    let listener = b.enter(|| TcpListener::bind(at))??;
    let mut sender = a.enter(|| TcpStream::connect(at))??;
    // Reno doubles its window until a packet is lost, so packets always wait for the link.
    SockRef::from(&sender).set_tcp_congestion(b"reno")?;
    let (mut receiver, _) = listener.accept()?;
    std::thread::spawn(move || while sender.write_all(&[0; 262_144]).is_ok() {});
    let mut buffer = vec![0; 262_144];
    let mut receive = |bytes: usize| -> Result<(Instant, u64)> {
        let mut left = bytes;
        while left > 0 {
            left = left.saturating_sub(receiver.read(&mut buffer)?);
        }
        let pairs = wire.figures().pairs;
        Ok((Instant::now(), pairs[&(a.index(), b.index())].delivered.bytes))
    };
    let (began, before) = receive(first)?;
    let (ended, after) = receive(bytes)?;
    Ok((after - before, ended - began))
}

fn measure_rate(rate: u64) -> Result<()> {
    let queue_bytes = 64 << 20;
    let up = Direction { bits_per_second: Some(rate), queue_bytes, ..Direction::default() };
    let wire = two_peers(up, 1_500)?;
    // A quarter of a second, then two seconds.
    let (bytes, time) = transfer(&wire, rate as usize / 32, rate as usize / 4)?;
    let found = bytes as f64 * 8.0 / time.as_secs_f64();
    let error = (found / rate as f64 - 1.0) * 100.0;
    println!(
        "| rate of a TCP transfer | {} Mbit/s | {:.3} Mbit/s ({error:+.2} %) |",
        rate / 1_000_000,
        found / 1e6
    );
    Ok(())
}

fn measure_cost(mtu: u16) -> Result<()> {
    let wire = two_peers(Direction::default(), mtu)?;
    let before = wire.figures().cpu_time;
    let (bytes, time) = transfer(&wire, 1 << 20, 2_000_000_000)?;
    let cpu = (wire.figures().cpu_time - before).as_secs_f64();
    let gigabytes = bytes as f64 / 1e9;
    println!(
        "| forwarding, no limits, MTU {mtu} | as fast as possible | {:.2} Gbit/s, {:.2} CPU-seconds per GB |",
        gigabytes * 8.0 / time.as_secs_f64(),
        cpu / gigabytes,
    );
    Ok(())
}

fn measure_start(count: usize) -> Result<()> {
    let peers = (0..count).map(|n| PeerPlan::open(n.to_string(), Link::default())).collect();
    let began = Instant::now();
    let wire = Wire::start(WirePlan { peers, ..WirePlan::default() })?;
    let started = began.elapsed();
    let began = Instant::now();
    drop(wire);
    println!("| start and end | {count} peers | {started:.1?}, {:.1?} |", began.elapsed());
    Ok(())
}
