use hashbrown::HashTable;
use vocab::{Instant, PeerId};

use crate::change::Change;
use crate::dice::{Dice, mix};
use crate::vacancies::Vacancies;

/// As many peers or fewer are all each other's neighbours.
pub const MESH_MAX: usize = 9;

/// A row with more room than this for each peer gives it back.
const ROOM_PER_PEER_MAX: usize = 4;

/// `k` random rings through all peers.
///
/// A newcomer is spliced in at a random place of each ring; a leaver's two neighbours on each ring
/// become each other's. The work depends on `k` alone, not on how many peers there are, and at
/// most `2 k` others are told. The rings exist below the mesh too, so that a mesh that grows or
/// shrinks over its bound changes into rings that are random already.
#[derive(Clone, Debug)]
pub struct Rings {
    k: usize,
    seed: u64,
    dice: Dice,
    /// Without gaps, so that a random place is a random slot.
    peers: Vec<PeerId>,
    /// `k` for each peer, by slot.
    links: Vec<Link>,
    /// Slots by peer.
    slots: HashTable<u32>,
    /// Places kept for peers that may come back; they have slots as if they were here.
    vacancies: Vacancies,
}

/// The slots before and after a peer on one ring.
#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
}

impl Rings {
    /// No peers yet, on `k` rings.
    ///
    /// # Panics
    ///
    /// When `k` is zero: peers on no ring would be alone.
    pub fn new(k: usize, seed: u64) -> Self {
        assert!(k > 0, "neighbours need at least one ring");
        Rings {
            k,
            seed,
            dice: Dice::new(seed),
            peers: Vec::new(),
            links: Vec::new(),
            slots: HashTable::new(),
            vacancies: Vacancies::default(),
        }
    }

    /// Give a peer the place of [`Rings::vacancy`], or splice it into every ring where there is
    /// none. Nothing changes for one that is there already; its own vacancy is one no more.
    pub fn join(&mut self, peer: PeerId) -> Vec<Change> {
        if self.has(peer) {
            self.vacancies.remove(peer);
            return Vec::new();
        }
        if let Some(absent) = self.vacancy() {
            return self.replace(absent, peer);
        }
        let len = self.peers.len();
        let rings = if len == 0 { 0 } else { self.k };
        let places: Vec<usize> = (0..rings).map(|_| self.dice.below(len)).collect();
        let pairs = if len <= MESH_MAX {
            all_pairs(self.peers.iter().copied().chain([peer]))
        } else {
            let splices = places.iter().enumerate().map(|(ring, &place)| {
                let after = self.link(place, ring).after;
                [self.peers[place], peer, self.peers[after as usize]]
            });
            splices.flat_map(all_pairs).collect()
        };
        self.changes_among(pairs, |rings| rings.splice(peer, &places))
    }

    /// Take a peer, or its vacancy, out of every ring. Nothing changes when it is not there.
    pub fn leave(&mut self, peer: PeerId) -> Vec<Change> {
        let Some(slot) = self.slot(peer) else { return Vec::new() };
        self.vacancies.remove(peer);
        let pairs = if self.peers.len() <= MESH_MAX + 1 {
            all_pairs(self.peers.iter().copied())
        } else {
            let rings = (0..self.k).map(|ring| self.link(slot, ring));
            let splices = rings.map(|Link { before, after }| {
                [self.peers[before as usize], peer, self.peers[after as usize]]
            });
            splices.flat_map(all_pairs).collect()
        };
        self.changes_among(pairs, |rings| rings.unsplice(slot))
    }

    /// A peer is gone, but may come back: keep its place until then.
    ///
    /// Nobody's neighbours change. The place is taken again by the same peer's [`Rings::join`], or
    /// by that of a newcomer; [`Rings::handle_tick`] closes it when nobody came. A place that is
    /// vacant already is kept until the new time. Nothing happens when the peer is not there.
    pub fn vacate(&mut self, peer: PeerId, until: Instant) {
        if self.has(peer) {
            self.vacancies.insert(peer, until);
        }
    }

    /// Close the places that nobody came for in time.
    pub fn handle_tick(&mut self, now: Instant) -> Vec<Change> {
        let mut changes = Vec::new();
        while let Some(peer) = self.expired(now) {
            changes.append(&mut self.leave(peer));
        }
        changes
    }

