//! One page in several processes, each with a replica of its peers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use watchfire_tracker::Rings;
use watchfire_tracker::{
    Counts, Have, JoinError, NodeCounts, Output, PageLimits, Pages, RelayRefusal,
};
use watchfire_types::{Instant, NodeId, PeerId, Rng};

use crate::{ALICE, BOB, CAROL, PAGE, at, counts};

const HERE: NodeId = NodeId(0);
const THERE: NodeId = NodeId(1);

fn is_there(address: NodeId) -> bool {
    address == THERE
}

fn outputs(pages: &mut Pages<NodeId>) -> Vec<Output> {
    std::iter::from_fn(|| pages.poll_output()).collect()
}

fn counts_event(now: Counts) -> Output {
    Output::Counts { page: PAGE.into(), counts: now }
}

fn available() -> Output {
    Output::Available { page: PAGE.into() }
}

fn unavailable() -> Output {
    Output::Unavailable { page: PAGE.into() }
}

#[test]
fn a_peer_of_another_process_is_counted_and_can_be_requested_from_and_sent_to() {
    let mut pages = Pages::new(PageLimits::default());
    pages.insert(at(0), PAGE, ALICE, THERE, Have::All);
    assert_eq!(pages.join(at(0), PAGE, BOB, HERE, Have::Nothing), Ok(counts(2, 1, 0)));
    assert_eq!(pages.peers_with_blocks(PAGE, BOB, 4, 0), [(ALICE, Have::All)]);
    assert_eq!(pages.relay(at(0), PAGE, BOB, ALICE, 1), Ok(THERE));

    let mut peers: Vec<_> = pages.peers(PAGE).collect();
    peers.sort();
    assert_eq!(peers, [(ALICE, THERE, Have::All), (BOB, HERE, Have::Nothing)]);
    assert_eq!(pages.peers("bafyother").count(), 0);
}

#[test]
fn local_peers_are_notified_of_availability_changes_by_remote_peers() {
    let mut pages = Pages::new(PageLimits::default());
    pages.join(at(0), PAGE, BOB, HERE, Have::Nothing).unwrap();
    pages.insert(at(0), PAGE, ALICE, THERE, Have::Some);
    assert_eq!(outputs(&mut pages), [counts_event(counts(2, 0, 1))]);
    pages.progress(at(2_000), PAGE, ALICE, Have::All);
    assert_eq!(outputs(&mut pages), [available(), counts_event(counts(2, 1, 0))]);
    pages.leave(at(4_000), PAGE, ALICE);
    assert_eq!(outputs(&mut pages), [unavailable(), counts_event(counts(1, 0, 0))]);
}

#[test]
fn a_remote_peer_that_joins_and_leaves_within_a_period_causes_no_event() {
    let mut pages = Pages::new(PageLimits::default());
    pages.join(at(0), PAGE, BOB, HERE, Have::Nothing).unwrap();
    pages.insert(at(0), PAGE, ALICE, THERE, Have::Nothing);
    outputs(&mut pages);
    // Carol's join reply had other counts, but another process had sent it.
    pages.insert(at(10), PAGE, CAROL, THERE, Have::Nothing);
    pages.leave(at(20), PAGE, CAROL);
    assert_eq!(pages.next_wake(), None);
    assert_eq!(outputs(&mut pages), []);
}

