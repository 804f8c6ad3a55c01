//! One page in several processes, each with a replica of who has it open.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use watchfire_tracker::Rings;
use watchfire_tracker::{
    Counts, Have, JoinError, NodeCounts, Output, PageLimits, Pages, RelayRefusal,
};
use watchfire_types::{Instant, NodeId, PeerId, Rng};

const PAGE: &str = "bafypage";
const ALICE: PeerId = PeerId(1);
const BOB: PeerId = PeerId(2);
const CAROL: PeerId = PeerId(3);
const HERE: NodeId = NodeId(0);
const THERE: NodeId = NodeId(1);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn counts(watching: usize, holders: usize, partial: usize) -> Counts {
    Counts { watching, holders, partial, ..Counts::default() }
}

fn is_there(address: NodeId) -> bool {
    address == THERE
}

fn outputs(pages: &mut Pages<NodeId>) -> Vec<Output> {
    std::iter::from_fn(|| pages.poll_output()).collect()
}

fn told(now: Counts) -> Output {
    Output::Counts { page: PAGE.into(), counts: now }
}

fn available() -> Output {
    Output::Available { page: PAGE.into() }
}

fn unavailable() -> Output {
    Output::Unavailable { page: PAGE.into() }
}

#[test]
fn a_peer_of_another_process_counts_and_can_be_asked_and_sent_to() {
    let mut pages = Pages::new(PageLimits::default());
    pages.insert(at(0), PAGE, ALICE, THERE, Have::All);
    assert_eq!(pages.join(at(0), PAGE, BOB, HERE, Have::Nothing), Ok(counts(2, 1, 0)));
    assert_eq!(pages.some_holders(PAGE, BOB, 4, 0), [(ALICE, Have::All)]);
    assert_eq!(pages.relay(at(0), PAGE, BOB, ALICE, 1), Ok(THERE));

    let mut peers: Vec<_> = pages.peers(PAGE).collect();
    peers.sort();
    assert_eq!(peers, [(ALICE, THERE, Have::All), (BOB, HERE, Have::Nothing)]);
    assert_eq!(pages.peers("bafyother").count(), 0);
}

#[test]
fn local_peers_hear_that_a_page_became_available_or_unavailable_elsewhere() {
    let mut pages = Pages::new(PageLimits::default());
    pages.join(at(0), PAGE, BOB, HERE, Have::Nothing).unwrap();
    pages.insert(at(0), PAGE, ALICE, THERE, Have::Some);
    assert_eq!(outputs(&mut pages), [told(counts(2, 0, 1))]);
    pages.progress(at(2_000), PAGE, ALICE, Have::All);
    assert_eq!(outputs(&mut pages), [available(), told(counts(2, 1, 0))]);
    pages.leave(at(4_000), PAGE, ALICE);
    assert_eq!(outputs(&mut pages), [unavailable(), told(counts(1, 0, 0))]);
}

#[test]
fn who_comes_and_goes_there_within_a_period_is_never_told_of_here() {
    let mut pages = Pages::new(PageLimits::default());
    pages.join(at(0), PAGE, BOB, HERE, Have::Nothing).unwrap();
    pages.insert(at(0), PAGE, ALICE, THERE, Have::Nothing);
    outputs(&mut pages);
    // Carol read three in her reply, but that was another process's.
    pages.insert(at(10), PAGE, CAROL, THERE, Have::Nothing);
    pages.leave(at(20), PAGE, CAROL);
    assert_eq!(pages.next_wake(), None);
    assert_eq!(outputs(&mut pages), []);
}

#[test]
fn no_limit_refuses_who_was_let_in_elsewhere_but_they_fill_the_page() {
    let limits = PageLimits { peers_per_page_max: 2, pages_max: 1, ..PageLimits::default() };
    let mut pages = Pages::new(limits);
    for peer in [ALICE, BOB, CAROL] {
        pages.insert(at(0), PAGE, peer, THERE, Have::All);
    }
    pages.insert(at(0), "bafyother", ALICE, THERE, Have::All);
    assert_eq!((pages.counts(PAGE), pages.len()), (Some(counts(3, 3, 0)), 2));

    let refused = pages.join(at(0), PAGE, PeerId(4), HERE, Have::All);
    assert_eq!(refused, Err(JoinError::PageFull { max: 2 }));
    let refused = pages.join(at(0), "bafythird", PeerId(4), HERE, Have::All);
    assert_eq!(refused, Err(JoinError::TooManyPages { max: 1 }));
    assert_eq!(pages.len(), 2);
}

