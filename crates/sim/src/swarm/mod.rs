//! A swarm of exchanges on a simulated clock and network.

pub(crate) mod message_len;
mod node;
mod outcome;
mod topology;
mod uplink_use;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::Duration;

use watchfire_bitswap::{Exchange, Message, Output, Payload};
use watchfire_content::Cid;
use watchfire_types::{Instant, Rng};

use crate::dag::{Dag, FakeBlock};
use crate::network::{Arrival, Host, Network, Path};
use crate::plan::{Attack, Bound, PeerPlan, Plan};
use crate::strategies::Strategy;
use node::{Node, Peer};
use topology::Topology;
use uplink_use::UplinkUseLog;

pub use outcome::{Outcome, PeerOutcome, UplinkUse};

/// Round trips until a connection can be used: TCP's, TLS's, and one to agree on protocols.
const ROUND_TRIPS_TO_CONNECT: u32 = 3;
/// The delay before peers redial after a connection broke.
const REDIAL_DELAY: Duration = Duration::from_secs(1);
/// The time that a search for providers takes.
const SEARCH_TIME: Duration = Duration::from_millis(300);
/// Most providers that a search finds.
const PROVIDERS_MAX: usize = 10;
/// Wakes at one simulated time after which an exchange counts as stuck in a loop.
const WAKES_MAX: u32 = 10_000;
/// Up to this number of connected peers, a node's limits are checked at every wake.
const PEERS_CHECKED_ALWAYS: usize = 12;
/// The minimum time between two checks of a node with more peers.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Steps between two progress reports.
const STEPS_PER_REPORT: u64 = 1 << 14;
/// Violations after which a simulation stops.
const VIOLATIONS_MAX: usize = 100;

/// The progress of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The simulated time.
    pub now: Duration,
    /// The share of all blocks that the awaited peers have.
    pub part: f64,
    /// Awaited peers that have all blocks.
    pub finished: usize,
    /// The number of awaited peers.
    pub awaited: usize,
}

/// Runs a plan until all awaited peers have all blocks, or until its time limit.
///
/// The same plan has the same outcome on every machine.
pub fn run(plan: &Plan, watch: &mut dyn FnMut(Progress)) -> Outcome {
    let mut swarm = Swarm::new(plan);
    swarm.run(watch);
    swarm.outcome()
}

struct Swarm<'a> {
    plan: &'a Plan,
    dag: Dag,
    network: Network<Message<FakeBlock>>,
    topology: Topology,
    nodes: Vec<Node>,
    timers: BinaryHeap<Reverse<(Instant, u64, Timer)>>,
    timers_set: u64,
    now: Instant,
    rng: Rng,
    awaited: usize,
    finished: usize,
    /// Blocks that the awaited peers have, in total.
    held: u64,
    uplink_use: UplinkUseLog,
    violations: Vec<String>,
    honest_dropped: u32,
    malicious_dropped: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Arrive(Peer),
    Leave(Peer),
    Wake(Peer),
    /// The handshakes of a connection are complete.
    Connect(Peer, Peer, DialReason),
    /// The first peer notices that the second left, after this number of arrivals.
    DisconnectNoticed(Peer, Peer, u32),
    /// A random connection breaks.
    Break,
    /// The first peer, after this number of arrivals, has read a block for the second.
    Read(Peer, Peer, u32, u32),
    /// The search for providers of a peer, after this number of arrivals, is complete.
    SearchDone(Peer, Cid, u32),
}

/// Why two peers connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DialReason {
    /// They are neighbours. They do not connect if a peer joins between them during the handshakes.
    Neighbour,
    /// One was found as a provider for the other, or they were connected before.
    Provider,
}

