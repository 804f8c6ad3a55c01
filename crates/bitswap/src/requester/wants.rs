use std::cmp::Reverse;
use std::collections::BTreeMap;

use watchfire_content::{Cid, Codec, HashFunction, Multihash, Version};

use crate::bit_set::BitSet;

/// The id of a session: a set of wants that belong together, such as the wants of one download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    pub cid: Cid,
    /// The block's length, if known. With it, request windows are filled exactly.
    pub len: Option<u32>,
    /// Higher is requested first; among equals, the rarest block. Give the inner nodes of a DAG
    /// more than its leaves, and content that is shown next more than later content.
    pub urgency: u8,
}

impl Want {
    /// A want with urgency 0, for a block of unknown length.
    pub const fn new(cid: Cid) -> Self {
        Want { cid, len: None, urgency: 0 }
    }
}

#[derive(Debug)]
pub struct Wanted<P> {
    pub(crate) cid: Cid,
    pub(crate) len: Option<u32>,
    /// Higher is requested first.
    pub urgency: u8,
    pub(crate) sessions: Vec<SessionId>,
    /// How many peers announced that they have it.
    pub holders: u32,
    /// Peers with a request for it. More than one only in the endgame, or if one is unresponsive.
    pub requested_from: Vec<P>,
}

/// All wants of all sessions. Each has a small number, which is used again after the want.
#[derive(Debug)]
pub struct Wants<P> {
    slots: Vec<Option<Wanted<P>>>,
    free: Vec<u32>,
    by_cid: BTreeMap<Cid, u32>,
    /// The numbers of all wants.
    live: BitSet,
    /// Wants without a request, by urgency.
    open: BTreeMap<Reverse<u8>, BitSet>,
    open_len: usize,
    /// Blocks to request before all others, in this order. Some may not be wanted yet.
    urgent: Vec<Cid>,
    /// How often a want was added or removed.
    changes: u64,
}

/// Most blocks that can be named as urgent.
pub(crate) const URGENT_MAX: usize = 64;

impl<P> Default for Wants<P> {
    fn default() -> Self {
        Wants {
            slots: Vec::new(),
            free: Vec::new(),
            by_cid: BTreeMap::new(),
            live: BitSet::default(),
            open: BTreeMap::new(),
            open_len: 0,
            urgent: Vec::new(),
            changes: 0,
        }
    }
}

impl<P: Copy + Ord> Wants<P> {
    /// How many wants there are.
    pub const fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether there are no wants.
    pub const fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// How often a want was added or removed.
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// The want with a number, which a live want must have.
    pub fn get(&self, at: u32) -> &Wanted<P> {
        self.slots[at as usize].as_ref().expect("the number of a live want")
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Wanted<P>)> {
        self.live.iter().map(|at| (at, self.get(at)))
    }

