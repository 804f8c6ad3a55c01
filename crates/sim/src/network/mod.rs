//! A simulated network that moves messages as TCP would over access links.
//!
//! **Without it**, a simulation that gives each message a delay and a rate hides what makes real swarms slow.
//! Three things do, and all are here:
//!
//! - **An uplink is shared.** Each host has an uplink and a downlink, and no other part of a path is ever full. A
//!   peer with 10 Mbit/s that sends a block of 1 MiB to sixteen others at the same time finishes all of them
//!   after 13 s. One after the other, the first has it after 0.8 s and can send it on. Bytes move in chunks, and
//!   the connections of a host take turns on its uplink. A chunk has 64 KiB on fast links, and on slow ones the
//!   bytes of 6 ms: at 10 Mbit/s 7.5 kB. So turns are as fine as packets there, and cost few steps here.
//! - **Queues delay what is behind them.** A chunk travels for the delay of its path, and waits for the downlink
//!   in order of arrival. A cancel behind 1 MiB of blocks comes too late. So a sender has a limited buffer, and
//!   only a part of it is in the kernel ([`NetworkLimits::kernel_buffer_bytes`]). A message may be
//!   [sent ahead](Network::send_ahead) of the rest, as on a stream of its own.
//! - **TCP is slow at first and after losses.** A connection has at most its [window](window::Window) in flight:
//!   ten packets at the start, doubled in each round trip, cut by 30 % after a loss or when the queue of a
//!   downlink exceeds [`NetworkLimits::queue_max`]. On a path of 100 ms, 1 MiB takes seven round trips on a new
//!   connection, whatever the links. Bytes behind a lost packet wait for it.
//!
//! Messages of a connection arrive complete and in order. With [`Processors`], sending and receiving also take
//! CPU time.
//!
//! The bound: a connection accepts messages up to [`NetworkLimits::send_buffer_bytes`], and tells its sender when
//! it has room again ([`Arrival::Room`]). It is up to the sender to respect it; the simulations record a sender
//! that does not as a violation. Bytes in flight are at most [`NetworkLimits::window_bytes_max`].
//!
//! Absent on purpose: links in the middle, headers of packets, and the bandwidth of acknowledgements and
//! retransmissions.

mod flow;
mod processors;
mod window;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use watchfire_types::{Instant, Rng};

use flow::Flow;
use processors::Machines;
pub use processors::Processors;
use window::SEGMENT_BYTES;

use crate::schedule::Schedule;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(pub u32);

/// The path between two regions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Path {
    /// Time from one end to the other.
    pub delay: Duration,
    /// The largest random addition to the delay.
    pub jitter: Duration,
    /// The share of packets that are lost.
    pub loss: f64,
}

/// The rates of a host's links, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub up: u64,
    pub down: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkLimits {
    /// Bytes of a chunk on fast links.
    pub chunk_bytes_max: u64,
    /// How long a slower link takes to move a chunk. A chunk has at least the bytes of one packet.
    pub chunk_time: Duration,
    /// Bytes of messages that a connection accepts before they are sent.
    pub send_buffer_bytes: u64,
    /// Growth of the room that is reported to the sender when a message was sent.
    pub room_report_bytes: u64,
    /// The interval of such reports while a long message is being sent.
    pub room_report_interval: Duration,
    /// Most unsent bytes in the buffer of the sender's kernel.
    pub kernel_buffer_bytes: u64,
    /// Most bytes that a connection has in flight.
    pub window_bytes_max: u64,
    /// The length of a downlink's queue above which its connections are told to slow down.
    pub queue_max: Duration,
    /// The CPU time of messages; `None` if they take none.
    pub processors: Option<Processors>,
}

impl Default for NetworkLimits {
    fn default() -> Self {
        NetworkLimits {
            chunk_bytes_max: 64 << 10,
            chunk_time: Duration::from_millis(6),
            send_buffer_bytes: 2 << 20,
            room_report_bytes: 64 << 10,
            room_report_interval: Duration::from_millis(250),
            kernel_buffer_bytes: 256 << 10,
            window_bytes_max: 16 << 20,
            queue_max: Duration::from_millis(30),
            processors: None,
        }
    }
}

impl NetworkLimits {
    /// Bytes of a chunk where the slower link has this rate.
    fn chunk_bytes(&self, rate: u64) -> u64 {
        let bytes = u128::from(rate) * self.chunk_time.as_nanos() / 1_000_000_000;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).max(SEGMENT_BYTES);
        bytes.min(self.chunk_bytes_max)
    }
}

/// An event at one end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival<M> {
    Message {
        from: Host,
        to: Host,
        message: M,
    },
    Part {
        from: Host,
        to: Host,
    },
    /// A connection that was nearly full has room again.
    Room {
        from: Host,
        to: Host,
        bytes: u64,
    },
}

/// Hosts, the connections between them, and all bytes in flight.
#[derive(Debug)]
pub struct Network<M> {
    limits: NetworkLimits,
    hosts: Vec<HostLinks>,
    machines: Option<Machines>,
    /// Two for each connection, one per direction; `None` once it is closed.
    flows: Vec<Option<Flow<M>>>,
    by_ends: BTreeMap<(Host, Host), u32>,
    steps: Schedule<Step>,
    arrivals: VecDeque<Arrival<M>>,
    rng: Rng,
}

