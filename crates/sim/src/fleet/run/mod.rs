//! The simulation of a fleet. Its hosts do what `watchfire-mirror` does: see `fleet/` and
//! `download/spread.rs` there.

mod blocks;
mod connections;
mod hashes;
mod membership;
mod reports;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use watchfire_bitswap::{Exchange, Limits, Message};
use watchfire_fleet::{ALL_NEIGHBOURS_MAX, Assignment, Coordinator, Report};
use watchfire_types::{Instant, Rng};

use super::host::{Download, FleetHost, HostId, Waiter};
use super::image::{BLOCK_BYTES, Image, Layer};
use super::outcome::{FleetOutcome, HostOutcome};
use super::plan::{FleetBound, FleetPlan, HostPlan};
use crate::dag::FakeBlock;
use crate::network::{Arrival, Host, Network, Path};
use crate::schedule::Schedule;
use crate::strategies::Strategy;
use crate::swarm::Progress;
use crate::swarm::message_len::message_len;

const REGISTRY: HostId = 0;
/// How long a host waits for new hashes before it sends an empty answer.
const HASHES_WAIT: Duration = Duration::from_secs(5);
/// Approximate bytes of a request or response, and of a hash and a contact in it.
const REQUEST_BYTES: usize = 400;
const HASH_BYTES: usize = 52;
const CONTACT_BYTES: usize = 150;
/// Steps between two progress reports.
const STEPS_PER_REPORT: u64 = 1 << 14;
const VIOLATIONS_MAX: usize = 100;

/// Runs a plan until all awaited hosts have the image, or until its time limit.
pub fn run_fleet(plan: &FleetPlan, watch: &mut dyn FnMut(Progress)) -> FleetOutcome {
    let mut fleet = Simulation::new(plan);
    fleet.run(watch);
    fleet.outcome()
}

/// The number of a list of hashes, and the hashes in it that the receiver lacks.
type KnownHashes = (u64, Vec<(u32, [u8; 32])>);

/// A message between hosts, or between a host and the registry.
enum FleetMessage {
    Exchange(Message<FakeBlock>),
    Report {
        layer: Layer,
        number: u64,
        report: Report,
    },
    Assignment {
        layer: Layer,
        number: u64,
        assignment: Assignment<HostId>,
    },
    Announce {
        layer: Layer,
    },
    AskHashes {
        layer: Layer,
        list: u64,
        after: usize,
    },
    /// `None`: the sender has nothing of the layer.
    Hashes {
        layer: Layer,
        answer: Option<KnownHashes>,
    },
    /// To the registry: these blocks of a layer.
    AskRange {
        layer: Layer,
        blocks: Range<usize>,
    },
    RangeBlock {
        number: u32,
    },
}

impl FleetMessage {
    fn bytes(&self) -> u64 {
        let bytes = match self {
            FleetMessage::Exchange(message) => return message_len(message, Strategy::Watchfire),
            FleetMessage::RangeBlock { .. } => {
                unreachable!("its length is the length of the block")
            }
            FleetMessage::Assignment { assignment, .. } => assignment.hosts.len() * CONTACT_BYTES,
            FleetMessage::Hashes { answer: Some((_, hashes)), .. } => hashes.len() * HASH_BYTES,
            FleetMessage::Report { .. }
            | FleetMessage::Announce { .. }
            | FleetMessage::AskHashes { .. }
            | FleetMessage::Hashes { answer: None, .. }
            | FleetMessage::AskRange { .. } => 0,
        };
        (REQUEST_BYTES + bytes) as u64
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Join(HostId),
    Start(HostId),
    Leave(HostId),
    Wake(HostId),
    Tick(HostId),
    Report(HostId, Layer),
    ReportTimeout(HostId, Layer, u64),
    /// The handshakes of a connection end. The flag says whether the second host accepted it.
    Connected(HostId, HostId, bool),
    DisconnectNoticed(HostId, HostId),
    AskHashes(HostId, Layer, HostId),
    SendHashes(HostId, Layer),
    /// The registry begins to answer.
    Serve(HostId, Layer, Range2),
}

/// The ends of a range, which has no order itself.
type Range2 = (usize, usize);

struct Simulation<'a> {
    plan: &'a FleetPlan,
    image: Image,
    network: Network<FleetMessage>,
    /// The registry has a place too, so that a host's number is its index.
    hosts: Vec<FleetHost>,
    /// For each region and layer, the hosts in the order of their distance to its digest.
    closest: Vec<Vec<BTreeMap<u64, HostId>>>,
    waiting: BTreeMap<(HostId, HostId), Vec<FleetMessage>>,
    timers: Schedule<Timer>,
    now: Instant,
    awaited: usize,
    finished: usize,
    held: u64,
    registry_bytes: Vec<u64>,
    /// For each region and layer, the hosts that answered reports.
    coordinators: BTreeMap<(usize, Layer), BTreeSet<HostId>>,
    requests_per_second_max: u32,
    connections_max: usize,
    rejected_connections: u64,
    violations: Vec<String>,
}

