//! A swarm of exchanges on a pretend clock and network.

mod node;
mod outcome;
mod topology;
mod uses;
mod wire;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::Duration;

use bitswap::{Behaviour, Exchange, Message, Output, Payload, Protocol};
use content::Cid;
use vocab::Instant;

use crate::dag::{Dag, Parcel};
use crate::dice::Dice;
use crate::network::{Arrival, Host, Network, Path};
use crate::plan::{Bound, Lie, PeerPlan, Plan};
use node::{Node, Peer};
use topology::Topology;
use uses::Uses;

pub use outcome::{Outcome, PeerOutcome, Use};

/// Round trips until a connection can be used: TCP's, TLS's, and one to agree on protocols.
const ROUND_TRIPS_TO_CONNECT: u32 = 3;
/// How long it takes until a connection that broke is made anew, or one to a provider is.
const REDIAL: Duration = Duration::from_secs(1);
/// How long a search for providers takes.
const SEARCH: Duration = Duration::from_millis(300);
/// Providers that a search finds.
const PROVIDERS_MAX: usize = 10;
/// Wakes at one time after which an exchange is held to run in circles.
const WAKES_MAX: u32 = 10_000;
/// Peers of a node that is looked at whenever it was woken.
const CHECKED_ALWAYS: usize = 12;
/// How often others are looked at.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Steps between two looks at how far it is.
const STEPS_PER_LOOK: u64 = 1 << 14;
/// Broken promises that are told one by one.
const BROKEN_MAX: usize = 100;

/// How far a simulation is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The pretend time.
    pub now: Duration,
    /// Part of all blocks that those who are waited for have.
    pub part: f64,
    /// How many that are waited for have everything.
    pub finished: usize,
    /// How many are waited for.
    pub awaited: usize,
}

/// Runs a plan to its end: until all who are waited for have everything, or its time is up.
///
/// The same plan has the same outcome, whatever the machine.
pub fn run(plan: &Plan, watch: &mut dyn FnMut(Progress)) -> Outcome {
    let mut swarm = Swarm::new(plan);
    swarm.run(watch);
    swarm.outcome()
}

struct Swarm<'a> {
    plan: &'a Plan,
    dag: Dag,
    network: Network<Message<Parcel>>,
    topology: Topology,
    nodes: Vec<Node>,
    alarms: BinaryHeap<Reverse<(Instant, u64, Alarm)>>,
    alarms_set: u64,
    now: Instant,
    dice: Dice,
    awaited: usize,
    finished: usize,
    /// Blocks of those that are waited for.
    held: u64,
    uses: Uses,
    broken: Vec<String>,
    healthy_dropped: u32,
    liars_dropped: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    Arrive(Peer),
    Leave(Peer),
    Wake(Peer),
    /// The handshakes of a connection are done.
    Connect(Peer, Peer, Why),
    /// A peer notices that another, which had arrived so often, is gone.
    Notice(Peer, Peer, u32),
    /// Some connection breaks.
    Break,
    /// The store of a peer, which had arrived so often, has read a block for another.
    Read(Peer, Peer, u32, u32),
    Found(Peer, Cid, u32),
}

/// Why two peers connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    /// They are next to each other. Who comes in between before the handshakes are done takes the place.
    Neighbours,
    /// One was named to the other as a provider, or they were connected before.
    Called,
}