#[test]
fn no_limit_refuses_peers_of_other_processes_but_they_count() {
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
fn the_peers_of_a_failed_process_leave_with_one_event() {
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
    assert_eq!(outputs(&mut pages), [unavailable(), counts_event(counts(1, 0, 1))]);
    assert_eq!((pages.len(), pages.available(), pages.next_wake()), (1, 0, None));
    assert_eq!(pages.relay(at(5_000), PAGE, BOB, ALICE, 1), Err(RelayRefusal::NoSuchPeer));
    assert_eq!(pages.forget(at(6_000), is_there), []);
}

#[test]
fn a_page_without_local_peers_is_forgotten_without_an_event() {
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

    // No state is left, so the next peer gets its availability again.
    pages.join(at(4), PAGE, BOB, HERE, Have::All).unwrap();
    assert_eq!(outputs(&mut pages), [available()]);
}

#[test]
fn forgetting_on_one_page_does_not_affect_the_others() {
    let mut pages = Pages::new(PageLimits::default());
    for page in [PAGE, "bafyother"] {
        pages.insert(at(0), page, ALICE, THERE, Have::All);
        pages.join(at(0), page, BOB, HERE, Have::Nothing).unwrap();
    }
    assert_eq!(pages.forget_on(at(0), PAGE, is_there), [ALICE]);
    assert_eq!(pages.counts(PAGE), Some(counts(1, 0, 0)));
    assert_eq!(pages.counts("bafyother"), Some(counts(2, 1, 0)));
}

/// A change of a process's own peers, or its failure.
#[derive(Clone, Copy, Debug)]
enum PeerChange {
    Joined(&'static str, PeerId, Have),
    Progressed(&'static str, PeerId, Have),
    Left(&'static str, PeerId),
    ProcessFailed,
}

const NAMES: [&str; 3] = ["bafya", "bafyb", "bafyc"];
const SURVIVORS: u16 = 3;
const FAILING: u16 = 3;

/// The changes of one process, in order.
fn changes_of(node: u16, rng: &mut Rng) -> VecDeque<PeerChange> {
    let mut changes = VecDeque::new();
    let mut here = BTreeSet::new();
    for _ in 0..rng.below(120) {
        let page = NAMES[rng.below(3) as usize];
        let peer = PeerId(u64::from(node) << 32 | rng.below(12));
        let have = [Have::Nothing, Have::Some, Have::All][rng.below(3) as usize];
        changes.push_back(match rng.below(5) {
            0 | 1 => {
                here.insert((page, peer));
                PeerChange::Joined(page, peer, have)
            }
            2 | 3 if here.contains(&(page, peer)) => PeerChange::Progressed(page, peer, have),
            _ if here.remove(&(page, peer)) => PeerChange::Left(page, peer),
            _ => continue,
        });
    }
    if node == FAILING {
        changes.push_back(PeerChange::ProcessFailed);
    }
    changes
}

/// One process's replica, and what its peers have received.
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
            // All peers of the last surviving process are nodes.
            pages: Pages::new(PageLimits::default()).with_node_test(|at| at.0 == SURVIVORS - 1),
            rings: BTreeMap::new(),
            counts: BTreeMap::new(),
            available: BTreeSet::new(),
        }
    }

    fn apply(&mut self, now: Instant, from: u16, change: PeerChange) {
        let from = NodeId(from);
        match change {
            PeerChange::Joined(page, peer, have) => {
                if from == self.me {
                    let read = self.pages.join(now, page, peer, from, have).unwrap();
                    self.counts.insert(page.into(), read);
                } else {
                    self.pages.insert(now, page, peer, from, have);
                }
                self.rings.entry(page).or_insert_with(|| Rings::new(3, 7)).join(peer);
            }
            PeerChange::Progressed(page, peer, have) => self.pages.progress(now, page, peer, have),
            PeerChange::Left(page, peer) => {
                self.pages.leave(now, page, peer);
                self.rings.get_mut(page).unwrap().leave(peer);
            }
            PeerChange::ProcessFailed => {
                for (page, peer) in self.pages.forget(now, |address| address == from) {
                    self.rings.get_mut(&*page).unwrap().leave(peer);
                }
            }
        }
        self.drain_outputs();
    }

    fn drain_outputs(&mut self) {
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
        // No peer is left that knows these.
        self.counts.retain(|page, _| self.pages.counts(page).is_some());
        self.available.retain(|page| self.pages.counts(page).is_some());
    }

    /// The state that must be equal in all processes.
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
    let nodes = peers.iter().filter(|(_, at, _)| at.0 == SURVIVORS - 1);
    let with = |wanted| nodes.clone().filter(|(.., have)| *have == wanted).count();
    NodeCounts {
        watching: nodes.clone().count(),
        holders: with(Have::All),
        partial: with(Have::Some),
    }
}

#[test]
fn replicas_with_the_same_changes_agree_in_any_order() {
    for seed in 0..300 {
        let mut rng = Rng::from_seed(seed);
        let changes: Vec<_> = (0..=FAILING).map(|node| changes_of(node, &mut rng)).collect();
        let replicas = (0..SURVIVORS).map(|me| {
            let mut replica = Replica::new(me);
            let mut pending = changes.clone();
            let mut now = 0;
            // Each process's changes arrive in order, interleaved with the changes of others.
            while pending.iter().any(|changes| !changes.is_empty()) {
                let from = rng.below(u64::from(FAILING) + 1) as usize;
                for _ in 0..=rng.below(20) {
                    now += rng.below(200);
                    replica.pages.handle_tick(at(now));
                    replica.drain_outputs();
                    let Some(change) = pending[from].pop_front() else { break };
                    replica.apply(at(now), from as u16, change);
                }
            }
            replica.pages.handle_tick(at(now + 5_000));
            replica.drain_outputs();
            replica
        });
        let replicas: Vec<Replica> = replicas.collect();
        for replica in &replicas {
            let me = replica.me;
            assert_eq!(replica.state(), replicas[0].state(), "seed {seed}, {me}");
            assert_eq!(replica.pages.next_wake(), None, "seed {seed}, {me}");
            // The peers have received the same state.
            for (page, received) in &replica.counts {
                assert_eq!(
                    Some(*received),
                    replica.pages.counts(page),
                    "seed {seed}, {me}, {page}"
                );
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
