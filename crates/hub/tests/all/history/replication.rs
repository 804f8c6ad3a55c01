//! Processes that replicate the log of one topic, while links break, processes die and start again, and
//! clients come, go and move between them.
//!
//! A client that is told that it is recovered has received every message since it joined for the first
//! time, in the order of the log, none twice. Only a message that no living process has delivered may be
//! missing from the log.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use watchfire_hub::history::{Bounds, Environment, Message, Output, Packet, Position, Replicas};
use watchfire_types::{Instant, NodeId, Rng};

const TOPIC: &str = "news:1";
const NODES: usize = 4;
const CLIENTS: usize = 5;
const BOUNDS: Bounds = Bounds { messages: 10_000, age: Duration::from_secs(3_600), bytes: 1 << 20 };

#[derive(Clone, Default)]
struct Interest(std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Environment for Interest {
    fn bounds(&self, topic: &str) -> Option<Bounds> {
        (topic == TOPIC).then_some(BOUNDS)
    }

    fn is_subscribed(&self, _: &str) -> bool {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// A message of a link.
#[derive(Clone, Debug)]
enum Frame {
    Subscribe,
    /// All messages before the subscription have arrived.
    Ack,
    Packet(Packet),
}

struct Node {
    replicas: Replicas<Interest>,
    interest: Interest,
    /// How often a process was started in this place.
    incarnation: u32,
    /// The nodes that have not acknowledged the subscription.
    unacked: BTreeSet<usize>,
    /// The nodes that are subscribed.
    subscribers: BTreeSet<usize>,
    /// The last position that was delivered to the clients here.
    queued: Option<Position>,
}

#[derive(Default)]
struct Client {
    node: Option<usize>,
    position: Option<Position>,
    /// The offset at which its list began.
    start: u64,
    received: Vec<u64>,
}

struct Simulation {
    rng: Rng,
    now: Instant,
    nodes: Vec<Option<Node>>,
    incarnations: u32,
    /// The messages on their way, by sender and receiver. No entry: the link is down.
    links: BTreeMap<(usize, usize), VecDeque<Frame>>,
    clients: Vec<Client>,
    published: u64,
    /// The messages that each incarnation of a process published.
    published_by: BTreeMap<(usize, u32), Vec<u64>>,
    /// Logs that began again.
    diverged: u64,
    kills: u32,
    /// The message of each position.
    placed: BTreeMap<(u64, u64), u64>,
    /// The incarnations of the processes that delivered a message.
    delivered: BTreeMap<u64, BTreeSet<(usize, u32)>>,
    recovered: u64,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut simulation = Simulation {
            rng: Rng::from_seed(seed),
            now: Instant::ZERO,
            nodes: (0..NODES).map(|_| None).collect(),
            incarnations: 0,
            links: BTreeMap::new(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            published: 0,
            published_by: BTreeMap::new(),
            diverged: 0,
            kills: 0,
            placed: BTreeMap::new(),
            delivered: BTreeMap::new(),
            recovered: 0,
        };
        (0..NODES - 1).for_each(|node| simulation.start(node));
        simulation
    }

    fn below(&mut self, end: usize) -> usize {
        self.rng.below(end as u64) as usize
    }

    fn start(&mut self, at: usize) {
        self.incarnations += 1;
        let interest = Interest::default();
        let me = NodeId(at as u16);
        let (seed, settled_at) = (self.rng.next_u64(), self.now + Duration::from_millis(100));
        self.nodes[at] = Some(Node {
            replicas: Replicas::new(me, interest.clone(), seed, 1 << 20, settled_at),
            interest,
            incarnation: self.incarnations,
            unacked: BTreeSet::new(),
            subscribers: BTreeSet::new(),
            queued: None,
        });
        for other in 0..NODES {
            self.link(at, other);
        }
    }

    fn link(&mut self, a: usize, b: usize) {
        let is_possible = a != b && self.nodes[a].is_some() && self.nodes[b].is_some();
        if !is_possible || self.links.contains_key(&(a, b)) {
            return;
        }
        for (me, other) in [(a, b), (b, a)] {
            self.links.insert((me, other), VecDeque::new());
        }
        for (me, other) in [(a, b), (b, a)] {
            let now = self.now;
            let node = self.nodes[me].as_mut().unwrap();
            if node.interest.is_subscribed(TOPIC) {
                node.unacked.insert(other);
                self.links.get_mut(&(me, other)).unwrap().push_back(Frame::Subscribe);
            }
            self.nodes[me].as_mut().unwrap().replicas.node_up(now, NodeId(other as u16));
            self.drain(me);
        }
    }

    fn unlink(&mut self, a: usize, b: usize) {
        if self.links.remove(&(a, b)).is_none() {
            return;
        }
        self.links.remove(&(b, a));
        for (me, other) in [(a, b), (b, a)] {
            let now = self.now;
            if let Some(node) = &mut self.nodes[me] {
                node.unacked.remove(&other);
                node.subscribers.remove(&other);
                node.replicas.node_down(now, NodeId(other as u16));
                self.drain(me);
            }
        }
    }

    fn kill(&mut self, at: usize) {
        self.kills += 1;
        let node = self.nodes[at].as_ref();
        self.diverged += node.map_or(0, |node| node.replicas.totals().diverged_logs);
        self.nodes[at] = None;
        (0..NODES).for_each(|other| self.unlink(at, other));
        self.disconnect_from(at);
    }

    fn disconnect_from(&mut self, at: usize) {
        self.clients.iter_mut().filter(|c| c.node == Some(at)).for_each(|c| c.node = None);
    }

    fn subscribe(&mut self, at: usize) {
        let node = self.nodes[at].as_mut().unwrap();
        if node.interest.is_subscribed(TOPIC) {
            return;
        }
        node.interest.0.store(true, std::sync::atomic::Ordering::Relaxed);
        for other in 0..NODES {
            if let Some(link) = self.links.get_mut(&(at, other)) {
                link.push_back(Frame::Subscribe);
                self.nodes[at].as_mut().unwrap().unacked.insert(other);
            }
        }
    }

    fn arrive(&mut self, from: usize, at: usize) {
        let Some(frame) = self.links.get_mut(&(from, at)).and_then(VecDeque::pop_front) else {
            return;
        };
        let now = self.now;
        let node = self.nodes[at].as_mut().expect("a link has two ends");
        let sender = NodeId(from as u16);
        match frame {
            Frame::Subscribe => {
                node.subscribers.insert(from);
                node.replicas.introduce_to(now, sender, TOPIC);
                self.drain(at);
                if let Some(back) = self.links.get_mut(&(at, from)) {
                    back.push_back(Frame::Ack);
                }
            }
            Frame::Ack => drop(node.unacked.remove(&from)),
            Frame::Packet(packet) => {
                node.replicas.receive(now, sender, packet);
                self.drain(at);
            }
        }
    }

    fn drain(&mut self, at: usize) {
        while let Some(output) = self.nodes[at].as_mut().unwrap().replicas.poll_output() {
            match output {
                Output::Send { to, packet } => {
                    if let Some(link) = self.links.get_mut(&(at, usize::from(to.0))) {
                        link.push_back(Frame::Packet(packet));
                    }
                }
                Output::Publish { packet, .. } => {
                    for other in self.nodes[at].as_ref().unwrap().subscribers.clone() {
                        let link = self.links.get_mut(&(at, other)).expect("it is subscribed");
                        link.push_back(Frame::Packet(packet.clone()));
                    }
                }
                Output::Deliver { after, position, message, .. } => {
                    self.deliver(at, after, position, &message);
                }
                Output::Reset { .. } => self.reset(at),
                Output::Subscribe { .. } => self.subscribe(at),
                Output::Unsubscribe { .. } | Output::Ready => {}
            }
        }
    }

    fn reset(&mut self, at: usize) {
        self.nodes[at].as_mut().unwrap().queued = None;
        self.disconnect_from(at);
    }

    /// As a shard of the server does it.
    fn deliver(&mut self, at: usize, after: Position, position: Position, message: &Message) {
        let id = message.payload.parse().unwrap();
        let key = (position.epoch, position.offset);
        let placed = *self.placed.entry(key).or_insert(id);
        assert_eq!(placed, id, "two messages have the position {position}");
        let node = self.nodes[at].as_mut().unwrap();
        let Some(queued) = node.queued else { return };
        if queued != after {
            if queued.epoch != position.epoch || position.offset > queued.offset {
                self.reset(at);
            }
            return;
        }
        node.queued = Some(position);
        let incarnation = (at, node.incarnation);
        for client in self.clients.iter_mut().filter(|client| client.node == Some(at)) {
            client.received.push(id);
            client.position = Some(position);
            self.delivered.entry(id).or_default().insert(incarnation);
        }
    }

    fn publish(&mut self, at: usize) {
        self.published += 1;
        let message = Message { event: "".into(), payload: self.published.to_string().into() };
        let now = self.now;
        let node = self.nodes[at].as_mut().unwrap();
        self.published_by.entry((at, node.incarnation)).or_default().push(self.published);
        node.replicas.publish(now, TOPIC, message);
        self.drain(at);
    }

    fn join(&mut self, number: usize, at: usize) {
        self.subscribe(at);
        let now = self.now;
        let node = self.nodes[at].as_mut().unwrap();
        let is_ready = node.unacked.is_empty() && node.replicas.open(now, TOPIC);
        self.drain(at);
        if !is_ready || self.clients[number].node.is_some() {
            return;
        }
        let node = self.nodes[at].as_mut().unwrap();
        let log = node.replicas.log(TOPIC).expect("the log is open");
        let client = &mut self.clients[number];
        match client.position.and_then(|position| log.since(position)) {
            Some(messages) => {
                self.recovered += 1;
                for (_, message) in messages {
                    let id = message.payload.parse().unwrap();
                    client.received.push(id);
                    self.delivered.entry(id).or_default().insert((at, node.incarnation));
                }
            }
            None => {
                client.received.clear();
                client.start = log.position().offset;
            }
        }
        // With several clients on a node, a log that is ahead of the queue serves all of them.
        client.position = Some(log.position());
        client.node = Some(at);
        node.queued =
            node.queued.filter(|_| self.clients.iter().filter(|c| c.node == Some(at)).count() > 1);
        let position = self.clients[number].position;
        let queued = self.nodes[at].as_mut().unwrap().queued.get_or_insert(position.unwrap());
        assert_eq!(Some(*queued), position, "the log is delivered as soon as it grows");
    }

    fn step(&mut self, faults: Faults) {
        self.now += Duration::from_millis(self.rng.below(20));
        let [a, b] = [self.below(NODES), self.below(NODES)];
        let events = match faults {
            Faults::None => 94,
            Faults::OneEnd => 95,
            Faults::All => 100,
        };
        match self.below(events) {
            0..60 => {
                let links: Vec<_> =
                    self.links.iter().filter(|(_, l)| !l.is_empty()).map(|(key, _)| *key).collect();
                if !links.is_empty() {
                    let (from, to) = links[self.below(links.len())];
                    self.arrive(from, to);
                }
            }
            60..70 if self.nodes[a].is_some() => self.publish(a),
            70..82 if self.nodes[a].is_some() => {
                let client = self.below(CLIENTS);
                self.join(client, a);
            }
            82..86 => {
                let client = self.below(CLIENTS);
                self.clients[client].node = None;
            }
            86..94 if self.nodes[a].is_some() => {
                let now = self.now;
                self.nodes[a].as_mut().unwrap().replicas.handle_tick(now);
                self.drain(a);
            }
            94 if faults == Faults::OneEnd && self.kills == 0 && self.nodes[a].is_some() => {
                self.kill(a);
            }
            94 if faults == Faults::OneEnd => {}
            94 => self.unlink(a, b),
            95 | 96 => self.link(a, b),
            97 if self.nodes.iter().flatten().count() > 1 => self.kill(a),
            98 if self.nodes[a].is_none() => self.start(a),
            _ => {}
        }
    }

    /// Heals all links and lets everything arrive; then every client joins again.
    fn settle(&mut self) {
        for a in 0..NODES {
            (0..NODES).for_each(|b| self.link(a, b));
        }
        for round in 0..60 {
            self.now += Duration::from_millis(200);
            for at in 0..NODES {
                if self.nodes[at].is_some() {
                    let now = self.now;
                    self.nodes[at].as_mut().unwrap().replicas.handle_tick(now);
                    self.drain(at);
                }
            }
            let mut arrivals = 0;
            while let Some(key) =
                self.links.iter().find(|(_, l)| !l.is_empty()).map(|(key, _)| *key)
            {
                self.arrive(key.0, key.1);
                arrivals += 1;
                assert!(arrivals < 10_000, "the processes never come to rest");
            }
            if round == 30 {
                let at = (0..NODES).find(|at| self.nodes[*at].is_some()).unwrap();
                self.publish(at);
            }
        }
        for client in 0..CLIENTS {
            let alive: Vec<usize> = (0..NODES).filter(|at| self.nodes[*at].is_some()).collect();
            let at = alive[self.below(alive.len())];
            self.clients[client].node = None;
            for _ in 0..20 {
                self.now += Duration::from_millis(400);
                self.join(client, at);
                while let Some(key) =
                    self.links.iter().find(|(_, l)| !l.is_empty()).map(|(k, _)| *k)
                {
                    self.arrive(key.0, key.1);
                }
            }
            assert!(self.clients[client].node.is_some(), "the client joins");
        }
    }

    fn check(&self, faults: Faults) {
        let mut logs = self.nodes.iter().flatten().filter_map(|node| {
            let log = node.replicas.log(TOPIC)?;
            Some((log.position(), log.newest(usize::MAX)))
        });
        let (position, messages) = logs.next().expect("the topic has a log");
        for (other, _) in logs {
            assert_eq!(position, other, "all processes have the same log");
        }
        let ids: Vec<u64> =
            messages.iter().map(|(_, message)| message.payload.parse().unwrap()).collect();
        assert_eq!(ids.len() as u64, position.offset, "nothing was dropped");
        let unique: BTreeSet<u64> = ids.iter().copied().collect();
        assert_eq!(unique.len(), ids.len(), "a message is in the log twice: {ids:?}");
        let survivors = self.nodes.iter().enumerate();
        let survivors = survivors.filter_map(|(at, node)| Some((at, node.as_ref()?)));
        let diverged: u64 =
            survivors.clone().map(|(_, node)| node.replicas.totals().diverged_logs).sum();
        // Two processes that end one after the other, or a process that ends and a link that breaks, may
        // have been the only ones with a message.
        if faults != Faults::All {
            assert_eq!(self.diverged + diverged, 0, "a log began again");
            for (at, node) in survivors {
                for id in self.published_by.get(&(at, node.incarnation)).into_iter().flatten() {
                    assert!(unique.contains(id), "{id} of the survivor {at} is lost: {ids:?}");
                }
            }
        }
        for client in &self.clients {
            let is_kept = |id: &&u64| ids.contains(id);
            let kept: Vec<u64> = client.received.iter().filter(is_kept).copied().collect();
            // It may have started at the end of an epoch that ends earlier in the log.
            assert!(ids.ends_with(&kept), "{kept:?} of {ids:?}");
            let started_at = ids.len() - kept.len();
            assert!(started_at as u64 <= client.start, "{started_at} after {}", client.start);
            for id in client.received.iter().filter(|id| !is_kept(id)) {
                let is_alive = |(at, incarnation): &(usize, u32)| {
                    self.nodes[*at].as_ref().is_some_and(|node| node.incarnation == *incarnation)
                };
                assert!(
                    !self.delivered[id].iter().any(is_alive),
                    "{id} was delivered by a survivor"
                );
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Faults {
    None,
    OneEnd,
    /// Processes end and start, and links break.
    All,
}

fn run(seeds: std::ops::Range<u64>, faults: Faults) -> u64 {
    let mut recovered = 0;
    for seed in seeds {
        let result = std::panic::catch_unwind(|| {
            let mut simulation = Simulation::new(seed);
            (0..300).for_each(|_| simulation.step(faults));
            simulation.settle();
            simulation.check(faults);
            simulation.recovered
        });
        recovered += result.unwrap_or_else(|_| panic!("seed {seed}"));
    }
    recovered
}

#[test]
fn a_recovered_client_has_what_survivors_delivered_in_order_and_once() {
    let recovered = run(0..10_000, Faults::All);
    assert!(recovered > 10_000, "only {recovered} joins were recovered");
}

#[test]
fn without_faults_every_client_that_comes_back_is_recovered() {
    let recovered = run(0..1_000, Faults::None);
    assert!(recovered > 5_000, "only {recovered} joins were recovered");
}

#[test]
fn when_a_process_ends_no_message_of_the_others_is_lost() {
    let recovered = run(0..10_000, Faults::OneEnd);
    assert!(recovered > 10_000, "only {recovered} joins were recovered");
}
