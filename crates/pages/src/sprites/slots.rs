//! The slots of each grid: their peers, and the processes of those.

use std::collections::HashMap;
use std::sync::Arc;

use watchfire::internal::Seed;
use watchfire_tracker::Rings;
use watchfire_types::{Instant, NodeId, PeerId};

use super::throw_message::Edge;

/// The rings of a grid: left and right on the first, up and down on the second.
const RINGS: usize = 2;
/// The position in a peer id of the number of the process that created it.
const NODE_SHIFT: u32 = 56;

/// A peer id created by a process, from random bits.
pub(super) fn peer_of(node: NodeId, random: u64) -> PeerId {
    PeerId(u64::from(node.0) << NODE_SHIFT | random & ((1 << NODE_SHIFT) - 1))
}

/// The slots of all grids that this process knows: its own and those of other processes.
pub(super) struct Slots {
    seed: Seed,
    grids: HashMap<Arc<str>, Grid>,
    /// Slots of all grids together.
    len: usize,
}

struct Grid {
    rings: Rings,
    /// Peers at another process than the one that created their id.
    moved: HashMap<PeerId, NodeId>,
    /// Slots of this process, including reserved ones.
    local_slots: usize,
}

impl Slots {
    pub fn new(seed: Seed) -> Self {
        Slots { seed, grids: HashMap::new(), len: 0 }
    }