#[derive(Debug)]
struct HostLinks {
    access: Access,
    /// Chunks that are being processed or sent.
    sending: u32,
    /// When the uplink has sent all its chunks.
    sent_at: Instant,
    /// Connections that can send, the next one first.
    uplink_queue: VecDeque<u32>,
    /// When the downlink has received all chunks that reached it.
    free_at: Instant,
    sent_bytes: u64,
    received_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Sent {
        host: u32,
        flow: u32,
    },
    /// A chunk reached the downlink of its receiver.
    AtDownlink {
        flow: u32,
        bytes: u32,
    },
    /// The receiver has processed a chunk.
    Received {
        flow: u32,
        bytes: u32,
    },
    /// The acknowledgement reached the sender.
    Acknowledged {
        flow: u32,
        bytes: u32,
    },
}

impl<M> Network<M> {
    pub fn new(limits: NetworkLimits, seed: u64) -> Self {
        Network {
            limits,
            hosts: Vec::new(),
            machines: limits.processors.map(Machines::new),
            flows: Vec::new(),
            by_ends: BTreeMap::new(),
            steps: Schedule::new(),
            arrivals: VecDeque::new(),
            rng: Rng::from_seed(seed),
        }
    }

    pub fn add(&mut self, access: Access) -> Host {
        let host = Host(u32::try_from(self.hosts.len()).expect("at most u32::MAX hosts"));
        self.hosts.push(HostLinks {
            access,
            sending: 0,
            sent_at: Instant::ZERO,
            uplink_queue: VecDeque::new(),
            free_at: Instant::ZERO,
            sent_bytes: 0,
            received_bytes: 0,
        });
        host
    }

    /// Connects two hosts. Does nothing if they are already connected.
    pub fn open(&mut self, a: Host, b: Host, path: Path) {
        if self.is_open(a, b) {
            return;
        }
        for (from, to) in [(a, b), (b, a)] {
            let access = |host: Host| self.hosts[host.0 as usize].access;
            let slower_rate = access(from).up.min(access(to).down);
            let id = u32::try_from(self.flows.len()).expect("at most u32::MAX flows");
            self.flows.push(Some(Flow::new(from, to, path, slower_rate, &self.limits)));
            self.by_ends.insert((from, to), id);
        }
    }

    /// Disconnects two hosts. Bytes in flight are lost.
    pub fn close(&mut self, a: Host, b: Host) {
        for ends in [(a, b), (b, a)] {
            if let Some(id) = self.by_ends.remove(&ends) {
                self.flows[id as usize] = None;
            }
        }
    }

    pub fn is_open(&self, a: Host, b: Host) -> bool {
        self.by_ends.contains_key(&(a, b))
    }

    /// Bytes of messages that fit into a connection's send buffer now; 0 without a connection.
    pub fn room(&self, from: Host, to: Host) -> u64 {
        self.by_ends.get(&(from, to)).map_or(0, |id| self.flow(*id).room(&self.limits))
    }

    /// Sends a message of `bytes`. Without a connection, the message is lost. The sender must
    /// respect [`Network::room`], because a message is accepted even without room.
    pub fn send(&mut self, now: Instant, from: Host, to: Host, bytes: u64, message: M) {
        let Some(&id) = self.by_ends.get(&(from, to)) else { return };
        self.flow_mut(id).push(bytes.max(1), message);
        self.queue_for_uplink(now, id);
    }

    /// As [`Network::send`], but the message overtakes others that the kernel does not have yet.
    pub fn send_ahead(&mut self, now: Instant, from: Host, to: Host, bytes: u64, message: M) {
        let Some(&id) = self.by_ends.get(&(from, to)) else { return };
        self.flow_mut(id).push_ahead(bytes.max(1), message);
        self.queue_for_uplink(now, id);
    }

    /// When the next step is due.
    pub fn next_at(&self) -> Option<Instant> {
        self.steps.next_at()
    }

    /// Runs the next step. [`Network::poll_arrival`] returns its arrivals.
    pub fn step(&mut self) -> Option<Instant> {
        let (now, step) = self.steps.pop()?;
        match step {
            Step::Sent { host, flow } => {
                self.hosts[host as usize].sending -= 1;
                if let Some(flow) = &mut self.flows[flow as usize] {
                    flow.is_being_sent = false;
                }
                self.send_next(now, host);
            }
            Step::AtDownlink { flow, bytes } => self.handle_at_downlink(now, flow, bytes),
            Step::Received { flow, bytes } => self.handle_received(now, flow, bytes),
            Step::Acknowledged { flow, bytes } => self.handle_acknowledged(now, flow, bytes),
        }
        Some(now)
    }

    pub fn poll_arrival(&mut self) -> Option<Arrival<M>> {
        self.arrivals.pop_front()
    }

    /// Bytes that a host has sent and received so far.
    pub fn traffic(&self, host: Host) -> (u64, u64) {
        let links = &self.hosts[host.0 as usize];
        (links.sent_bytes, links.received_bytes)
    }

