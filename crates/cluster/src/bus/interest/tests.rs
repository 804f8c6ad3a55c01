use std::collections::HashSet;

use super::*;

const LONG_TIMEOUT: InterestLimits =
    InterestLimits { ack_ticks: u32::MAX, linger_ticks: 3, lingering_topics_max: 4 };

fn interest(limits: InterestLimits) -> Interest {
    Interest::new(limits, RandomState::new())
}

/// Adds a node that knows all topics and has acknowledged them.
fn join(interest: &mut Interest, node: u16) {
    interest.expect(NodeId(node));
    let (_, seq) = interest.announce_all(NodeId(node));
    interest.acked(NodeId(node), seq).unwrap();
}

fn ticks(interest: &mut Interest, number: usize) -> Vec<Arc<str>> {
    (0..number).flat_map(|_| interest.tick().withdrawn).collect()
}

#[test]
fn a_number_is_ready_once_the_slowest_node_has_acknowledged_it() {
    let mut interest = interest(LONG_TIMEOUT);
    (1..=2).for_each(|node| join(&mut interest, node));
    let seqs = ["a", "b", "c"].map(|topic| interest.subscribe(topic).announce.unwrap());
    assert_eq!(interest.acked(NodeId(1), seqs[2]), Ok(None));
    assert_eq!(interest.acked(NodeId(2), seqs[0]), Ok(Some(seqs[0])));
    assert_eq!(interest.subscribe("a").readiness, Readiness::Ready);
    assert_eq!(interest.subscribe("b").readiness, Readiness::Waits(seqs[1]));
    assert_eq!(interest.down(NodeId(2)), Some(seqs[2]));
}

#[test]
fn an_unrequested_number_cannot_be_acknowledged() {
    let mut interest = interest(LONG_TIMEOUT);
    join(&mut interest, 1);
    let seq = interest.subscribe("t").announce.unwrap();
    assert_eq!(interest.acked(NodeId(1), seq + 1), Err(UnexpectedAck));
    assert_eq!(interest.acked(NodeId(2), 1), Err(UnexpectedAck));
}

#[test]
fn a_wait_ends_with_the_last_of_its_ticks() {
    let mut interest = interest(InterestLimits { ack_ticks: 3, ..LONG_TIMEOUT });
    join(&mut interest, 1);
    let seq = interest.subscribe("t").announce.unwrap();
    assert_eq!([interest.tick(), interest.tick()], [Ticked::default(), Ticked::default()]);
    let expected = Ticked { ready_up_to: Some(seq), late: 1, withdrawn: vec![] };
    assert_eq!(interest.tick(), expected);
    assert!(!interest.needs_ticks());
}

#[test]
fn a_topic_lingers_and_is_listed_only_once() {
    let mut interest = interest(LONG_TIMEOUT);
    interest.subscribe("t");
    for _ in 0..100 {
        interest.unsubscribe("t");
        assert!(interest.subscribe("t").announce.is_none());
    }
    interest.unsubscribe("t");
    assert_eq!(interest.lingering.len(), 1);
    assert!(ticks(&mut interest, 2).is_empty());
    assert_eq!(ticks(&mut interest, 1), ["t".into()]);
    assert_eq!((interest.topics_local(), interest.needs_ticks()), (0, false));
}

#[test]
fn a_topic_that_returns_and_leaves_again_lingers_for_at_most_twice_as_long() {
    let mut interest = interest(LONG_TIMEOUT);
    interest.subscribe("t");
    interest.unsubscribe("t");
    ticks(&mut interest, 2);
    interest.subscribe("t");
    interest.unsubscribe("t");
    assert!(ticks(&mut interest, 3).is_empty());
    assert_eq!(ticks(&mut interest, 1), ["t".into()]);
}

#[test]
fn when_too_many_topics_linger_the_oldest_is_withdrawn_at_once() {
    let mut interest = interest(LONG_TIMEOUT);
    for topic in ["a", "b", "c", "d", "e"] {
        interest.subscribe(topic);
    }
    for topic in ["a", "b", "c", "d"] {
        assert_eq!(interest.unsubscribe(topic), None);
    }
    assert_eq!(interest.unsubscribe("e"), Some("a".into()));
    assert_eq!(interest.topics_local(), 4);
}

#[test]
fn a_node_that_goes_down_loses_its_interest() {
    let mut interest = interest(LONG_TIMEOUT);
    let hash = interest.hasher.hash_one("t");
    assert!(interest.subscribed(NodeId(1), "t") && interest.subscribed(NodeId(2), "t"));
    assert!(!interest.subscribed(NodeId(1), "t"));
    interest.down(NodeId(1));
    assert!(interest.interested(hash).iter().eq([NodeId(2)]));
    interest.unsubscribed(NodeId(2), "t");
    assert_eq!((interest.interested(hash), interest.topics_remote()), (Nodes::default(), 0));
}

