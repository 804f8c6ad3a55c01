//! The cost of a message over the bus, in processor time, bytes and latency:
//! `cargo run --release -p watchfire-cluster --example hop`.
//!
//! All nodes are in this process, each with its own bus and thread. Node 0 has a socket pair with
//! each other node. Processor time includes both ends and the kernel.

use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use watchfire_cluster::bus::frame::Frame;
use watchfire_cluster::bus::{Bus, BusLimits, Handler, LocalBus, Loss, Readiness};
use watchfire_types::NodeId;

const MESSAGE_BYTES: usize = 256;
const TOPICS: usize = 100_000;

/// Maximum bytes in the queues while sending; far below the bound.
const AHEAD_BYTES: usize = 4 * 1024 * 1024;

fn main() {
    // Memory is measured first, while the allocator has no free memory.
    remote_topics(3);
    announcements(3);
    for nodes in [1, 3, 51] {
        throughput(nodes, 3_000_000 / u64::from(nodes));
    }
    for nodes in [1, 3, 51] {
        latency(nodes);
    }
    round_trips();
}

/// Counts messages, and optionally sends them back or notifies a channel.
#[derive(Default)]
struct Counts {
    messages: AtomicU64,
    /// The time of the last message, in nanoseconds since the first use of [`now`].
    last_at: AtomicU64,
    ready: AtomicU64,
    echo: OnceLock<Arc<LocalBus>>,
    arrived: OnceLock<Sender<()>>,
}

impl Handler for Counts {
    fn up(&self, _node: NodeId) {}
    fn down(&self, _node: NodeId) {}
    fn interested(&self, _node: NodeId, _topic: &str) {}
    fn forgotten(&self, _topic: &str) {}
    fn ready(&self, up_to: u64) {
        self.ready.store(up_to, Relaxed);
    }
    fn message(&self, from: NodeId, message: &[u8]) {
        self.last_at.store(now(), Relaxed);
        self.messages.fetch_add(1, Release);
        if let Some(bus) = self.echo.get() {
            let _ = bus.send(from, Bytes::copy_from_slice(message), Loss::Drop);
        }
        if let Some(arrived) = self.arrived.get() {
            let _ = arrived.send(());
        }
    }
}

struct Node {
    bus: Arc<LocalBus>,
    counts: Arc<Counts>,
}

impl Node {
    fn start(me: u16) -> Node {
        let bus = Arc::new(LocalBus::start(NodeId(me), BusLimits::default()).expect("it starts"));
        let counts = Arc::new(Counts::default());
        bus.attach(counts.clone());
        Node { bus, counts }
    }

    fn link(&self, other: &Node) {
        let (ours, theirs) = UnixStream::pair().expect("two sockets");
        self.bus.link(other.bus.me(), ours).expect("a link");
        other.bus.link(self.bus.me(), theirs).expect("a link");
    }

