//! Who is to be connected to whom.

use std::collections::{BTreeMap, BTreeSet};

use super::node::Peer;
use watchfire_types::Rng;

/// Everyone to everyone, or neighbours on so many random rings.
#[derive(Debug)]
pub(super) struct Topology {
    seed: u64,
    /// The peers that are here, by their places; empty when everyone is a neighbour.
    rings: Vec<BTreeMap<u64, Peer>>,
    here: BTreeSet<Peer>,
}

impl Topology {
    pub(super) fn new(neighbours: Option<u32>, seed: u64) -> Self {
        let rings = neighbours.map_or(0, |neighbours| neighbours.div_ceil(2).max(1));
        let rings = (0..rings).map(|_| BTreeMap::new()).collect();
        Topology { seed, rings, here: BTreeSet::new() }
    }

    pub(super) fn join(&mut self, peer: Peer) {
        self.here.insert(peer);
        for (ring, places) in self.rings.iter_mut().enumerate() {
            places.insert(place(self.seed, ring, peer), peer);
        }
    }

    pub(super) fn leave(&mut self, peer: Peer) {
        self.here.remove(&peer);
        for (ring, places) in self.rings.iter_mut().enumerate() {
            places.remove(&place(self.seed, ring, peer));
        }
    }

    /// Those that a peer is to be connected to.
    pub(super) fn neighbours(&self, peer: Peer) -> BTreeSet<Peer> {
        if self.rings.is_empty() {
            return self.here.iter().copied().filter(|other| *other != peer).collect();
        }
        let mut neighbours = BTreeSet::new();
        for (ring, places) in self.rings.iter().enumerate() {
            let place = place(self.seed, ring, peer);
            let after = places.range(place + 1..).chain(places).map(|(_, other)| *other);
            let before = places.range(..place).rev().chain(places.iter().rev());
            let before = before.map(|(_, other)| *other);
            neighbours.extend(after.take(1).chain(before.take(1)));
        }
        neighbours.remove(&peer);
        neighbours
    }

    pub(super) fn are_neighbours(&self, a: Peer, b: Peer) -> bool {
        match self.rings.is_empty() {
            true => self.here.contains(&a) && self.here.contains(&b),
            false => self.neighbours(a).contains(&b),
        }
    }

    pub(super) const fn here(&self) -> &BTreeSet<Peer> {
        &self.here
    }
}

/// Where on a ring a peer is. No two are at the same place: the mix is invertible.
fn place(seed: u64, ring: usize, peer: Peer) -> u64 {
    let mut rng = Rng::from_seed(seed ^ (ring as u64) << 32 ^ peer.0 as u64);
    // Room for the next place at the end of the ring.
    rng.next_u64() >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_mutual_and_as_many_as_wanted() {
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
    fn who_comes_in_between_takes_a_neighbours_place() {
        let mut topology = Topology::new(Some(2), 1);
        (0..2).for_each(|peer| topology.join(Peer(peer)));
        assert!(topology.are_neighbours(Peer(0), Peer(1)));
        (2..50).for_each(|peer| topology.join(Peer(peer)));
        let next =
            |peer| (0..50).filter(|other| topology.are_neighbours(peer, Peer(*other))).count();
        assert!((0..50).all(|peer| next(Peer(peer)) == 2));
        let everyone = Topology::new(None, 1);
        assert!(!everyone.are_neighbours(Peer(0), Peer(1)), "nobody is here");
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
    fn without_a_number_everyone_is_a_neighbour() {
        let mut topology = Topology::new(None, 1);
        (0..9).for_each(|peer| topology.join(Peer(peer)));
        assert_eq!(topology.neighbours(Peer(4)).len(), 8);
    }
}
