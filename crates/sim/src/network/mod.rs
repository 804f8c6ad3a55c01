//! A simulated network that moves messages as TCP would over access links.
//!
//! Every host has an uplink and a downlink. No other part of a path is ever full. Bytes leave in
//! chunks, which are smaller where a link is slow: connections that have something to send take turns on the
//! uplink, travel for the path's delay, and wait for the downlink in the order of their arrival. A connection has no more under way
//! than its [window](Window); losses and long queues shrink that, and what is behind a lost
//! packet waits for it. Messages of a connection arrive whole and in order, but for those that are
//! [sent ahead](Network::send_ahead) of others.
//!
//! Where the machines' [`Processors`] are told of, they have to handle what is sent and received too.
//!
//! Absent on purpose: links in the middle, headers of packets, and the bandwidth of acknowledgements
//! and of packets sent again.

mod flow;
mod processors;
mod window;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use watchfire_types::{Instant, Rng};

use flow::Flow;
use processors::Machines;
pub use processors::Processors;
use window::SEGMENT_BYTES;

/// A host on the simulated network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(pub u32);

/// How a host is connected, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What it can send.
    pub up: u64,
    /// What it can receive.
    pub down: u64,
}

/// The path between two hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Time from one end to the other.
    pub delay: Duration,
    /// At most this is added to the delay of a chunk.
    pub jitter: Duration,
    /// Part of the packets that are lost.
    pub loss: f64,
}

/// The limits of a whole network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkLimits {
    /// Bytes that move as one where links are fast.
    pub chunk_bytes_max: u64,
    /// How long a slower link takes to move what moves as one. No less than one packet does.
    pub chunk_time: Duration,
    /// Bytes of messages that a connection takes before they are under way.
    pub send_buffer_bytes: u64,
    /// Bytes whose leaving is told to their sender when a message has left.
    pub room_report_bytes: u64,
    /// How long nothing is told of a message that leaves slowly.
    pub room_report_interval: Duration,
    /// Most bytes that have been handed to the sender's kernel and have not left.
    pub kernel_buffer_bytes: u64,
    /// Most bytes that a connection has under way.
    pub window_bytes_max: u64,
    /// How long a downlink's queue may be before connections are told to slow down.
    pub queue_max: Duration,
    /// What handling messages costs; `None` if it costs nothing.
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
    /// Bytes that move as one where the slower link moves so many a second.
    fn chunk_bytes(&self, rate: u64) -> u64 {
        let bytes = u128::from(rate) * self.chunk_time.as_nanos() / 1_000_000_000;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).max(SEGMENT_BYTES);
        bytes.min(self.chunk_bytes_max)
    }
}

/// What happens at the ends of connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival<M> {
    /// A message, whole.
    Message {
        /// The sender.
        from: Host,
        /// The receiver.
        to: Host,
        /// The message.
        message: M,
    },
    /// Part of a message.
    Part {
        /// The sender.
        from: Host,
        /// The receiver.
        to: Host,
    },
    /// A connection that was nearly full has room again.
    Room {
        /// The host that may send.
        from: Host,
        /// The receiver.
        to: Host,
        /// How many bytes.
        bytes: u64,
    },
}

/// Hosts, connections between them, and all that is under way.
#[derive(Debug)]
pub struct Network<M> {
    limits: NetworkLimits,
    hosts: Vec<HostLinks>,
    machines: Option<Machines>,
    /// Each connection has two, one a direction. A closed one leaves its place empty.
    flows: Vec<Option<Flow<M>>>,
    by_ends: BTreeMap<(Host, Host), u32>,
    steps: BinaryHeap<Reverse<(Instant, u64, Step)>>,
    steps_taken: u64,
    arrivals: VecDeque<Arrival<M>>,
    rng: Rng,
}

/// The two links of a host.
#[derive(Debug)]
struct HostLinks {
    access: Access,
    /// Chunks that processors or the uplink are busy with.
    sending: u32,
    /// When the uplink has passed on all that it was given.
    sent_at: Instant,
    /// Connections that may send, the next one first.
    turns: VecDeque<u32>,
    /// When the downlink has passed on all that has come so far.
    free_at: Instant,
    sent_bytes: u64,
    received_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// The uplink has sent its chunk.
    Sent { host: u32, flow: u32 },
    /// A chunk is at the downlink of its receiver.
    AtDownlink { flow: u32, bytes: u32 },
    /// A chunk is with its receiver.
    Received { flow: u32, bytes: u32 },
    /// Its sender knows.
    Acknowledged { flow: u32, bytes: u32 },
}

