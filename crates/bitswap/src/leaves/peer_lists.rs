use std::collections::{BTreeMap, BTreeSet};

use watchfire_content::Cid;

use super::{LEAVES_MAX, LISTS_PER_PEER_MAX};
use crate::Misbehaviour;
use crate::bit_set::BitSet;

/// What we and a peer follow at each other.
#[derive(Debug, Default)]
pub(super) struct PeerLists {
    /// What we follow there.
    pub ours: BTreeMap<u32, OurSubscription>,
    /// What it follows here, by its numbers.
    pub theirs: BTreeMap<u32, TheirSubscription>,
    /// Leaves of that.
    pub their_leaves: usize,
    /// To be said, besides what follows from `news`.
    pub announcements: Vec<Announcement>,
    /// Its numbers of lists that there is something to say about.
    pub news: BTreeSet<u32>,
    /// Whether something of all that cannot wait.
    pub is_urgent: bool,
}

/// Something to be said of a list as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announcement {
    Subscribe(u32),
    Unsubscribe(u32),
    Reject(u32),
}

/// A list that we follow at a peer.
#[derive(Debug, Default)]
pub(super) struct OurSubscription {
    /// What it has of it.
    pub available: BitSet,
    /// Whether it said so.
    pub is_answered: bool,
    pub is_rejected: bool,
    /// Leaves that it named.
    named: usize,
}

/// A list that a peer follows here.
#[derive(Debug)]
pub(super) struct TheirSubscription {
    pub node: Cid,
    /// Leaves that it has, according to the peer until it is known here.
    pub leaves: u32,
    /// Our number for it, when it is known here.
    pub list: Option<u32>,
    /// Whether the peer was told what is here of it.
    pub is_answered: bool,
    /// The store has no such node.
    pub is_absent: bool,
    /// What came since, to be told.
    pub news: BitSet,
    /// What was asked for and is not here, to be told.
    pub lacks: BitSet,
    /// What was asked for before the list was known, and how urgently.
    pub early: BTreeMap<u32, u32>,
    /// Leaves that it named.
    named: usize,
}

/// How many times each leaf of a list may be named, and how many more.
const NAMED_MAX: (usize, usize) = (16, 1024);

fn add_named(named: &mut usize, more: usize, leaves: usize) -> Result<(), Misbehaviour> {
    *named += more;
    let max = NAMED_MAX.0 * leaves + NAMED_MAX.1;
    if *named > max { Err(Misbehaviour::Flooded) } else { Ok(()) }
}

impl OurSubscription {
    /// Whether the peer can be asked for leaves of it. One that showed none may not know the list.
    pub(super) fn is_usable(&self) -> bool {
        let shows_none = self.is_answered && self.available.is_empty();
        !self.is_rejected && !shows_none
    }

    /// The peer names leaves of it, up to `end`.
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
            news: BitSet::default(),
            lacks: BitSet::default(),
            early: BTreeMap::new(),
            named: 0,
        }
    }

    /// The peer names leaves of it, up to `end`.
    pub(super) fn count_named(&mut self, end: u32, more: usize) -> Result<(), Misbehaviour> {
        if end > self.leaves {
            return Err(Misbehaviour::LeafOutOfRange);
        }
        add_named(&mut self.named, more, self.leaves as usize)
    }
}

impl PeerLists {
    /// Whether it may follow a list of so many leaves as well.
    pub(super) fn has_room(&self, leaves: u32) -> bool {
        leaves <= LEAVES_MAX
            && self.theirs.len() < LISTS_PER_PEER_MAX
            && self.their_leaves + leaves as usize <= LEAVES_MAX as usize
    }

    /// Refuses a list. Who does not listen is not told without end.
    pub(super) fn reject(&mut self, list: u32) {
        if self.announcements.len() < LISTS_PER_PEER_MAX {
            self.announcements.push(Announcement::Reject(list));
            self.is_urgent = true;
        }
    }

    /// Forgets a list that it theirs.
    pub(super) fn remove(&mut self, number: u32) -> Option<TheirSubscription> {
        let theirs = self.theirs.remove(&number)?;
        self.their_leaves -= theirs.leaves as usize;
        self.news.remove(&number);
        Some(theirs)
    }
}
