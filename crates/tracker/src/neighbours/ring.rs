use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use watchfire_types::PeerId;

use crate::neighbours::mixer::{mix, unmix};

/// One ring: 2⁶⁴ positions in a circle, some of them occupied by a peer.
///
/// A peer's position is computed from its id and the ring's key, and its id from the position. So
/// only the positions are stored, eight bytes each.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    key: u64,
    positions: BTreeSet<u64>,
}

impl Ring {
    pub fn new(seed: u64, number: u64) -> Self {
        // Mix the seed first: otherwise the rings of the next seed would be these, shifted by one.
        let key = mix(mix(seed).wrapping_add(number));
        Ring { key, positions: BTreeSet::new() }
    }

    pub fn insert(&mut self, peer: PeerId) {
        self.positions.insert(self.position(peer));
    }

    pub fn remove(&mut self, peer: PeerId) {
        self.positions.remove(&self.position(peer));
    }

    pub fn has(&self, peer: PeerId) -> bool {
        self.positions.contains(&self.position(peer))
    }

    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// All peers, in order of position.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> {
        self.positions.iter().map(|&position| self.peer(position))
    }

    /// The peers before and after a peer's position; `None` when the ring is empty.
    pub fn around(&self, peer: PeerId) -> Option<(PeerId, PeerId)> {
        let position = self.position(peer);
        let before = self.positions.range(..position).next_back();
        let before = before.or_else(|| self.positions.last())?;
        Some((self.peer(*before), self.after(position)?))
    }

    /// Whether two peers on the ring are adjacent.
    pub fn is_next(&self, a: PeerId, b: PeerId) -> bool {
        let (a, b) = (self.position(a), self.position(b));
        let (low, high) = (a.min(b), a.max(b));
        self.positions.range((Excluded(low), Excluded(high))).next().is_none()
            || (self.positions.first(), self.positions.last()) == (Some(&low), Some(&high))
    }

    fn after(&self, position: u64) -> Option<PeerId> {
        let after = self.positions.range((Excluded(position), Unbounded)).next();
        after.or_else(|| self.positions.first()).map(|&position| self.peer(position))
    }

    fn position(&self, peer: PeerId) -> u64 {
        mix(peer.0 ^ self.key)
    }

    fn peer(&self, position: u64) -> PeerId {
        PeerId(unmix(position) ^ self.key)
    }
}