impl<M> Network<M> {
    /// A network without hosts.
    pub fn new(limits: NetworkLimits, seed: u64) -> Self {
        Network {
            limits,
            hosts: Vec::new(),
            machines: limits.processors.map(Machines::new),
            flows: Vec::new(),
            by_ends: BTreeMap::new(),
            steps: BinaryHeap::new(),
            steps_taken: 0,
            arrivals: VecDeque::new(),
            rng: Rng::from_seed(seed),
        }
    }

    /// Adds a host.
    pub fn add(&mut self, access: Access) -> Host {
        let host = Host(u32::try_from(self.hosts.len()).expect("fewer hosts than addresses"));
        self.hosts.push(HostLinks {
            access,
            sending: 0,
            sent_at: Instant::ZERO,
            turns: VecDeque::new(),
            free_at: Instant::ZERO,
            sent_bytes: 0,
            received_bytes: 0,
        });
        host
    }

    /// Connects two hosts. Does nothing if they are connected.
    pub fn open(&mut self, a: Host, b: Host, path: Path) {
        if self.is_open(a, b) {
            return;
        }
        for (from, to) in [(a, b), (b, a)] {
            let access = |host: Host| self.hosts[host.0 as usize].access;
            let slower_rate = access(from).up.min(access(to).down);
            let id = u32::try_from(self.flows.len()).expect("fewer connections than numbers");
            self.flows.push(Some(Flow::new(from, to, path, slower_rate, &self.limits)));
            self.by_ends.insert((from, to), id);
        }
    }

    /// Disconnects two hosts. What was under way is lost.
    pub fn close(&mut self, a: Host, b: Host) {
        for ends in [(a, b), (b, a)] {
            if let Some(id) = self.by_ends.remove(&ends) {
                self.flows[id as usize] = None;
            }
        }
    }

    /// Whether two hosts are connected.
    pub fn is_open(&self, a: Host, b: Host) -> bool {
        self.by_ends.contains_key(&(a, b))
    }

    /// Bytes of messages that fit into a connection's send buffer now; 0 without a connection.
    pub fn room(&self, from: Host, to: Host) -> u64 {
        self.by_ends.get(&(from, to)).map_or(0, |id| self.flow(*id).room(&self.limits))
    }

    /// Sends a message of so many bytes. It is lost if the hosts are not connected. The sender must respect
    /// [`Network::room`]: a message is accepted even without room.
    pub fn send(&mut self, now: Instant, from: Host, to: Host, bytes: u64, message: M) {
        let Some(&id) = self.by_ends.get(&(from, to)) else { return };
        self.flow_mut(id).push(bytes.max(1), message);
        self.take_turn(now, id);
    }

    /// As [`Network::send`], on a stream of the connection's own that is written first: it overtakes what the
    /// kernel has not got.
    pub fn send_ahead(&mut self, now: Instant, from: Host, to: Host, bytes: u64, message: M) {
        let Some(&id) = self.by_ends.get(&(from, to)) else { return };
        self.flow_mut(id).push_ahead(bytes.max(1), message);
        self.take_turn(now, id);
    }

    /// When the next step is due.
    pub fn next_at(&self) -> Option<Instant> {
        self.steps.peek().map(|Reverse((at, ..))| *at)
    }

    /// Runs the next step. [`Network::poll_arrival`] returns what follows from it.
    pub fn step(&mut self) -> Option<Instant> {
        let Reverse((now, _, step)) = self.steps.pop()?;
        match step {
            Step::Sent { host, flow } => {
                self.hosts[host as usize].sending -= 1;
                if let Some(flow) = &mut self.flows[flow as usize] {
                    flow.is_being_sent = false;
                }
                self.send_next(now, host);
            }
            Step::AtDownlink { flow, bytes } => self.at_downlink(now, flow, bytes),
            Step::Received { flow, bytes } => self.received(now, flow, bytes),
            Step::Acknowledged { flow, bytes } => self.acknowledged(now, flow, bytes),
        }
        Some(now)
    }

    /// The next arrival.
    pub fn poll_arrival(&mut self) -> Option<Arrival<M>> {
        self.arrivals.pop_front()
    }

    /// Bytes that a host has sent and received so far.
    pub fn traffic(&self, host: Host) -> (u64, u64) {
        let ends = &self.hosts[host.0 as usize];
        (ends.sent_bytes, ends.received_bytes)
    }

    /// The number of steps so far.
    pub const fn steps_taken(&self) -> u64 {
        self.steps_taken
    }

    fn flow(&self, id: u32) -> &Flow<M> {
        self.flows[id as usize].as_ref().expect("a connection that has ends is there")
    }