    pub fn grids(&self) -> usize {
        self.grids.len()
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The grids and slots that this process counts, so that the sum over all processes has each once: its own
    /// slots, and the grids on which no process with a lower number has a slot.
    pub fn counted(&self, me: NodeId) -> (usize, usize) {
        let is_lowest = |name: &str| self.peers(name).all(|peer| self.owner(name, peer) >= me);
        let own = || self.grids.iter().filter(|(_, grid)| grid.local_slots > 0);
        let slots = own().map(|(_, grid)| grid.local_slots).sum();
        (own().filter(|(name, _)| is_lowest(name)).count(), slots)
    }

    pub fn knows(&self, grid: &str) -> bool {
        self.grids.contains_key(grid)
    }

    /// Whether the peer has a slot on the grid, taken or reserved.
    pub fn has(&self, grid: &str, peer: PeerId) -> bool {
        self.grids.get(grid).is_some_and(|grid| grid.rings.has(peer))
    }

    pub fn is_reserved(&self, grid: &str, peer: PeerId) -> bool {
        self.grids.get(grid).is_some_and(|grid| grid.rings.is_reserved(peer))
    }

    pub fn peers(&self, grid: &str) -> impl Iterator<Item = PeerId> {
        self.grids.get(grid).into_iter().flat_map(|grid| grid.rings.peers())
    }

    /// The process of a peer, or its last process while its slot is reserved.
    pub fn owner(&self, grid: &str, peer: PeerId) -> NodeId {
        let moved = self.grids.get(grid).and_then(|grid| grid.moved.get(&peer));
        moved.copied().unwrap_or(origin(peer))
    }

    /// The process of a peer, unless its slot is reserved or unknown.
    pub fn present_at(&self, grid: &str, peer: PeerId) -> Option<NodeId> {
        let rings = &self.grids.get(grid)?.rings;
        (rings.has(peer) && !rings.is_reserved(peer)).then(|| self.owner(grid, peer))
    }

    /// Whether this process knows the slots of all processes on a grid: it has one there itself, and
    /// none is given before the others have sent theirs.
    pub fn is_complete(&self, grid: &str) -> bool {
        self.grids.get(grid).is_some_and(|grid| grid.local_slots > 0)
    }

    /// Gives a peer at a process a slot, or its reserved slot back. Returns the grid's name.
    pub fn take(&mut self, grid: &str, peer: PeerId, node: NodeId) -> Arc<str> {
        let name = match self.grids.get_key_value(grid) {
            Some((name, _)) => name.clone(),
            None => {
                let rings = Rings::new(RINGS, self.seed.of(grid));
                let name: Arc<str> = grid.into();
                let grid = Grid { rings, moved: HashMap::new(), local_slots: 0 };
                self.grids.insert(name.clone(), grid);
                name
            }
        };
        let grid = self.grids.get_mut(&name).expect("the grid exists or was just created");
        self.len += usize::from(!grid.rings.has(peer));
        grid.rings.join(peer);
        if origin(peer) == node {
            grid.moved.remove(&peer);
        } else {
            grid.moved.insert(peer, node);
        }
        name
    }

    /// Reserves a peer's slot until a time. Returns the grid's name when the peer has a slot there.
    pub fn reserve(&mut self, grid: &str, peer: PeerId, until: Instant) -> Option<Arc<str>> {
        let name = self.grids.get_key_value(grid).map(|(name, _)| name.clone())?;
        let rings = &mut self.grids.get_mut(&name)?.rings;
        rings.reserve(peer, until);
        rings.has(peer).then_some(name)
    }

    pub fn expired(&self, grid: &str, now: Instant) -> Option<PeerId> {
        self.grids.get(grid)?.rings.expired(now)
    }

    pub fn close(&mut self, name: &str, peer: PeerId) {
        let Some(grid) = self.grids.get_mut(name) else { return };
        self.len -= usize::from(grid.rings.has(peer));
        grid.rings.leave(peer);
        grid.moved.remove(&peer);
        self.forget_if_empty(name);
    }

    fn forget_if_empty(&mut self, grid: &str) {
        if self.grids.get(grid).is_some_and(|grid| grid.rings.is_empty()) {
            self.grids.remove(grid);
        }
    }

    /// Forgets a grid, unless this process has slots on it.
    pub fn forget(&mut self, name: &str) {
        if let Some(grid) = self.grids.get(name)
            && grid.local_slots == 0
        {
            self.len -= grid.rings.len();
            self.grids.remove(name);
        }
    }

    /// Changes the number of this process's slots on a grid. Returns the new number.
    pub fn count_local(&mut self, grid: &str, more: isize) -> usize {
        let Some(grid) = self.grids.get_mut(grid) else { return 0 };
        grid.local_slots = grid.local_slots.saturating_add_signed(more);
        grid.local_slots
    }

    pub fn owned_by(&self, node: NodeId) -> Vec<(Arc<str>, PeerId)> {
        let mut owned = Vec::new();
        for (name, grid) in &self.grids {
            for peer in grid.rings.peers() {
                if self.owner(name, peer) == node {
                    owned.push((name.clone(), peer));
                }
            }
        }
        owned
    }

    /// The neighbour at an edge, taken or reserved. A peer that is alone is its own neighbour.
    pub fn towards(&self, grid: &str, peer: PeerId, edge: Edge) -> Option<PeerId> {
        let (before, after) = self.grids.get(grid)?.rings.around(peer, edge.ring())?;
        Some(if edge.is_after() { after } else { before })
    }

    /// The neighbours before and after a peer on each ring, as [`Slots::towards`] has them.
    pub fn around(&self, grid: &str, peer: PeerId) -> [Option<(PeerId, PeerId)>; RINGS] {
        let grid = self.grids.get(grid);
        std::array::from_fn(|ring| grid.and_then(|grid| grid.rings.around(peer, ring)))
    }
}

fn origin(peer: PeerId) -> NodeId {
    NodeId((peer.0 >> NODE_SHIFT) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processes_together_count_each_grid_and_each_slot_once() {
        let nodes = [0, 1, 2].map(NodeId);
        let mut all = nodes.map(|_| Slots::new(Seed(7)));
        // Processes with a slot on a grid know all of its slots.
        for (grid, at) in [("a", &nodes[..]), ("b", &nodes[1..]), ("c", &nodes[..1])] {
            for &known_by in at {
                let slots = &mut all[usize::from(known_by.0)];
                for &node in at {
                    slots.take(grid, peer_of(node, 1), node);
                }
                slots.count_local(grid, 1);
            }
        }
        let counted = nodes.map(|node| all[usize::from(node.0)].counted(node));
        assert_eq!(counted, [(2, 2), (1, 2), (0, 2)]);
    }
}
