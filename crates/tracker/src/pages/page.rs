use std::collections::BTreeMap;
use std::sync::Arc;

use watchfire_types::{PeerId, Rng};

use crate::pages::have::Have;
use crate::pages::output::{Counts, NodeCounts};
use crate::pages::pending_events::PendingEvents;
use crate::quotas::budget::Budget;

/// Rows of peers with more room than this for each peer give it back.
const ROOM_PER_PEER_MAX: usize = 4;

/// One page that someone has open.
///
/// Its peers stand in a row: holders, then those with some of it, then seekers.
#[derive(Debug)]
pub(crate) struct Page<A> {
    pub name: Arc<str>,
    pub budget: Budget,
    pub pending: PendingEvents,
    row: Vec<Peer<A>>,
    /// Where each peer stands.
    places: BTreeMap<PeerId, u32>,
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
    /// What it may still say to others that they may reach it directly.
    pub signals: Budget,
}

impl<A: Copy> Page<A> {
    pub fn new(name: Arc<str>, is_node: fn(&A) -> bool) -> Self {
        Page {
            name,
            budget: Budget::default(),
            pending: PendingEvents::default(),
            row: Vec::new(),
            places: BTreeMap::new(),
            holders: 0,
            partial: 0,
            nodes: NodeCounts::default(),
            is_node,
        }
    }

    pub fn counts(&self) -> Counts {
        let Page { holders, partial, nodes, .. } = *self;
        Counts { watching: self.row.len(), holders, partial, nodes }
    }

    pub fn has(&self, peer: PeerId) -> bool {
        self.places.contains_key(&peer)
    }

    pub fn peer(&self, peer: PeerId) -> Option<(&Peer<A>, Have)> {
        let place = *self.places.get(&peer)? as usize;
        Some((&self.row[place], self.have_at(place)))
    }

    pub fn peers(&self) -> impl Iterator<Item = (&Peer<A>, Have)> {
        self.row.iter().enumerate().map(|(place, peer)| (peer, self.have_at(place)))
    }

    pub fn peer_mut(&mut self, peer: PeerId) -> Option<&mut Peer<A>> {
        let place = *self.places.get(&peer)?;
        Some(&mut self.row[place as usize])
    }

    /// Add a peer, or give one that is there another address.
    pub fn join(&mut self, peer: PeerId, address: A, have: Have) {
        if let Some(&place) = self.places.get(&peer) {
            // At another address it may be something else.
            let place = place as usize;
            self.nodes.remove(self.have_at(place), self.node_at(place));
            self.row[place].address = address;
            self.nodes.add(self.have_at(place), self.node_at(place));
        } else {
            self.places.insert(peer, self.row.len() as u32);
            let none = Budget::default();
            self.row.push(Peer { id: peer, address, budget: none, signals: none });
            self.nodes.add(Have::Nothing, self.node_at(self.row.len() - 1));
        }
        self.progress(peer, have);
    }

    /// Move a peer to its part of the row.
    pub fn progress(&mut self, peer: PeerId, have: Have) {
        let Some(&place) = self.places.get(&peer) else { return };
        let mut place = place as usize;
        let node = self.node_at(place);
        self.nodes.remove(self.have_at(place), node);
        self.nodes.add(have, node);
        // Up or down one part at a time, past the peer at the boundary that is crossed.
        while self.have_at(place) < have {
            place = if place < self.holders + self.partial {
                self.partial -= 1;
                self.holders += 1;
                self.swap(place, self.holders - 1)
            } else {
                self.partial += 1;
                self.swap(place, self.holders + self.partial - 1)
            };
        }
        while self.have_at(place) > have {
            place = if place < self.holders {
                self.holders -= 1;
                self.partial += 1;
                self.swap(place, self.holders)
            } else {
                self.partial -= 1;
                self.swap(place, self.holders + self.partial)
            };
        }
    }

    pub fn leave(&mut self, peer: PeerId) {
        self.progress(peer, Have::Nothing);
        let Some(&place) = self.places.get(&peer) else { return };
        self.nodes.remove(Have::Nothing, self.node_at(place as usize));
        self.swap(place as usize, self.row.len() - 1);
        self.row.pop();
        self.places.remove(&peer);
        if self.row.capacity() > ROOM_PER_PEER_MAX * self.row.len() {
            self.row.shrink_to(2 * self.row.len());
        }
    }

    /// Up to `n` peers but `except` that can serve: holders first, each part from a place that the
    /// seed chooses.
    pub fn some_holders(&self, except: PeerId, n: usize, seed: u64) -> Vec<(PeerId, Have)> {
        let all = (0, self.holders, Have::All);
        let some = (self.holders, self.partial, Have::Some);
        let rotated = [all, some].into_iter().flat_map(|(first, len, have)| {
            let start = Rng::from_seed(seed).index(len);
            (0..len).map(move |step| (self.row[first + (start + step) % len].id, have))
        });
        rotated.filter(|(peer, _)| *peer != except).take(n).collect()
    }

    fn have_at(&self, place: usize) -> Have {
        if place < self.holders {
            Have::All
        } else if place < self.holders + self.partial {
            Have::Some
        } else {
            Have::Nothing
        }
    }

    /// One if who stands there is a node, else nought.
    fn node_at(&self, place: usize) -> usize {
        usize::from((self.is_node)(&self.row[place].address))
    }

    /// Exchange two peers' places; returns where the first one went.
    fn swap(&mut self, from: usize, to: usize) -> usize {
        if from != to {
            self.row.swap(from, to);
            self.places.insert(self.row[from].id, from as u32);
            self.places.insert(self.row[to].id, to as u32);
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