    fn flow_mut(&mut self, id: u32) -> &mut Flow<M> {
        self.flows[id as usize].as_mut().expect("a connection that has ends is there")
    }

    fn later(&mut self, at: Instant, step: Step) {
        self.steps.push(Reverse((at, self.steps_taken, step)));
        self.steps_taken += 1;
    }

    /// Queues a connection for its uplink, if it has something to send and may.
    fn take_turn(&mut self, now: Instant, id: u32) {
        let Some(flow) = &mut self.flows[id as usize] else { return };
        if flow.is_in_turn || flow.next_chunk() == 0 {
            return;
        }
        flow.is_in_turn = true;
        let host = flow.from.0;
        self.hosts[host as usize].turns.push_back(id);
        self.send_next(now, host);
    }

    /// Gives the uplink, and the processors that it takes, to those who are next in turn.
    fn send_next(&mut self, now: Instant, host: u32) {
        let at_once = self.machines.as_ref().map_or(1, Machines::sends_at_once);
        let ends = &mut self.hosts[host as usize];
        while ends.sending < at_once {
            // What a connection sends is encrypted in order, by one processor.
            let is_free = |id: &u32| {
                !self.flows[*id as usize].as_ref().is_some_and(|flow| flow.is_being_sent)
            };
            let Some(next) = ends.turns.iter().position(is_free) else { return };
            let Some(id) = ends.turns.remove(next) else { return };
            let Some(flow) = &mut self.flows[id as usize] else { continue };
            let bytes = flow.next_chunk();
            if bytes == 0 {
                flow.is_in_turn = false;
                continue;
            }
            let messages = flow.take(bytes);
            flow.is_in_turn = flow.next_chunk() > 0;
            if flow.is_in_turn {
                ends.turns.push_back(id);
            }
            if let Some(bytes) = flow.take_room_report(now, messages > 0, &self.limits) {
                let (from, to) = (flow.from, flow.to);
                self.arrivals.push_back(Arrival::Room { from, to, bytes });
            }
            flow.is_being_sent = true;
            ends.sending += 1;
            ends.sent_bytes += bytes;
            ends.sent_at = ends.sent_at.max(now) + time(bytes, ends.access.up);
            let mut sent_at = ends.sent_at;
            if let Some(machines) = &mut self.machines {
                sent_at = sent_at.max(machines.send(now, host, bytes, messages));
            }
            let arrives_at = flow.arrives_at(sent_at, bytes, &mut self.rng);
            let bytes = bytes as u32;
            let steps = [
                (sent_at, Step::Sent { host, flow: id }),
                (arrives_at, Step::AtDownlink { flow: id, bytes }),
            ];
            for (at, step) in steps {
                self.steps.push(Reverse((at, self.steps_taken, step)));
                self.steps_taken += 1;
            }
        }
    }

    fn at_downlink(&mut self, now: Instant, id: u32, bytes: u32) {
        let Some(flow) = &mut self.flows[id as usize] else { return };
        let ends = &mut self.hosts[flow.to.0 as usize];
        if ends.free_at.since(now) > self.limits.queue_max {
            flow.slow_down(now);
        }
        ends.free_at = ends.free_at.max(now) + time(bytes.into(), ends.access.down);
        let mut at = ends.free_at;
        if let Some(machines) = &mut self.machines {
            let messages = flow.reach(bytes.into());
            at = flow.in_order(machines.receive(at, flow.to.0, bytes.into(), messages));
        }
        self.later(at, Step::Received { flow: id, bytes });
    }

    fn received(&mut self, now: Instant, id: u32, bytes: u32) {
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
        let back = now + flow.path.delay;
        self.later(back, Step::Acknowledged { flow: id, bytes });
    }

    fn acknowledged(&mut self, now: Instant, id: u32, bytes: u32) {
        let Some(flow) = &mut self.flows[id as usize] else { return };
        flow.acknowledged(now, bytes.into());
        self.take_turn(now, id);
    }
}

/// How long so many bytes take at a rate of bytes a second.
fn time(bytes: u64, rate: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The chance that one of the packets of a chunk is lost.
fn loss_of(bytes: u64, loss: f64) -> f64 {
    if loss <= 0.0 {
        return 0.0;
    }
    let packets = bytes.div_ceil(SEGMENT_BYTES);
    // Powers of the system's library differ from machine to machine; products do not.
    let arrive = (0..packets).fold(1.0, |arrive, _| arrive * (1.0 - loss));
    1.0 - arrive
}

#[cfg(test)]
mod tests;