impl<'a> Swarm<'a> {
    fn new(plan: &'a Plan) -> Self {
        let dag = Dag::new(plan.file, plan.seed);
        let mut network = Network::new(plan.network, Rng::for_purpose(plan.seed, 1).next_u64());
        let mut rng = Rng::for_purpose(plan.seed, 2);
        let topology = Topology::new(plan.neighbours, Rng::for_purpose(plan.seed, 3).next_u64());
        let mut nodes = Vec::with_capacity(plan.peers.len());
        for peer in &plan.peers {
            network.add(peer.access);
            nodes.push(Node::new(exchange(plan, &mut rng), dag.len()));
        }
        let awaited = plan.peers.iter().filter(|peer| peer.is_awaited()).count();
        let bound = Bound::of(plan, dag.bytes()).seconds();
        let mut swarm = Swarm {
            plan,
            dag,
            network,
            topology,
            nodes,
            timers: BinaryHeap::new(),
            timers_set: 0,
            now: Instant::ZERO,
            rng,
            awaited,
            finished: 0,
            held: 0,
            uplink_use: UplinkUseLog::new(Duration::from_secs_f64(
                bound.clamp(0.001, 86_400.0) / 200.0,
            )),
            violations: Vec::new(),
            honest_dropped: 0,
            malicious_dropped: 0,
        };
        for (peer, peer_plan) in (0..).map(Peer).zip(&plan.peers) {
            swarm.set_timer(Instant::ZERO + peer_plan.arrives_at, Timer::Arrive(peer));
            if let Some(at) = peer_plan.leaves_at {
                swarm.set_timer(Instant::ZERO + at, Timer::Leave(peer));
            }
            if let Some(at) = peer_plan.returns_at {
                swarm.set_timer(Instant::ZERO + at, Timer::Arrive(peer));
            }
        }
        if plan.breaks_per_second > 0.0 {
            swarm.set_break();
        }
        swarm
    }

    fn run(&mut self, watch: &mut dyn FnMut(Progress)) {
        let end = Instant::ZERO + self.plan.time_max;
        let mut steps: u64 = 0;
        while self.finished < self.awaited && self.violations.len() < VIOLATIONS_MAX {
            let network_at = self.network.next_at();
            let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
            let Some(at) = [network_at, timer].into_iter().flatten().min() else { break };
            if at > end {
                self.now = end;
                break;
            }
            while let due_at = Instant::ZERO + self.uplink_use.due_at()
                && due_at <= at
            {
                self.now = due_at;
                self.record_uplink_use();
            }
            self.now = at;
            if network_at == Some(at) {
                self.network.step();
                while let Some(arrival) = self.network.poll_arrival() {
                    self.handle_arrival(arrival);
                }
            } else if let Some(Reverse((.., timer))) = self.timers.pop() {
                self.handle_timer(timer);
            }
            steps += 1;
            if steps.is_multiple_of(STEPS_PER_REPORT) {
                watch(self.progress());
            }
        }
        self.record_uplink_use();
        watch(self.progress());
    }

    fn record_uplink_use(&mut self) {
        let (mut sent, mut rates) = ([0; 2], [0; 2]);
        for (host, (peer_plan, node)) in (0..).zip(self.plan.peers.iter().zip(&self.nodes)) {
            let role = usize::from(!peer_plan.is_seeder);
            sent[role] += self.network.traffic(Host(host)).0;
            rates[role] += if node.is_online { peer_plan.access.up } else { 0 };
        }
        let now = self.now.since(Instant::ZERO);
        self.uplink_use.record(now, sent.into(), rates.into());
    }

    fn progress(&self) -> Progress {
        let all = self.awaited as u64 * u64::from(self.dag.len());
        Progress {
            now: self.now.since(Instant::ZERO),
            part: self.held as f64 / all.max(1) as f64,
            finished: self.finished,
            awaited: self.awaited,
        }
    }

    fn set_timer(&mut self, at: Instant, timer: Timer) {
        self.timers.push(Reverse((at, self.timers_set, timer)));
        self.timers_set += 1;
    }

