//! Replication of presences between nodes, by interest.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::reader::{Client, Shown, check, parse};
use serde_json::{Value, json};
use watchfire_hub::{
    Exported, ImportError, OwnChange, Presence, PresenceLimits, PresenceOwner, Reference,
    TrackError,
};
use watchfire_types::{NodeId, Rng};

const LOBBY: &str = "rooms:lobby";
const HERE: NodeId = NodeId(0);
const THERE: NodeId = NodeId(1);

fn state(presence: &mut Presence, topic: &str) -> Shown {
    parse(&serde_json::from_str(&presence.state(topic)).unwrap())
}

/// The joins and leaves of the next diff for this node's clients.
fn diff(presence: &mut Presence) -> Option<(Shown, Shown)> {
    let payload = presence.poll_diff()?.payload?;
    let payload: Value = serde_json::from_str(&payload).unwrap();
    check(&payload);
    Some((parse(&payload["joins"]), parse(&payload["leaves"])))
}

fn own(presence: &mut Presence) -> Vec<OwnChange> {
    presence.poll_diff().map(|diff| diff.own).unwrap_or_default()
}

/// Two nodes with an interest in the lobby, and alice on the other one.
fn two_nodes_with_alice() -> (Presence, Presence, PresenceOwner) {
    let (mut there, mut alice) = (Presence::of_node(8, THERE), PresenceOwner::default());
    there.track(&mut alice, LOBBY, "alice", r#"{"n":1}"#).unwrap();
    let mut here = Presence::of_node(7, HERE);
    assert_eq!(here.import_all(THERE, LOBBY, &there.export(LOBBY)), 0);
    (here, there, alice)
}

fn import(here: &mut Presence, changes: &[OwnChange]) {
    for change in changes {
        here.import(THERE, LOBBY, change).unwrap();
    }
}

fn exported(key: &str, meta: &str, reference: Reference) -> OwnChange {
    let (key, meta) = (key.into(), meta.into());
    OwnChange::Joined(Exported { key, meta, reference, previous: None })
}

/// A reference made by the other node.
fn reference_of_alice(here: &mut Presence) -> Reference {
    let (_, mut there, _alice) = two_nodes_with_alice();
    let reference = there.export(LOBBY)[0].reference;
    assert_eq!((reference.node(), here.node()), (THERE, HERE));
    reference
}

#[test]
fn an_exported_presence_is_shown_under_the_same_reference() {
    let (mut here, mut there, _alice) = two_nodes_with_alice();
    let there_shown = state(&mut there, LOBBY);
    assert_eq!(state(&mut here, LOBBY), there_shown);
    assert_eq!(diff(&mut here), Some((there_shown, Shown::new())));
    assert_eq!((here.len(), here.own_len(), there.own_len()), (1, 0, 1));
    assert_eq!(here.export(LOBBY), [], "a node exports only its own presences");
}

#[test]
fn a_repeated_change_is_shown_once() {
    let (mut here, mut there, _alice) = two_nodes_with_alice();
    diff(&mut here).unwrap();
    import(&mut here, &own(&mut there));
    here.import_all(THERE, LOBBY, &there.export(LOBBY));
    assert_eq!((here.count(LOBBY), diff(&mut here)), (1, None));
}

#[test]
fn an_update_on_another_node_looks_like_a_local_one() {
    let (mut here, mut there, alice) = two_nodes_with_alice();
    let (old, _) = diff(&mut here).unwrap();
    import(&mut here, &own(&mut there));
    there.update(&alice, LOBBY, "alice", r#"{"n":2}"#).unwrap();
    let changes = own(&mut there);
    assert_eq!(changes.len(), 1);
    import(&mut here, &changes);
    let (joins, leaves) = diff(&mut here).unwrap();
    assert_eq!(leaves, old);
    let meta = joins["alice"].values().next().unwrap();
    assert_eq!(meta["n"], 2);
    assert_eq!(
        Some(meta["phx_ref_prev"].as_str().unwrap()),
        old["alice"].keys().next().map(|r| &**r)
    );
    assert_eq!(state(&mut there, LOBBY), state(&mut here, LOBBY));
}

#[test]
fn an_update_of_a_presence_unknown_to_clients_is_only_a_join() {
    let (mut here, mut there, alice) = two_nodes_with_alice();
    own(&mut there);
    there.update(&alice, LOBBY, "alice", r#"{"n":2}"#).unwrap();
    import(&mut here, &own(&mut there));
    let (joins, leaves) = diff(&mut here).unwrap();
    let meta = joins["alice"].values().next().unwrap();
    assert_eq!((&meta["n"], meta.get("phx_ref_prev"), leaves), (&json!(2), None, Shown::new()));
}

#[test]
fn a_leave_of_an_exported_presence_is_sent_to_nodes_even_if_no_client_knew_it() {
    let (mut here, mut there, mut alice) = two_nodes_with_alice();
    diff(&mut here).unwrap();
    there.untrack_all(&mut alice);
    let diff_there = there.poll_diff().unwrap();
    assert_eq!((diff_there.payload, diff_there.own.len()), (None, 1));
    import(&mut here, &diff_there.own);
    assert_eq!((here.count(LOBBY), diff(&mut here).unwrap().0), (0, Shown::new()));
    import(&mut here, &diff_there.own);
    assert_eq!(here.poll_diff(), None, "an unknown presence cannot leave");
}

#[test]
fn a_new_export_replaces_all_presences_of_its_node() {
    let (mut here, mut there, mut alice) = two_nodes_with_alice();
    let mut bob = PresenceOwner::default();
    here.track(&mut bob, LOBBY, "bob", "{}").unwrap();
    diff(&mut here).unwrap();
    there.untrack_all(&mut alice);
    there.track(&mut alice, LOBBY, "carol", "{}").unwrap();
    here.import_all(THERE, LOBBY, &there.export(LOBBY));
    let (joins, leaves) = diff(&mut here).unwrap();
    assert!(joins.keys().eq(["carol"]) && leaves.keys().eq(["alice"]));
    assert!(state(&mut here, LOBBY).keys().eq(["bob", "carol"]));
}

#[test]
fn all_presences_of_a_node_leave_with_it() {
    let (mut here, _there, _alice) = two_nodes_with_alice();
    let mut bob = PresenceOwner::default();
    here.track(&mut bob, LOBBY, "bob", "{}").unwrap();
    diff(&mut here).unwrap();
    here.forget_node(THERE);
    let (joins, leaves) = diff(&mut here).unwrap();
    assert_eq!((joins, leaves.len()), (Shown::new(), 1));
    here.forget_node(HERE);
    assert_eq!((here.len(), here.own_len()), (1, 1), "a node cannot forget itself");
}

#[test]
fn a_node_that_returns_at_once_has_not_left() {
    let (mut here, mut there, _alice) = two_nodes_with_alice();
    let mut client = Client::sync_state(&serde_json::from_str(&here.state(LOBBY)).unwrap());
    here.poll_diff();
    here.forget_node(THERE);
    here.import_all(THERE, LOBBY, &there.export(LOBBY));
    let payload = here.poll_diff().unwrap().payload.unwrap();
    client.sync_diff(&serde_json::from_str(&payload).unwrap());
    assert_eq!(client.shown(), state(&mut here, LOBBY));
    assert_eq!(client.shown().len(), 1);
}

#[test]
fn leaves_of_other_nodes_are_not_sent_on_a_topic_without_subscribers() {
    let (mut here, _there, _alice) = two_nodes_with_alice();
    let mut bob = PresenceOwner::default();
    here.track(&mut bob, LOBBY, "bob", "{}").unwrap();
    here.poll_diff();
    here.untrack_all(&mut bob);
    here.forget_remote(LOBBY);
    let last = here.poll_diff().unwrap();
    assert!(matches!(&last.own[..], [OwnChange::Left { key, .. }] if key == "bob"));
    assert!(!last.payload.unwrap().contains("alice"));
    assert_eq!((here.len(), here.poll_diff()), (0, None));
}

#[test]
fn a_server_of_one_node_has_no_own_changes() {
    let (mut presence, mut alice) = (Presence::new(7), PresenceOwner::default());
    presence.track(&mut alice, LOBBY, "alice", "{}").unwrap();
    assert_eq!(own(&mut presence), []);
    presence.untrack_all(&mut alice);
    assert_eq!(own(&mut presence), []);
}

#[test]
fn a_node_may_send_only_its_own_presences() {
    let mut here = Presence::of_node(7, HERE);
    let reference = reference_of_alice(&mut here);
    let joined = exported("alice", "{}", reference);
    let refused = here.import(NodeId(2), LOBBY, &joined);
    assert_eq!(refused, Err(ImportError::WrongNode { from: NodeId(2), of: THERE }));
    let mut there = Presence::of_node(9, THERE);
    assert!(there.import(THERE, LOBBY, &joined).is_err(), "a node does not import its own");
    assert_eq!((here.len(), there.len()), (0, 0));

    let (mut here, _there, _alice) = two_nodes_with_alice();
    let left = OwnChange::Left { key: "alice".into(), reference };
    assert!(here.import(NodeId(2), LOBBY, &left).is_err());
    assert_eq!(here.import_all(NodeId(2), LOBBY, &[]), 0);
    assert_eq!(here.len(), 1);
}

#[test]
fn a_presence_over_a_limit_is_not_imported_and_its_older_meta_is_removed() {
    let limits = PresenceLimits { key_bytes_max: 5, meta_bytes_max: 20, ..Default::default() };
    let mut here = Presence::of_node_with_limits(7, HERE, limits);
    let reference = reference_of_alice(&mut here);
    let mut import = |key, meta| here.import(THERE, LOBBY, &exported(key, meta, reference));
    let key = TrackError::KeyTooLong { len: 6, max: 5 };
    assert_eq!(import("alices", "{}"), Err(ImportError::Refused(key)));
    let meta = TrackError::MetaTooLong { len: 21, max: 20 };
    assert_eq!(import("alice", r#"{"a":"1234567890123"}"#), Err(meta.into()));
    for meta in ["", "[]", "{", "{}{}", "}"] {
        assert_eq!(import("alice", meta), Err(TrackError::MetaNotObject.into()));
    }
    assert_eq!(import("alice", r#"{"phx_ref":"me"}"#), Ok(()));
    assert!(!here.state(LOBBY).contains("me\""));

    let (mut there, mut alice) = (Presence::of_node(8, THERE), PresenceOwner::default());
    there.track(&mut alice, LOBBY, "alice", "{}").unwrap();
    here.import_all(THERE, LOBBY, &there.export(LOBBY));
    own(&mut there);
    there
        .update(&alice, LOBBY, "alice", &json!({ "too": "long for the other" }).to_string())
        .unwrap();
    assert!(here.import(THERE, LOBBY, &own(&mut there)[0]).is_err());
    let (joins, leaves) = diff(&mut here).unwrap();
    assert!(joins.is_empty() && leaves.keys().eq(["alice"]) && here.is_empty());
}

#[test]
fn any_references_may_be_imported() {
    for seed in 1..=200 {
        let mut rng = Rng::from_seed(seed);
        let mut here = Presence::of_node(seed, THERE);
        for _ in 0..300 {
            // Few references, so that they meet: under other keys, and as their own predecessors.
            let mut reference = || -> Reference {
                let number = [0, 1 << 16, u64::MAX << 16, 2, 1 << 16 | 2][rng.index(5)];
                serde_json::from_value(json!(number)).unwrap()
            };
            let (reference, previous) = (reference(), Some(reference()));
            let key = ["", "a", "\"b\""][rng.index(3)].to_owned();
            let change = match rng.index(3) {
                0 => OwnChange::Left { key, reference },
                _ => OwnChange::Joined(Exported { key, meta: "{}".into(), reference, previous }),
            };
            here.import(reference.node(), LOBBY, &change).unwrap();
            match rng.index(10) {
                0 => here.forget_node(reference.node()),
                1 => here.forget_remote(LOBBY),
                2 => drop(state(&mut here, LOBBY)),
                3 => {
                    let payload = here.poll_diff().and_then(|diff| diff.payload);
                    let payload = payload.unwrap_or_else(|| r#"{"joins":{},"leaves":{}}"#.into());
                    let payload: Value = serde_json::from_str(&payload).unwrap();
                    drop((parse(&payload["joins"]), parse(&payload["leaves"])));
                }
                _ => {}
            }
        }
        here.forget_node(NodeId(0));
        here.forget_node(NodeId(2));
        here.poll_diff();
        assert_eq!((here.len(), here.poll_diff(), here.count(LOBBY)), (0, None, 0));
    }
}

#[test]
fn a_remote_key_of_ten_thousand_owners_is_removed_quickly() {
    let (mut here, mut there) = (Presence::of_node(7, HERE), Presence::of_node(8, THERE));
    let mut owners: Vec<PresenceOwner> = (0..10_000).map(|_| PresenceOwner::default()).collect();
    for owner in &mut owners {
        there.track(owner, LOBBY, "guest", "{}").unwrap();
    }
    let changes = own(&mut there);
    import(&mut here, &changes);
    import(&mut here, &changes);
    assert_eq!((here.count(LOBBY), here.keys(LOBBY)), (10_000, 1));
    diff(&mut here).unwrap();
    owners.iter_mut().rev().for_each(|owner| there.untrack_all(owner));
    import(&mut here, &own(&mut there));
    assert_eq!((here.len(), diff(&mut here).unwrap().1["guest"].len()), (0, 10_000));
}

const TOPICS: [&str; 2] = [LOBBY, "rooms:kitchen"];
const KEYS: [&str; 3] = ["a", "b", "c"];
const OWNERS: usize = 3;

#[derive(Clone)]
enum Message {
    Up(u64),
    Down,
    Interested(&'static str),
    Withdrawn(&'static str),
    /// The exported presences of a topic, encoded.
    All(&'static str, String),
    Changes(&'static str, String),
}

/// One process of a node.
struct Node {
    presence: Presence,
    owners: Vec<PresenceOwner>,
    /// The expected meta by topic, owner and key.
    model: BTreeMap<(&'static str, usize, &'static str), Value>,
    interests: BTreeSet<&'static str>,
    clients: Vec<(&'static str, Client)>,
    /// Diffs that were polled but have not reached this node's clients yet.
    diffs: VecDeque<(&'static str, Value)>,
    /// By other node: the known link, and the topics in which that node is interested.
    links: BTreeMap<usize, (u64, BTreeSet<&'static str>)>,
}

impl Node {
    fn new(seed: u64, node: usize) -> Self {
        Node {
            presence: Presence::of_node(seed, NodeId(node as u16)),
            owners: (0..OWNERS).map(|_| PresenceOwner::default()).collect(),
            model: BTreeMap::new(),
            interests: BTreeSet::new(),
            clients: Vec::new(),
            diffs: VecDeque::new(),
            links: BTreeMap::new(),
        }
    }
}

struct World {
    rng: Rng,
    nodes: Vec<Node>,
    /// Messages on their way from one node to another.
    queues: BTreeMap<(usize, usize), VecDeque<Message>>,
    /// The current link between two nodes; a message sent on an older link is lost.
    links: BTreeMap<(usize, usize), u64>,
    seeds: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let count = 3 + rng.index(2);
        let nodes = (0..count).map(|node| Node::new(seed << 32 | node as u64, node)).collect();
        let (queues, links) = (BTreeMap::new(), BTreeMap::new());
        let mut world = World { rng, nodes, queues, links, seeds: seed << 32 | 1 << 16 };
        (0..count).for_each(|a| (0..a).for_each(|b| world.reconnect(a, b)));
        world
    }

    /// Cuts the link of two nodes, which loses some messages on their way, and makes a new one.
    fn reconnect(&mut self, a: usize, b: usize) {
        let link = self.links.entry((a.min(b), a.max(b))).or_default();
        *link += 1;
        for pair in [(a, b), (b, a)] {
            let queue = self.queues.entry(pair).or_default();
            queue.truncate(self.rng.index(queue.len() + 1));
            queue.extend([Message::Down, Message::Up(*link)]);
        }
    }

    fn restart(&mut self, node: usize) {
        self.seeds += 1;
        self.nodes[node] = Node::new(self.seeds, node);
        for other in (0..self.nodes.len()).filter(|other| *other != node) {
            self.queues.entry((other, node)).or_default().clear();
            self.reconnect(node, other);
        }
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        let link = self.links[&(from.min(to), from.max(to))];
        if self.nodes[from].links.get(&to).is_some_and(|(known, _)| *known == link) {
            self.queues.entry((from, to)).or_default().push_back(message);
        }
    }

    fn send_all(&mut self, from: usize, message: &Message) {
        for to in (0..self.nodes.len()).filter(|to| *to != from) {
            self.send(from, to, message.clone());
        }
    }

    /// Delivers the first message of a queue; returns whether there was one.
    fn deliver(&mut self, from: usize, to: usize) -> bool {
        let queue = self.queues.get_mut(&(from, to));
        let Some(message) = queue.and_then(VecDeque::pop_front) else { return false };
        let (node, sender) = (&mut self.nodes[to], NodeId(from as u16));
        match message {
            Message::Down => {
                node.links.remove(&from);
                node.presence.forget_node(sender);
            }
            Message::Up(link) => {
                node.links.insert(from, (link, BTreeSet::new()));
                for topic in node.interests.clone() {
                    self.send(to, from, Message::Interested(topic));
                }
            }
            Message::Interested(topic) => {
                node.links.get_mut(&from).unwrap().1.insert(topic);
                let all = serde_json::to_string(&node.presence.export(topic)).unwrap();
                self.send(to, from, Message::All(topic, all));
            }
            Message::Withdrawn(topic) => drop(node.links.get_mut(&from).unwrap().1.remove(topic)),
            Message::All(topic, all) => {
                if node.interests.contains(topic) {
                    let all: Vec<Exported> = serde_json::from_str(&all).unwrap();
                    assert_eq!(node.presence.import_all(sender, topic, &all), 0);
                }
            }
            Message::Changes(topic, changes) => {
                if node.interests.contains(topic) {
                    let changes: Vec<OwnChange> = serde_json::from_str(&changes).unwrap();
                    for change in &changes {
                        node.presence.import(sender, topic, change).unwrap();
                    }
                }
            }
        }
        true
    }

    fn poll(&mut self, from: usize) -> bool {
        let mut has_diffs = false;
        while let Some(diff) = self.nodes[from].presence.poll_diff() {
            has_diffs = true;
            let topic = *TOPICS.iter().find(|topic| **topic == diff.topic).unwrap();
            if let Some(payload) = diff.payload {
                let payload = serde_json::from_str(&payload).unwrap();
                check(&payload);
                self.nodes[from].diffs.push_back((topic, payload));
            }
            let interested = self.nodes[from].links.iter();
            let interested = interested.filter(|(_, (_, topics))| topics.contains(topic));
            for to in interested.map(|(to, _)| *to).collect::<Vec<_>>() {
                let changes = serde_json::to_string(&diff.own).unwrap();
                self.send(from, to, Message::Changes(topic, changes));
            }
        }
        has_diffs
    }

    fn toggle(&mut self, node: usize, topic: &'static str) {
        let at = &mut self.nodes[node];
        if at.interests.insert(topic) {
            return self.send_all(node, &Message::Interested(topic));
        }
        at.interests.remove(topic);
        at.clients.retain(|(of, _)| *of != topic);
        at.diffs.retain(|(of, _)| *of != topic);
        let is_forgotten_first = self.rng.index(2) == 0;
        if is_forgotten_first {
            at.presence.forget_remote(topic);
        }
        for owner in 0..OWNERS {
            for key in KEYS {
                at.model.remove(&(topic, owner, key));
                at.presence.untrack(&mut at.owners[owner], topic, key);
            }
        }
        if !is_forgotten_first {
            at.presence.forget_remote(topic);
        }
        self.send_all(node, &Message::Withdrawn(topic));
    }

    /// A random operation of a client of the node.
    fn run_operation(&mut self, node: usize, step: usize) {
        let rng = &mut self.rng;
        let (owner, topic) = (rng.index(OWNERS), TOPICS[rng.index(TOPICS.len())]);
        let (key, operation) = (KEYS[rng.index(KEYS.len())], rng.index(12));
        let Node { presence, owners, model, interests, .. } = &mut self.nodes[node];
        if !interests.contains(topic) {
            return;
        }
        let (meta, own) = (json!({ "step": step }), &mut owners[owner]);
        let is_shown = match operation {
            0..5 => presence.track(own, topic, key, &meta.to_string()).is_ok(),
            5..9 => presence.update(own, topic, key, &meta.to_string()).is_ok(),
            9..11 => {
                presence.untrack(own, topic, key);
                model.remove(&(topic, owner, key));
                false
            }
            _ => {
                presence.untrack_all(own);
                model.retain(|(_, of, _), _| *of != owner);
                false
            }
        };
        if is_shown {
            model.insert((topic, owner, key), meta);
        }
    }

    fn step(&mut self, step: usize) {
        let count = self.nodes.len();
        let (node, topic) = (self.rng.index(count), TOPICS[self.rng.index(TOPICS.len())]);
        let other = (node + 1 + self.rng.index(count - 1)) % count;
        match self.rng.index(100) {
            0..30 => self.run_operation(node, step),
            30..70 => drop(self.deliver(node, other)),
            70..82 => drop(self.poll(node)),
            82..88 => self.deliver_diff(node),
            88..93 => {
                let Node { presence, clients, interests, .. } = &mut self.nodes[node];
                if interests.contains(topic) {
                    let state = serde_json::from_str(&presence.state(topic)).unwrap();
                    clients.push((topic, Client::sync_state(&state)));
                }
            }
            93..96 => self.toggle(node, topic),
            96..98 => self.reconnect(node, other),
            _ if self.rng.index(8) == 0 => self.restart(node),
            _ => {}
        }
    }

    /// Delivers the first of a node's diffs to its clients.
    fn deliver_diff(&mut self, node: usize) {
        let Node { diffs, clients, .. } = &mut self.nodes[node];
        if let Some((topic, diff)) = diffs.pop_front() {
            let readers = clients.iter_mut().filter(|(of, _)| *of == topic);
            readers.for_each(|(_, client)| client.sync_diff(&diff));
        }
    }

    /// Delivers all messages and diffs.
    fn settle(&mut self) {
        let nodes = 0..self.nodes.len();
        loop {
            let mut is_quiet = true;
            for node in nodes.clone() {
                for other in nodes.clone() {
                    while self.deliver(other, node) {
                        is_quiet = false;
                    }
                }
                is_quiet &= !self.poll(node);
                while !self.nodes[node].diffs.is_empty() {
                    self.deliver_diff(node);
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    /// The presences of all nodes on a topic, as keys and metas without references.
    fn expected(&self, topic: &str) -> Vec<(String, String)> {
        let all = self.nodes.iter().flat_map(|node| &node.model);
        let on_topic = all.filter(|((of, ..), _)| *of == topic);
        let mut expected: Vec<_> =
            on_topic.map(|((_, _, key), meta)| ((*key).to_owned(), meta.to_string())).collect();
        expected.sort();
        expected
    }
}

/// Removes `phx_ref_prev`, which depends on what the clients of a node know.
fn without_previous(mut shown: Shown) -> Shown {
    for meta in shown.values_mut().flat_map(BTreeMap::values_mut) {
        meta.as_object_mut().unwrap().remove("phx_ref_prev");
    }
    shown
}

fn without_references(shown: &Shown) -> Vec<(String, String)> {
    let metas = shown.iter().flat_map(|(key, metas)| metas.values().map(move |meta| (key, meta)));
    let plain = |(key, meta): (&String, &Value)| (key.clone(), json!({ "step": meta["step"] }));
    let mut all: Vec<_> = metas.map(plain).map(|(key, meta)| (key, meta.to_string())).collect();
    all.sort();
    all
}

#[test]
fn every_client_of_every_node_ends_up_with_the_same_state_through_any_churn() {
    let (mut shown_elsewhere, mut clients_checked) = (0, 0);
    for seed in 1..=300 {
        let mut world = World::new(seed);
        (0..600).for_each(|step| world.step(step));
        world.settle();
        for topic in TOPICS {
            let expected = world.expected(topic);
            let mut of_all: Option<Shown> = None;
            for Node { presence, interests, clients, model, .. } in &mut world.nodes {
                let own = model.keys().filter(|(of, ..)| *of == topic).count();
                if !interests.contains(topic) {
                    assert_eq!((own, presence.count(topic)), (0, 0), "seed {seed}");
                    continue;
                }
                assert_eq!(presence.own_len(), model.len(), "seed {seed}");
                let here = state(presence, topic);
                assert_eq!(without_references(&here), expected, "seed {seed}");
                for (_, client) in clients.iter().filter(|(of, _)| *of == topic) {
                    assert_eq!(client.shown(), here, "seed {seed}");
                    clients_checked += 1;
                }
                let here = without_previous(here);
                assert_eq!(of_all.get_or_insert_with(|| here.clone()), &here, "seed {seed}");
                shown_elsewhere += expected.len() - own;
            }
        }
        for Node { presence, owners, model, .. } in &mut world.nodes {
            owners.iter_mut().for_each(|owner| presence.untrack_all(owner));
            model.clear();
        }
        world.settle();
        for Node { presence, .. } in &world.nodes {
            assert_eq!((presence.len(), presence.own_len()), (0, 0), "seed {seed}");
        }
    }
    assert!(
        shown_elsewhere > 1_000 && clients_checked > 1_000,
        "{shown_elsewhere} {clients_checked}"
    );
}

#[test]
fn the_own_state_has_the_presences_of_this_node_only_and_notes_no_reader() {
    let (mut here, _there, _alice) = two_nodes_with_alice();
    let mut bob = PresenceOwner::default();
    here.track(&mut bob, LOBBY, "bob", r#"{"n":2}"#).unwrap();
    let own: Value = serde_json::from_str(&here.own_state(LOBBY)).unwrap();
    assert!(own.as_object().unwrap().keys().eq(["bob"]));
    assert_eq!((here.own_count(LOBBY), here.count(LOBBY), here.keys(LOBBY)), (1, 2, 2));
    assert_eq!((here.own_state("rooms:attic"), here.own_count("rooms:attic")), ("{}".into(), 0));

    // No client knows bob, so there is no leave to send.
    here.untrack_all(&mut bob);
    let (joins, leaves) = diff(&mut here).expect("alice joined");
    assert!(joins.keys().eq(["alice"]) && leaves.is_empty(), "{joins:?} {leaves:?}");
}