impl<'a> Simulation<'a> {
    fn new(plan: &'a FleetPlan) -> Self {
        let image = Image::new(&plan.layers, plan.seed);
        let mut network = Network::new(plan.network, Rng::for_purpose(plan.seed, 1).next_u64());
        let mut rng = Rng::for_purpose(plan.seed, 2);
        network.add(plan.registry);
        for host in &plan.hosts {
            network.add(host.access);
        }
        let limits = Limits { block_bytes_estimate: BLOCK_BYTES as usize, ..Limits::default() };
        let hosts = (0..=plan.hosts.len()).map(|_| {
            let exchange = Exchange::new(limits.clone(), rng.next_u64());
            let coordinator = Coordinator::new(plan.leases_per_layer, rng.next_u64());
            FleetHost::new(exchange, coordinator, &image)
        });
        let hosts = hosts.collect();
        let awaited = plan.hosts.iter().filter(|host| host.leaves_at.is_none()).count();
        let mut fleet = Simulation {
            plan,
            network,
            hosts,
            closest: vec![vec![BTreeMap::new(); image.layers()]; plan.paths.len()],
            image,
            waiting: BTreeMap::new(),
            timers: Schedule::new(),
            now: Instant::ZERO,
            awaited,
            finished: 0,
            held: 0,
            registry_bytes: vec![0; plan.paths.len()],
            coordinators: BTreeMap::new(),
            requests_per_second_max: 0,
            connections_max: 0,
            rejected_connections: 0,
            violations: Vec::new(),
        };
        // Hosts that join at the same moment know each other when they start.
        for (host, host_plan) in (1..).zip(&plan.hosts) {
            fleet.timers.push(Instant::ZERO + host_plan.joins_at, Timer::Join(host));
        }
        for (host, host_plan) in (1..).zip(&plan.hosts) {
            fleet.timers.push(Instant::ZERO + host_plan.starts_at, Timer::Start(host));
            if let Some(at) = host_plan.leaves_at {
                fleet.timers.push(Instant::ZERO + at, Timer::Leave(host));
            }
        }
        fleet
    }

    fn run(&mut self, watch: &mut dyn FnMut(Progress)) {
        let end = Instant::ZERO + self.plan.time_max;
        let mut steps: u64 = 0;
        while self.finished < self.awaited {
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
            steps += 1;
            if steps.is_multiple_of(STEPS_PER_REPORT) {
                watch(self.progress());
            }
        }
        watch(self.progress());
    }

    fn progress(&self) -> Progress {
        let all = self.awaited * self.image.blocks();
        Progress {
            now: self.now.since(Instant::ZERO),
            part: self.held as f64 / all.max(1) as f64,
            finished: self.finished,
            awaited: self.awaited,
        }
    }

    fn host(&mut self, host: HostId) -> &mut FleetHost {
        &mut self.hosts[host as usize]
    }