// Three nodes, with events in any order.

const NODES: usize = 3;
const TOPICS: usize = 6;

#[derive(Clone, Debug)]
enum Message {
    Subscribe(u64, usize),
    Unsubscribe(usize),
    Ack(u64),
}

struct Node {
    interest: Interest,
    subscribers: [u32; TOPICS],
    /// By topic, the number for which the newest subscriber waits; 0 when it is ready.
    waiting: [u64; TOPICS],
    ready_up_to: u64,
    /// By node, the number of its link; 0 without a link.
    links: [u64; NODES],
}

struct World {
    nodes: Vec<Node>,
    /// Messages on their way, by link and sender.
    in_flight: HashMap<(u64, usize), VecDeque<Message>>,
    /// The newest link between two nodes.
    newest: HashMap<(usize, usize), u64>,
    /// The ends of links that were ever in use.
    used: HashSet<(u64, usize)>,
    rng_state: u64,
}

fn name(topic: usize) -> String {
    format!("topic:{topic}")
}

impl World {
    fn below(&mut self, end: usize) -> usize {
        self.rng_state =
            self.rng_state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.rng_state >> 33) as usize) % end
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        let link = self.nodes[from].links[to];
        self.in_flight.entry((link, from)).or_default().push_back(message);
    }

    fn send_all(&mut self, from: usize, message: &Message) {
        for to in 0..NODES {
            if to != from && self.nodes[from].interest.is_synced(NodeId(to as u16)) {
                self.send(from, to, message.clone());
            }
        }
    }

    fn ready(&mut self, node: usize, up_to: Option<u64>) {
        let node = &mut self.nodes[node];
        if let Some(up_to) = up_to {
            assert!(up_to > node.ready_up_to, "a number is reported once");
            node.ready_up_to = up_to;
            for waiting in node.waiting.iter_mut().filter(|waiting| **waiting <= up_to) {
                *waiting = 0;
            }
        }
    }

    fn new_link(&mut self, pair: (usize, usize)) -> u64 {
        let link = 1 + self.newest.values().max().copied().unwrap_or(0);
        self.newest.insert(pair, link);
        link
    }

    /// One side starts to use its end of a link. The other side does so sooner, later or never.
    fn use_link(&mut self, one: usize, other: usize, link: u64) {
        let id = NodeId(other as u16);
        assert!(self.used.insert((link, one)));
        self.nodes[one].interest.replace(id);
        self.nodes[one].links[other] = link;
        let (topics, seq) = self.nodes[one].interest.announce_all(id);
        let topics: Vec<usize> =
            topics.map(|topic| topic["topic:".len()..].parse().unwrap()).collect();
        for (index, topic) in topics.iter().enumerate() {
            let seq = if index + 1 == topics.len() { seq } else { 0 };
            self.send(one, other, Message::Subscribe(seq, *topic));
        }
        // Subscriptions now wait for the new node too.
        let node = &mut self.nodes[one];
        for (waiting, _) in node.waiting.iter_mut().zip(node.subscribers).filter(|it| it.1 > 0) {
            *waiting = (*waiting).max(seq);
        }
        if topics.is_empty() {
            let ready_up_to = self.nodes[one].interest.acked(id, seq).unwrap();
            self.ready(one, ready_up_to);
        }
    }

    fn deliver(&mut self, from: usize, to: usize) -> bool {
        let link = self.nodes[to].links[from];
        let message = self.in_flight.get_mut(&(link, from)).and_then(VecDeque::pop_front);
        let id = NodeId(from as u16);
        match message {
            None => return false,
            Some(Message::Subscribe(seq, topic)) => {
                self.nodes[to].interest.subscribed(id, &name(topic));
                if seq > 0 {
                    self.send(to, from, Message::Ack(seq));
                }
            }
            Some(Message::Unsubscribe(topic)) => {
                self.nodes[to].interest.unsubscribed(id, &name(topic));
            }
            Some(Message::Ack(seq)) => {
                let ready_up_to = self.nodes[to].interest.acked(id, seq).unwrap();
                self.ready(to, ready_up_to);
            }
        }
        true
    }

    fn step(&mut self) {
        let (one, topic) = (self.below(NODES), self.below(TOPICS));
        let other = (one + 1 + self.below(NODES - 1)) % NODES;
        let pair = (one.min(other), one.max(other));
        match self.below(24) {
            0..5 => {
                let subscribed = self.nodes[one].interest.subscribe(&name(topic));
                self.nodes[one].subscribers[topic] += 1;
                if let Readiness::Waits(seq) = subscribed.readiness {
                    self.nodes[one].waiting[topic] = seq;
                }
                if let Some(seq) = subscribed.announce {
                    self.send_all(one, &Message::Subscribe(seq, topic));
                }
            }
            5..10 if self.nodes[one].subscribers[topic] > 0 => {
                self.nodes[one].subscribers[topic] -= 1;
                if self.nodes[one].subscribers[topic] == 0 {
                    self.nodes[one].waiting[topic] = 0;
                }
                let withdrawn = self.nodes[one].interest.unsubscribe(&name(topic));
                self.withdraw(one, withdrawn.into_iter().collect());
            }
            10 => self.tick(one),
            11 if self.below(4) == 0 => {
                // One side notices the end of the link; the other side does so later or never.
                self.nodes[one].links[other] = 0;
                let ready_up_to = self.nodes[one].interest.down(NodeId(other as u16));
                self.ready(one, ready_up_to);
            }
            12 if self.below(4) == 0 => {
                // The unused end of the newest link, or the end of a new one.
                let newest = self.newest.get(&pair).copied();
                let is_free = |link: &u64| !self.used.contains(&(*link, one));
                let link = newest.filter(is_free).unwrap_or_else(|| self.new_link(pair));
                self.use_link(one, other, link);
            }
            _ => {
                self.deliver(one, other);
            }
        }
    }

    fn withdraw(&mut self, node: usize, withdrawn: Vec<Arc<str>>) {
        for topic in withdrawn {
            let topic = topic["topic:".len()..].parse().unwrap();
            assert_eq!(self.nodes[node].subscribers[topic], 0);
            self.send_all(node, &Message::Unsubscribe(topic));
        }
    }

    fn tick(&mut self, node: usize) {
        let ticked = self.nodes[node].interest.tick();
        self.ready(node, ticked.ready_up_to);
        self.withdraw(node, ticked.withdrawn);
    }

    fn is_interested(&self, node: usize, of: usize, topic: usize) -> bool {
        let interest = &self.nodes[node].interest;
        let nodes = interest.interested(interest.hasher.hash_one(name(topic)));
        nodes.contains(NodeId(of as u16))
    }

    /// Checks that ready subscriptions are known at the other ends of all links.
    fn check(&self) {
        for (me, node) in self.nodes.iter().enumerate() {
            let is_ready =
                |topic: &usize| node.subscribers[*topic] > 0 && node.waiting[*topic] == 0;
            for topic in (0..TOPICS).filter(is_ready) {
                for (other, link) in node.links.iter().enumerate().filter(|(_, link)| **link > 0) {
                    if self.nodes[other].links[me] == *link {
                        assert!(self.is_interested(other, me, topic), "{other} does not know it");
                    }
                }
            }
        }
    }

    /// Connects all nodes with new links, and delivers everything.
    fn settle(&mut self) {
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            let link = self.new_link((one, other));
            self.use_link(one, other, link);
            self.use_link(other, one, link);
        }
        let pairs = || (0..NODES).flat_map(|from| (0..NODES).map(move |to| (from, to)));
        for round in 0..2 {
            while pairs().any(|(from, to)| from != to && self.deliver(from, to)) {
                self.check();
            }
            for node in (0..NODES * 7).map(|number| number % NODES).filter(|_| round == 0) {
                self.tick(node);
            }
        }
        for (me, other) in pairs().filter(|(me, other)| me != other) {
            let node = &self.nodes[me];
            assert_eq!(node.waiting, [0; TOPICS], "a subscription never becomes ready");
            assert!(!node.interest.needs_ticks());
            for topic in 0..TOPICS {
                assert_eq!(self.is_interested(other, me, topic), node.subscribers[topic] > 0);
            }
        }
    }
}

#[test]
fn ready_numbers_are_known_and_all_become_ready_in_any_order_of_events() {
    for seed in 0..300 {
        println!("seed {seed}");
        let nodes = (0..NODES).map(|_| Node {
            interest: interest(LONG_TIMEOUT),
            subscribers: [0; TOPICS],
            waiting: [0; TOPICS],
            ready_up_to: 0,
            links: [0; NODES],
        });
        let (in_flight, newest, used) = Default::default();
        let mut world = World { nodes: nodes.collect(), in_flight, newest, used, rng_state: seed };
        for _ in 0..400 {
            world.step();
            world.check();
        }
        world.settle();
    }
}