impl<'a> Swarm<'a> {
    fn new(plan: &'a Plan) -> Self {
        let dag = Dag::new(plan.file, plan.seed);
        let mut network = Network::new(plan.network, Dice::of(plan.seed, 1).word());
        let mut dice = Dice::of(plan.seed, 2);
        let topology = Topology::new(plan.neighbours, Dice::of(plan.seed, 3).word());
        let mut nodes = Vec::with_capacity(plan.peers.len());
        for peer in &plan.peers {
            network.add(peer.access);
            nodes.push(Node::new(exchange(plan, &mut dice), dag.len()));
        }
        let awaited = plan.peers.iter().filter(|peer| peer.is_awaited()).count();
        let bound = Bound::of(plan, dag.bytes()).seconds();
        let mut swarm = Swarm {
            plan,
            dag,
            network,
            topology,
            nodes,
            alarms: BinaryHeap::new(),
            alarms_set: 0,
            now: Instant::ZERO,
            dice,
            awaited,
            finished: 0,
            held: 0,
            uses: Uses::new(Duration::from_secs_f64(bound.clamp(0.001, 86_400.0) / 200.0)),
            broken: Vec::new(),
            healthy_dropped: 0,
            liars_dropped: 0,
        };
        for (peer, fate) in (0..).map(Peer).zip(&plan.peers) {
            swarm.alarm(Instant::ZERO + fate.arrives_at, Alarm::Arrive(peer));
            if let Some(at) = fate.leaves_at {
                swarm.alarm(Instant::ZERO + at, Alarm::Leave(peer));
            }
            if let Some(at) = fate.returns_at {
                swarm.alarm(Instant::ZERO + at, Alarm::Arrive(peer));
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
        while self.finished < self.awaited && self.broken.len() < BROKEN_MAX {
            let moved = self.network.next_at();
            let alarm = self.alarms.peek().map(|Reverse((at, ..))| *at);
            let Some(at) = [moved, alarm].into_iter().flatten().min() else { break };
            if at > end {
                self.now = end;
                break;
            }
            while let due_at = Instant::ZERO + self.uses.due_at()
                && due_at <= at
            {
                self.now = due_at;
                self.look_at_uplinks();
            }
            self.now = at;
            if moved == Some(at) {
                self.network.step();
                while let Some(arrival) = self.network.poll_arrival() {
                    self.arrived(arrival);
                }
            } else if let Some(Reverse((.., alarm))) = self.alarms.pop() {
                self.ring(alarm);
            }
            steps += 1;
            if steps.is_multiple_of(STEPS_PER_LOOK) {
                watch(self.progress());
            }
        }
        self.look_at_uplinks();
        watch(self.progress());
    }

    fn look_at_uplinks(&mut self) {
        let (mut sent, mut rates) = ([0; 2], [0; 2]);
        for (host, (fate, node)) in (0..).zip(self.plan.peers.iter().zip(&self.nodes)) {
            let whose = usize::from(!fate.is_seeder);
            sent[whose] += self.network.traffic(Host(host)).0;
            rates[whose] += if node.is_here { fate.access.up } else { 0 };
        }
        let now = self.now.since(Instant::ZERO);
        self.uses.look(now, sent.into(), rates.into());
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

    fn alarm(&mut self, at: Instant, alarm: Alarm) {
        self.alarms.push(Reverse((at, self.alarms_set, alarm)));
        self.alarms_set += 1;
    }

    fn fate(&self, peer: Peer) -> &'a PeerPlan {
        &self.plan.peers[peer.0 as usize]
    }

    fn node(&mut self, peer: Peer) -> &mut Node {
        &mut self.nodes[peer.0 as usize]
    }

    fn path(&self, a: Peer, b: Peer) -> Path {
        self.plan.paths[self.fate(a).region][self.fate(b).region]
    }

    fn break_promise(&mut self, peer: Peer, what: std::fmt::Arguments<'_>) {
        if self.broken.len() < BROKEN_MAX {
            let at = self.now.since(Instant::ZERO).as_secs_f64();
            self.broken.push(format!("{at:.6} s: peer {}: {what}", peer.0));
        }
    }

    fn arrived(&mut self, arrival: Arrival<Message<Parcel>>) {
        let now = self.now;
        let (peer, from) = match &arrival {
            Arrival::Message { from, to, .. } | Arrival::Part { from, to } => (*to, *from),
            Arrival::Room { from, to, .. } => (*from, *to),
        };
        // More may have been sent since the room was told of.
        let room = self.network.room(peer, from) as usize;
        let (peer, from) = (Peer(peer.0), Peer(from.0));
        let exchange = &mut self.node(peer).exchange;
        match arrival {
            Arrival::Message { message, .. } => exchange.received(now, from, message),
            Arrival::Part { .. } => exchange.arriving(now, from),
            Arrival::Room { .. } => exchange.writable(now, from, room),
        }
        self.settle(peer);
    }

    fn ring(&mut self, alarm: Alarm) {
        let now = self.now;
        match alarm {
            Alarm::Arrive(peer) => self.arrive(peer),
            Alarm::Leave(peer) => self.leave(peer),
            Alarm::Wake(peer) => self.wake(peer),
            Alarm::Connect(a, b, why) => self.connect(a, b, why),
            Alarm::Notice(peer, other, arrivals) => {
                let is_same = self.nodes[other.0 as usize].arrivals == arrivals;
                if is_same && self.node(peer).peers.remove(&other) {
                    self.node(peer).exchange.disconnected(now, other);
                    self.settle(peer);
                }
                self.dial_neighbours(peer);
            }
            Alarm::Break => self.break_some(),
            Alarm::Read(peer, to, block, arrivals) => {
                if !self.node(peer).is_here || self.node(peer).arrivals != arrivals {
                    return;
                }
                let len = self.dag.block_len(block);
                let node = self.node(peer);
                node.reads -= 1;
                node.reading_bytes -= u64::from(len);
                self.give(peer, to, block);
                self.settle(peer);
            }
            Alarm::Found(peer, cid, arrivals) => self.found(peer, &cid, arrivals),
        }
    }

    fn arrive(&mut self, peer: Peer) {
        let (now, fate) = (self.now, self.fate(peer));
        let mut fresh = exchange(self.plan, &mut self.dice);
        let is_full = fate.is_seeder || fate.lie.is_some();
        for block in 0..self.dag.len() {
            let node = &mut self.nodes[peer.0 as usize];
            if fate.is_seeder {
                node.store(block);
            }
            if is_full || node.has(block) {
                fresh.have(now, self.dag.cid(block), self.dag.block_len(block) as usize);
            }
        }
        let node = &mut self.nodes[peer.0 as usize];
        node.exchange = fresh;
        node.is_here = true;
        node.arrivals += 1;
        node.wake_at = None;
        if !is_full && node.finished_at.is_none() {
            node.begin(now, &self.dag);
        }
        // Who has not noticed that it was gone does so now.
        for other in (0..self.nodes.len() as u32).map(Peer) {
            if self.node(other).peers.remove(&peer) {
                self.node(other).exchange.disconnected(now, peer);
                self.settle(other);
            }
        }
        self.topology.join(peer);
        self.settle(peer);
        self.dial_neighbours(peer);
    }

    fn leave(&mut self, peer: Peer) {
        let fate = self.fate(peer);
        if !self.node(peer).is_here {
            return;
        }
        self.topology.leave(peer);
        let node = self.node(peer);
        node.is_here = false;
        node.session = None;
        let totals = node.exchange.totals();
        node.before.push(totals);
        node.reads = 0;
        node.reading_bytes = 0;
        let (arrivals, peers) = (node.arrivals, std::mem::take(&mut node.peers));
        for other in peers {
            self.network.close(Host(peer.0), Host(other.0));
            let at = self.now + self.path(peer, other).delay + fate.noticed_after;
            self.alarm(at, Alarm::Notice(other, peer, arrivals));
        }
    }

    /// Connects a peer to those neighbours that it is not connected to.
    fn dial_neighbours(&mut self, peer: Peer) {
        if self.node(peer).is_here {
            for other in self.topology.neighbours(peer) {
                self.dial(peer, other, Duration::ZERO, Why::Neighbours);
            }
        }
    }

    fn dial(&mut self, peer: Peer, other: Peer, wait: Duration, why: Why) {
        if self.node(peer).peers.contains(&other)
            || self.network.is_open(Host(peer.0), Host(other.0))
        {
            return;
        }
        let handshakes = 2 * self.path(peer, other).delay * ROUND_TRIPS_TO_CONNECT;
        self.alarm(self.now + wait + handshakes, Alarm::Connect(peer, other, why));
    }

    fn connect(&mut self, a: Peer, b: Peer, why: Why) {
        let may = |swarm: &mut Self, a: Peer, b: Peer| {
            let node = swarm.node(a);
            node.is_here && !node.peers.contains(&b) && !node.banned.contains(&b)
        };
        if !may(self, a, b) || !may(self, b, a) {
            return;
        }
        if why == Why::Neighbours && !self.topology.are_neighbours(a, b) {
            return;
        }
        let now = self.now;
        let path = self.path(a, b);
        self.network.open(Host(a.0), Host(b.0), path);
        let protocol = match self.plan.behaviour {
            Behaviour::Ours => Protocol::Leaves,
            Behaviour::Kubo12 => Protocol::V1_2,
            Behaviour::Old11 => Protocol::V1_1,
        };
        for (peer, other) in [(a, b), (b, a)] {
            let room = self.network.room(Host(peer.0), Host(other.0)) as usize;
            let node = self.node(peer);
            node.peers.insert(other);
            node.exchange.connected(now, other, protocol);
            node.exchange.writable(now, other, room);
            self.settle(peer);
        }
    }

    /// Ends a connection; both know at once.
    fn disconnect(&mut self, a: Peer, b: Peer) {
        let now = self.now;
        self.network.close(Host(a.0), Host(b.0));
        for (peer, other) in [(a, b), (b, a)] {
            if self.node(peer).peers.remove(&other) {
                self.node(peer).exchange.disconnected(now, other);
                self.settle(peer);
            }
        }
    }

    fn set_break(&mut self) {
        // Waits between things that happen independently; a sum stands in for a logarithm, which is not
        // the same on all machines.
        let wait = self.dice.unit() + self.dice.unit();
        let wait = Duration::from_secs_f64(wait / self.plan.breaks_per_second);
        self.alarm(self.now + wait, Alarm::Break);
    }

    fn break_some(&mut self) {
        self.set_break();
        let here = self.topology.here();
        let Some(at) = (!here.is_empty()).then(|| self.dice.below(here.len() as u64)) else {
            return;
        };
        let peer = *here.iter().nth(at as usize).expect("fewer than there are");
        let peers: Vec<Peer> = self.node(peer).peers.iter().copied().collect();
        if peers.is_empty() {
            return;
        }
        let other = peers[self.dice.below(peers.len() as u64) as usize];
        self.disconnect(peer, other);
        self.dial(peer, other, REDIAL, Why::Called);
    }

    fn wake(&mut self, peer: Peer) {
        let now = self.now;
        let node = self.node(peer);
        if node.wake_at != Some(now) {
            return;
        }
        node.wake_at = None;
        if !node.is_here {
            return;
        }
        if node.exchange.next_wake().is_some_and(|at| at <= now) {
            node.woken = (now, if node.woken.0 == now { node.woken.1 + 1 } else { 1 });
            if node.woken.1 > WAKES_MAX {
                let times = node.woken.1;
                // Without its alarm it sleeps until something comes.
                self.break_promise(peer, format_args!("it was due {times} times at one time"));
                return;
            }
            node.exchange.handle_tick(now);
        }
        self.settle(peer);
        self.check(peer);
    }

    /// Does all that an exchange wants done, and sets its alarm.
    fn settle(&mut self, peer: Peer) {
        while let Some(output) = self.node(peer).exchange.poll_output() {
            self.carry_out(peer, output);
        }
        let now = self.now;
        let node = self.node(peer);
        if !node.is_here {
            return;
        }
        let Some(at) = node.exchange.next_wake() else { return };
        let at = at.max(now);
        // An alarm that is too early looks again; one that is too late is too late.
        if node.wake_at.is_none_or(|set| set > at) {
            node.wake_at = Some(at);
            self.alarm(at, Alarm::Wake(peer));
        }
    }

    fn carry_out(&mut self, peer: Peer, output: Output<Peer, Parcel>) {
        let now = self.now;
        match output {
            Output::Send { peer: to, message } => self.send(peer, to, message),
            Output::Look { cid } => {
                let block = self.dag.find(&cid);
                let is_liar = self.fate(peer).lie.is_some();
                let block = block.filter(|block| is_liar || self.node(peer).has(*block));
                let len = block.map(|block| self.dag.block_len(block) as usize);
                self.node(peer).exchange.found(now, &cid, len);
            }
            Output::List { node } => {
                let leaves = self.leaves(peer, &node);
                self.node(peer).exchange.listed(now, &node, leaves);
            }
            Output::Read { peer: to, cid } => self.read(peer, to, &cid),
            Output::Got { block, .. } => self.got(peer, &block),
            Output::FindProviders { cid, .. } => {
                let arrivals = self.node(peer).arrivals;
                self.alarm(now + SEARCH, Alarm::Found(peer, cid, arrivals));
            }
            Output::Drop { peer: other, reason } => {
                if self.fate(other).lie.is_some() {
                    self.liars_dropped += 1;
                } else {
                    self.healthy_dropped += 1;
                    self.break_promise(
                        peer,
                        format_args!("it dropped peer {}, which is healthy: {reason}", other.0),
                    );
                }
                self.node(peer).banned.insert(other);
                self.node(peer).peers.remove(&other);
                self.disconnect(peer, other);
            }
        }
    }

    fn send(&mut self, peer: Peer, to: Peer, message: Message<Parcel>) {
        let bytes = wire::bytes(&message, self.plan.behaviour);
        let blocks: Vec<usize> = message.payloads().map(Payload::len).collect();
        let (from, host) = (Host(peer.0), Host(to.0));
        if self.network.is_open(from, host) {
            let room = self.network.room(from, host);
            // Real encoders need a few bytes more or less than is guessed here.
            if bytes > room + room / 16 + 4096 && blocks.len() != 1 {
                let what = format_args!("it sent {bytes} bytes into a pipe with room for {room}");
                self.break_promise(peer, what);
            }
            let max = self.plan.limits.message_bytes_max;
            let bytes = blocks.iter().sum::<usize>();
            if bytes > max && blocks.len() > 1 {
                let what =
                    format_args!("it sent {bytes} bytes of blocks at once, of at most {max}");
                self.break_promise(peer, what);
            }
        }
        if self.plan.behaviour != Behaviour::Ours {
            return self.network.send(self.now, from, host, bytes, message);
        }
        // Between those who speak leaves, what is said has a stream of its own.
        let (words, blocks) = message.apart();
        if !words.is_empty() {
            let bytes = wire::bytes(&words, self.plan.behaviour);
            self.network.send_ahead(self.now, from, host, bytes, words);
        }
        if !blocks.is_empty() {
            let bytes = wire::bytes(&blocks, self.plan.behaviour);
            self.network.send(self.now, from, host, bytes, blocks);
        }
    }

    fn read(&mut self, peer: Peer, to: Peer, cid: &Cid) {
        let now = self.now;
        let Some(block) = self.dag.find(cid) else {
            return self.node(peer).exchange.read(now, to, cid, None);
        };
        let len = self.dag.block_len(block);
        let max = self.plan.limits.reading_bytes_max as u64;
        let node = self.node(peer);
        node.reads += 1;
        node.reading_bytes += u64::from(len);
        let reading = node.reading_bytes;
        if reading > max && node.reads > 1 {
            let what = format_args!("it reads {reading} bytes at once, of at most {max}");
            self.break_promise(peer, what);
        }
        if self.fate(peer).lie == Some(Lie::Withhold) {
            return;
        }
        if self.plan.read_delay.is_zero() {
            let node = self.node(peer);
            node.reads -= 1;
            node.reading_bytes -= u64::from(len);
            self.give(peer, to, block);
        } else {
            let wait = self.plan.read_delay.mul_f64(self.dice.unit());
            let arrivals = self.node(peer).arrivals;
            self.alarm(now + wait, Alarm::Read(peer, to, block, arrivals));
        }
    }

    /// What a node in a peer's store links to, and whether that is there too.
    fn leaves(&self, peer: Peer, node: &Cid) -> Option<Vec<(Cid, bool)>> {
        let node = self.dag.find(node)?;
        let leaves = self.nodes[peer.0 as usize].leaves(&self.dag, node);
        leaves.filter(|leaves| !leaves.is_empty())
    }

    fn give(&mut self, peer: Peer, to: Peer, block: u32) {
        let parcel = match self.fate(peer).lie {
            Some(_) => Some(self.dag.forged(block, &mut self.dice)),
            None => self.nodes[peer.0 as usize].has(block).then(|| self.dag.parcel(block)),
        };
        let (now, cid) = (self.now, self.dag.cid(block).clone());
        self.node(peer).exchange.read(now, to, &cid, parcel);
    }

    fn got(&mut self, peer: Peer, parcel: &Parcel) {
        let now = self.now;
        let Some(block) = self.dag.find(parcel.cid()) else {
            return self
                .break_promise(peer, format_args!("it took a forged block for a wanted one"));
        };
        let is_awaited = self.fate(peer).is_awaited();
        let node = &mut self.nodes[peer.0 as usize];
        if !node.store(block) {
            return self.break_promise(peer, format_args!("it got block {block} twice"));
        }
        node.came.push(now);
        self.held += u64::from(is_awaited);
        node.exchange.have(now, parcel.cid(), parcel.len());
        node.took(now, &self.dag, block);
        if node.held < self.dag.len() {
            return;
        }
        node.finished_at = Some(now);
        self.finished += usize::from(is_awaited);
        if let Some(session) = node.session.take() {
            node.exchange.stop(now, session);
        }
        if self.fate(peer).leaves_when_done {
            self.alarm(now, Alarm::Leave(peer));
        }
    }

    /// A search is over: some who are here and have the block, or say so.
    fn found(&mut self, peer: Peer, cid: &Cid, arrivals: u32) {
        let Some(session) = self.node(peer).session else { return };
        if self.node(peer).arrivals != arrivals {
            return;
        }
        let Some(block) = self.dag.find(cid) else { return };
        let has = |other: &Peer| {
            let node = &self.nodes[other.0 as usize];
            *other != peer && (node.has(block) || self.fate(*other).lie.is_some())
        };
        let mut providers: Vec<Peer> = self.topology.here().iter().copied().filter(has).collect();
        self.dice.shuffle(&mut providers);
        let banned = &self.nodes[peer.0 as usize].banned;
        providers.retain(|other| !banned.contains(other));
        providers.truncate(PROVIDERS_MAX);
        for other in &providers {
            self.dial(peer, *other, Duration::ZERO, Why::Called);
        }
        let now = self.now;
        self.node(peer).exchange.providers(now, session, &providers);
        self.settle(peer);
    }

    /// What an exchange remembers must stay within its limits.
    fn check(&mut self, peer: Peer) {
        let (now, limits) = (self.now, &self.plan.limits);
        // Others ask for whatever they want.
        let asks_max = match self.plan.behaviour {
            Behaviour::Ours => limits.asks_per_peer_max,
            Behaviour::Kubo12 | Behaviour::Old11 => usize::MAX,
        };
        let node = &mut self.nodes[peer.0 as usize];
        // Whom many are connected to is woken for each of them.
        if node.peers.len() > CHECKED_ALWAYS && now.since(node.checked_at) < CHECK_INTERVAL {
            return;
        }
        node.checked_at = now;
        let known: BTreeSet<Peer> = node.exchange.peers().collect();
        let mut wrong = Vec::new();
        if known != node.peers {
            wrong.push(format!("it knows {} peers of {}", known.len(), node.peers.len()));
        }
        for other in known {
            let Some(totals) = node.exchange.peer(other) else { continue };
            if totals.wants > limits.wants_per_peer_max {
                wrong.push(format!("it remembers {} wants of peer {}", totals.wants, other.0));
            }
            if totals.asked_blocks > asks_max {
                wrong.push(format!("it asks peer {} for {}", other.0, totals.asked_blocks));
            }
        }
        for what in wrong {
            self.break_promise(peer, format_args!("{what}"));
        }
    }

    fn outcome(self) -> Outcome {
        let since = |at: Instant| at.since(Instant::ZERO);
        let peers = self.nodes.iter().zip(&self.plan.peers).zip(0..).map(|((node, fate), host)| {
            let (sent_bytes, received_bytes) = self.network.traffic(Host(host));
            let last = node.is_here.then(|| node.exchange.totals());
            PeerOutcome {
                group: fate.group,
                is_seeder: fate.is_seeder,
                is_awaited: fate.is_awaited(),
                arrived_at: fate.arrives_at,
                finished_at: node.finished_at.map(since),
                came: node.came.iter().copied().map(since).collect(),
                totals: node.before.iter().copied().chain(last).collect(),
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
            healthy_dropped: self.healthy_dropped,
            liars_dropped: self.liars_dropped,
            steps: self.network.steps_taken() + self.alarms_set,
            uses: self.uses.into_all(),
            broken: self.broken,
        }
    }
}

fn exchange(plan: &Plan, dice: &mut Dice) -> Exchange<Peer, Parcel> {
    Exchange::new(plan.limits.clone(), plan.behaviour, dice.word())
}
