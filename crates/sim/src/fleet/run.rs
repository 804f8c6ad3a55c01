//! The simulation of a fleet. Its hosts do what `watchfire-mirror` does: see `fleet/` and
//! `download/spread.rs` there.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Range;
use std::time::Duration;

use watchfire_bitswap::{Exchange, Limits, Message, Output, Payload, Protocol};
use watchfire_fleet::{
    ALL_NEIGHBOURS_MAX, Assignment, COMPLETE_LIST, Coordinator, HashList, Learned, NEIGHBOURS_MAX,
    REPORT_INTERVAL, Report,
};
use watchfire_types::{Instant, Rng};

use super::host::{Download, FleetHost, HostId, Lease, Waiter};
use super::image::{BLOCK_BYTES, Image, Layer};
use super::outcome::{FleetOutcome, HostOutcome};
use super::plan::{FleetBound, FleetPlan, HostPlan};
use crate::dag::FakeBlock;
use crate::network::{Arrival, Host, Network, Path};
use crate::strategies::Strategy;
use crate::swarm::Progress;
use crate::swarm::message_len::message_len;

const REGISTRY: HostId = 0;
/// Round trips until a connection can be used.
const ROUND_TRIPS_TO_CONNECT: u32 = 3;
/// How often a host looks after its downloads.
const TICK: Duration = Duration::from_millis(250);
/// Hashes that become known within this time are sent together.
const HASHES_BATCH: Duration = Duration::from_millis(20);
/// How long a host waits for new hashes before it sends an empty answer.
const HASHES_WAIT: Duration = Duration::from_secs(5);
/// Pause after an answer without hashes.
const EMPTY_PAUSE: Duration = Duration::from_millis(300);
/// Answers without hashes after which a neighbour is replaced.
const EMPTY_ANSWERS_MAX: u32 = 5;
/// Without a new block for so long, a host fetches leased blocks that other hosts should have.
const KNOWN_BLOCK_WAIT: Duration = Duration::from_secs(1);
/// How long a coordinator may take. After it the next closest host coordinates.
const COORDINATOR_TIMEOUT: Duration = Duration::from_millis(1500);
/// Coordinators that are asked in turn.
const COORDINATORS_MAX: u32 = 10;
/// How long a host that did not answer is passed over.
const FAILED_FOR: Duration = Duration::from_secs(15);
/// The hosts that a new coordinator asks for holders.
const SUCCESSORS: usize = 3;
/// Holders that one of them names.
const HOLDERS_MAX: usize = 8;
/// Approximate bytes of a request or response, and of a hash and a contact in it.
const REQUEST_BYTES: usize = 400;
const HASH_BYTES: usize = 52;
const CONTACT_BYTES: usize = 150;
/// Steps between two progress reports.
const STEPS_PER_REPORT: u64 = 1 << 14;
/// Violations that are recorded.
const VIOLATIONS_MAX: usize = 100;
/// Hosts whose blocks are recorded, for the picture.
const RECORDED_HOSTS: usize = 64;

/// Runs a plan until all awaited hosts have the image, or until its time limit.
pub fn run_fleet(plan: &FleetPlan, watch: &mut dyn FnMut(Progress)) -> FleetOutcome {
    let mut fleet = Simulation::new(plan);
    fleet.run(watch);
    fleet.outcome()
}

/// The number of a list of hashes, and those of its hashes that the receiver lacks.
type KnownHashes = (u64, Vec<(u32, [u8; 32])>);

