use std::collections::{BTreeMap, BTreeSet};

use watchfire_content::Cid;

use super::LEAVES_TOTAL_MAX;
use crate::SessionId;
use crate::bit_set::BitSet;

/// A node's links, in their order.
#[derive(Debug)]
pub(super) struct List<P> {
    pub node: Cid,
    pub leaves: Vec<Cid>,
    /// Those that are in the local store.
    pub here: BitSet,
    /// Those who fetch it here.
    pub sessions: Vec<SessionId>,
    /// Peers that follow it here, and their numbers for it.
    pub subscribers: BTreeMap<P, u32>,
}

/// The lists that somebody follows: we at others, or others here. Each under a number that is not
/// used again.
#[derive(Debug)]
pub(super) struct KnownLists<P> {
    lists: BTreeMap<u32, List<P>>,
    by_node: BTreeMap<Cid, u32>,
    /// Where each leaf is: which list, and which leaf of it.
    places: BTreeSet<(Cid, u32, u32)>,
    next: u32,
}

impl<P: Copy + Ord> KnownLists<P> {
    pub(super) const fn new() -> Self {
        KnownLists {
            lists: BTreeMap::new(),
            by_node: BTreeMap::new(),
            places: BTreeSet::new(),
            next: 0,
        }
    }

    /// The number of a list, which is added if it is new; `None` when there is no room for it.
    pub(super) fn add(&mut self, node: &Cid, leaves: Vec<(Cid, bool)>) -> Option<u32> {
        if let Some(&id) = self.by_node.get(node) {
            return Some(id);
        }
        let known: usize = self.lists.values().map(|list| list.leaves.len()).sum();
        if known + leaves.len() > LEAVES_TOTAL_MAX {
            return None;
        }
        let id = self.next;
        self.next = self.next.checked_add(1)?;
        let mut here = BitSet::default();
        let mut cids = Vec::with_capacity(leaves.len());
        for ((cid, is_here), leaf) in leaves.into_iter().zip(0..) {
            if is_here {
                here.insert(leaf);
            }
            self.places.insert((cid.clone(), id, leaf));
            cids.push(cid);
        }
        let (sessions, subscribers) = (Vec::new(), BTreeMap::new());
        self.by_node.insert(node.clone(), id);
        self.lists
            .insert(id, List { node: node.clone(), leaves: cids, here, sessions, subscribers });
        Some(id)
    }

    pub(super) fn get(&self, id: u32) -> Option<&List<P>> {
        self.lists.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut List<P>> {
        self.lists.get_mut(&id)
    }

    pub(super) fn find(&self, node: &Cid) -> Option<u32> {
        self.by_node.get(node).copied()
    }

    /// Every place of a leaf.
    pub(super) fn places(&self, cid: &Cid) -> impl Iterator<Item = (u32, u32)> {
        let (first, last) = ((cid.clone(), 0, 0), (cid.clone(), u32::MAX, u32::MAX));
        self.places.range(first..=last).map(|&(_, list, leaf)| (list, leaf))
    }

    /// Those that we follow.
    pub(super) fn ours(&self) -> impl Iterator<Item = (u32, &List<P>)> {
        let is_ours = |(_, list): &(&u32, &List<P>)| !list.sessions.is_empty();
        self.lists.iter().filter(is_ours).map(|(id, list)| (*id, list))
    }

    /// Forgets a list that nobody follows any more.
    pub(super) fn forget_if_idle(&mut self, id: u32) {
        let Some(list) = self.lists.get(&id) else { return };
        if !list.sessions.is_empty() || !list.subscribers.is_empty() {
            return;
        }
        let Some(list) = self.lists.remove(&id) else { return };
        self.by_node.remove(&list.node);
        for (cid, leaf) in list.leaves.into_iter().zip(0..) {
            self.places.remove(&(cid, id, leaf));
        }
    }
}
