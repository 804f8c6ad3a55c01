use std::collections::BTreeMap;
use std::sync::Arc;

use watchfire_types::{PeerId, Rng};

use crate::address_quotas::budget::Budget;
use crate::pages::output::{Counts, Have, NodeCounts};
use crate::pages::pending_events::PendingEvents;

/// Lists with more capacity than this per peer are shrunk.
const CAPACITY_PER_PEER_MAX: usize = 4;

/// A page with at least one peer.
///
/// Its peers are in one list: holders, then partial peers, then peers without blocks.
#[derive(Debug)]
pub(crate) struct Page<A> {
    pub name: Arc<str>,
    pub budget: Budget,
    pub pending: PendingEvents,
    list: Vec<Peer<A>>,
    positions: BTreeMap<PeerId, u32>,
    holders: usize,
    partial: usize,
    nodes: NodeCounts,
    is_node: fn(&A) -> bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer<A> {
    pub id: PeerId,
    pub address: A,
    pub budget: Budget,
    pub signals: Budget,
}

impl<A: Copy> Page<A> {
    pub fn new(name: Arc<str>, is_node: fn(&A) -> bool) -> Self {
        Page {
            name,
            budget: Budget::default(),
            pending: PendingEvents::default(),
            list: Vec::new(),
            positions: BTreeMap::new(),
            holders: 0,
            partial: 0,
            nodes: NodeCounts::default(),
            is_node,
        }
    }

    pub fn counts(&self) -> Counts {
        let Page { holders, partial, nodes, .. } = *self;
        Counts { watching: self.list.len(), holders, partial, nodes }
    }

    pub fn has(&self, peer: PeerId) -> bool {
        self.positions.contains_key(&peer)
    }

    pub fn peer(&self, peer: PeerId) -> Option<(&Peer<A>, Have)> {
        let position = *self.positions.get(&peer)? as usize;
        Some((&self.list[position], self.have_at(position)))
    }

    pub fn peers(&self) -> impl Iterator<Item = (&Peer<A>, Have)> {
        self.list.iter().enumerate().map(|(position, peer)| (peer, self.have_at(position)))
    }

    pub fn peer_mut(&mut self, peer: PeerId) -> Option<&mut Peer<A>> {
        let position = *self.positions.get(&peer)?;
        Some(&mut self.list[position as usize])
    }

    /// Adds a peer, or changes the address of one that is there.
    pub fn join(&mut self, peer: PeerId, address: A, have: Have) {
        if let Some(&position) = self.positions.get(&peer) {
            // The new address may belong to a node, or not.
            let position = position as usize;
            self.nodes.remove(self.have_at(position), self.node_at(position));
            self.list[position].address = address;
            self.nodes.add(self.have_at(position), self.node_at(position));
        } else {
            self.positions.insert(peer, self.list.len() as u32);
            let none = Budget::default();
            self.list.push(Peer { id: peer, address, budget: none, signals: none });
            self.nodes.add(Have::Nothing, self.node_at(self.list.len() - 1));
        }
        self.progress(peer, have);
    }

    /// Moves a peer to its part of the list.
    pub fn progress(&mut self, peer: PeerId, have: Have) {
        let Some(&position) = self.positions.get(&peer) else { return };
        let mut position = position as usize;
        let node = self.node_at(position);
        self.nodes.remove(self.have_at(position), node);
        self.nodes.add(have, node);
        // One part at a time: swap with the peer at the boundary, and move the boundary.
        while self.have_at(position) < have {
            position = if position < self.holders + self.partial {
                self.partial -= 1;
                self.holders += 1;
                self.swap(position, self.holders - 1)
            } else {
                self.partial += 1;
                self.swap(position, self.holders + self.partial - 1)
            };
        }
        while self.have_at(position) > have {
            position = if position < self.holders {
                self.holders -= 1;
                self.partial += 1;
                self.swap(position, self.holders)
            } else {
                self.partial -= 1;
                self.swap(position, self.holders + self.partial)
            };
        }
    }

    pub fn leave(&mut self, peer: PeerId) {
        self.progress(peer, Have::Nothing);
        let Some(&position) = self.positions.get(&peer) else { return };
        self.nodes.remove(Have::Nothing, self.node_at(position as usize));
        self.swap(position as usize, self.list.len() - 1);
        self.list.pop();
        self.positions.remove(&peer);
        if self.list.capacity() > CAPACITY_PER_PEER_MAX * self.list.len() {
            self.list.shrink_to(2 * self.list.len());
        }
    }

    /// Up to `n` peers with blocks, without `except`: holders first, then partial peers. Each part
    /// starts at a position chosen by the seed.
    pub fn peers_with_blocks(&self, except: PeerId, n: usize, seed: u64) -> Vec<(PeerId, Have)> {
        let all = (0, self.holders, Have::All);
        let some = (self.holders, self.partial, Have::Some);
        let rotated = [all, some].into_iter().flat_map(|(first, len, have)| {
            let start = Rng::from_seed(seed).index(len);
            (0..len).map(move |step| (self.list[first + (start + step) % len].id, have))
        });
        rotated.filter(|(peer, _)| *peer != except).take(n).collect()
    }

    fn have_at(&self, position: usize) -> Have {
        if position < self.holders {
            Have::All
        } else if position < self.holders + self.partial {
            Have::Some
        } else {
            Have::Nothing
        }
    }

    /// 1 if the peer at this position is a node, otherwise 0.
    fn node_at(&self, position: usize) -> usize {
        usize::from((self.is_node)(&self.list[position].address))
    }

    /// Swaps two peers; returns the new position of the first one.
    fn swap(&mut self, from: usize, to: usize) -> usize {
        if from != to {
            self.list.swap(from, to);
            self.positions.insert(self.list[from].id, from as u32);
            self.positions.insert(self.list[to].id, to as u32);
        }
        to
    }
}

impl NodeCounts {
    fn add(&mut self, have: Have, n: usize) {
        self.watching += n;
        self.holders += if have == Have::All { n } else { 0 };
        self.partial += if have == Have::Some { n } else { 0 };
    }

    fn remove(&mut self, have: Have, n: usize) {
        self.watching -= n;
        self.holders -= if have == Have::All { n } else { 0 };
        self.partial -= if have == Have::Some { n } else { 0 };
    }
}