#[test]
fn a_process_that_died_takes_its_peers_along_and_the_others_are_told_once() {
    let mut pages = Pages::new(PageLimits::default());
    pages.join(at(0), PAGE, BOB, HERE, Have::Some).unwrap();
    for peer in [CAROL, ALICE] {
        pages.insert(at(0), PAGE, peer, THERE, Have::All);
    }
    pages.insert(at(0), "bafyother", ALICE, THERE, Have::All);
    outputs(&mut pages);

    let page = |name: &str| -> Arc<str> { name.into() };
    let gone = [(page("bafyother"), ALICE), (page(PAGE), ALICE), (page(PAGE), CAROL)];
    assert_eq!(pages.forget(at(5_000), is_there), gone);
    assert_eq!(outputs(&mut pages), [unavailable(), told(counts(1, 0, 1))]);
    assert_eq!((pages.len(), pages.available(), pages.next_wake()), (1, 0, None));
    assert_eq!(pages.relay(at(5_000), PAGE, BOB, ALICE, 1), Err(RelayRefusal::NoSuchPeer));
    assert_eq!(pages.forget(at(6_000), is_there), []);
}

#[test]
fn a_page_without_anybody_here_is_forgotten_silently() {
    let mut pages = Pages::new(PageLimits::default());
    pages.join(at(0), PAGE, BOB, HERE, Have::Nothing).unwrap();
    pages.insert(at(0), PAGE, ALICE, THERE, Have::All);
    pages.insert(at(1), PAGE, CAROL, THERE, Have::All);
    pages.leave(at(2), PAGE, BOB);
    outputs(&mut pages);
    assert!(pages.next_wake().is_some());

    assert_eq!(pages.forget_on(at(3), PAGE, is_there), [ALICE, CAROL]);
    assert_eq!(outputs(&mut pages), []);
    assert_eq!((pages.len(), pages.available(), pages.next_wake()), (0, 0, None));
    assert_eq!(pages.forget_on(at(3), PAGE, is_there), []);

    // Nothing is left of it: who opens it next is told of its light anew.
    pages.join(at(4), PAGE, BOB, HERE, Have::All).unwrap();
    assert_eq!(outputs(&mut pages), [available()]);
}

#[test]
fn forgetting_on_one_page_leaves_the_others_alone() {
    let mut pages = Pages::new(PageLimits::default());
    for page in [PAGE, "bafyother"] {
        pages.insert(at(0), page, ALICE, THERE, Have::All);
        pages.join(at(0), page, BOB, HERE, Have::Nothing).unwrap();
    }
    assert_eq!(pages.forget_on(at(0), PAGE, is_there), [ALICE]);
    assert_eq!(pages.counts(PAGE), Some(counts(1, 0, 0)));
    assert_eq!(pages.counts("bafyother"), Some(counts(2, 1, 0)));
}

