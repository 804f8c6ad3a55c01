use std::collections::{BTreeMap, BTreeSet};

use watchfire_types::{Instant, PeerId};

use crate::neighbours::ring::Ring;

/// Up to this number, all peers are each other's neighbours: a full mesh.
pub const FULL_MESH_PEERS_MAX: usize = 9;

/// The smallest number of peers without a full mesh.
const NO_MESH_MIN: usize = FULL_MESH_PEERS_MAX + 1;

/// Two peers became neighbours or stopped being so. The lower id is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// They are neighbours now.
    Linked(PeerId, PeerId),
    /// They are no longer neighbours, or one of them left.
    Unlinked(PeerId, PeerId),
}

/// `k` random rings through all peers.
///
/// A peer's position on a ring is a hash of its id and the seed. So neighbours depend only on the
/// seed and the set of peers: replicas with the same seed agree, in any order of joins and leaves.
///
/// The cost is proportional to `k` and, through searches in ordered sets, to the logarithm of the
/// number of peers. Above the mesh, a join or leave affects at most `2 k` other peers. The rings
/// also exist below it, so that growing or shrinking over the bound only changes the links.
#[derive(Clone, Debug)]
pub struct Rings {
    /// At least one; every peer is on each.
    rings: Box<[Ring]>,
    /// Absent peers that may return; they are on the rings as if present.
    reservations: Reservations,
}

impl Rings {
    /// No peers yet, on `k` rings.
    ///
    /// # Panics
    ///
    /// When `k` is zero.
    pub fn new(k: usize, seed: u64) -> Self {
        assert!(k > 0, "neighbours need at least one ring");
        let rings = (0..k as u64).map(|number| Ring::new(seed, number)).collect();
        Rings { rings, reservations: Reservations::default() }
    }

    /// Adds a peer to every ring. If it is there already, only its reservation ends.
    pub fn join(&mut self, peer: PeerId) -> Vec<Change> {
        if self.has(peer) {
            self.reservations.remove(peer);
            return Vec::new();
        }
        self.rings.iter_mut().for_each(|ring| ring.insert(peer));
        let linked = self.pairs_with(peer).into_iter().map(|(a, b)| Change::Linked(a, b));
        let separated = self.pairs_separated_by(peer).into_iter();
        linked.chain(separated.map(|(a, b)| Change::Unlinked(a, b))).collect()
    }

    /// Removes a peer, or its reservation, from every ring. Does nothing when it is not there.
    pub fn leave(&mut self, peer: PeerId) -> Vec<Change> {
        if !self.has(peer) {
            return Vec::new();
        }
        self.reservations.remove(peer);
        let unlinked = self.pairs_with(peer).into_iter().map(|(a, b)| Change::Unlinked(a, b));
        let separated = self.pairs_separated_by(peer).into_iter();
        let changes = unlinked.chain(separated.map(|(a, b)| Change::Linked(a, b))).collect();
        self.rings.iter_mut().for_each(|ring| ring.remove(peer));
        changes
    }

    /// Keeps the place of a peer that left until the given time.
    ///
    /// Neighbours do not change. [`Rings::join`] gives the place back to the peer;
    /// [`Rings::handle_tick`] removes it when it expires. A later call replaces the time. Does
    /// nothing when the peer is not there.
    pub fn reserve(&mut self, peer: PeerId, until: Instant) {
        if self.has(peer) {
            self.reservations.insert(peer, until);
        }
    }

    /// Removes expired reservations.
    pub fn handle_tick(&mut self, now: Instant) -> Vec<Change> {
        let mut changes = Vec::new();
        while let Some(peer) = self.expired(now) {
            changes.append(&mut self.leave(peer));
        }
        changes
    }

    /// When to call [`Rings::handle_tick`] next; `None` without reservations.
    pub fn next_wake(&self) -> Option<Instant> {
        self.reservations.first().map(|(until, _)| until)
    }

    /// An expired reservation, the next that [`Rings::handle_tick`] removes. A driver that needs
    /// its neighbours first can call this, and then [`Rings::leave`].
    pub fn expired(&self, now: Instant) -> Option<PeerId> {
        self.reservations.first().filter(|(until, _)| *until <= now).map(|(_, peer)| peer)
    }

