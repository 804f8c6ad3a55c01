use std::collections::{BTreeMap, BTreeSet};

use content::Cid;

use super::{LEAVES_MAX, LISTS_PER_PEER_MAX};
use crate::Misbehaviour;
use crate::asking::Bits;

/// What we and a peer follow at each other.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// What we follow there.
    pub following: BTreeMap<u32, Following>,
    /// What it follows here, by its numbers.
    pub followed: BTreeMap<u32, Followed>,
    /// Leaves of that.
    pub followed_leaves: usize,
    /// To be said, besides what follows from `news`.
    pub says: Vec<Say>,
    /// Its numbers of lists that there is something to say about.
    pub news: BTreeSet<u32>,
    /// Whether something of all that cannot wait.
    pub is_urgent: bool,
}

/// Something to be said of a list as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Say {
    Follow(u32),
    Unfollow(u32),
    Refuse(u32),
}

/// A list that we follow at a peer.
#[derive(Debug, Default)]
pub(super) struct Following {
    /// What it has of it.
    pub theirs: Bits,
    /// Whether it said so.
    pub is_answered: bool,
    pub is_refused: bool,
    /// Leaves that it named.
    named: usize,
}

/// A list that a peer follows here.
#[derive(Debug)]
pub(super) struct Followed {
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
    pub news: Bits,
    /// What was asked for and is not here, to be told.
    pub lacks: Bits,
    /// What was asked for before the list was known, and how urgently.
    pub early: BTreeMap<u32, u32>,
    /// Leaves that it named.
    named: usize,
}

/// How many times each leaf of a list may be named, and how many more.
const NAMED_MAX: (usize, usize) = (16, 1024);

fn count(named: &mut usize, more: usize, leaves: usize) -> Result<(), Misbehaviour> {
    *named += more;
    let max = NAMED_MAX.0 * leaves + NAMED_MAX.1;
    if *named > max { Err(Misbehaviour::Flooded) } else { Ok(()) }
}

impl Following {
    /// Whether the peer can be asked for leaves of it. One that showed none may not know the list.
    pub(super) fn is_spoken(&self) -> bool {
        let shows_none = self.is_answered && self.theirs.is_empty();
        !self.is_refused && !shows_none
    }

    /// The peer names leaves of it, up to `end`.
    pub(super) fn named(
        &mut self,
        end: u32,
        more: usize,
        leaves: usize,
    ) -> Result<(), Misbehaviour> {
        if end as usize > leaves {
            return Err(Misbehaviour::Overreached);
        }
        count(&mut self.named, more, leaves)
    }
}

impl Followed {
    pub(super) fn new(node: Cid, leaves: u32) -> Self {
        Followed {
            node,
            leaves,
            list: None,
            is_answered: false,
            is_absent: false,
            news: Bits::default(),
            lacks: Bits::default(),
            early: BTreeMap::new(),
            named: 0,
        }
    }

    /// The peer names leaves of it, up to `end`.
    pub(super) fn named(&mut self, end: u32, more: usize) -> Result<(), Misbehaviour> {
        if end > self.leaves {
            return Err(Misbehaviour::Overreached);
        }
        count(&mut self.named, more, self.leaves as usize)
    }
}

impl Link {
    /// Whether it may follow a list of so many leaves as well.
    pub(super) fn has_room(&self, leaves: u32) -> bool {
        leaves <= LEAVES_MAX
            && self.followed.len() < LISTS_PER_PEER_MAX
            && self.followed_leaves + leaves as usize <= LEAVES_MAX as usize
    }

    /// Refuses a list. Who does not listen is not told without end.
    pub(super) fn refuse(&mut self, list: u32) {
        if self.says.len() < LISTS_PER_PEER_MAX {
            self.says.push(Say::Refuse(list));
            self.is_urgent = true;
        }
    }

    /// Forgets a list that it followed.
    pub(super) fn remove(&mut self, number: u32) -> Option<Followed> {
        let followed = self.followed.remove(&number)?;
        self.followed_leaves -= followed.leaves as usize;
        self.news.remove(&number);
        Some(followed)
    }
}