/// What a process tells of its own peers, and what the others see of its end.
#[derive(Clone, Copy, Debug)]
enum Fact {
    Joined(&'static str, PeerId, Have),
    Progressed(&'static str, PeerId, Have),
    Left(&'static str, PeerId),
    Died,
}

const NAMES: [&str; 3] = ["bafya", "bafyb", "bafyc"];
const LIVING: u16 = 3;
const MORTAL: u16 = 3;

/// What one process does, in order.
fn facts_of(node: u16, rng: &mut Rng) -> VecDeque<Fact> {
    let mut facts = VecDeque::new();
    let mut here = BTreeSet::new();
    for _ in 0..rng.below(120) {
        let page = NAMES[rng.below(3) as usize];
        let peer = PeerId(u64::from(node) << 32 | rng.below(12));
        let have = [Have::Nothing, Have::Some, Have::All][rng.below(3) as usize];
        facts.push_back(match rng.below(5) {
            0 | 1 => {
                here.insert((page, peer));
                Fact::Joined(page, peer, have)
            }
            2 | 3 if here.contains(&(page, peer)) => Fact::Progressed(page, peer, have),
            _ if here.remove(&(page, peer)) => Fact::Left(page, peer),
            _ => continue,
        });
    }
    if node == MORTAL {
        facts.push_back(Fact::Died);
    }
    facts
}

/// One process's replica, and what those who are in it have been told.
struct Replica {
    me: NodeId,
    pages: Pages<NodeId>,
    rings: BTreeMap<&'static str, Rings>,
    counts: BTreeMap<Arc<str>, Counts>,
    available: BTreeSet<Arc<str>>,
}

impl Replica {
    fn new(me: u16) -> Self {
        Replica {
            me: NodeId(me),
            // In the last of the processes that stay, all peers are nodes.
            pages: Pages::new(PageLimits::default()).with_node_test(|at| at.0 == LIVING - 1),
            rings: BTreeMap::new(),
            counts: BTreeMap::new(),
            available: BTreeSet::new(),
        }
    }

    fn hear(&mut self, now: Instant, from: u16, fact: Fact) {
        let from = NodeId(from);
        match fact {
            Fact::Joined(page, peer, have) => {
                if from == self.me {
                    let read = self.pages.join(now, page, peer, from, have).unwrap();
                    self.counts.insert(page.into(), read);
                } else {
                    self.pages.insert(now, page, peer, from, have);
                }
                self.rings.entry(page).or_insert_with(|| Rings::new(3, 7)).join(peer);
            }
            Fact::Progressed(page, peer, have) => self.pages.progress(now, page, peer, have),
            Fact::Left(page, peer) => {
                self.pages.leave(now, page, peer);
                self.rings.get_mut(page).unwrap().leave(peer);
            }
            Fact::Died => {
                for (page, peer) in self.pages.forget(now, |address| address == from) {
                    self.rings.get_mut(&*page).unwrap().leave(peer);
                }
            }
        }
        self.listen();
    }

    fn listen(&mut self) {
        while let Some(output) = self.pages.poll_output() {
            match output {
                Output::Counts { page, counts } => drop(self.counts.insert(page, counts)),
                Output::Available { page } => {
                    assert!(self.available.insert(page), "available twice")
                }
                Output::Unavailable { page } => {
                    assert!(self.available.remove(&page), "unavailable twice")
                }
            }
        }
        // Nobody is there to remember.
        self.counts.retain(|page, _| self.pages.counts(page).is_some());
        self.available.retain(|page| self.pages.counts(page).is_some());
    }

    /// All that does not depend on which process this is.
    fn state(&self) -> impl PartialEq + std::fmt::Debug {
        let page = |name: &'static str| {
            let mut peers: Vec<_> = self.pages.peers(name).collect();
            peers.sort();
            let rings = self.rings.get(name);
            let neighbours: Vec<_> = peers
                .iter()
                .map(|(peer, ..)| rings.map_or_else(Vec::new, |rings| rings.neighbours(*peer)))
                .collect();
            assert_eq!(rings.map_or(0, Rings::len), peers.len(), "{name}: rings and page agree");
            let nodes = self.pages.counts(name).map(|counts| counts.nodes);
            assert_eq!(nodes.unwrap_or_default(), nodes_among(&peers), "{name}: nodes are counted");
            (self.pages.counts(name), peers, neighbours)
        };
        (NAMES.map(page), self.pages.len(), self.pages.available())
    }
}

fn nodes_among(peers: &[(PeerId, NodeId, Have)]) -> NodeCounts {
    let nodes = peers.iter().filter(|(_, at, _)| at.0 == LIVING - 1);
    let with = |wanted| nodes.clone().filter(|(.., have)| *have == wanted).count();
    NodeCounts {
        watching: nodes.clone().count(),
        holders: with(Have::All),
        partial: with(Have::Some),
    }
}

#[test]
fn replicas_that_know_the_same_agree_whatever_they_heard_of_first() {
    for seed in 0..300 {
        let mut rng = Rng::from_seed(seed);
        let facts: Vec<_> = (0..=MORTAL).map(|node| facts_of(node, &mut rng)).collect();
        let replicas = (0..LIVING).map(|me| {
            let mut replica = Replica::new(me);
            let mut to_hear = facts.clone();
            let mut now = 0;
            // Each process's facts come in their order, and between those of others anyhow.
            while to_hear.iter().any(|facts| !facts.is_empty()) {
                let from = rng.below(u64::from(MORTAL) + 1) as usize;
                for _ in 0..=rng.below(20) {
                    now += rng.below(200);
                    replica.pages.handle_tick(at(now));
                    replica.listen();
                    let Some(fact) = to_hear[from].pop_front() else { break };
                    replica.hear(at(now), from as u16, fact);
                }
            }
            replica.pages.handle_tick(at(now + 5_000));
            replica.listen();
            replica
        });
        let replicas: Vec<Replica> = replicas.collect();
        for replica in &replicas {
            let me = replica.me;
            assert_eq!(replica.state(), replicas[0].state(), "seed {seed}, {me}");
            assert_eq!(replica.pages.next_wake(), None, "seed {seed}, {me}");
            // And those who are there have been told so.
            for (page, told) in &replica.counts {
                assert_eq!(Some(*told), replica.pages.counts(page), "seed {seed}, {me}, {page}");
            }
            assert_eq!(replica.counts.len(), replica.pages.len(), "seed {seed}, {me}");
            let is_available =
                |page: &&Arc<str>| replica.pages.counts(page).is_some_and(Counts::is_available);
            assert!(
                replica.available.iter().eq(replica.counts.keys().filter(is_available)),
                "seed {seed}"
            );
        }
    }
}
