//! A swarm of exchanges on a simulated clock and network.

mod blocks;
mod limits;
mod membership;
pub(crate) mod message_len;
mod node;
mod observer;
mod outcome;
mod topology;

use std::time::Duration;

use watchfire_bitswap::{Exchange, Message, Output};
use watchfire_content::Cid;
use watchfire_types::{Instant, Rng};

use crate::dag::{Dag, FakeBlock};
use crate::network::{Arrival, Host, Network, Path};
use crate::plan::{Bound, PeerPlan, Plan};
use crate::schedule::Schedule;
use node::{Node, Peer};
use observer::ProgressOnly;
use topology::Topology;

pub use observer::{Event, EventKind, Observer, PeerProgress};
pub use outcome::{Outcome, PeerOutcome};

const SEARCH_TIME: Duration = Duration::from_millis(300);
/// Wakes at one simulated time after which an exchange counts as stuck in a loop.
const WAKES_MAX: u32 = 10_000;
/// Steps between two progress reports.
const STEPS_PER_REPORT: u64 = 1 << 14;
/// Violations after which a simulation stops.
const VIOLATIONS_MAX: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    pub now: Duration,
    /// The share of all blocks that the awaited peers have.
    pub part: f64,
    /// Awaited peers that have all blocks.
    pub finished: usize,
    pub awaited: usize,
}

/// Runs a plan until all awaited peers have all blocks, or until its time limit.
///
/// The same plan has the same outcome on every machine.
pub fn run(plan: &Plan, watch: &mut dyn FnMut(Progress)) -> Outcome {
    run_observed(plan, &mut ProgressOnly(watch))
}

/// Runs a plan as [`run`] does, before an observer. An observer sees the same events of the same plan, in the same
/// order.
pub fn run_observed(plan: &Plan, observer: &mut dyn Observer) -> Outcome {
    let mut swarm = Swarm::new(plan);
    swarm.events = observer.sees_events().then(Vec::new);
    swarm.run(observer);
    swarm.outcome()
}

struct Swarm<'a> {
    plan: &'a Plan,
    dag: Dag,
    network: Network<Message<FakeBlock>>,
    topology: Topology,
    nodes: Vec<Node>,
    timers: Schedule<Timer>,
    now: Instant,
    rng: Rng,
    awaited: usize,
    finished: usize,
    /// Blocks that the awaited peers have, in total.
    held: u64,
    violations: Vec<String>,
    /// The events of this step; `None` if the observer is not told events.
    events: Option<Vec<Event>>,
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
        let mut swarm = Swarm {
            plan,
            dag,
            network,
            topology,
            nodes,
            timers: Schedule::new(),
            now: Instant::ZERO,
            rng,
            awaited,
            finished: 0,
            held: 0,
            violations: Vec::new(),
            events: None,
            malicious_dropped: 0,
        };
        for (peer, peer_plan) in (0..).map(Peer).zip(&plan.peers) {
            swarm.timers.push(Instant::ZERO + peer_plan.arrives_at, Timer::Arrive(peer));
            if let Some(at) = peer_plan.leaves_at {
                swarm.timers.push(Instant::ZERO + at, Timer::Leave(peer));
            }
            if let Some(at) = peer_plan.returns_at {
                swarm.timers.push(Instant::ZERO + at, Timer::Arrive(peer));
            }
        }
        if plan.breaks_per_second > 0.0 {
            swarm.set_break();
        }
        swarm
    }

    fn run(&mut self, observer: &mut dyn Observer) {
        let end = Instant::ZERO + self.plan.time_max;
        let mut steps: u64 = 0;
        while self.finished < self.awaited && self.violations.len() < VIOLATIONS_MAX {
            let network_at = self.network.next_at();
            let timer_at = self.timers.next_at();
            let Some(at) = [network_at, timer_at].into_iter().flatten().min() else { break };
            if at > end {
                self.now = end;
                break;
            }
            self.now = at;
            if network_at == Some(at) {
                self.network.step();
                while let Some(arrival) = self.network.poll_arrival() {
                    self.handle_arrival(arrival);
                }
            } else if let Some((_, timer)) = self.timers.pop() {
                self.handle_timer(timer);
            }
            self.tell_events(observer);
            steps += 1;
            if steps.is_multiple_of(STEPS_PER_REPORT) {
                self.tell_progress(observer);
            }
        }
        self.tell_progress(observer);
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
        if let (Arrival::Message { message, .. }, Some(_)) = (&arrival, &self.events) {
            let bytes = message_len::message_len(message, self.plan.strategy);
            self.note(EventKind::Receive, from, Some(peer), bytes);
        }
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
            self.timers.push(at, Timer::Wake(peer));
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
                self.timers.push(now + SEARCH_TIME, Timer::SearchDone(peer, cid, arrivals));
            }
            // No node asks questions.
            Output::Answered { .. } => {}
            Output::DropPeer { peer: other, reason } => {
                if self.peer_plan(other).attack.is_some() {
                    self.malicious_dropped += 1;
                } else {
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

    fn outcome(self) -> Outcome {
        let since = |at: Instant| at.since(Instant::ZERO);
        let peers =
            self.nodes.iter().zip(&self.plan.peers).zip(0..).map(|((node, peer_plan), host)| {
                let (sent_bytes, received_bytes) = self.network.traffic(Host(host));
                let last = node.is_online.then(|| node.exchange.totals());
                PeerOutcome {
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
            malicious_dropped: self.malicious_dropped,
            violations: self.violations,
        }
    }
}

fn exchange(plan: &Plan, rng: &mut Rng) -> Exchange<Peer, FakeBlock> {
    Exchange::with_strategy(plan.limits.clone(), plan.strategy.build(), rng.next_u64())
}
