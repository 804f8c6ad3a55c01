//! Processes that replicate presences, while links break, the server is partitioned, processes die and
//! start again, and clients join, update and leave.
//!
//! The processes run the code of the server; the bus and the order of the threads come from a seed.
//! `PRESENCE_SEEDS` sets the number of seeds, and `PRESENCE_SEED` runs a single one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;
use watchfire_cluster::bus::{Bus, BusTotals, Handler, Loss, Readiness, SendError};
use watchfire_hub::PresenceOwner;
use watchfire_types::Rng;

use super::*;
use crate::cluster::{Cluster, PartName, ProcessStarts, Receiver};

const SEEDS: u64 = 500;
const STEPS: usize = 500;
const TOPICS: [&str; 3] = ["rooms:lobby", "rooms:kitchen", "rooms:attic"];
const KEYS: [&str; 3] = ["a", "b", "c"];
/// Frames on their way over one link; another one cuts it.
const QUEUE_MAX: usize = 60;

/// By key and reference, the number in a presence's meta.
type Shown = BTreeMap<(String, String), u64>;

/// A packet of a bus on a link.
enum Frame {
    Subscribe(String),
    Unsubscribe(String),
    Message(Bytes),
}

/// An event at one end of a link.
enum LinkEvent {
    Down,
    Up(u64),
    Frame(Frame),
}

/// A bus as its users see it: ordered, and without loss until a link breaks.
struct SimulatedBus {
    me: NodeId,
    state: Mutex<BusState>,
    /// Runs the other threads of the process, while the thread of the bus sends.
    other_threads: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct BusState {
    /// The subscribers of each announced topic. Without subscribers it lingers.
    announced: BTreeMap<String, usize>,
    /// Withdrawn topics that were not reported to the handler yet.
    withdrawn: Vec<String>,
    /// By node with a link: the number of the link, and the topics of the node.
    links: BTreeMap<u16, (u64, BTreeSet<String>)>,
    outbox: Vec<(u16, u64, Frame)>,
}

impl BusState {
    fn push(&mut self, to: u16, frame: Frame) {
        if let Some((link, _)) = self.links.get(&to) {
            self.outbox.push((to, *link, frame));
        }
    }

    fn announce(&mut self, frame: impl Fn() -> Frame) {
        for to in self.links.keys().copied().collect::<Vec<_>>() {
            self.push(to, frame());
        }
    }
}

impl Bus for SimulatedBus {
    fn me(&self) -> NodeId {
        self.me
    }

    fn subscribe(&self, topic: &str) -> Readiness {
        let mut state = self.state.lock();
        if let Some(subscribers) = state.announced.get_mut(topic) {
            *subscribers += 1;
        } else {
            state.announced.insert(topic.into(), 1);
            state.announce(|| Frame::Subscribe(topic.into()));
        }
        Readiness::Ready
    }

    fn unsubscribe(&self, topic: &str) {
        *self.state.lock().announced.get_mut(topic).expect("it is subscribed") -= 1;
    }

    fn is_subscribed(&self, topic: &str) -> bool {
        self.state.lock().announced.contains_key(topic)
    }

    fn publish(&self, topic: &str, message: Bytes, _: Loss) -> usize {
        let mut state = self.state.lock();
        let is_interested =
            |(_, (_, topics)): &(&u16, &(u64, BTreeSet<String>))| topics.contains(topic);
        let interested: Vec<u16> =
            state.links.iter().filter(is_interested).map(|(node, _)| *node).collect();
        interested.iter().for_each(|node| state.push(*node, Frame::Message(message.clone())));
        interested.len()
    }

    fn send(&self, to: NodeId, message: Bytes, _: Loss) -> Result<(), SendError> {
        self.other_threads.get().inspect(|run| run());
        self.state.lock().push(to.0, Frame::Message(message));
        Ok(())
    }

    fn send_all(&self, message: Bytes, _: Loss) {
        self.state.lock().announce(|| Frame::Message(message.clone()));
    }

    fn nodes(&self) -> Vec<NodeId> {
        self.state.lock().links.keys().map(|node| NodeId(*node)).collect()
    }

