use watchfire_types::{Instant, PeerId};

use crate::neighbours::change::Change;
use crate::neighbours::reservations::Reservations;
use crate::neighbours::ring::Ring;

/// As many peers or fewer are all each other's neighbours.
pub const MESH_MAX: usize = 9;

/// With the fewest peers that are no mesh.
const MESH_LOST: usize = MESH_MAX + 1;

/// `k` random rings through all peers.
///
/// Where a peer stands on a ring is a mixture of its id and the seed, so who is whose neighbour
/// follows from the seed and from who is there, and from nothing else: two replicas with one seed
/// agree, in whatever order they heard of joins and leaves.
///
/// The work depends on `k` and, through searches in ordered sets, on the logarithm of how many
/// there are. At most `2 k` others are told of a join or leave, above the mesh. The rings exist
/// below it too, so that a mesh that grows or shrinks over its bound changes into rings.
#[derive(Clone, Debug)]
pub struct Rings {
    /// At least one; everyone stands on each.
    rings: Box<[Ring]>,
    /// Peers that are gone but may come back; they stand on the rings as if they were here.
    reservations: Reservations,
}

impl Rings {
    /// No peers yet, on `k` rings.
    ///
    /// # Panics
    ///
    /// When `k` is zero: peers on no ring would be alone.
    pub fn new(k: usize, seed: u64) -> Self {
        assert!(k > 0, "neighbours need at least one ring");
        let rings = (0..k as u64).map(|number| Ring::new(seed, number)).collect();
        Rings { rings, reservations: Reservations::default() }
    }

    /// Let a peer stand on every ring. Nothing changes for one that is there already; its reservation
    /// is one no more.
    pub fn join(&mut self, peer: PeerId) -> Vec<Change> {
        if self.has(peer) {
            self.reservations.remove(peer);
            return Vec::new();
        }
        self.rings.iter_mut().for_each(|ring| ring.insert(peer));
        let linked = self.pairs_with(peer).into_iter().map(|(a, b)| Change::Linked(a, b));
        let apart = self.pairs_kept_apart_by(peer).into_iter();
        linked.chain(apart.map(|(a, b)| Change::Unlinked(a, b))).collect()
    }

    /// Take a peer, or its reservation, out of every ring. Nothing changes when it is not there.
    pub fn leave(&mut self, peer: PeerId) -> Vec<Change> {
        if !self.has(peer) {
            return Vec::new();
        }
        self.reservations.remove(peer);
        let unlinked = self.pairs_with(peer).into_iter().map(|(a, b)| Change::Unlinked(a, b));
        let apart = self.pairs_kept_apart_by(peer).into_iter();
        let changes = unlinked.chain(apart.map(|(a, b)| Change::Linked(a, b))).collect();
        self.rings.iter_mut().for_each(|ring| ring.remove(peer));
        changes
    }

    /// A peer is gone, but may come back: keep its place until then.
    ///
    /// Nobody's neighbours change. The peer's [`Rings::join`] takes its place again;
    /// [`Rings::handle_tick`] closes it when it did not come. A place that is reserved already is
    /// kept until the new time. Nothing happens when the peer is not there.
    pub fn reserve(&mut self, peer: PeerId, until: Instant) {
        if self.has(peer) {
            self.reservations.insert(peer, until);
        }
    }

    /// Close the places whose peers did not come back in time.
    pub fn handle_tick(&mut self, now: Instant) -> Vec<Change> {
        let mut changes = Vec::new();
        while let Some(peer) = self.expired(now) {
            changes.append(&mut self.leave(peer));
        }
        changes
    }

    /// When to call [`Rings::handle_tick`] next; `None` while no place is reserved.
    pub fn next_wake(&self) -> Option<Instant> {
        self.reservations.first().map(|(until, _)| until)
    }

    /// A peer that did not come back in time: the next whose place [`Rings::handle_tick`] closes.
    /// For a driver that has to look around it before it closes the place itself, with
    /// [`Rings::leave`].
    pub fn expired(&self, now: Instant) -> Option<PeerId> {
        self.reservations.first().filter(|(until, _)| *until <= now).map(|(_, peer)| peer)
    }

    /// Whether a place is kept for a peer that is not here.
    pub fn is_reserved(&self, peer: PeerId) -> bool {
        self.reservations.has(peer)
    }

    /// How many places are reserved.
    pub fn reservations(&self) -> usize {
        self.reservations.len()
    }

    /// A peer's neighbours, each once; none when the peer is not there.
    ///
    /// Absent peers whose places are kept are among them. There are at most `2 k`, fewer when
    /// rings bring the same two together, or all others when there are [`MESH_MAX`] peers or
    /// fewer.
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

    /// The peers before and after a peer on one ring, such as left and right on the first and
    /// above and below on the second. A peer that is alone stands before and after itself.
    pub fn around(&self, peer: PeerId, ring: usize) -> Option<(PeerId, PeerId)> {
        let ring = self.rings.get(ring).filter(|ring| ring.has(peer))?;
        ring.around(peer)
    }

    /// Whether the peer has a place on the rings, be it a reserved one.
    pub fn has(&self, peer: PeerId) -> bool {
        self.rings[0].has(peer)
    }

    /// Everyone who has a place, be it a reserved one; in the order of the first ring.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> {
        self.rings[0].peers()
    }

    /// How many peers there are, with those whose places are kept.
    pub fn len(&self) -> usize {
        self.rings[0].len()
    }

    /// Whether there are no peers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn is_mesh(&self) -> bool {
        self.len() <= MESH_MAX
    }

    /// A peer and each of its neighbours.
    fn pairs_with(&self, peer: PeerId) -> Vec<(PeerId, PeerId)> {
        self.neighbours(peer).into_iter().map(|other| ordered(peer, other)).collect()
    }

    /// Those who would be neighbours if a peer were not there, and are not.
    fn pairs_kept_apart_by(&self, peer: PeerId) -> Vec<(PeerId, PeerId)> {
        let mut pairs = match self.len() {
            // Without the peer there is a mesh, as with it.
            ..=MESH_MAX => return Vec::new(),
            MESH_LOST => all_pairs(self.peers().filter(|other| *other != peer)),
            _ => {
                let around = self.rings.iter().filter_map(|ring| ring.around(peer));
                around.map(|(before, after)| ordered(before, after)).collect()
            }
        };
        pairs.retain(|&(a, b)| !self.rings.iter().any(|ring| ring.is_next(a, b)));
        // Several rings may name the same two.
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }
}

/// Each two of some peers, the lower id first.
fn all_pairs(peers: impl IntoIterator<Item = PeerId>) -> Vec<(PeerId, PeerId)> {
    let peers: Vec<PeerId> = peers.into_iter().collect();
    let firsts = peers.iter().enumerate();
    firsts.flat_map(|(at, &a)| peers[at + 1..].iter().map(move |&b| ordered(a, b))).collect()
}

fn ordered(a: PeerId, b: PeerId) -> (PeerId, PeerId) {
    (a.min(b), a.max(b))
}
