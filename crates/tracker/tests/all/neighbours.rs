//! Neighbours during any joins and leaves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use watchfire_tracker::{Change, FULL_MESH_PEERS_MAX, Rings};
use watchfire_types::{PeerId, Rng};

/// Rings, and the links according to their changes.
struct Listener {
    rings: Rings,
    k: usize,
    links: BTreeSet<(PeerId, PeerId)>,
    peers: BTreeSet<PeerId>,
    changes_max: usize,
}

impl Listener {
    fn new(k: usize, seed: u64) -> Self {
        let (links, peers) = (BTreeSet::new(), BTreeSet::new());
        Listener { rings: Rings::new(k, seed), k, links, peers, changes_max: 0 }
    }

    fn join(&mut self, peer: PeerId) {
        let changes = self.rings.join(peer);
        self.peers.insert(peer);
        self.apply(&changes);
    }

    fn leave(&mut self, peer: PeerId) {
        let changes = self.rings.leave(peer);
        self.peers.remove(&peer);
        self.apply(&changes);
    }

    fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            let is_change = match *change {
                Change::Linked(a, b) => a < b && self.links.insert((a, b)),
                Change::Unlinked(a, b) => self.links.remove(&(a, b)),
            };
            assert!(is_change, "{change:?} changes nothing");
        }
        self.changes_max = self.changes_max.max(changes.len());
    }

    /// Compares the links with the rings, for every peer.
    fn check(&self) {
        let mut known: BTreeMap<PeerId, BTreeSet<PeerId>> = BTreeMap::new();
        for &(a, b) in &self.links {
            known.entry(a).or_default().insert(b);
            known.entry(b).or_default().insert(a);
        }
        assert_eq!(self.rings.len(), self.peers.len());
        assert!(known.keys().all(|peer| self.peers.contains(peer)), "an absent peer has a link");
        for &peer in &self.peers {
            let neighbours = self.rings.neighbours(peer);
            let distinct: BTreeSet<_> = neighbours.iter().copied().collect();
            assert_eq!(distinct.len(), neighbours.len(), "{peer:?} has a duplicate neighbour");
            assert_eq!(distinct, known.remove(&peer).unwrap_or_default(), "{peer:?}");
            assert!(!distinct.contains(&peer), "{peer:?} is its own neighbour");
            assert!(distinct.iter().all(|&other| self.rings.neighbours(other).contains(&peer)));
            let mut expected = self.peers.clone();
            if expected.len() > FULL_MESH_PEERS_MAX {
                let around = (0..self.k).map(|ring| self.rings.around(peer, ring).unwrap());
                expected = around.flat_map(|(before, after)| [before, after]).collect();
            }
            expected.remove(&peer);
            assert_eq!(distinct, expected, "{peer:?}");
        }
    }

    /// Checks that each ring passes once through all peers, in both directions.
    fn check_rings(&self) {
        let Some(&first) = self.peers.first() else { return };
        for ring in 0..self.k {
            let mut walked = BTreeSet::new();
            let mut here = first;
            while walked.insert(here) {
                let (_, after) = self.rings.around(here, ring).unwrap();
                assert_eq!(self.rings.around(after, ring).unwrap().0, here);
                here = after;
            }
            assert_eq!((here, &walked), (first, &self.peers), "ring {ring}");
        }
    }

    /// The number of hops from the first peer to the farthest.
    fn hops_to_the_farthest(&self) -> usize {
        let first = *self.peers.first().unwrap();
        let mut hops = BTreeMap::from([(first, 0)]);
        let mut queue = VecDeque::from([first]);
        while let Some(peer) = queue.pop_front() {
            for neighbour in self.rings.neighbours(peer) {
                if !hops.contains_key(&neighbour) {
                    hops.insert(neighbour, hops[&peer] + 1);
                    queue.push_back(neighbour);
                }
            }
        }
        assert_eq!(hops.len(), self.peers.len(), "some peers cannot be reached");
        *hops.values().max().unwrap()
    }
}

#[test]
fn changes_describe_the_neighbours_exactly_through_any_churn() {
    for k in 1..=4 {
        for seed in 1..=20 {
            let mut rng = Rng::from_seed(seed);
            let mut listener = Listener::new(k, seed);
            // Few peers, so that the mesh begins and ends often.
            let crowd = 6 + rng.below(30);
            for _ in 0..400 {
                let peer = PeerId(rng.below(crowd));
                if rng.below(2) == 0 {
                    listener.join(peer)
                } else {
                    listener.leave(peer)
                }
                listener.check();
                listener.check_rings();
            }
        }
    }
}

#[test]
fn nine_peers_are_a_full_mesh_and_ten_are_not() {
    let mut listener = Listener::new(2, 7);
    for peer in 1..=9 {
        listener.join(PeerId(peer));
        assert_eq!(listener.links.len() as u64, peer * (peer - 1) / 2);
    }
    listener.join(PeerId(10));
    listener.check();
    assert!(listener.links.len() <= 20, "ten peers have four neighbours each");
    listener.leave(PeerId(3));
    listener.check();
    assert_eq!(listener.links.len(), 36);
}

#[test]
fn the_last_peer_to_leave_leaves_no_state_behind() {
    let mut listener = Listener::new(3, 7);
    (0..100).for_each(|peer| listener.join(PeerId(peer)));
    (0..100).for_each(|peer| listener.leave(PeerId(peer)));
    listener.check();
    assert!(listener.rings.is_empty() && listener.links.is_empty());
}

#[test]
fn a_join_or_leave_among_many_changes_few_links() {
    let mut listener = Listener::new(3, 7);
    (0..50).for_each(|peer| listener.join(PeerId(peer)));
    listener.changes_max = 0;
    for round in 0..2_000 {
        listener.join(PeerId(1_000 + round));
        listener.leave(PeerId(1_000 + round / 2));
    }
    assert!(listener.changes_max <= 9, "three links change for each of three rings");
    listener.check();
}

#[test]
fn two_rings_connect_two_thousand_churned_peers_within_few_hops() {
    let mut rng = Rng::from_seed(7);
    let mut listener = Listener::new(2, 7);
    (0..2_000).for_each(|peer| listener.join(PeerId(peer)));
    for newcomer in 2_000..6_000 {
        let leaver = *listener.peers.iter().nth(rng.below(2_000) as usize).unwrap();
        listener.leave(leaver);
        listener.join(PeerId(newcomer));
    }
    let hops = listener.hops_to_the_farthest();
    assert!(hops <= 12, "{hops} hops");
}

#[test]
fn a_repeated_join_or_an_unknown_leave_changes_nothing() {
    let mut rings = Rings::new(2, 7);
    rings.join(PeerId(1));
    rings.join(PeerId(2));
    assert_eq!(rings.join(PeerId(1)), []);
    assert_eq!(rings.leave(PeerId(3)), []);
    assert_eq!(rings.neighbours(PeerId(3)), []);
    assert_eq!(rings.around(PeerId(1), 2), None);
}