    fn totals(&self) -> BusTotals {
        BusTotals::default()
    }
}

/// The presences that a client shows. It is stricter than phoenix.js: except in diffs that may overlap
/// with its state, nothing joins twice, and nothing leaves that has not joined. There are two exceptions: a
/// presence that joined and left between two diffs may leave when the state of another client had it, and
/// after a link was cut, presences that are shown may join again.
struct View {
    shown: Shown,
    /// The number of the last diff before the state.
    taken_before: u64,
    /// Whether the first diff after the state was applied. It may overlap with the state.
    is_strict: bool,
}

impl View {
    fn apply(&mut self, number: u64, diff: &Value, seen: &Seen) {
        let is_strict = self.is_strict;
        for (presence, meta) in parse(&diff["joins"]) {
            let known = self.shown.insert(presence.clone(), meta);
            let is_back = seen.had_cuts && known == Some(meta);
            assert!(!is_strict || known.is_none() || is_back, "{presence:?} joins twice");
        }
        for (presence, _) in parse(&diff["leaves"]) {
            let known = self.shown.remove(&presence);
            let has_joined = known.is_some() || seen.in_states.contains(&presence);
            assert!(!is_strict || has_joined, "{presence:?} leaves but never joined");
        }
        self.is_strict |= number > self.taken_before;
    }
}

fn parse(keys: &Value) -> Shown {
    let metas = |(key, entry): (&String, &Value)| -> Vec<_> {
        let metas = entry["metas"].as_array().unwrap().iter();
        let reference = |meta: &Value| meta["phx_ref"].as_str().unwrap().to_owned();
        metas.map(|meta| ((key.clone(), reference(meta)), meta["n"].as_u64().unwrap())).collect()
    };
    keys.as_object().unwrap().iter().flat_map(metas).collect()
}

/// A client's channel.
struct Channel {
    topic: &'static str,
    owner: PresenceOwner,
    tracked: BTreeMap<&'static str, u64>,
    /// `None` until the subscription is ready.
    view: Option<View>,
}

/// The threads of a process that serve clients.
struct Shards {
    rng: Rng,
    bus: Arc<SimulatedBus>,
    cluster: Arc<Cluster>,
    presence: Arc<ReplicatedPresence>,
    channels: Vec<Channel>,
    channels_max: usize,
    /// Whether clients change nothing any more.
    are_clients_quiet: bool,
    /// A diff that was taken but not published yet.
    taken: Option<Diff>,
    /// Published diffs that have not reached the clients here yet.
    diffs: VecDeque<(String, u64, Value)>,
    diffs_taken: u64,
    seen: Seen,
}

/// The excuses of a presence that joins or leaves again: see [`View`].
#[derive(Default)]
struct Seen {
    /// The presences in all states that clients here received.
    in_states: BTreeSet<(String, String)>,
    /// Whether a link of this process was cut.
    had_cuts: bool,
}

impl Shards {
    /// Whether the thread of the bus holds a lock that the other threads would wait for.
    fn must_wait(&self) -> bool {
        self.presence.stripes.iter().any(Mutex::is_locked)
    }

    fn step(&mut self) {
        if self.must_wait() {
            return self.publish();
        }
        let (topic, key) = (TOPICS[self.rng.index(TOPICS.len())], KEYS[self.rng.index(KEYS.len())]);
        match self.rng.index(20) {
            0 if self.channels.len() < self.channels_max && !self.are_clients_quiet => {
                self.join(topic);
            }
            1 => self.admit(),
            2..4 => self.take(),
            4..6 => self.publish(),
            6..8 => self.deliver(),
            operation if !self.channels.is_empty() && !self.are_clients_quiet => {
                let channel = self.rng.index(self.channels.len());
                self.change(channel, key, operation);
            }
            _ => {}
        }
    }

    fn join(&mut self, topic: &'static str) {
        // The simulated bus is ready when `admit` says so.
        let _ = self.cluster.subscribe(topic);
        let (owner, tracked) = (PresenceOwner::default(), BTreeMap::new());
        self.channels.push(Channel { topic, owner, tracked, view: None });
    }

    /// Sends the state to the channels whose subscription is ready.
    fn admit(&mut self) {
        // The bus reports withdrawn topics before the acknowledgement of a later subscription.
        if !self.bus.state.lock().withdrawn.is_empty() {
            return;
        }
        for channel in self.channels.iter_mut().filter(|channel| channel.view.is_none()) {
            let state = self.presence.on(channel.topic).state(channel.topic);
            let shown = parse(&serde_json::from_str(&state).unwrap());
            self.seen.in_states.extend(shown.keys().cloned());
            channel.view = Some(View { shown, taken_before: self.diffs_taken, is_strict: false });
        }
    }

