//! Who is where on each plane, and at which process.

use std::collections::HashMap;
use std::sync::Arc;

use rings::Rings;
use vocab::{Instant, NodeId, PeerId};

use super::Edge;
use crate::seed::Seed;

/// Left and right, up and down.
const RINGS: usize = 2;
/// Where in a peer's id stands at which process it began.
const NODE_SHIFT: u32 = 56;

/// The id of a peer that begins at this process, from as much randomness.
pub(super) fn peer_of(node: NodeId, random: u64) -> PeerId {
    PeerId(u64::from(node.0) << NODE_SHIFT | random & ((1 << NODE_SHIFT) - 1))
}

/// The places of all planes that this process knows.
pub(super) struct Places {
    seed: Seed,
    planes: HashMap<Arc<str>, Plane>,
    /// Of all planes together.
    len: usize,
}

struct Plane {
    rings: Rings,
    /// Peers that are at another process than their id says.
    moved: HashMap<PeerId, NodeId>,
    /// Seats of this process, the vacant too.
    seats_here: usize,
}

impl Places {
    pub fn new(seed: Seed) -> Self {
        Places { seed, planes: HashMap::new(), len: 0 }
    }

    /// How many planes are known.
    pub fn planes(&self) -> usize {
        self.planes.len()
    }

    /// How many places there are on them.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn knows(&self, plane: &str) -> bool {
        self.planes.contains_key(plane)
    }

    /// Whether the peer has a place on the plane, be it a vacant one.
    pub fn has(&self, plane: &str, peer: PeerId) -> bool {
        self.planes.get(plane).is_some_and(|plane| plane.rings.has(peer))
    }

    pub fn is_vacant(&self, plane: &str, peer: PeerId) -> bool {
        self.planes.get(plane).is_some_and(|plane| plane.rings.is_vacant(peer))
    }

    pub fn peers(&self, plane: &str) -> impl Iterator<Item = PeerId> {
        self.planes.get(plane).into_iter().flat_map(|plane| plane.rings.peers())
    }

    /// Which process a peer is at, or was last.
    pub fn owner(&self, plane: &str, peer: PeerId) -> NodeId {
        let moved = self.planes.get(plane).and_then(|plane| plane.moved.get(&peer));
        moved.copied().unwrap_or(origin(peer))
    }

    /// A peer is on the plane, at this process. Returns the plane's name.
    pub fn take(&mut self, plane: &str, peer: PeerId, node: NodeId) -> Arc<str> {
        let name = match self.planes.get_key_value(plane) {
            Some((name, _)) => name.clone(),
            None => {
                let rings = Rings::new(RINGS, self.seed.of(plane));
                let name: Arc<str> = plane.into();
                let plane = Plane { rings, moved: HashMap::new(), seats_here: 0 };
                self.planes.insert(name.clone(), plane);
                name
            }
        };
        let plane = self.planes.get_mut(&name).expect("it is there, or was put there");
        self.len += usize::from(!plane.rings.has(peer));
        plane.rings.join(peer);
        if origin(peer) == node {
            plane.moved.remove(&peer);
        } else {
            plane.moved.insert(peer, node);
        }
        name
    }

    /// Keep a place without its peer. Returns the plane's name, if the peer has a place there.
    pub fn vacate(&mut self, plane: &str, peer: PeerId, until: Instant) -> Option<Arc<str>> {
        let name = self.planes.get_key_value(plane).map(|(name, _)| name.clone())?;
        let rings = &mut self.planes.get_mut(&name)?.rings;
        rings.vacate(peer, until);
        rings.has(peer).then_some(name)
    }

    /// A vacancy whose time is over.
    pub fn expired(&self, plane: &str, now: Instant) -> Option<PeerId> {
        self.planes.get(plane)?.rings.expired(now)
    }

    /// Close a place.
    pub fn close(&mut self, name: &str, peer: PeerId) {
        let Some(plane) = self.planes.get_mut(name) else { return };
        self.len -= usize::from(plane.rings.has(peer));
        plane.rings.leave(peer);
        plane.moved.remove(&peer);
        self.forget_if_empty(name);
    }

    fn forget_if_empty(&mut self, plane: &str) {
        if self.planes.get(plane).is_some_and(|plane| plane.rings.is_empty()) {
            self.planes.remove(plane);
        }
    }

    /// Forget a plane, unless somebody sits on it here.
    pub fn forget(&mut self, name: &str) {
        if let Some(plane) = self.planes.get(name)
            && plane.seats_here == 0
        {
            self.len -= plane.rings.len();
            self.planes.remove(name);
        }
    }

    /// There are this many seats more here on a plane. Returns how many there are.
    pub fn seat_here(&mut self, plane: &str, more: isize) -> usize {
        let Some(plane) = self.planes.get_mut(plane) else { return 0 };
        plane.seats_here = plane.seats_here.saturating_add_signed(more);
        plane.seats_here
    }

    /// All places of peers at one process.
    pub fn owned_by(&self, node: NodeId) -> Vec<(Arc<str>, PeerId)> {
        let mut owned = Vec::new();
        for (name, plane) in &self.planes {
            for peer in plane.rings.peers() {
                if self.owner(name, peer) == node {
                    owned.push((name.clone(), peer));
                }
            }
        }
        owned
    }

    /// Who has the place beyond a peer's edge: itself when it is alone, an absent one perhaps.
    pub fn towards(&self, plane: &str, peer: PeerId, edge: Edge) -> Option<PeerId> {
        let (before, after) = self.planes.get(plane)?.rings.around(peer, edge.ring())?;
        Some(if edge.is_after() { after } else { before })
    }
}

fn origin(peer: PeerId) -> NodeId {
    NodeId((peer.0 >> NODE_SHIFT) as u16)
}