    /// When to call [`Rings::handle_tick`] next; `None` while no place is vacant.
    pub fn next_wake(&self) -> Option<Instant> {
        self.vacancies.first().map(|(until, _)| until)
    }

    /// A place that nobody came for in time: the next that [`Rings::handle_tick`] closes. For a
    /// driver that has to look around it before it closes the place itself, with [`Rings::leave`].
    pub fn expired(&self, now: Instant) -> Option<PeerId> {
        self.vacancies.first().filter(|(until, _)| *until <= now).map(|(_, peer)| peer)
    }

    /// The absent peer whose place the next newcomer gets: the one whose time is over first.
    pub fn vacancy(&self) -> Option<PeerId> {
        self.vacancies.first().map(|(_, peer)| peer)
    }

    /// Whether a place is kept for a peer that is not here.
    pub fn is_vacant(&self, peer: PeerId) -> bool {
        self.vacancies.has(peer)
    }

    /// How many places are vacant.
    pub fn vacancies(&self) -> usize {
        self.vacancies.len()
    }

    /// A peer's neighbours, each once; none when the peer is not there.
    ///
    /// Absent peers whose places are kept are among them. There are at most `2 k`, fewer when rings bring the same two together, or all others when
    /// there are [`MESH_MAX`] peers or fewer.
    pub fn neighbours(&self, peer: PeerId) -> Vec<PeerId> {
        let Some(slot) = self.slot(peer) else { return Vec::new() };
        if self.is_mesh() {
            return self.peers.iter().copied().filter(|other| *other != peer).collect();
        }
        let mut neighbours = Vec::with_capacity(2 * self.k);
        for ring in 0..self.k {
            let Link { before, after } = self.link(slot, ring);
            for other in [before, after].map(|slot| self.peers[slot as usize]) {
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
        let slot = self.slot(peer).filter(|_| ring < self.k)?;
        let Link { before, after } = self.link(slot, ring);
        Some((self.peers[before as usize], self.peers[after as usize]))
    }

    /// Whether the peer has a place on the rings, be it a vacant one.
    pub fn has(&self, peer: PeerId) -> bool {
        self.slot(peer).is_some()
    }

    /// How many peers there are, with those whose places are kept.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Whether there are no peers.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    fn is_mesh(&self) -> bool {
        self.peers.len() <= MESH_MAX
    }

    /// Do something to the rings and tell which of these pairs it linked or unlinked.
    ///
    /// Asking before and after keeps pairs right that are neighbours on several rings, or in the
    /// mesh and on a ring.
    fn changes_among(
        &mut self,
        mut pairs: Vec<(PeerId, PeerId)>,
        act: impl FnOnce(&mut Rings),
    ) -> Vec<Change> {
        pairs.sort_unstable();
        pairs.dedup();
        let before: Vec<bool> = pairs.iter().map(|&(a, b)| self.are_linked(a, b)).collect();
        act(self);
        let compared = pairs.into_iter().zip(before);
        compared
            .filter_map(|((a, b), before)| match (before, self.are_linked(a, b)) {
                (false, true) => Some(Change::Linked(a, b)),
                (true, false) => Some(Change::Unlinked(a, b)),
                _ => None,
            })
            .collect()
    }

    fn are_linked(&self, a: PeerId, b: PeerId) -> bool {
        let (Some(a), Some(b)) = (self.slot(a), self.slot(b)) else { return false };
        let on = |ring| {
            let Link { before, after } = self.link(a, ring);
            b as u32 == before || b as u32 == after
        };
        a != b && (self.is_mesh() || (0..self.k).any(on))
    }

    /// Let a newcomer stand where an absent peer stood, on every ring.
    fn replace(&mut self, absent: PeerId, newcomer: PeerId) -> Vec<Change> {
        let near = self.neighbours(absent);
        let pairs_with = |peer| near.iter().map(move |&other| ordered(peer, other));
        let pairs = pairs_with(absent).chain(pairs_with(newcomer)).collect();
        self.vacancies.remove(absent);
        self.changes_among(pairs, |rings| {
            let slot = rings.slot(absent).expect("a vacancy has a slot");
            rings.forget_slot(slot);
            rings.peers[slot] = newcomer;
            rings.note_slot(slot);
        })
    }

    /// Put a peer into the next slot, and on each ring after the one that stands at its place.
    fn splice(&mut self, peer: PeerId, places: &[usize]) {
        let slot = self.peers.len();
        self.peers.push(peer);
        self.note_slot(slot);
        for ring in 0..self.k {
            let alone = Link { before: slot as u32, after: slot as u32 };
            self.links.push(alone);
            if let Some(&place) = places.get(ring) {
                let after = self.link(place, ring).after as usize;
                self.connect(place, slot, ring);
                self.connect(slot, after, ring);
            }
        }
    }

    /// Close each ring where a peer stood, and give its slot to the last one.
    fn unsplice(&mut self, slot: usize) {
        for ring in 0..self.k {
            let Link { before, after } = self.link(slot, ring);
            self.connect(before as usize, after as usize, ring);
        }
        self.forget_slot(slot);
        let last = self.peers.len() - 1;
        if slot != last {
            for ring in 0..self.k {
                let Link { before, after } = self.link(last, ring);
                // One that is alone on its ring stays between itself.
                let [before, after] = [before, after]
                    .map(|near| if near as usize == last { slot as u32 } else { near });
                self.connect(before as usize, slot, ring);
                self.connect(slot, after as usize, ring);
            }
            self.move_slot(last, slot);
        }
        self.peers.pop();
        self.links.truncate(last * self.k);
        if self.peers.capacity() > ROOM_PER_PEER_MAX * self.peers.len() {
            self.peers.shrink_to(2 * self.peers.len());
            self.links.shrink_to(2 * self.links.len());
            let Rings { peers, slots, seed, .. } = self;
            slots.shrink_to(2 * slots.len(), |&s| hash(*seed, peers[s as usize]));
        }
    }

    fn connect(&mut self, before: usize, after: usize, ring: usize) {
        self.links[before * self.k + ring].after = after as u32;
        self.links[after * self.k + ring].before = before as u32;
    }

    fn link(&self, slot: usize, ring: usize) -> Link {
        self.links[slot * self.k + ring]
    }

    fn slot(&self, peer: PeerId) -> Option<usize> {
        let found = self.slots.find(hash(self.seed, peer), |&s| self.peers[s as usize] == peer);
        found.map(|&slot| slot as usize)
    }

    fn note_slot(&mut self, slot: usize) {
        let Rings { peers, slots, seed, .. } = self;
        let hash_of = |&slot: &u32| hash(*seed, peers[slot as usize]);
        slots.insert_unique(hash_of(&(slot as u32)), slot as u32, hash_of);
    }

    fn forget_slot(&mut self, slot: usize) {
        let hash = hash(self.seed, self.peers[slot]);
        let entry = self.slots.find_entry(hash, |&other| other == slot as u32);
        entry.expect("every peer's slot is known").remove();
    }

    fn move_slot(&mut self, from: usize, to: usize) {
        let peer = self.peers[from];
        self.peers[to] = peer;
        let known = self.slots.find_mut(hash(self.seed, peer), |&other| other == from as u32);
        *known.expect("every peer's slot is known") = to as u32;
    }
}

/// Seeded, though peer ids are dice already: a simulation's may not be.
fn hash(seed: u64, peer: PeerId) -> u64 {
    mix(mix(peer.0 ^ seed))
}

/// Each two of some peers, the lower id first.
fn all_pairs(peers: impl IntoIterator<Item = PeerId>) -> Vec<(PeerId, PeerId)> {
    let peers: Vec<PeerId> = peers.into_iter().collect();
    let mut pairs = Vec::with_capacity(peers.len() * peers.len().saturating_sub(1) / 2);
    for (index, &a) in peers.iter().enumerate() {
        let others = peers[index + 1..].iter().filter(|b| **b != a);
        pairs.extend(others.map(|&b| ordered(a, b)));
    }
    pairs
}

fn ordered(a: PeerId, b: PeerId) -> (PeerId, PeerId) {
    (a.min(b), a.max(b))
}
