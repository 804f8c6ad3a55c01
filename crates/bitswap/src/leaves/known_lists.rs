use std::collections::{BTreeMap, BTreeSet};

use watchfire_content::Cid;

use super::LEAVES_TOTAL_MAX;
use crate::SessionId;
use crate::bit_set::BitSet;

/// The links of a DAG node, in their order.
#[derive(Debug)]
pub(super) struct List<P> {
    pub node: Cid,
    pub leaves: Vec<Cid>,
    /// Leaves that are in the local store.
    pub stored: BitSet,
    /// Sessions that fetch the leaves.
    pub sessions: Vec<SessionId>,
    /// Peers that subscribe to the list here, and their numbers for it.
    pub subscribers: BTreeMap<P, u32>,
}

/// The lists that this node or a peer subscribes to. Each has a number that is not used again.
#[derive(Debug)]
pub(super) struct KnownLists<P> {
    lists: BTreeMap<u32, List<P>>,
    by_node: BTreeMap<Cid, u32>,
    /// The list and the index of each leaf.
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
        let mut stored = BitSet::default();
        let mut cids = Vec::with_capacity(leaves.len());
        for ((cid, has_block), leaf) in leaves.into_iter().zip(0..) {
            if has_block {
                stored.insert(leaf);
            }
            self.places.insert((cid.clone(), id, leaf));
            cids.push(cid);
        }
        let (sessions, subscribers) = (Vec::new(), BTreeMap::new());
        self.by_node.insert(node.clone(), id);
        self.lists
            .insert(id, List { node: node.clone(), leaves: cids, stored, sessions, subscribers });
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

    /// Every list that has a leaf, and its index there.
    pub(super) fn places(&self, cid: &Cid) -> impl Iterator<Item = (u32, u32)> {
        let (first, last) = ((cid.clone(), 0, 0), (cid.clone(), u32::MAX, u32::MAX));
        self.places.range(first..=last).map(|&(_, list, leaf)| (list, leaf))
    }

    /// The lists that this node subscribes to.
    pub(super) fn ours(&self) -> impl Iterator<Item = (u32, &List<P>)> {
        let is_ours = |(_, list): &(&u32, &List<P>)| !list.sessions.is_empty();
        self.lists.iter().filter(is_ours).map(|(id, list)| (*id, list))
    }

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
