use std::collections::{BTreeMap, BTreeSet};

use watchfire_types::{Instant, PeerId};

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

    /// The reservation that expires first.
    pub fn first(&self) -> Option<(Instant, PeerId)> {
        self.by_time.first().copied()
    }

    pub fn len(&self) -> usize {
        self.until.len()
    }
}
