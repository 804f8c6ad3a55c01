//! Which peers should be connected.

use std::collections::{BTreeMap, BTreeSet};

use super::node::Peer;
use watchfire_types::Rng;

/// A full mesh, or the neighbours on a number of random rings.
#[derive(Debug)]
pub(super) struct Topology {
    seed: u64,
    /// For each ring, the online peers by their positions; empty for a full mesh.
    rings: Vec<BTreeMap<u64, Peer>>,
    online: BTreeSet<Peer>,
}

impl Topology {
    pub(super) fn new(neighbours: Option<u32>, seed: u64) -> Self {
        let rings = neighbours.map_or(0, |neighbours| neighbours.div_ceil(2).max(1));
        let rings = (0..rings).map(|_| BTreeMap::new()).collect();
        Topology { seed, rings, online: BTreeSet::new() }
    }

    pub(super) fn join(&mut self, peer: Peer) {
        self.online.insert(peer);
        for (ring, positions) in self.rings.iter_mut().enumerate() {
            positions.insert(position(self.seed, ring, peer), peer);
        }
    }

    pub(super) fn leave(&mut self, peer: Peer) {
        self.online.remove(&peer);
        for (ring, positions) in self.rings.iter_mut().enumerate() {
            positions.remove(&position(self.seed, ring, peer));
        }
    }

    /// The peers that a peer should be connected to.
    pub(super) fn neighbours(&self, peer: Peer) -> BTreeSet<Peer> {
        if self.rings.is_empty() {
            return self.online.iter().copied().filter(|other| *other != peer).collect();
        }
        let mut neighbours = BTreeSet::new();
        for (ring, positions) in self.rings.iter().enumerate() {
            let position = position(self.seed, ring, peer);
            let after = positions.range(position + 1..).chain(positions).map(|(_, other)| *other);
            let before = positions.range(..position).rev().chain(positions.iter().rev());
            let before = before.map(|(_, other)| *other);
            neighbours.extend(after.take(1).chain(before.take(1)));
        }
        neighbours.remove(&peer);
        neighbours
    }

    pub(super) fn are_neighbours(&self, a: Peer, b: Peer) -> bool {
        match self.rings.is_empty() {
            true => self.online.contains(&a) && self.online.contains(&b),
            false => self.neighbours(a).contains(&b),
        }
    }

    pub(super) const fn online(&self) -> &BTreeSet<Peer> {
        &self.online
    }
}

fn position(seed: u64, ring: usize, peer: Peer) -> u64 {
    let mut rng = Rng::from_seed(seed ^ (ring as u64) << 32 ^ peer.0 as u64);
    // `position + 1` must not overflow.
    rng.next_u64() >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_mutual_and_at_most_the_configured_number() {
        let mut topology = Topology::new(Some(8), 1);
        (0..200).for_each(|peer| topology.join(Peer(peer)));
        let mut all = 0;
        for peer in (0..200).map(Peer) {
            let neighbours = topology.neighbours(peer);
            all += neighbours.len();
            assert!(neighbours.len() <= 8 && !neighbours.contains(&peer));
            assert!(neighbours.iter().all(|other| topology.neighbours(*other).contains(&peer)));
        }
        assert!(all > 200 * 7, "{all}");
    }

    #[test]
    fn a_peer_that_joins_between_two_neighbours_separates_them() {
        let mut topology = Topology::new(Some(2), 1);
        (0..2).for_each(|peer| topology.join(Peer(peer)));
        assert!(topology.are_neighbours(Peer(0), Peer(1)));
        (2..50).for_each(|peer| topology.join(Peer(peer)));
        let next =
            |peer| (0..50).filter(|other| topology.are_neighbours(peer, Peer(*other))).count();
        assert!((0..50).all(|peer| next(Peer(peer)) == 2));
        let mesh = Topology::new(None, 1);
        assert!(!mesh.are_neighbours(Peer(0), Peer(1)), "no peer is online");
    }

    #[test]
    fn gaps_close_when_peers_leave() {
        let mut topology = Topology::new(Some(2), 1);
        (0..3).for_each(|peer| topology.join(Peer(peer)));
        topology.leave(Peer(1));
        assert_eq!(topology.neighbours(Peer(0)), [Peer(2)].into());
        topology.leave(Peer(2));
        assert!(topology.neighbours(Peer(0)).is_empty());
    }

    #[test]
    fn without_a_number_all_peers_are_neighbours() {
        let mut topology = Topology::new(None, 1);
        (0..9).for_each(|peer| topology.join(Peer(peer)));
        assert_eq!(topology.neighbours(Peer(4)).len(), 8);
    }
}