    fn flow(&self, id: u32) -> &Flow<M> {
        self.flows[id as usize].as_ref().expect("`by_ends` names open flows only")
    }

    fn flow_mut(&mut self, id: u32) -> &mut Flow<M> {
        self.flows[id as usize].as_mut().expect("`by_ends` names open flows only")
    }

    /// Queues a connection for its uplink, if it has a chunk to send.
    fn queue_for_uplink(&mut self, now: Instant, id: u32) {
        let Some(flow) = &mut self.flows[id as usize] else { return };
        if flow.is_queued || flow.next_chunk() == 0 {
            return;
        }
        flow.is_queued = true;
        let host = flow.from.0;
        self.hosts[host as usize].uplink_queue.push_back(id);
        self.send_next(now, host);
    }

    /// Gives the uplink and its processors to the next connections in the queue.
    fn send_next(&mut self, now: Instant, host: u32) {
        let chunks_max = self.machines.as_ref().map_or(1, Machines::chunks_at_once);
        let links = &mut self.hosts[host as usize];
        while links.sending < chunks_max {
            // One processor encrypts the chunks of a connection, in order.
            let is_free = |id: &u32| {
                !self.flows[*id as usize].as_ref().is_some_and(|flow| flow.is_being_sent)
            };
            let Some(next) = links.uplink_queue.iter().position(is_free) else { return };
            let Some(id) = links.uplink_queue.remove(next) else { return };
            let Some(flow) = &mut self.flows[id as usize] else { continue };
            let bytes = flow.next_chunk();
            if bytes == 0 {
                flow.is_queued = false;
                continue;
            }
            let messages = flow.send(bytes);
            flow.is_queued = flow.next_chunk() > 0;
            if flow.is_queued {
                links.uplink_queue.push_back(id);
            }
            if let Some(bytes) = flow.take_room_report(now, messages > 0, &self.limits) {
                let (from, to) = (flow.from, flow.to);
                self.arrivals.push_back(Arrival::Room { from, to, bytes });
            }
            flow.is_being_sent = true;
            links.sending += 1;
            links.sent_bytes += bytes;
            links.sent_at = links.sent_at.max(now) + transfer_time(bytes, links.access.up);
            let mut sent_at = links.sent_at;
            if let Some(machines) = &mut self.machines {
                sent_at = sent_at.max(machines.send(now, host, bytes, messages));
            }
            let arrives_at = flow.arrives_at(sent_at, bytes, &mut self.rng);
            let bytes = bytes as u32;
            self.steps.push(sent_at, Step::Sent { host, flow: id });
            self.steps.push(arrives_at, Step::AtDownlink { flow: id, bytes });
        }
    }

    fn handle_at_downlink(&mut self, now: Instant, id: u32, bytes: u32) {
        let Some(flow) = &mut self.flows[id as usize] else { return };
        let links = &mut self.hosts[flow.to.0 as usize];
        if links.free_at.since(now) > self.limits.queue_max {
            flow.slow_down(now);
        }
        links.free_at = links.free_at.max(now) + transfer_time(bytes.into(), links.access.down);
        let mut at = links.free_at;
        if let Some(machines) = &mut self.machines {
            let messages = flow.handle_at_downlink(bytes.into());
            at = flow.processed_in_order(machines.receive(at, flow.to.0, bytes.into(), messages));
        }
        self.steps.push(at, Step::Received { flow: id, bytes });
    }

    fn handle_received(&mut self, now: Instant, id: u32, bytes: u32) {
        let Some(flow) = &mut self.flows[id as usize] else { return };
        self.hosts[flow.to.0 as usize].received_bytes += u64::from(bytes);
        let (from, to) = (flow.from, flow.to);
        flow.arrived += u64::from(bytes);
        let mut is_whole = false;
        while let Some(message) = flow.pop_arrived() {
            is_whole = true;
            self.arrivals.push_back(Arrival::Message { from, to, message });
        }
        if !is_whole {
            self.arrivals.push_back(Arrival::Part { from, to });
        }
        let acknowledged_at = now + flow.path.delay;
        self.steps.push(acknowledged_at, Step::Acknowledged { flow: id, bytes });
    }

    fn handle_acknowledged(&mut self, now: Instant, id: u32, bytes: u32) {
        let Some(flow) = &mut self.flows[id as usize] else { return };
        flow.handle_acknowledged(now, bytes.into());
        self.queue_for_uplink(now, id);
    }
}

/// How long `bytes` take at a rate in bytes per second.
fn transfer_time(bytes: u64, rate: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The chance that one of the packets of a chunk is lost.
fn chunk_loss(bytes: u64, loss: f64) -> f64 {
    if loss <= 0.0 {
        return 0.0;
    }
    let packets = bytes.div_ceil(SEGMENT_BYTES);
    // `powf` differs from machine to machine; products do not.
    let arrive = (0..packets).fold(1.0, |arrive, _| arrive * (1.0 - loss));
    1.0 - arrive
}

#[cfg(test)]
mod tests;