    /// Adds a session's want. Returns whether the block was not wanted before.
    pub(crate) fn add(&mut self, session: SessionId, want: Want) -> bool {
        if let Some(&at) = self.by_cid.get(&want.cid) {
            let wanted = self.slots[at as usize].as_mut().expect("a CID leads to a live want");
            if !wanted.sessions.contains(&session) {
                wanted.sessions.push(session);
            }
            wanted.len = wanted.len.or(want.len);
            if want.urgency > wanted.urgency {
                let was_open = self.close(at);
                self.get_mut(at).urgency = want.urgency;
                if was_open {
                    self.reopen(at);
                }
            }
            return false;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 wants")
        });
        self.by_cid.insert(want.cid.clone(), at);
        self.slots[at as usize] = Some(Wanted {
            cid: want.cid,
            len: want.len,
            urgency: want.urgency,
            sessions: vec![session],
            holders: 0,
            requested_from: Vec::new(),
        });
        self.live.insert(at);
        self.changes += 1;
        self.reopen(at);
        true
    }

    /// The want with this number, if there is one.
    pub(crate) fn find_at(&self, at: u32) -> Option<&Wanted<P>> {
        self.slots.get(at as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> &mut Wanted<P> {
        self.slots[at as usize].as_mut().expect("the number of a live want")
    }

    /// The want for this block, under any CID with the same hash.
    pub(crate) fn find(&self, cid: &Cid) -> Option<u32> {
        self.by_cid
            .get(cid)
            .copied()
            .or_else(|| other_cids(cid).iter().find_map(|other| self.by_cid.get(other).copied()))
    }

    pub(crate) fn find_exactly(&self, cid: &Cid) -> Option<u32> {
        self.by_cid.get(cid).copied()
    }

    pub(crate) fn remove(&mut self, at: u32) -> Wanted<P> {
        self.close(at);
        self.live.remove(at);
        self.changes += 1;
        let wanted = self.slots[at as usize].take().expect("the number of a live want");
        self.by_cid.remove(&wanted.cid);
        self.free.push(at);
        wanted
    }

    /// Sets the blocks to request first. Those beyond [`URGENT_MAX`] are ignored.
    pub(crate) fn set_urgent(&mut self, cids: &[Cid]) {
        self.urgent = cids.iter().take(URGENT_MAX).cloned().collect();
    }

    /// The wants that are urgent, in their order.
    pub(crate) fn urgent(&self) -> impl Iterator<Item = u32> {
        self.urgent.iter().filter_map(|cid| self.find_exactly(cid))
    }

    /// The place of a want among the urgent ones, from 0; `None` if it is not urgent.
    pub(crate) fn urgent_place(&self, at: u32) -> Option<usize> {
        let cid = &self.get(at).cid;
        self.urgent.iter().position(|urgent| urgent == cid)
    }

    /// Marks a want as open: no peer has a request for it.
    pub(crate) fn reopen(&mut self, at: u32) {
        let urgency = Reverse(self.get(at).urgency);
        self.open_len += usize::from(self.open.entry(urgency).or_default().insert(at));
    }

    /// Marks a want as requested. Returns whether it was open.
    pub(crate) fn close(&mut self, at: u32) -> bool {
        let urgency = Reverse(self.get(at).urgency);
        let was_open = self.open.get_mut(&urgency).is_some_and(|open| open.remove(at));
        self.open_len -= usize::from(was_open);
        was_open
    }

    pub(crate) const fn live(&self) -> &BitSet {
        &self.live
    }

    /// Wants without a request, the most urgent first.
    pub(crate) fn open(&self) -> impl Iterator<Item = &BitSet> {
        self.open.values().filter(|open| !open.is_empty())
    }

    pub(crate) const fn open_len(&self) -> usize {
        self.open_len
    }
}

/// The other CIDs by which blocks of this hash are commonly requested. Stores look up only the
/// hash, and Bitswap 1.0 does not send the codec.
pub(crate) fn other_cids(cid: &Cid) -> Vec<Cid> {
    if cid.hash().function() != HashFunction::Sha2_256 {
        return Vec::new();
    }
    let mut cids: Vec<Cid> =
        [Codec::RAW, Codec::DAG_PB].map(|codec| Cid::v1(codec, cid.hash().clone())).into();
    if let Multihash::Sha2_256(digest) = cid.hash() {
        cids.push(Cid::v0(*digest));
    }
    cids.retain(|other| other != cid);
    debug_assert!(cids.len() >= 2 || cid.version() == Version::V0);
    cids
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(number: u8, urgency: u8) -> Want {
        let cid = Cid::v1(Codec::RAW, Multihash::Sha2_256([number; 32]));
        Want { cid, len: None, urgency }
    }

    #[test]
    fn a_want_is_open_until_it_is_requested_and_its_number_is_used_again() {
        let mut wants: Wants<u8> = Wants::default();
        assert!(wants.add(SessionId(0), want(1, 0)) && wants.add(SessionId(0), want(2, 1)));
        assert!(!wants.add(SessionId(1), want(1, 0)), "it is wanted already");
        assert_eq!((wants.len(), wants.open_len()), (2, 2));
        assert!(wants.close(0) && !wants.close(0));
        assert_eq!(wants.open_len(), 1);
        assert_eq!(wants.remove(0).sessions, [SessionId(0), SessionId(1)]);
        wants.add(SessionId(0), want(3, 0));
        assert_eq!(wants.find_exactly(&want(3, 0).cid), Some(0));
    }

    #[test]
    fn urgent_blocks_can_be_set_before_they_are_wanted() {
        let mut wants: Wants<u8> = Wants::default();
        wants.add(SessionId(0), want(1, 0));
        wants.set_urgent(&[want(2, 0).cid, want(1, 0).cid]);
        assert_eq!(wants.urgent().collect::<Vec<_>>(), [0]);
        wants.add(SessionId(0), want(2, 0));
        assert_eq!(wants.urgent().collect::<Vec<_>>(), [1, 0]);
        assert_eq!((wants.urgent_place(1), wants.urgent_place(0)), (Some(0), Some(1)));
    }
}