    fn wait(&self, readiness: Readiness) {
        if let Readiness::Waits(seq) = readiness {
            wait_until(|| self.counts.ready.load(Relaxed) >= seq);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.bus.stop();
    }
}

/// Node 0, with a link to each other node. The others have a subscriber on "t".
fn star(nodes: u16) -> (Node, Vec<Node>) {
    let hub = Node::start(0);
    let others: Vec<_> = (1..=nodes).map(Node::start).collect();
    for other in &others {
        hub.link(other);
        wait_until(|| !other.bus.nodes().is_empty());
        other.wait(other.bus.subscribe("t"));
    }
    (hub, others)
}

/// Throughput: many messages per system call.
fn throughput(nodes: u16, messages: u64) {
    let (hub, others) = star(nodes);
    let message = Bytes::from(vec![7; MESSAGE_BYTES]);
    let (begun, cpu) = (Instant::now(), processor_time());
    for number in 0..messages {
        if number % 64 == 0 && hub.bus.totals().queued_bytes > AHEAD_BYTES {
            wait_until(|| hub.bus.totals().queued_bytes < AHEAD_BYTES / 2);
        }
        assert_eq!(hub.bus.publish("t", message.clone(), Loss::Cut), others.len());
    }
    for other in &others {
        wait_until(|| other.counts.messages.load(Acquire) == messages);
    }
    let (cpu, hops) = (processor_time() - cpu, messages * u64::from(nodes));
    println!(
        "throughput, {nodes} nodes: {:.2} us of processor a hop, {:.0} hops/s",
        micros(cpu) / hops as f64,
        hops as f64 / begun.elapsed().as_secs_f64()
    );
}

/// Latency of single messages, each of which wakes all nodes.
fn latency(nodes: u16) {
    const MESSAGES: u64 = 1000;
    let (hub, others) = star(nodes);
    let message = Bytes::from(vec![7; MESSAGE_BYTES]);
    let (mut calls, mut arrivals) = (Vec::new(), Vec::new());
    let cpu = processor_time();
    for number in 1..=MESSAGES {
        let begun = now();
        black_box(hub.bus.publish("t", message.clone(), Loss::Cut));
        calls.push(Duration::from_nanos(now() - begun));
        thread::sleep(Duration::from_millis(2));
        for other in &others {
            wait_until(|| other.counts.messages.load(Acquire) == number);
        }
        let last_at = others.iter().map(|other| other.counts.last_at.load(Relaxed)).max();
        arrivals.push(Duration::from_nanos(last_at.unwrap_or(begun) - begun));
    }
    let cpu = processor_time() - cpu;
    println!(
        "latency, {nodes} nodes: {:.1} us of processor a hop; publish {}; last arrival {}",
        micros(cpu) / (MESSAGES * u64::from(nodes)) as f64,
        spread(&mut calls),
        spread(&mut arrivals)
    );
}

/// Latency to one node and back.
fn round_trips() {
    let (hub, others) = star(1);
    let (sender, arrived) = channel();
    let _ = hub.counts.arrived.set(sender);
    let _ = others[0].counts.echo.set(others[0].bus.clone());
    let message = Bytes::from(vec![7; MESSAGE_BYTES]);
    let mut times = Vec::new();
    for _ in 0..20_000 {
        let begun = Instant::now();
        hub.bus.send(NodeId(1), message.clone(), Loss::Cut).expect("the link is up");
        arrived.recv().expect("the message comes back");
        times.push(begun.elapsed());
    }
    println!("round trip: {}", spread(&mut times));
}

fn topics() -> impl Iterator<Item = String> {
    (0..TOPICS).map(|number| format!("page:topic-number-{number}"))
}

/// Memory for the topics of other nodes. The peers are sockets that send one announcement at a
/// time, so that only stored memory is counted.
fn remote_topics(nodes: u16) {
    let hub = Node::start(0);
    let before = resident_bytes();
    for node in 1..=nodes {
        let (mut ours, theirs) = UnixStream::pair().expect("two sockets");
        hub.bus.link(NodeId(node), theirs).expect("a link");
        let mut frame = Vec::new();
        for (number, topic) in (1..).zip(topics()) {
            frame.clear();
            let seq = if number == TOPICS { 1 } else { 0 };
            Frame::Subscribe { seq, topic: &topic }.encode(&mut frame);
            ours.write_all(&frame).expect("the frame is written");
        }
        ours.read_exact(&mut [0; 13]).expect("the announcements are acknowledged");
        // Keep the link open, and with it the memory for its topics.
        std::mem::forget(ours);
    }
    assert_eq!(hub.bus.totals().topics_remote, TOPICS);
    let bytes = (resident_bytes() - before) as f64 / TOPICS as f64;
    println!(
        "interest of {nodes} nodes in each of {TOPICS} topics: {bytes:.0} bytes a topic, {:.0} a \
         node and topic",
        bytes / f64::from(nodes)
    );
}

/// Memory and time to announce topics.
fn announcements(nodes: u16) {
    let topics: Vec<_> = topics().collect();
    let subscribe = |node: &Node| {
        let last = topics.iter().fold(Readiness::Ready, |_, topic| node.bus.subscribe(topic));
        node.wait(last);
    };
    let hub = Node::start(0);
    let others: Vec<_> = (1..=nodes).map(Node::start).collect();
    let before = resident_bytes();
    others.iter().for_each(subscribe);
    let bytes = (resident_bytes() - before) / (TOPICS * others.len());
    println!("a local topic: {bytes} bytes");

    let (begun, cpu) = (Instant::now(), processor_time());
    for other in &others {
        hub.link(other);
        other.wait(other.bus.subscribe(&topics[0]));
    }
    println!(
        "a new link announces {TOPICS} topics in {:.0} ms, with {:.0} ms of processor",
        micros(begun.elapsed()) / 1e3 / f64::from(nodes),
        micros(processor_time() - cpu) / 1e3 / f64::from(nodes)
    );
    // Replace links while another thread uses the lock.
    let is_over = AtomicBool::new(false);
    let longest = thread::scope(|scope| {
        let calls = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !is_over.load(Acquire) {
                let begun = Instant::now();
                black_box(others[0].bus.nodes());
                longest = longest.max(begun.elapsed());
            }
            longest
        });
        for _ in 0..10 {
            hub.link(&others[0]);
            others[0].wait(others[0].bus.subscribe(&topics[0]));
        }
        is_over.store(true, Release);
        calls.join().expect("the thread does not panic")
    });
    println!("longest call meanwhile: {:.1} ms", micros(longest) / 1e3);

    let (begun, cpu) = (Instant::now(), processor_time());
    subscribe(&hub);
    println!(
        "{TOPICS} single subscribes are ready at {nodes} nodes in {:.0} ms, with {:.0} ms of \
         processor",
        micros(begun.elapsed()) / 1e3,
        micros(processor_time() - cpu) / 1e3
    );
}

/// Nanoseconds since the first call.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn wait_until(what: impl Fn() -> bool) {
    while !what() {
        thread::sleep(Duration::from_micros(100));
    }
}

fn spread(times: &mut [Duration]) -> String {
    times.sort();
    let at = |share: f64| micros(times[(times.len() as f64 * share) as usize]);
    format!("p50 {:.1} us, p99 {:.1} us", at(0.5), at(0.99))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux has procfs");
    let pages = status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("the second field is a number") * rustix::param::page_size()
}