    fn take(&mut self) {
        if self.taken.is_none()
            && let Some(diff) = (0..STRIPES).find_map(|stripe| self.presence.take_diff(stripe))
        {
            self.diffs_taken += 1;
            self.taken = Some(diff);
        }
    }

    fn publish(&mut self) {
        let Some(Diff { topic, payload, own }) = self.taken.take() else { return };
        self.presence.publish(&topic, &own);
        if let Some(payload) = payload {
            let payload = serde_json::from_str(&payload).unwrap();
            self.diffs.push_back((topic, self.diffs_taken, payload));
        }
    }

    /// Delivers the first diff to the clients.
    fn deliver(&mut self) {
        let Some((topic, number, diff)) = self.diffs.pop_front() else { return };
        for channel in self.channels.iter_mut().filter(|channel| channel.topic == topic) {
            channel.view.iter_mut().for_each(|view| view.apply(number, &diff, &self.seen));
        }
    }

    fn change(&mut self, number: usize, key: &'static str, operation: usize) {
        let channel = &mut self.channels[number];
        let (topic, owner, n) = (channel.topic, &mut channel.owner, self.rng.below(1 << 40));
        if channel.view.is_none() {
            return;
        }
        let (mut presence, meta) = (self.presence.on(topic), format!(r#"{{"n":{n}}}"#));
        match operation {
            8..12 if presence.track(owner, topic, key, &meta).is_ok() => {
                channel.tracked.insert(key, n);
            }
            12..16 if presence.update(owner, topic, key, &meta).is_ok() => {
                channel.tracked.insert(key, n);
            }
            16..18 => {
                presence.untrack(owner, topic, key);
                channel.tracked.remove(key);
            }
            18.. => {
                drop(presence);
                self.leave(number);
            }
            _ => {}
        }
    }

    fn leave(&mut self, channel: usize) {
        let Channel { topic, mut owner, .. } = self.channels.swap_remove(channel);
        self.presence.on(topic).untrack_all(&mut owner);
        self.cluster.unsubscribe(topic);
    }

    /// Does all that waits. Returns whether there was something.
    fn finish(&mut self) -> bool {
        let is_quiet = |shards: &Self| {
            shards.taken.is_none()
                && shards.diffs.is_empty()
                && (0..STRIPES).all(|stripe| shards.presence.changed(stripe) == 0)
                && shards.channels.iter().all(|channel| channel.view.is_some())
        };
        let had_work = !is_quiet(self);
        while !is_quiet(self) {
            self.admit();
            self.take();
            self.publish();
            self.deliver();
        }
        had_work
    }
}

/// One incarnation of a process.
struct Process {
    bus: Arc<SimulatedBus>,
    presence: Arc<ReplicatedPresence>,
    receiver: Receiver,
    shards: Arc<Mutex<Shards>>,
}

impl Process {
    fn new(seed: u64, me: usize, metrics: &Arc<Metrics>) -> Self {
        let me = NodeId(me as u16);
        let (state, other_threads) = (Mutex::default(), OnceLock::new());
        let bus = Arc::new(SimulatedBus { me, state, other_threads });
        let starts = ProcessStarts::default();
        let cluster = Arc::new(Cluster::among(bus.clone(), 0..8, 1_000, None, starts));
        let presence = Arc::new(ReplicatedPresence::new(
            seed,
            PartLink::new(&cluster, PartName::own("presence")),
            metrics.clone(),
        ));
        let shards = Arc::new(Mutex::new(Shards {
            rng: Rng::from_seed(seed),
            bus: bus.clone(),
            cluster: cluster.clone(),
            presence: presence.clone(),
            channels: Vec::new(),
            channels_max: 1 + (seed % 6) as usize,
            are_clients_quiet: false,
            taken: None,
            diffs: VecDeque::new(),
            diffs_taken: 0,
            seen: Seen::default(),
        }));
        let others = Arc::downgrade(&shards);
        let run_others = move || {
            if let Some(shards) = others.upgrade()
                && let Some(mut shards) = shards.try_lock()
            {
                let steps = shards.rng.index(8);
                (0..steps).for_each(|_| shards.step());
            }
        };
        bus.other_threads.set(Box::new(run_others)).ok().expect("it was not set");
        let parts: Vec<Arc<dyn ClusterPart>> = vec![presence.clone()];
        let (lost, _) = mpsc::unbounded_channel();
        Process { bus, presence, receiver: Receiver::new(cluster, parts, lost), shards }
    }

    /// Withdraws the topics that have no subscribers: they lingered long enough.
    fn withdraw(&self) {
        let mut state = self.bus.state.lock();
        let idle: Vec<String> = state
            .announced
            .iter()
            .filter(|(_, n)| **n == 0)
            .map(|(topic, _)| topic.clone())
            .collect();
        for topic in idle {
            state.announced.remove(&topic);
            state.announce(|| Frame::Unsubscribe(topic.clone()));
            state.withdrawn.push(topic);
        }
    }

    fn report_withdrawn(&self) {
        let withdrawn = std::mem::take(&mut self.bus.state.lock().withdrawn);
        let mut shards = self.shards.lock();
        for topic in withdrawn {
            self.receiver.forgotten(&topic);
            // These diffs reach the shards before a later subscription is ready, so no client gets them.
            shards.diffs.retain(|(of, ..)| *of != topic);
            if let Some(diff) = shards.taken.as_mut().filter(|diff| diff.topic == topic) {
                diff.payload = None;
            }
        }
    }

    fn handle(&self, from: usize, event: LinkEvent) {
        self.report_withdrawn();
        let from = NodeId(from as u16);
        let bus = &self.bus.state;
        match event {
            LinkEvent::Down => {
                bus.lock().links.remove(&from.0);
                self.shards.lock().seen.had_cuts = true;
                self.receiver.down(from);
            }
            LinkEvent::Up(link) => {
                bus.lock().links.insert(from.0, (link, BTreeSet::new()));
                self.receiver.up(from);
                let mut bus = bus.lock();
                let announced: Vec<String> = bus.announced.keys().cloned().collect();
                announced.into_iter().for_each(|t| bus.push(from.0, Frame::Subscribe(t)));
            }
            LinkEvent::Frame(Frame::Subscribe(topic)) => {
                let mut bus = bus.lock();
                let link = bus.links.get_mut(&from.0);
                let is_new = link.is_some_and(|(_, topics)| topics.insert(topic.clone()));
                drop(bus);
                if is_new {
                    self.receiver.interested(from, &topic);
                }
            }
            LinkEvent::Frame(Frame::Unsubscribe(topic)) => {
                if let Some((_, topics)) = bus.lock().links.get_mut(&from.0) {
                    topics.remove(&topic);
                }
                self.receiver.uninterested(from, &topic);
            }
            LinkEvent::Frame(Frame::Message(message)) => self.receiver.message(from, &message),
        }
    }
}

struct Simulation {
    rng: Rng,
    metrics: Arc<Metrics>,
    processes: Vec<Option<Process>>,
    /// By sender and receiver.
    queues: BTreeMap<(usize, usize), VecDeque<LinkEvent>>,
    /// The links that work, by their ends.
    links: BTreeMap<(usize, usize), u64>,
    last_link: u64,
    /// The processes on one side of a partition.
    partition: Option<BTreeSet<usize>>,
}

impl Simulation {
    fn new(seed: u64, metrics: &Arc<Metrics>) -> Self {
        let mut rng = Rng::from_seed(seed);
        let count = 3 + rng.index(2);
        let mut simulation = Simulation {
            rng,
            metrics: metrics.clone(),
            processes: (0..count).map(|_| None).collect(),
            queues: BTreeMap::new(),
            links: BTreeMap::new(),
            last_link: 0,
            partition: None,
        };
        (0..count).for_each(|at| simulation.start(at));
        simulation
    }

    fn start(&mut self, at: usize) {
        self.processes[at] = Some(Process::new(self.rng.next_u64(), at, &self.metrics));
        (0..self.processes.len()).for_each(|other| self.connect(at, other));
    }

    /// Ends a process: frames to it are lost, and some of those that it sent.
    fn kill(&mut self, at: usize) {
        self.processes[at] = None;
        (0..self.processes.len()).for_each(|other| self.cut(at, other));
        self.queues.retain(|(_, to), _| *to != at);
    }

    fn connect(&mut self, a: usize, b: usize) {
        let is_alive = |at: usize| self.processes[at].is_some();
        let is_divided = self.partition.as_ref().is_some_and(|p| p.contains(&a) != p.contains(&b));
        let ends = (a.min(b), a.max(b));
        if a == b || !is_alive(a) || !is_alive(b) || is_divided || self.links.contains_key(&ends) {
            return;
        }
        self.last_link += 1;
        self.links.insert(ends, self.last_link);
        for pair in [(a, b), (b, a)] {
            self.queues.entry(pair).or_default().push_back(LinkEvent::Up(self.last_link));
        }
    }

    /// Cuts a link; some of the frames on their way are lost. Each end notices it in its own time.
    fn cut(&mut self, a: usize, b: usize) {
        if self.links.remove(&(a.min(b), a.max(b))).is_none() {
            return;
        }
        for pair in [(a, b), (b, a)] {
            let queue = self.queues.entry(pair).or_default();
            let lost = self.rng.index(queue.len() + 1);
            let mut kept = queue.len() - lost;
            // The news of older links are not on a link.
            let last_news = queue.iter().rposition(|event| !matches!(event, LinkEvent::Frame(_)));
            kept = kept.max(last_news.map_or(0, |at| at + 1));
            queue.truncate(kept);
            queue.push_back(LinkEvent::Down);
        }
    }

    /// Puts the frames that a process sent on its links.
    fn collect(&mut self, from: usize) {
        let Some(process) = &self.processes[from] else { return };
        let outbox = std::mem::take(&mut process.bus.state.lock().outbox);
        for (to, link, frame) in outbox {
            let to = usize::from(to);
            let ends = (from.min(to), from.max(to));
            if self.links.get(&ends) != Some(&link) {
                continue;
            }
            let queue = self.queues.entry((from, to)).or_default();
            queue.push_back(LinkEvent::Frame(frame));
            if queue.len() > QUEUE_MAX {
                self.cut(from, to);
            }
        }
    }

    /// Delivers the first event of a link; returns whether there was one.
    fn deliver(&mut self, from: usize, to: usize) -> bool {
        let Some(process) = &self.processes[to] else { return false };
        let queue = self.queues.get_mut(&(from, to));
        let Some(event) = queue.and_then(VecDeque::pop_front) else { return false };
        process.handle(from, event);
        self.collect(to);
        true
    }

    fn step(&mut self) {
        let count = self.processes.len();
        let [a, b] = [self.rng.index(count), self.rng.index(count)];
        match self.rng.index(100) {
            0..45 => {
                if let Some(process) = &self.processes[a] {
                    process.shards.lock().step();
                    self.collect(a);
                }
            }
            45..85 => {
                let frames = 1 + self.rng.index(4);
                let _ = (0..frames).all(|_| self.deliver(a, b));
            }
            85..89 => {
                let is_back_at_once = self.rng.once_in(2);
                if let Some(process) = &self.processes[a] {
                    process.withdraw();
                    if is_back_at_once {
                        process.shards.lock().join(TOPICS[b % TOPICS.len()]);
                    }
                }
                self.collect(a);
            }
            89 => self.processes[a].iter().for_each(Process::report_withdrawn),
            90..92 => self.cut(a, b),
            92..96 => self.connect(a, b),
            96 if self.partition.is_none() => {
                let side: BTreeSet<usize> = (0..count).filter(|_| self.rng.once_in(2)).collect();
                for (a, b) in (0..count).flat_map(|a| (0..a).map(move |b| (a, b))) {
                    if side.contains(&a) != side.contains(&b) {
                        self.cut(a, b);
                    }
                }
                self.partition = Some(side);
            }
            97 if self.rng.once_in(2) => self.partition = None,
            98 if self.rng.once_in(3) => self.kill(a),
            99 if self.processes[a].is_none() => self.start(a),
            _ => {}
        }
    }

    /// Heals all links, and waits until nothing is on its way.
    fn settle(&mut self) {
        self.partition = None;
        for process in self.processes.iter().flatten() {
            process.shards.lock().are_clients_quiet = true;
        }
        let count = self.processes.len();
        let pairs = (0..count).flat_map(|a| (0..count).map(move |b| (a, b)));
        for _ in 0..10_000 {
            let mut is_quiet = true;
            for (a, b) in pairs.clone() {
                self.connect(a, b);
                while self.deliver(a, b) {
                    is_quiet = false;
                }
            }
            for at in 0..count {
                let Some(process) = &self.processes[at] else { continue };
                process.withdraw();
                process.report_withdrawn();
                is_quiet &= !process.shards.lock().finish();
                self.collect(at);
            }
            if is_quiet && self.queues.values().all(VecDeque::is_empty) {
                return;
            }
        }
        panic!("the processes never come to rest");
    }

    /// Returns the number of presences that were shown on another process than their own.
    fn check(&self) -> usize {
        let mut shown_elsewhere = 0;
        for topic in TOPICS {
            let mut expected = Vec::new();
            for process in self.processes.iter().flatten() {
                let shards = process.shards.lock();
                let channels = shards.channels.iter().filter(|channel| channel.topic == topic);
                let tracked = channels.flat_map(|channel| channel.tracked.clone());
                expected.extend(tracked.map(|(key, n)| (key.to_owned(), n)));
            }
            expected.sort();
            let mut of_all: Option<Shown> = None;
            for process in self.processes.iter().flatten() {
                let mut presence = process.presence.on(topic);
                if !process.bus.is_subscribed(topic) {
                    assert_eq!(presence.count(topic), 0, "nothing remains of {topic}");
                    continue;
                }
                let state = parse(&serde_json::from_str(&presence.state(topic)).unwrap());
                let mut plain: Vec<_> =
                    state.iter().map(|((key, _), n)| (key.clone(), *n)).collect();
                plain.sort();
                assert_eq!(plain, expected, "{topic} at {}", process.bus.me);
                shown_elsewhere += expected.len() - presence.own_count(topic);
                let shards = process.shards.lock();
                for channel in shards.channels.iter().filter(|channel| channel.topic == topic) {
                    let view = channel.view.as_ref().expect("every subscription is ready");
                    assert_eq!(view.shown, state, "a client of {topic} at {}", process.bus.me);
                }
                assert_eq!(of_all.get_or_insert_with(|| state.clone()), &state);
            }
        }
        shown_elsewhere
    }

    /// All clients leave; returns the number of presences that remain.
    fn close(&mut self) -> usize {
        for at in 0..self.processes.len() {
            let Some(process) = &self.processes[at] else { continue };
            let mut shards = process.shards.lock();
            while !shards.channels.is_empty() {
                shards.leave(0);
            }
        }
        self.settle();
        let stripes = self.processes.iter().flatten().flat_map(|p| &p.presence.stripes);
        stripes.map(|stripe| stripe.lock().len()).sum()
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn after_all_faults_every_client_shows_the_clients_of_all_living_processes() {
    let seeds = match number("PRESENCE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PRESENCE_SEEDS").unwrap_or(SEEDS),
    };
    let (metrics, is_one, mut shown_elsewhere) = (Arc::default(), seeds.end - seeds.start == 1, 0);
    for seed in seeds {
        let run = std::panic::AssertUnwindSafe(|| {
            let mut simulation = Simulation::new(seed, &metrics);
            (0..STEPS).for_each(|_| simulation.step());
            simulation.settle();
            let shown_elsewhere = simulation.check();
            assert_eq!(simulation.close(), 0, "presences remain without clients");
            shown_elsewhere
        });
        shown_elsewhere += std::panic::catch_unwind(run).unwrap_or_else(|_| panic!("seed {seed}"));
    }
    assert!(is_one || shown_elsewhere > 100, "only {shown_elsewhere} presences were replicated");
}

#[test]
fn a_change_for_an_earlier_subscription_does_not_outlive_its_presence() {
    let mut simulation = Simulation::new(0, &Arc::default());
    (2..simulation.processes.len()).for_each(|at| simulation.kill(at));
    let topic = TOPICS[0];
    let on_shards = |simulation: &mut Simulation, at: usize, act: &dyn Fn(&mut Shards)| {
        act(&mut simulation.processes[at].as_ref().unwrap().shards.lock());
        simulation.collect(at);
    };
    let publish = |shards: &mut Shards| {
        shards.take();
        shards.publish();
    };
    for at in [0, 1] {
        on_shards(&mut simulation, at, &|shards| shards.join(topic));
    }
    simulation.settle();

    // The process 0 subscribes again while a join is on its way, and the client leaves again before the
    // process 1 knows of the new subscription.
    on_shards(&mut simulation, 1, &|shards| shards.change(0, "a", 8));
    on_shards(&mut simulation, 1, &publish);
    on_shards(&mut simulation, 0, &|shards| shards.leave(0));
    simulation.processes[0].as_ref().unwrap().withdraw();
    simulation.processes[0].as_ref().unwrap().report_withdrawn();
    on_shards(&mut simulation, 0, &|shards| shards.join(topic));
    assert!(simulation.deliver(1, 0), "the join arrives");
    assert!(simulation.deliver(0, 1), "the end of the subscription arrives");
    on_shards(&mut simulation, 1, &|shards| shards.change(0, "a", 16));
    on_shards(&mut simulation, 1, &publish);
    simulation.settle();
    simulation.check();
}