    fn peer_plan(&self, peer: Peer) -> &'a PeerPlan {
        &self.plan.peers[peer.0 as usize]
    }

    fn node(&mut self, peer: Peer) -> &mut Node {
        &mut self.nodes[peer.0 as usize]
    }

    fn path(&self, a: Peer, b: Peer) -> Path {
        self.plan.paths[self.peer_plan(a).region][self.peer_plan(b).region]
    }

    fn record_violation(&mut self, peer: Peer, violation: std::fmt::Arguments<'_>) {
        if self.violations.len() < VIOLATIONS_MAX {
            let at = self.now.since(Instant::ZERO).as_secs_f64();
            self.violations.push(format!("{at:.6} s: peer {}: {violation}", peer.0));
        }
    }

    fn handle_arrival(&mut self, arrival: Arrival<Message<FakeBlock>>) {
        let now = self.now;
        let (peer, from) = match &arrival {
            Arrival::Message { from, to, .. } | Arrival::Part { from, to } => (*to, *from),
            Arrival::Room { from, to, .. } => (*from, *to),
        };
        // More bytes may have been sent since the room was reported.
        let room = self.network.room(peer, from) as usize;
        let (peer, from) = (Peer(peer.0), Peer(from.0));
        let exchange = &mut self.node(peer).exchange;
        match arrival {
            Arrival::Message { message, .. } => exchange.handle_message(now, from, message),
            Arrival::Part { .. } => exchange.handle_partial_message(now, from),
            Arrival::Room { .. } => exchange.handle_writable(now, from, room),
        }
        self.settle(peer);
    }

    fn handle_timer(&mut self, timer: Timer) {
        let now = self.now;
        match timer {
            Timer::Arrive(peer) => self.arrive(peer),
            Timer::Leave(peer) => self.leave(peer),
            Timer::Wake(peer) => self.wake(peer),
            Timer::Connect(a, b, reason) => self.connect(a, b, reason),
            Timer::DisconnectNoticed(peer, other, arrivals) => {
                let is_still_gone = self.nodes[other.0 as usize].arrivals == arrivals;
                if is_still_gone && self.node(peer).peers.remove(&other) {
                    self.node(peer).exchange.handle_disconnected(now, other);
                    self.settle(peer);
                }
                self.dial_neighbours(peer);
            }
            Timer::Break => self.break_connection(),
            Timer::Read(peer, to, block, arrivals) => {
                if !self.node(peer).is_online || self.node(peer).arrivals != arrivals {
                    return;
                }
                let len = self.dag.block_len(block);
                let node = self.node(peer);
                node.reads -= 1;
                node.reading_bytes -= u64::from(len);
                self.finish_read(peer, to, block);
                self.settle(peer);
            }
            Timer::SearchDone(peer, cid, arrivals) => self.finish_search(peer, &cid, arrivals),
        }
    }

    fn arrive(&mut self, peer: Peer) {
        let (now, peer_plan) = (self.now, self.peer_plan(peer));
        let mut exchange = exchange(self.plan, &mut self.rng);
        let is_full = peer_plan.is_seeder || peer_plan.attack.is_some();
        for block in 0..self.dag.len() {
            let node = &mut self.nodes[peer.0 as usize];
            if peer_plan.is_seeder {
                node.store(block);
            }
            if is_full || node.has(block) {
                exchange.handle_stored(
                    now,
                    self.dag.cid(block),
                    self.dag.block_len(block) as usize,
                );
            }
        }
        let node = &mut self.nodes[peer.0 as usize];
        node.exchange = exchange;
        node.is_online = true;
        node.arrivals += 1;
        node.wake_at = None;
        if !is_full && node.finished_at.is_none() {
            node.begin(now, &self.dag);
        }
        // Peers that have not noticed its departure do so now.
        for other in (0..self.nodes.len() as u32).map(Peer) {
            if self.node(other).peers.remove(&peer) {
                self.node(other).exchange.handle_disconnected(now, peer);
                self.settle(other);
            }
        }
        self.topology.join(peer);
        self.settle(peer);
        self.dial_neighbours(peer);
    }

    fn leave(&mut self, peer: Peer) {
        let peer_plan = self.peer_plan(peer);
        if !self.node(peer).is_online {
            return;
        }
        self.topology.leave(peer);
        let node = self.node(peer);
        node.is_online = false;
        node.session = None;
        let totals = node.exchange.totals();
        node.earlier_totals.push(totals);
        node.reads = 0;
        node.reading_bytes = 0;
        let (arrivals, peers) = (node.arrivals, std::mem::take(&mut node.peers));
        for other in peers {
            self.network.close(Host(peer.0), Host(other.0));
            let at = self.now + self.path(peer, other).delay + peer_plan.noticed_after;
            self.set_timer(at, Timer::DisconnectNoticed(other, peer, arrivals));
        }
    }

    /// Dials the neighbours that a peer is not connected to.
    fn dial_neighbours(&mut self, peer: Peer) {
        if self.node(peer).is_online {
            for other in self.topology.neighbours(peer) {
                self.dial(peer, other, Duration::ZERO, DialReason::Neighbour);
            }
        }
    }

    fn dial(&mut self, peer: Peer, other: Peer, wait: Duration, reason: DialReason) {
        if self.node(peer).peers.contains(&other)
            || self.network.is_open(Host(peer.0), Host(other.0))
        {
            return;
        }
        let handshakes = 2 * self.path(peer, other).delay * ROUND_TRIPS_TO_CONNECT;
        self.set_timer(self.now + wait + handshakes, Timer::Connect(peer, other, reason));
    }

    fn connect(&mut self, a: Peer, b: Peer, reason: DialReason) {
        let can_connect = |swarm: &mut Self, a: Peer, b: Peer| {
            let node = swarm.node(a);
            node.is_online && !node.peers.contains(&b) && !node.blocked.contains(&b)
        };
        if !can_connect(self, a, b) || !can_connect(self, b, a) {
            return;
        }
        if reason == DialReason::Neighbour && !self.topology.are_neighbours(a, b) {
            return;
        }
        let now = self.now;
        let path = self.path(a, b);
        self.network.open(Host(a.0), Host(b.0), path);
        let protocol = self.plan.strategy.protocol();
        for (peer, other) in [(a, b), (b, a)] {
            let room = self.network.room(Host(peer.0), Host(other.0)) as usize;
            let node = self.node(peer);
            node.peers.insert(other);
            node.exchange.handle_connected(now, other, protocol);
            node.exchange.handle_writable(now, other, room);
            self.settle(peer);
        }
    }

    /// Closes a connection. Both peers notice it at once.
    fn disconnect(&mut self, a: Peer, b: Peer) {
        let now = self.now;
        self.network.close(Host(a.0), Host(b.0));
        for (peer, other) in [(a, b), (b, a)] {
            if self.node(peer).peers.remove(&other) {
                self.node(peer).exchange.handle_disconnected(now, other);
                self.settle(peer);
            }
        }
    }

    fn set_break(&mut self) {
        // The wait should be exponential, but a logarithm differs from machine to machine. A sum of
        // two uniform numbers has the same mean.
        let wait = self.rng.fraction() + self.rng.fraction();
        let wait = Duration::from_secs_f64(wait / self.plan.breaks_per_second);
        self.set_timer(self.now + wait, Timer::Break);
    }

    fn break_connection(&mut self) {
        self.set_break();
        let online = self.topology.online();
        let Some(at) = (!online.is_empty()).then(|| self.rng.below(online.len() as u64)) else {
            return;
        };
        let peer = *online.iter().nth(at as usize).expect("the index is below the length");
        let peers: Vec<Peer> = self.node(peer).peers.iter().copied().collect();
        if peers.is_empty() {
            return;
        }
        let other = peers[self.rng.below(peers.len() as u64) as usize];
        self.disconnect(peer, other);
        self.dial(peer, other, REDIAL_DELAY, DialReason::Provider);
    }

    fn wake(&mut self, peer: Peer) {
        let now = self.now;
        let node = self.node(peer);
        if node.wake_at != Some(now) {
            return;
        }
        node.wake_at = None;
        if !node.is_online {
            return;
        }
        if node.exchange.next_wake().is_some_and(|at| at <= now) {
            node.woken = (now, if node.woken.0 == now { node.woken.1 + 1 } else { 1 });
            if node.woken.1 > WAKES_MAX {
                let times = node.woken.1;
                // Without a timer it sleeps until the next arrival.
                self.record_violation(peer, format_args!("it woke {times} times at one time"));
                return;
            }
            node.exchange.handle_tick(now);
        }
        self.settle(peer);
        self.check(peer);
    }

    /// Handles all outputs of an exchange, and sets its timer.
    fn settle(&mut self, peer: Peer) {
        while let Some(output) = self.node(peer).exchange.poll_output() {
            self.handle_output(peer, output);
        }
        let now = self.now;
        let node = self.node(peer);
        if !node.is_online {
            return;
        }
        let Some(at) = node.exchange.next_wake() else { return };
        let at = at.max(now);
        // An early timer only calls this again. A late one needs an earlier one beside it.
        if node.wake_at.is_none_or(|set| set > at) {
            node.wake_at = Some(at);
            self.set_timer(at, Timer::Wake(peer));
        }
    }

    fn handle_output(&mut self, peer: Peer, output: Output<Peer, FakeBlock>) {
        let now = self.now;
        match output {
            Output::Send { peer: to, message } => self.send(peer, to, message),
            Output::Lookup { cid } => {
                let block = self.dag.find(&cid);
                let is_malicious = self.peer_plan(peer).attack.is_some();
                let block = block.filter(|block| is_malicious || self.node(peer).has(*block));
                let len = block.map(|block| self.dag.block_len(block) as usize);
                self.node(peer).exchange.handle_lookup(now, &cid, len);
            }
            Output::ListLinks { node } => {
                let leaves = self.leaves(peer, &node);
                self.node(peer).exchange.handle_links(now, &node, leaves);
            }
            Output::Read { peer: to, cid } => self.read(peer, to, &cid),
            Output::BlockReceived { block, .. } => self.handle_block_received(peer, &block),
            Output::FindProviders { cid, .. } => {
                let arrivals = self.node(peer).arrivals;
                self.set_timer(now + SEARCH_TIME, Timer::SearchDone(peer, cid, arrivals));
            }
            // No node asks questions.
            Output::Answered { .. } => {}
            Output::DropPeer { peer: other, reason } => {
                if self.peer_plan(other).attack.is_some() {
                    self.malicious_dropped += 1;
                } else {
                    self.honest_dropped += 1;
                    self.record_violation(
                        peer,
                        format_args!("it dropped peer {}, which is healthy: {reason}", other.0),
                    );
                }
                self.node(peer).blocked.insert(other);
                self.node(peer).peers.remove(&other);
                self.disconnect(peer, other);
            }
        }
    }

    fn send(&mut self, peer: Peer, to: Peer, message: Message<FakeBlock>) {
        let bytes = message_len::message_len(&message, self.plan.strategy);
        let blocks: Vec<usize> = message.payloads().map(Payload::len).collect();
        let (from, host) = (Host(peer.0), Host(to.0));
        if self.network.is_open(from, host) {
            let room = self.network.room(from, host);
            // The length is an estimate.
            if bytes > room + room / 16 + 4096 && blocks.len() != 1 {
                let violation = format_args!("it sent {bytes} bytes with room for {room}");
                self.record_violation(peer, violation);
            }
            let max = self.plan.limits.message_bytes_max;
            let bytes = blocks.iter().sum::<usize>();
            if bytes > max && blocks.len() > 1 {
                let violation = format_args!("it sent {bytes} bytes of blocks, more than {max}");
                self.record_violation(peer, violation);
            }
        }
        if self.plan.strategy != Strategy::Watchfire {
            return self.network.send(self.now, from, host, bytes, message);
        }
        // In the leaves protocol, control messages have their own stream.
        let (control, blocks) = message.apart();
        if !control.is_empty() {
            let bytes = message_len::message_len(&control, self.plan.strategy);
            self.network.send_ahead(self.now, from, host, bytes, control);
        }
        if !blocks.is_empty() {
            let bytes = message_len::message_len(&blocks, self.plan.strategy);
            self.network.send(self.now, from, host, bytes, blocks);
        }
    }

    fn read(&mut self, peer: Peer, to: Peer, cid: &Cid) {
        let now = self.now;
        let Some(block) = self.dag.find(cid) else {
            return self.node(peer).exchange.handle_read(now, to, cid, None);
        };
        let len = self.dag.block_len(block);
        let max = self.plan.limits.reading_bytes_max as u64;
        let node = self.node(peer);
        node.reads += 1;
        node.reading_bytes += u64::from(len);
        let reading = node.reading_bytes;
        if reading > max && node.reads > 1 {
            let violation = format_args!("it reads {reading} bytes at a time, more than {max}");
            self.record_violation(peer, violation);
        }
        if self.peer_plan(peer).attack == Some(Attack::Withhold) {
            return;
        }
        if self.plan.read_delay.is_zero() {
            let node = self.node(peer);
            node.reads -= 1;
            node.reading_bytes -= u64::from(len);
            self.finish_read(peer, to, block);
        } else {
            let wait = self.plan.read_delay.mul_f64(self.rng.fraction());
            let arrivals = self.node(peer).arrivals;
            self.set_timer(now + wait, Timer::Read(peer, to, block, arrivals));
        }
    }

    /// The links of a DAG node in a peer's store, and whether the peer has their blocks.
    fn leaves(&self, peer: Peer, node: &Cid) -> Option<Vec<(Cid, bool)>> {
        let node = self.dag.find(node)?;
        let leaves = self.nodes[peer.0 as usize].leaves(&self.dag, node);
        leaves.filter(|leaves| !leaves.is_empty())
    }

    fn finish_read(&mut self, peer: Peer, to: Peer, block: u32) {
        let fake_block = match self.peer_plan(peer).attack {
            Some(_) => Some(self.dag.forged_block(block, &mut self.rng)),
            None => self.nodes[peer.0 as usize].has(block).then(|| self.dag.fake_block(block)),
        };
        let (now, cid) = (self.now, self.dag.cid(block).clone());
        self.node(peer).exchange.handle_read(now, to, &cid, fake_block);
    }

    fn handle_block_received(&mut self, peer: Peer, fake_block: &FakeBlock) {
        let now = self.now;
        let Some(block) = self.dag.find(fake_block.cid()) else {
            return self.record_violation(peer, format_args!("it accepted a forged block"));
        };
        let is_awaited = self.peer_plan(peer).is_awaited();
        let node = &mut self.nodes[peer.0 as usize];
        if !node.store(block) {
            return self.record_violation(peer, format_args!("it reported block {block} twice"));
        }
        node.received_at.push(now);
        self.held += u64::from(is_awaited);
        node.exchange.handle_stored(now, fake_block.cid(), fake_block.len());
        node.handle_block(now, &self.dag, block);
        if node.held < self.dag.len() {
            return;
        }
        node.finished_at = Some(now);
        self.finished += usize::from(is_awaited);
        if let Some(session) = node.session.take() {
            node.exchange.stop_session(now, session);
        }
        if self.peer_plan(peer).leaves_when_done {
            self.set_timer(now, Timer::Leave(peer));
        }
    }

    /// Completes a search for providers, with peers that have the block or claim to.
    fn finish_search(&mut self, peer: Peer, cid: &Cid, arrivals: u32) {
        let Some(session) = self.node(peer).session else { return };
        if self.node(peer).arrivals != arrivals {
            return;
        }
        let Some(block) = self.dag.find(cid) else { return };
        let has = |other: &Peer| {
            let node = &self.nodes[other.0 as usize];
            *other != peer && (node.has(block) || self.peer_plan(*other).attack.is_some())
        };
        let mut providers: Vec<Peer> = self.topology.online().iter().copied().filter(has).collect();
        self.rng.shuffle(&mut providers);
        let blocked = &self.nodes[peer.0 as usize].blocked;
        providers.retain(|other| !blocked.contains(other));
        providers.truncate(PROVIDERS_MAX);
        for other in &providers {
            self.dial(peer, *other, Duration::ZERO, DialReason::Provider);
        }
        let now = self.now;
        self.node(peer).exchange.handle_providers(now, session, &providers);
        self.settle(peer);
    }

    /// Checks that the state of an exchange is within its limits.
    fn check(&mut self, peer: Peer) {
        let (now, limits) = (self.now, &self.plan.limits);
        // The other strategies have no such limit.
        let requests_max = match self.plan.strategy {
            Strategy::Watchfire => limits.sent_wants_per_peer_max,
            Strategy::Boxo | Strategy::GoBitswap => usize::MAX,
        };
        let node = &mut self.nodes[peer.0 as usize];
        // A node with many peers wakes often.
        if node.peers.len() > PEERS_CHECKED_ALWAYS && now.since(node.checked_at) < CHECK_INTERVAL {
            return;
        }
        node.checked_at = now;
        let known: BTreeSet<Peer> = node.exchange.peers().collect();
        let mut found = Vec::new();
        if known != node.peers {
            found.push(format!("it has {} of {} peers", known.len(), node.peers.len()));
        }
        for other in known {
            let Some(totals) = node.exchange.peer(other) else { continue };
            if totals.wants > limits.wants_per_peer_max {
                found.push(format!("it stores {} wants of peer {}", totals.wants, other.0));
            }
            if totals.requested_blocks > requests_max {
                found.push(format!("{} requests to peer {}", totals.requested_blocks, other.0));
            }
        }
        for violation in found {
            self.record_violation(peer, format_args!("{violation}"));
        }
    }

    fn outcome(self) -> Outcome {
        let since = |at: Instant| at.since(Instant::ZERO);
        let peers =
            self.nodes.iter().zip(&self.plan.peers).zip(0..).map(|((node, peer_plan), host)| {
                let (sent_bytes, received_bytes) = self.network.traffic(Host(host));
                let last = node.is_online.then(|| node.exchange.totals());
                PeerOutcome {
                    group: peer_plan.group,
                    is_seeder: peer_plan.is_seeder,
                    is_awaited: peer_plan.is_awaited(),
                    arrived_at: peer_plan.arrives_at,
                    finished_at: node.finished_at.map(since),
                    received_at: node.received_at.iter().copied().map(since).collect(),
                    totals: node.earlier_totals.iter().copied().chain(last).collect(),
                    sent_bytes,
                    received_bytes,
                }
            });
        Outcome {
            blocks: self.dag.len(),
            bytes: self.dag.bytes(),
            bound: Bound::of(self.plan, self.dag.bytes()),
            peers: peers.collect(),
            ended_at: since(self.now),
            honest_dropped: self.honest_dropped,
            malicious_dropped: self.malicious_dropped,
            steps: self.network.steps_taken() + self.timers_set,
            uplink_use: self.uplink_use.into_intervals(),
            violations: self.violations,
        }
    }
}

fn exchange(plan: &Plan, rng: &mut Rng) -> Exchange<Peer, FakeBlock> {
    Exchange::with_strategy(plan.limits.clone(), plan.strategy.build(), rng.next_u64())
}
