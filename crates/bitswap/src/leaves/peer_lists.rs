use std::collections::{BTreeMap, BTreeSet};

use watchfire_content::Cid;

use super::{LEAVES_MAX, LISTS_PER_PEER_MAX};
use crate::Misbehaviour;
use crate::bit_set::BitSet;

/// The subscriptions between this node and a peer.
#[derive(Debug, Default)]
pub(super) struct PeerLists {
    /// Subscriptions of this node at the peer, by our numbers.
    pub ours: BTreeMap<u32, OurSubscription>,
    /// Subscriptions of the peer here, by its numbers.
    pub theirs: BTreeMap<u32, TheirSubscription>,
    /// Leaves of these lists together.
    pub their_leaves: usize,
    /// Pending messages about whole lists.
    pub announcements: Vec<Announcement>,
    /// The peer's numbers of lists with pending HAVE or DONT_HAVE.
    pub updated_lists: BTreeSet<u32>,
    /// Whether a pending message cannot wait.
    pub is_urgent: bool,
}

/// A message about a whole list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announcement {
    Subscribe(u32),
    Unsubscribe(u32),
    Reject(u32),
}

/// A list that this node subscribes to at a peer.
#[derive(Debug, Default)]
pub(super) struct OurSubscription {
    /// Leaves that the peer has.
    pub available: BitSet,
    /// Whether the peer has announced them.
    pub is_answered: bool,
    pub is_rejected: bool,
    /// How many leaves the peer has named; see [`NAMED_MAX`].
    named: usize,
}

/// A list that a peer subscribes to here.
#[derive(Debug)]
pub(super) struct TheirSubscription {
    pub node: Cid,
    /// The number of leaves, as the peer declared it.
    pub leaves: u32,
    /// Our number of the list, if it is known.
    pub list: Option<u32>,
    /// Whether the available leaves were announced to the peer.
    pub is_answered: bool,
    /// Whether the store lacks the node.
    pub is_absent: bool,
    /// Stored leaves to announce.
    pub new_leaves: BitSet,
    /// Requested leaves that are missing, to answer with DONT_HAVE.
    pub missing_leaves: BitSet,
    /// Leaves requested before the list was known, and their priorities.
    pub early: BTreeMap<u32, u32>,
    /// How many leaves the peer has named; see [`NAMED_MAX`].
    named: usize,
}

/// Most leaves that a peer may name: the first figure for each leaf of the list, and the second in
/// addition. A peer that names more is dropped.
const NAMED_MAX: (usize, usize) = (16, 1024);

fn add_named(named: &mut usize, more: usize, leaves: usize) -> Result<(), Misbehaviour> {
    *named += more;
    let max = NAMED_MAX.0 * leaves + NAMED_MAX.1;
    if *named > max { Err(Misbehaviour::Flooded) } else { Ok(()) }
}

impl OurSubscription {
    /// Whether to request leaves from the peer. One that announced none may lack the node.
    pub(super) fn is_usable(&self) -> bool {
        let shows_none = self.is_answered && self.available.is_empty();
        !self.is_rejected && !shows_none
    }

    /// Counts `more` leaves that the peer named, up to `end`.
    pub(super) fn count_named(
        &mut self,
        end: u32,
        more: usize,
        leaves: usize,
    ) -> Result<(), Misbehaviour> {
        if end as usize > leaves {
            return Err(Misbehaviour::LeafOutOfRange);
        }
        add_named(&mut self.named, more, leaves)
    }
}

impl TheirSubscription {
    pub(super) fn new(node: Cid, leaves: u32) -> Self {
        TheirSubscription {
            node,
            leaves,
            list: None,
            is_answered: false,
            is_absent: false,
            new_leaves: BitSet::default(),
            missing_leaves: BitSet::default(),
            early: BTreeMap::new(),
            named: 0,
        }
    }

    /// Counts `more` leaves that the peer named, up to `end`.
    pub(super) fn count_named(&mut self, end: u32, more: usize) -> Result<(), Misbehaviour> {
        if end > self.leaves {
            return Err(Misbehaviour::LeafOutOfRange);
        }
        add_named(&mut self.named, more, self.leaves as usize)
    }
}

impl PeerLists {
    /// Whether the peer may subscribe to one more list, with this number of leaves.
    pub(super) fn has_room(&self, leaves: u32) -> bool {
        leaves <= LEAVES_MAX
            && self.theirs.len() < LISTS_PER_PEER_MAX
            && self.their_leaves + leaves as usize <= LEAVES_MAX as usize
    }

    /// Rejects a list. The queue is bounded; further rejections are dropped.
    pub(super) fn reject(&mut self, list: u32) {
        if self.announcements.len() < LISTS_PER_PEER_MAX {
            self.announcements.push(Announcement::Reject(list));
            self.is_urgent = true;
        }
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<TheirSubscription> {
        let theirs = self.theirs.remove(&number)?;
        self.their_leaves -= theirs.leaves as usize;
        self.updated_lists.remove(&number);
        Some(theirs)
    }
}