/// What hosts and the registry send each other.
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
    /// A host has a layer.
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
            FleetMessage::Exchange(message) => return message_len(message, Strategy::Boxo),
            FleetMessage::RangeBlock { .. } => unreachable!("its length is that of the block"),
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
    /// Messages that wait for a connection.
    waiting: BTreeMap<(HostId, HostId), Vec<FleetMessage>>,
    timers: BinaryHeap<Reverse<(Instant, u64, Timer)>>,
    timers_set: u64,
    now: Instant,
    awaited: usize,
    finished: usize,
    held: u64,
    recorded: BTreeSet<HostId>,
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
        let step = plan.hosts.len().div_ceil(RECORDED_HOSTS).max(1);
        let mut fleet = Simulation {
            plan,
            network,
            hosts,
            closest: vec![vec![BTreeMap::new(); image.layers()]; plan.regions],
            image,
            waiting: BTreeMap::new(),
            timers: BinaryHeap::new(),
            timers_set: 0,
            now: Instant::ZERO,
            awaited,
            finished: 0,
            held: 0,
            recorded: (1..=plan.hosts.len() as u32).step_by(step).collect(),
            registry_bytes: vec![0; plan.regions],
            coordinators: BTreeMap::new(),
            requests_per_second_max: 0,
            connections_max: 0,
            rejected_connections: 0,
            violations: Vec::new(),
        };
        // Hosts that join at the same moment know each other when they start.
        for (host, host_plan) in (1..).zip(&plan.hosts) {
            fleet.set_timer(Instant::ZERO + host_plan.joins_at, Timer::Join(host));
        }
        for (host, host_plan) in (1..).zip(&plan.hosts) {
            fleet.set_timer(Instant::ZERO + host_plan.starts_at, Timer::Start(host));
            if let Some(at) = host_plan.leaves_at {
                fleet.set_timer(Instant::ZERO + at, Timer::Leave(host));
            }
        }
        fleet
    }

    fn run(&mut self, watch: &mut dyn FnMut(Progress)) {
        let end = Instant::ZERO + self.plan.time_max;
        let mut steps: u64 = 0;
        while self.finished < self.awaited {
            let network_at = self.network.next_at();
            let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
            let Some(at) = [network_at, timer].into_iter().flatten().min() else { break };
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
            } else if let Some(Reverse((.., timer))) = self.timers.pop() {
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

    fn set_timer(&mut self, at: Instant, timer: Timer) {
        self.timers.push(Reverse((at, self.timers_set, timer)));
        self.timers_set += 1;
    }

    fn host(&mut self, host: HostId) -> &mut FleetHost {
        &mut self.hosts[host as usize]
    }

    fn host_plan(&self, host: HostId) -> &'a HostPlan {
        &self.plan.hosts[host as usize - 1]
    }

    /// The region of a host, or of the registry.
    fn region(&self, host: HostId) -> usize {
        if host == REGISTRY { 0 } else { self.host_plan(host).region }
    }

    fn delay(&self, a: HostId, b: HostId) -> Duration {
        match self.region(a) == self.region(b) {
            true => self.plan.delay,
            false => self.plan.delay_between_regions,
        }
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
                self.set_timer(at, Timer::Serve(from, layer, (blocks.start, blocks.end)));
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

    fn join(&mut self, host: HostId) {
        let region = self.region(host);
        self.host(host).is_online = true;
        for layer in 0..self.image.layers() {
            let distance = distance(self.plan.seed, layer, host);
            self.closest[region][layer].insert(distance, host);
        }
    }

    fn leave(&mut self, host: HostId) {
        let region = self.region(host);
        for layer in 0..self.image.layers() {
            let distance = distance(self.plan.seed, layer, host);
            // Others pass over it when it does not answer.
            if self.plan.noticed_after.is_zero() {
                self.closest[region][layer].remove(&distance);
            }
        }
        let left = self.host(host);
        left.is_online = false;
        left.downloads.clear();
        left.waiters.clear();
        for other in std::mem::take(&mut left.peers) {
            self.network.close(Host(host), Host(other));
            let at = self.now + self.plan.noticed_after;
            self.set_timer(at, Timer::DisconnectNoticed(other, host));
        }
        self.network.close(Host(host), Host(REGISTRY));
    }

    fn notice_disconnect(&mut self, host: HostId, other: HostId) {
        let now = self.now;
        if !self.is_online(host) || !self.host(host).peers.remove(&other) {
            return;
        }
        self.host(host).exchange.handle_disconnected(now, other);
        self.host(host).waiters.retain(|waiter| waiter.host != other);
        for download in self.host(host).downloads.values_mut() {
            download.neighbours.remove(&other);
        }
        let region = self.region(other);
        for layer in 0..self.image.layers() {
            let distance = distance(self.plan.seed, layer, other);
            self.closest[region][layer].remove(&distance);
        }
        self.settle(host);
    }

    /// Begins to fetch the next layers, as a container engine does.
    fn start_layers(&mut self, host: HostId) {
        let now = self.now;
        let image_layers = self.image.layers();
        while self.is_online(host)
            && self.host(host).downloads.len() < self.plan.layers_at_once
            && self.host(host).next_layer < image_layers
        {
            let one = &mut self.hosts[host as usize];
            let layer = one.next_layer;
            one.next_layer += 1;
            let session = one.exchange.start_session(now);
            one.exchange.set_growing(now, session, true);
            let hashes = HashList::new(self.image.blocks_of(layer), u64::from(host));
            one.downloads.insert(
                layer,
                Download {
                    session,
                    hashes,
                    leases: BTreeMap::new(),
                    neighbours: BTreeMap::new(),
                    report: 0,
                    coordinator: host,
                    is_reporting: false,
                    tries: 0,
                    report_at: now,
                    arrivals: 0,
                    is_batching: false,
                },
            );
            self.start_ticking(host);
            self.report(host, layer);
        }
    }

    /// The closest host to a layer that this host has not found to be gone.
    fn closest(&mut self, host: HostId, layer: Layer) -> HostId {
        let (now, region) = (self.now, self.region(host));
        let failed = &mut self.hosts[host as usize].failed;
        failed.retain(|_, until| *until > now);
        let mut closest = self.closest[region][layer].values();
        closest.find(|other| !failed.contains_key(other)).copied().unwrap_or(host)
    }

    fn report(&mut self, host: HostId, layer: Layer) {
        let coordinator = self.closest(host, layer);
        let report = self.hosts[host as usize].report(&self.image, layer);
        let download = self.host(host).downloads.get_mut(&layer).expect("the caller checked");
        download.report += 1;
        download.is_reporting = true;
        download.coordinator = coordinator;
        let number = download.report;
        if coordinator == host {
            let assignment = self.coordinate(host, host, layer, &report);
            return self.apply(host, layer, number, assignment);
        }
        let at = self.now + COORDINATOR_TIMEOUT;
        self.set_timer(at, Timer::ReportTimeout(host, layer, number));
        self.send(host, coordinator, FleetMessage::Report { layer, number, report });
    }

    /// The coordinator did not answer. The next closest host is asked.
    fn report_failed(&mut self, host: HostId, layer: Layer) {
        let until = self.now + FAILED_FOR;
        let Some(download) = self.host(host).downloads.get_mut(&layer) else { return };
        download.is_reporting = false;
        download.tries += 1;
        let (coordinator, tries) = (download.coordinator, download.tries);
        self.host(host).failed.insert(coordinator, until);
        if tries.is_multiple_of(COORDINATORS_MAX) {
            self.report_after(host, layer, REPORT_INTERVAL);
        } else {
            self.report(host, layer);
        }
    }

    fn report_after(&mut self, host: HostId, layer: Layer, wait: Duration) {
        let at = self.now + wait;
        let Some(download) = self.host(host).downloads.get_mut(&layer) else { return };
        download.report_at = at;
        self.set_timer(at, Timer::Report(host, layer));
    }

    fn count_request(&mut self, host: HostId) {
        let second = self.now.since(Instant::ZERO).as_secs();
        let requests = &mut self.hosts[host as usize].requests;
        if requests.0 != second {
            *requests = (second, 0);
        }
        requests.1 += 1;
        self.requests_per_second_max = self.requests_per_second_max.max(requests.1);
    }

    /// Answers a report.
    fn coordinate(
        &mut self,
        host: HostId,
        from: HostId,
        layer: Layer,
        report: &Report,
    ) -> Assignment<HostId> {
        let (now, region) = (self.now, self.region(host));
        self.count_request(host);
        self.coordinators.entry((region, layer)).or_default().insert(host);
        if !self.host(host).coordinator.has(&layer) {
            // A new coordinator asks the next ones, which may have coordinated before.
            let others = self.closest[region][layer].values().copied();
            let others: Vec<HostId> =
                others.filter(|other| *other != host).take(SUCCESSORS).collect();
            for other in others {
                if !self.is_online(other) {
                    continue;
                }
                for holder in self.hosts[other as usize].coordinator.holders(&layer, HOLDERS_MAX) {
                    self.host(host).coordinator.handle_announcement(now, &layer, holder);
                }
            }
        }
        self.host(host).coordinator.handle_report(now, &layer, from, report)
    }

    /// Does what the coordinator says.
    fn apply(&mut self, host: HostId, layer: Layer, number: u64, assignment: Assignment<HostId>) {
        let now = self.now;
        let Some(download) = self.host(host).downloads.get_mut(&layer) else { return };
        if !download.is_reporting || download.report != number {
            return;
        }
        download.is_reporting = false;
        download.tries = 0;
        let lost: Vec<u32> = download
            .leases
            .keys()
            .copied()
            .filter(|segment| !assignment.leases.contains(segment))
            .collect();
        self.report_after(host, layer, assignment.report_within);
        for segment in lost {
            download_mut(&mut self.hosts, host, layer).leases.remove(&segment);
            self.want_known(host, layer, segment);
        }
        for segment in assignment.leases {
            let leases = &mut download_mut(&mut self.hosts, host, layer).leases;
            if let Entry::Vacant(place) = leases.entry(segment) {
                place.insert(Lease { asked: BTreeSet::new(), progress_at: now });
                self.fetch_segment(host, layer, segment, false);
                // The host may have all blocks of it already.
                self.end_lease(host, layer, segment);
            }
        }
        for other in assignment.hosts {
            if self.host(host).add_neighbour(layer, other, NEIGHBOURS_MAX) {
                self.ask_hashes(host, layer, other);
            }
        }
    }

    /// Asks the registry for the blocks of a segment whose hashes no host told, or for all.
    fn fetch_segment(&mut self, host: HostId, layer: Layer, segment: u32, all: bool) {
        let one = &mut self.hosts[host as usize];
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for block in self.image.segment(layer, segment) {
            if one.has(self.image.number(layer, block)) {
                continue;
            }
            let Some(download) = one.downloads.get_mut(&layer) else { return };
            if !all && download.hashes.get(block).is_some() {
                continue;
            }
            let Some(lease) = download.leases.get_mut(&segment) else { return };
            lease.asked.insert(block);
            match ranges.last_mut() {
                Some(last) if last.end == block => last.end += 1,
                _ => ranges.push(block..block + 1),
            }
        }
        for blocks in ranges {
            self.send(host, REGISTRY, FleetMessage::AskRange { layer, blocks });
        }
    }

    /// Requests the blocks of a segment whose hashes are known.
    fn want_known(&mut self, host: HostId, layer: Layer, segment: u32) {
        let now = self.now;
        let one = &mut self.hosts[host as usize];
        let Some(download) = one.downloads.get(&layer) else { return };
        let blocks = self.image.segment(layer, segment);
        let known = blocks.filter(|block| download.hashes.get(*block).is_some());
        let wants: Vec<_> = known.filter_map(|block| one.want(&self.image, layer, block)).collect();
        let session = download.session;
        one.exchange.want(now, session, wants);
        self.settle(host);
    }

    fn ask_hashes(&mut self, host: HostId, layer: Layer, neighbour: HostId) {
        let Some(download) = self.host(host).downloads.get(&layer) else { return };
        let Some(state) = download.neighbours.get(&neighbour) else { return };
        let (list, after) = (state.list, state.after);
        self.send(host, neighbour, FleetMessage::AskHashes { layer, list, after });
    }

    /// Answers a request for hashes at once, or when there are some.
    fn answer_hashes(&mut self, host: HostId, waiter: Waiter) {
        let Waiter { host: to, layer, list, after, .. } = waiter;
        let one = &mut self.hosts[host as usize];
        let answer = match one.downloads.get(&layer) {
            Some(download) => Some(download.hashes.after(list, after)),
            None if one.is_complete(&self.image, layer) => {
                let after = if list == COMPLETE_LIST { after } else { 0 };
                let image = &self.image;
                let hash = |block| (block as u32, image.hash(image.number(layer, block)));
                Some((COMPLETE_LIST, (after..image.blocks_of(layer)).map(hash).collect()))
            }
            None => None,
        };
        if answer.as_ref().is_some_and(|(_, hashes)| hashes.is_empty()) {
            self.host(host).waiters.push(waiter);
            return self.start_ticking(host);
        }
        self.send(host, to, FleetMessage::Hashes { layer, answer });
    }

    /// Sends new hashes to the hosts that wait for them.
    fn send_hashes(&mut self, host: HostId, layer: Layer) {
        let one = self.host(host);
        if let Some(download) = one.downloads.get_mut(&layer) {
            download.is_batching = false;
        }
        let waiters = std::mem::take(&mut one.waiters);
        for waiter in waiters {
            if waiter.layer == layer {
                self.answer_hashes(host, waiter);
            } else {
                self.host(host).waiters.push(waiter);
            }
        }
    }

    /// Takes over the hashes that a host knows, and requests their blocks.
    fn learn(&mut self, host: HostId, layer: Layer, from: HostId, answer: Option<KnownHashes>) {
        let now = self.now;
        let Some(download) = self.host(host).downloads.get_mut(&layer) else { return };
        let Some(neighbour) = download.neighbours.get_mut(&from) else { return };
        let mut pause = Duration::ZERO;
        let mut new = Vec::new();
        match answer {
            Some((list, hashes)) => {
                if list != neighbour.list {
                    (neighbour.list, neighbour.after) = (list, 0);
                }
                neighbour.after += hashes.len();
                neighbour.empty_answers = 0;
                if hashes.is_empty() {
                    pause = EMPTY_PAUSE;
                }
                for (block, hash) in hashes {
                    if download.hashes.insert(block, hash) == Learned::New {
                        new.push(block as usize);
                    }
                }
            }
            None => {
                pause = EMPTY_PAUSE;
                neighbour.empty_answers += 1;
                if neighbour.empty_answers >= EMPTY_ANSWERS_MAX {
                    // Another one takes its place.
                    download.neighbours.remove(&from);
                    return;
                }
            }
        }
        if !new.is_empty() {
            self.note_hashes(host, layer);
            let one = &mut self.hosts[host as usize];
            let wants: Vec<_> =
                new.into_iter().filter_map(|block| one.want(&self.image, layer, block)).collect();
            let session = one.downloads[&layer].session;
            one.exchange.want(now, session, wants);
            self.settle(host);
        }
        match pause.is_zero() {
            true => self.ask_hashes(host, layer, from),
            false => self.set_timer(now + pause, Timer::AskHashes(host, layer, from)),
        }
    }

    /// New hashes are known. Waiting hosts get them soon.
    fn note_hashes(&mut self, host: HostId, layer: Layer) {
        let (now, at) = (self.now, self.now + HASHES_BATCH);
        let one = self.host(host);
        let is_awaited = one.waiters.iter().any(|waiter| waiter.layer == layer);
        let Some(download) = one.downloads.get_mut(&layer) else { return };
        if download.hashes.is_complete() {
            one.exchange.set_growing(now, download.session, false);
        }
        if is_awaited && !std::mem::replace(&mut download.is_batching, true) {
            self.set_timer(at, Timer::SendHashes(host, layer));
        }
    }

    /// Writes a block from the registry or from another host.
    fn write(&mut self, host: HostId, number: u32, is_from_registry: bool) {
        let now = self.now;
        let (layer, block) = self.image.place(number);
        let (hash, len) = (self.image.hash(number), self.image.len_of(number) as usize);
        if !self.is_online(host) {
            return;
        }
        let is_recorded = self.recorded.contains(&host);
        let is_awaited = self.host_plan(host).leaves_at.is_none();
        let one = &mut self.hosts[host as usize];
        if one.store(&self.image, number) {
            self.held += u64::from(is_awaited);
            if is_recorded {
                one.received_at.push(now);
            }
            if is_from_registry && let Some(download) = one.downloads.get(&layer) {
                let cid = self.image.cid(number);
                one.exchange.cancel_wants(now, download.session, [cid]);
            }
            one.exchange.handle_stored(now, self.image.cid(number), len);
        } else if !is_from_registry {
            self.record_violation(host, format_args!("it reported block {number} twice"));
        }
        let one = &mut self.hosts[host as usize];
        let Some(download) = one.downloads.get_mut(&layer) else { return };
        download.arrivals += 1;
        let segment = (block / watchfire_fleet::SEGMENT_BLOCKS) as u32;
        if let Some(lease) = download.leases.get_mut(&segment) {
            lease.asked.remove(&block);
            lease.progress_at = now;
        }
        if download.hashes.insert(block as u32, hash) == Learned::New {
            self.note_hashes(host, layer);
        }
        self.end_lease(host, layer, segment);
        self.end_layer(host, layer);
        self.settle(host);
    }

    /// Reports a fetched segment at once.
    fn end_lease(&mut self, host: HostId, layer: Layer, segment: u32) {
        let one = &mut self.hosts[host as usize];
        let image = &self.image;
        let mut blocks = image.segment(layer, segment);
        if !blocks.all(|block| one.has(image.number(layer, block))) {
            return;
        }
        let Some(download) = one.downloads.get_mut(&layer) else { return };
        if download.leases.remove(&segment).is_some() && !download.is_reporting {
            self.report_after(host, layer, Duration::ZERO);
        }
    }

    /// Ends the download of a complete layer, and tells its coordinator.
    fn end_layer(&mut self, host: HostId, layer: Layer) {
        let now = self.now;
        if !self.hosts[host as usize].is_complete(&self.image, layer) {
            return;
        }
        let Some(download) = self.host(host).downloads.remove(&layer) else { return };
        self.host(host).exchange.stop_session(now, download.session);
        let report = self.hosts[host as usize].report(&self.image, layer);
        let coordinator = self.closest(host, layer);
        if coordinator == host {
            drop(self.coordinate(host, host, layer, &report));
            self.host(host).coordinator.handle_announcement(now, &layer, host);
        } else {
            let number = download.report + 1;
            self.send(host, coordinator, FleetMessage::Report { layer, number, report });
            self.send(host, coordinator, FleetMessage::Announce { layer });
        }
        let is_last = self.host(host).next_layer == self.image.layers();
        if self.host(host).downloads.is_empty() && is_last {
            self.host(host).finished_at = Some(now);
            self.finished += usize::from(self.host_plan(host).leaves_at.is_none());
        }
        self.send_hashes(host, layer);
        self.start_layers(host);
    }

    fn tick(&mut self, host: HostId) {
        let now = self.now;
        self.host(host).is_ticking = false;
        if !self.is_online(host) {
            return;
        }
        let one = &mut self.hosts[host as usize];
        let expired = one.waiters.extract_if(.., |waiter| waiter.expires_at <= now);
        let expired: Vec<Waiter> = expired.collect();
        let is_stalled = |lease: &Lease| {
            lease.asked.is_empty() && now.since(lease.progress_at) >= KNOWN_BLOCK_WAIT
        };
        let stalled: Vec<(Layer, u32)> = one
            .downloads
            .iter()
            .flat_map(|(layer, download)| {
                let leases = download.leases.iter().filter(|(_, lease)| is_stalled(lease));
                leases.map(|(segment, _)| (*layer, *segment))
            })
            .collect();
        for Waiter { host: to, layer, list, .. } in expired {
            let answer = Some((list, Vec::new()));
            self.send(host, to, FleetMessage::Hashes { layer, answer });
        }
        for (layer, segment) in stalled {
            self.fetch_segment(host, layer, segment, true);
        }
        let one = self.host(host);
        if !one.downloads.is_empty() || !one.waiters.is_empty() {
            self.start_ticking(host);
        }
    }

    fn start_ticking(&mut self, host: HostId) {
        let at = self.now + TICK;
        if !std::mem::replace(&mut self.host(host).is_ticking, true) {
            self.set_timer(at, Timer::Tick(host));
        }
    }

    /// Sends a message, after the handshakes of a connection if there is none.
    fn send(&mut self, host: HostId, to: HostId, message: FleetMessage) {
        if !self.is_online(host) {
            return;
        }
        if self.network.is_open(Host(host), Host(to)) {
            // Requests have streams of their own, so they do not wait behind blocks.
            let bytes = message.bytes();
            return self.network.send_ahead(self.now, Host(host), Host(to), bytes, message);
        }
        let waiting = self.waiting.entry((host, to)).or_default();
        waiting.push(message);
        if waiting.len() > 1 {
            return;
        }
        let round_trip = 2 * self.delay(host, to);
        let has_room = to == REGISTRY || self.host(to).handshakes < self.plan.handshakes_max;
        if !self.is_online(to) {
            // Nothing answers: its requests time out.
            self.waiting.remove(&(host, to));
        } else if has_room {
            self.host(to).handshakes += 1;
            let at = self.now + round_trip * ROUND_TRIPS_TO_CONNECT;
            self.set_timer(at, Timer::Connected(host, to, true));
        } else {
            self.set_timer(self.now + round_trip, Timer::Connected(host, to, false));
        }
    }

    fn connected(&mut self, host: HostId, other: HostId, is_accepted: bool) {
        let now = self.now;
        if is_accepted {
            self.host(other).handshakes -= 1;
        }
        let messages = self.waiting.remove(&(host, other)).unwrap_or_default();
        if !self.is_online(host) || !self.is_online(other) {
            return;
        }
        let max = self.plan.connections_max;
        let has_room = |fleet: &Self, host: HostId| {
            host == REGISTRY || fleet.hosts[host as usize].peers.len() < max
        };
        let is_open = self.network.is_open(Host(host), Host(other));
        if !is_open && (!is_accepted || !has_room(self, host) || !has_room(self, other)) {
            self.rejected_connections += 1;
            return self.connection_failed(host, other, messages);
        }
        if !is_open {
            let delay = self.delay(host, other);
            let path = Path { delay, jitter: Duration::ZERO, loss: 0.0 };
            self.network.open(Host(host), Host(other), path);
            if other != REGISTRY {
                for (one, two) in [(host, other), (other, host)] {
                    let room = self.network.room(Host(one), Host(two)) as usize;
                    let one = self.host(one);
                    one.peers.insert(two);
                    one.exchange.handle_connected(now, two, Protocol::Leaves);
                    one.exchange.handle_writable(now, two, room);
                    let peers = one.peers.len();
                    self.connections_max = self.connections_max.max(peers);
                }
                self.settle(host);
                self.settle(other);
            }
        }
        for message in messages {
            self.send(host, other, message);
        }
    }

    /// A host did not accept a connection. Requests to it fail.
    fn connection_failed(&mut self, host: HostId, other: HostId, messages: Vec<FleetMessage>) {
        for message in messages {
            match message {
                FleetMessage::Report { layer, number, .. } => {
                    let download = self.host(host).downloads.get(&layer);
                    if download.is_some_and(|one| one.is_reporting && one.report == number) {
                        self.report_failed(host, layer);
                    }
                }
                FleetMessage::AskHashes { layer, .. } => {
                    if let Some(download) = self.host(host).downloads.get_mut(&layer) {
                        download.neighbours.remove(&other);
                    }
                }
                _ => {}
            }
        }
    }

    fn wake(&mut self, host: HostId) {
        let now = self.now;
        let one = self.host(host);
        if one.wake_at != Some(now) {
            return;
        }
        one.wake_at = None;
        if !one.is_online {
            return;
        }
        if one.exchange.next_wake().is_some_and(|at| at <= now) {
            one.exchange.handle_tick(now);
        }
        self.settle(host);
    }

    /// Handles all outputs of an exchange, and sets its timer.
    fn settle(&mut self, host: HostId) {
        while let Some(output) = self.host(host).exchange.poll_output() {
            self.handle_output(host, output);
        }
        let now = self.now;
        let one = self.host(host);
        if !one.is_online {
            return;
        }
        let Some(at) = one.exchange.next_wake() else { return };
        let at = at.max(now);
        if one.wake_at.is_none_or(|set| set > at) {
            one.wake_at = Some(at);
            self.set_timer(at, Timer::Wake(host));
        }
    }

    fn handle_output(&mut self, host: HostId, output: Output<HostId, FakeBlock>) {
        let now = self.now;
        match output {
            Output::Send { peer, message } => {
                let message = FleetMessage::Exchange(message);
                let bytes = message.bytes();
                self.network.send(now, Host(host), Host(peer), bytes, message);
            }
            Output::Lookup { cid } => {
                let one = &mut self.hosts[host as usize];
                let number = self.image.find(&cid).filter(|number| one.has(*number));
                let len = number.map(|number| self.image.len_of(number) as usize);
                one.exchange.handle_lookup(now, &cid, len);
            }
            Output::ListLinks { node } => self.host(host).exchange.handle_links(now, &node, None),
            Output::Read { peer, cid } => {
                let one = &mut self.hosts[host as usize];
                let number = self.image.find(&cid).filter(|number| one.has(*number));
                let block = number.map(|number| self.image.fake_block(number));
                one.exchange.handle_read(now, peer, &cid, block);
            }
            Output::BlockReceived { block, .. } => match self.image.find(block.cid()) {
                Some(number) => self.write(host, number, false),
                None => self.record_violation(host, format_args!("it accepted an unknown block")),
            },
            // The coordinator names the hosts that have blocks.
            Output::FindProviders { .. } => {}
            Output::DropPeer { peer, reason } => {
                self.record_violation(host, format_args!("it dropped host {peer}: {reason}"));
                self.network.close(Host(host), Host(peer));
                self.host(host).peers.remove(&peer);
                self.notice_disconnect(peer, host);
            }
        }
    }

    fn outcome(self) -> FleetOutcome {
        let since = |at: Instant| at.since(Instant::ZERO);
        let hosts =
            self.hosts.iter().skip(1).zip(&self.plan.hosts).map(|(host, plan)| HostOutcome {
                region: plan.region,
                started_at: plan.starts_at,
                finished_at: host.finished_at.map(since),
                is_awaited: plan.leaves_at.is_none(),
                received_at: host.received_at.iter().copied().map(since).collect(),
            });
        let sum = |of: fn(&watchfire_bitswap::Totals) -> u64| {
            self.hosts.iter().map(|host| of(&host.exchange.totals())).sum()
        };
        FleetOutcome {
            bytes: self.image.bytes,
            blocks: self.image.blocks(),
            bound: FleetBound::of(self.plan, self.image.bytes),
            hosts: hosts.collect(),
            registry_bytes: self.registry_bytes,
            duplicate_bytes: sum(|totals| totals.duplicate_bytes),
            host_bytes: sum(|totals| totals.bytes_in),
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
