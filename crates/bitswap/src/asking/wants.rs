use std::cmp::Reverse;
use std::collections::BTreeMap;

use content::{Cid, Codec, HashFunction, Multihash, Version};

use super::bits::Bits;
use crate::{SessionId, Want};

/// A block that some session wants.
#[derive(Debug)]
pub(crate) struct Wanted<P> {
    pub cid: Cid,
    pub len: Option<u32>,
    pub urgency: u8,
    pub sessions: Vec<SessionId>,
    /// Peers that say they have it.
    pub holders: u32,
    /// Peers that it is asked of; more than one only in the tail, or where one is silent.
    pub asked_of: Vec<P>,
}

/// All wants of all sessions, each under a small number that is used again when it is gone.
#[derive(Debug)]
pub(crate) struct Wants<P> {
    slots: Vec<Option<Wanted<P>>>,
    free: Vec<u32>,
    by_cid: BTreeMap<Cid, u32>,
    /// All of them.
    live: Bits,
    /// Those that are asked of nobody, by urgency.
    open: BTreeMap<Reverse<u8>, Bits>,
    open_len: usize,
    /// To be asked for before all others, in this order, wanted already or not yet.
    urgent: Vec<Cid>,
    /// How often a want was added or removed.
    pub changes: u64,
}

/// Blocks that may be named as those to ask for first.
pub(crate) const URGENT_MAX: usize = 64;

impl<P> Default for Wants<P> {
    fn default() -> Self {
        Wants {
            slots: Vec::new(),
            free: Vec::new(),
            by_cid: BTreeMap::new(),
            live: Bits::default(),
            open: BTreeMap::new(),
            open_len: 0,
            urgent: Vec::new(),
            changes: 0,
        }
    }
}

impl<P: Copy + Ord> Wants<P> {
    /// Adds a session's want. Its number, and whether the block was not wanted before.
    pub(crate) fn add(&mut self, session: SessionId, want: Want) -> (u32, bool) {
        if let Some(&at) = self.by_cid.get(&want.cid) {
            let wanted = self.slots[at as usize].as_mut().expect("a name leads to a want");
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
            return (at, false);
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer than four thousand million wants")
        });
        self.by_cid.insert(want.cid.clone(), at);
        self.slots[at as usize] = Some(Wanted {
            cid: want.cid,
            len: want.len,
            urgency: want.urgency,
            sessions: vec![session],
            holders: 0,
            asked_of: Vec::new(),
        });
        self.live.insert(at);
        self.changes += 1;
        self.reopen(at);
        (at, true)
    }

    /// The want with this number, if there is one.
    pub(crate) fn find_at(&self, at: u32) -> Option<&Wanted<P>> {
        self.slots.get(at as usize)?.as_ref()
    }

    pub(crate) fn get(&self, at: u32) -> &Wanted<P> {
        self.slots[at as usize].as_ref().expect("a number is of a live want")
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> &mut Wanted<P> {
        self.slots[at as usize].as_mut().expect("a number is of a live want")
    }

    /// The want for this block, under whichever CID of the same hash it was wanted.
    pub(crate) fn find(&self, cid: &Cid) -> Option<u32> {
        self.by_cid
            .get(cid)
            .copied()
            .or_else(|| other_names(cid).iter().find_map(|other| self.by_cid.get(other).copied()))
    }

    /// The want for exactly this CID.
    pub(crate) fn find_exactly(&self, cid: &Cid) -> Option<u32> {
        self.by_cid.get(cid).copied()
    }

    pub(crate) fn remove(&mut self, at: u32) -> Wanted<P> {
        self.close(at);
        self.live.remove(at);
        self.changes += 1;
        let wanted = self.slots[at as usize].take().expect("a number is of a live want");
        self.by_cid.remove(&wanted.cid);
        self.free.push(at);
        wanted
    }

    /// Names what to ask for first.
    pub(crate) fn set_urgent(&mut self, cids: &[Cid]) {
        self.urgent = cids.iter().take(URGENT_MAX).cloned().collect();
    }

    /// The wants that are to be asked for first, in their order.
    pub(crate) fn urgent(&self) -> impl Iterator<Item = u32> {
        self.urgent.iter().filter_map(|cid| self.find_exactly(cid))
    }

    /// Its place among those to be asked for first, from 0.
    pub(crate) fn urgent_place(&self, at: u32) -> Option<usize> {
        let cid = &self.get(at).cid;
        self.urgent.iter().position(|urgent| urgent == cid)
    }

    /// It is asked of nobody.
    pub(crate) fn reopen(&mut self, at: u32) {
        let urgency = Reverse(self.get(at).urgency);
        self.open_len += usize::from(self.open.entry(urgency).or_default().insert(at));
    }

    /// It is asked of somebody; whether it was not.
    pub(crate) fn close(&mut self, at: u32) -> bool {
        let urgency = Reverse(self.get(at).urgency);
        let was_open = self.open.get_mut(&urgency).is_some_and(|open| open.remove(at));
        self.open_len -= usize::from(was_open);
        was_open
    }

    pub(crate) const fn live(&self) -> &Bits {
        &self.live
    }

    /// Those that are asked of nobody, the most urgent first.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Bits> {
        self.open.values().filter(|open| !open.is_empty())
    }

    pub(crate) const fn open_len(&self) -> usize {
        self.open_len
    }

    pub(crate) const fn len(&self) -> usize {
        self.live.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Wanted<P>)> {
        self.live.iter().map(|at| (at, self.get(at)))
    }
}

/// The other CIDs under which blocks of this hash are commonly asked for: stores go by the hash
/// alone, and Bitswap 1.0 does not tell the codec.
pub(crate) fn other_names(cid: &Cid) -> Vec<Cid> {
    if cid.hash().function() != HashFunction::Sha2_256 {
        return Vec::new();
    }
    let mut names: Vec<Cid> =
        [Codec::RAW, Codec::DAG_PB].map(|codec| Cid::v1(codec, cid.hash().clone())).into();
    if let Multihash::Sha2_256(digest) = cid.hash() {
        names.push(Cid::v0(*digest));
    }
    names.retain(|name| name != cid);
    debug_assert!(names.len() >= 2 || cid.version() == Version::V0);
    names
}