    fn host_plan(&self, host: HostId) -> &'a HostPlan {
        &self.plan.hosts[host as usize - 1]
    }

    fn region(&self, host: HostId) -> usize {
        match host {
            REGISTRY => self.plan.registry_region,
            _ => self.host_plan(host).region,
        }
    }

    fn path(&self, a: HostId, b: HostId) -> Path {
        self.plan.paths[self.region(a)][self.region(b)]
    }

    fn is_online(&self, host: HostId) -> bool {
        host == REGISTRY || self.hosts[host as usize].is_online
    }

    fn record_violation(&mut self, host: HostId, violation: std::fmt::Arguments<'_>) {
        if self.violations.len() < VIOLATIONS_MAX {
            let at = self.now.since(Instant::ZERO).as_secs_f64();
            self.violations.push(format!("{at:.6} s: host {host}: {violation}"));
        }
    }

    fn handle_arrival(&mut self, arrival: Arrival<FleetMessage>) {
        let now = self.now;
        match arrival {
            Arrival::Message { from, to, message } => self.handle_message(to.0, from.0, message),
            Arrival::Part { from, to } => {
                if from.0 != REGISTRY && to.0 != REGISTRY {
                    self.host(to.0).exchange.handle_partial_message(now, from.0);
                    self.settle(to.0);
                }
            }
            Arrival::Room { from, to, .. } => {
                if from.0 != REGISTRY && to.0 != REGISTRY {
                    let room = self.network.room(from, to) as usize;
                    self.host(from.0).exchange.handle_writable(now, to.0, room);
                    self.settle(from.0);
                }
            }
        }
    }

    fn handle_message(&mut self, host: HostId, from: HostId, message: FleetMessage) {
        let now = self.now;
        match message {
            FleetMessage::Exchange(message) => {
                self.host(host).exchange.handle_message(now, from, message);
                self.settle(host);
            }
            FleetMessage::Report { layer, number, report } => {
                let assignment = self.coordinate(host, from, layer, &report);
                let answer = FleetMessage::Assignment { layer, number, assignment };
                self.send(host, from, answer);
            }
            FleetMessage::Assignment { layer, number, assignment } => {
                self.apply(host, layer, number, assignment);
            }
            FleetMessage::Announce { layer } => {
                self.count_request(host);
                self.host(host).coordinator.handle_announcement(now, &layer, from);
            }
            FleetMessage::AskHashes { layer, list, after } => {
                let waiter =
                    Waiter { host: from, layer, list, after, expires_at: now + HASHES_WAIT };
                self.answer_hashes(host, waiter);
                if self.host(host).add_neighbour(layer, from, ALL_NEIGHBOURS_MAX) {
                    self.ask_hashes(host, layer, from);
                }
            }
            FleetMessage::Hashes { layer, answer } => self.learn(host, layer, from, answer),
            FleetMessage::AskRange { layer, blocks } => {
                let at = now + self.plan.registry_wait;
                self.timers.push(at, Timer::Serve(from, layer, (blocks.start, blocks.end)));
            }
            FleetMessage::RangeBlock { number } => self.write(host, number, true),
        }
    }

    fn handle_timer(&mut self, timer: Timer) {
        match timer {
            Timer::Join(host) => self.join(host),
            Timer::Start(host) => {
                self.host(host).has_started = true;
                self.start_layers(host);
            }
            Timer::Leave(host) => self.leave(host),
            Timer::Wake(host) => self.wake(host),
            Timer::Tick(host) => self.tick(host),
            Timer::Report(host, layer) => {
                let now = self.now;
                let download = self.host(host).downloads.get(&layer);
                if download.is_some_and(|one| !one.is_reporting && one.report_at <= now) {
                    self.report(host, layer);
                }
            }
            Timer::ReportTimeout(host, layer, number) => {
                let download = self.host(host).downloads.get(&layer);
                if let Some(one) = download
                    && one.is_reporting
                    && one.report == number
                {
                    self.report_failed(host, layer);
                }
            }
            Timer::Connected(host, other, is_accepted) => self.connected(host, other, is_accepted),
            Timer::DisconnectNoticed(host, other) => self.notice_disconnect(host, other),
            Timer::AskHashes(host, layer, neighbour) => self.ask_hashes(host, layer, neighbour),
            Timer::SendHashes(host, layer) => self.send_hashes(host, layer),
            Timer::Serve(host, layer, (start, end)) => {
                let region = self.region(host);
                for block in start..end {
                    let number = self.image.number(layer, block);
                    let bytes = u64::from(self.image.len_of(number));
                    if self.network.is_open(Host(REGISTRY), Host(host)) {
                        self.registry_bytes[region] += bytes;
                    }
                    let message = FleetMessage::RangeBlock { number };
                    self.network.send(self.now, Host(REGISTRY), Host(host), bytes, message);
                }
            }
        }
    }

    fn outcome(self) -> FleetOutcome {
        let since = |at: Instant| at.since(Instant::ZERO);
        let hosts =
            (1..).zip(self.hosts.iter().skip(1).zip(&self.plan.hosts)).map(|(id, (host, plan))| {
                HostOutcome {
                    started_at: plan.starts_at,
                    finished_at: host.finished_at.map(since),
                    is_awaited: plan.leaves_at.is_none(),
                    received_at: host.received_at.map(|(first, last)| (since(first), since(last))),
                    received_blocks: host.received_blocks,
                    totals: host.exchange.totals(),
                    traffic: self.network.traffic(Host(id)),
                }
            });
        FleetOutcome {
            bytes: self.image.bytes,
            blocks: self.image.blocks(),
            bound: FleetBound::of(self.plan, self.image.bytes),
            hosts: hosts.collect(),
            registry_bytes: self.registry_bytes,
            registry_traffic: self.network.traffic(Host(REGISTRY)),
            requests_per_second_max: self.requests_per_second_max,
            connections_max: self.connections_max,
            rejected_connections: self.rejected_connections,
            coordinators_max: self.coordinators.values().map(BTreeSet::len).max().unwrap_or(0),
            ended_at: since(self.now),
            violations: self.violations,
        }
    }
}

fn download_mut(hosts: &mut [FleetHost], host: HostId, layer: Layer) -> &mut Download {
    hosts[host as usize].downloads.get_mut(&layer).expect("the caller checked")
}

/// The distance of a host to the digest of a layer. Both are random.
fn distance(seed: u64, layer: Layer, host: HostId) -> u64 {
    Rng::from_seed(seed ^ (layer as u64 + 1) << 40 ^ u64::from(host)).next_u64()
}