    /// Whether the peer is absent and its place is reserved.
    pub fn is_reserved(&self, peer: PeerId) -> bool {
        self.reservations.has(peer)
    }

    pub fn reservations(&self) -> usize {
        self.reservations.len()
    }

    /// A peer's neighbours, without duplicates; empty when the peer is not there.
    ///
    /// Absent peers with a reservation are included. There are at most `2 k`; fewer when two rings
    /// give the same neighbour. With [`FULL_MESH_PEERS_MAX`] peers or fewer, all others are neighbours.
    pub fn neighbours(&self, peer: PeerId) -> Vec<PeerId> {
        if !self.has(peer) {
            return Vec::new();
        }
        if self.is_mesh() {
            return self.peers().filter(|other| *other != peer).collect();
        }
        let mut neighbours = Vec::with_capacity(2 * self.rings.len());
        for (before, after) in self.rings.iter().filter_map(|ring| ring.around(peer)) {
            for other in [before, after] {
                if !neighbours.contains(&other) {
                    neighbours.push(other);
                }
            }
        }
        neighbours
    }

    /// The peers before and after a peer on one ring, such as left and right on the first, and
    /// above and below on the second. A single peer is before and after itself.
    pub fn around(&self, peer: PeerId, ring: usize) -> Option<(PeerId, PeerId)> {
        let ring = self.rings.get(ring).filter(|ring| ring.has(peer))?;
        ring.around(peer)
    }

    /// Whether the peer is on the rings, present or reserved.
    pub fn has(&self, peer: PeerId) -> bool {
        self.rings[0].has(peer)
    }

    /// All peers, present or reserved, in the order of the first ring.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> {
        self.rings[0].peers()
    }

    /// The number of peers, including reservations.
    pub fn len(&self) -> usize {
        self.rings[0].len()
    }

    /// Whether there are no peers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn is_mesh(&self) -> bool {
        self.len() <= FULL_MESH_PEERS_MAX
    }

    fn pairs_with(&self, peer: PeerId) -> Vec<(PeerId, PeerId)> {
        self.neighbours(peer).into_iter().map(|other| ordered(peer, other)).collect()
    }

    /// Pairs that would be neighbours without this peer, and are not now.
    fn pairs_separated_by(&self, peer: PeerId) -> Vec<(PeerId, PeerId)> {
        let mut pairs = match self.len() {
            // A full mesh with and without the peer.
            ..=FULL_MESH_PEERS_MAX => return Vec::new(),
            NO_MESH_MIN => all_pairs(self.peers().filter(|other| *other != peer)),
            _ => {
                let around = self.rings.iter().filter_map(|ring| ring.around(peer));
                around.map(|(before, after)| ordered(before, after)).collect()
            }
        };
        pairs.retain(|&(a, b)| !self.rings.iter().any(|ring| ring.is_next(a, b)));
        // Several rings may give the same pair.
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }
}

/// All pairs of some peers, the lower id first.
fn all_pairs(peers: impl IntoIterator<Item = PeerId>) -> Vec<(PeerId, PeerId)> {
    let peers: Vec<PeerId> = peers.into_iter().collect();
    let firsts = peers.iter().enumerate();
    firsts.flat_map(|(at, &a)| peers[at + 1..].iter().map(move |&b| ordered(a, b))).collect()
}

fn ordered(a: PeerId, b: PeerId) -> (PeerId, PeerId) {
    (a.min(b), a.max(b))
}

/// Absent peers, and the times until which their places are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservations {
    until: BTreeMap<PeerId, Instant>,
    by_time: BTreeSet<(Instant, PeerId)>,
}

impl Reservations {
    pub fn insert(&mut self, peer: PeerId, until: Instant) {
        self.remove(peer);
        self.until.insert(peer, until);
        self.by_time.insert((until, peer));
    }

    pub fn remove(&mut self, peer: PeerId) {
        if let Some(until) = self.until.remove(&peer) {
            self.by_time.remove(&(until, peer));
        }
    }

    pub fn has(&self, peer: PeerId) -> bool {
        self.until.contains_key(&peer)
    }

    pub fn first(&self) -> Option<(Instant, PeerId)> {
        self.by_time.first().copied()
    }

    pub fn len(&self) -> usize {
        self.until.len()
    }
}
