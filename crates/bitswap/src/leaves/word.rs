use content::{Block, Cid};

use super::Ranges;
use crate::Message;

/// Something said about the leaves of a list.
///
/// A list has a number, which whoever follows it gave it, and never gives another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word<B = Block> {
    /// From the follower: what it would like to know is which of this node's links the other has,
    /// and gets.
    Follow {
        /// The number that it gives the list.
        list: u32,
        /// The node whose links are the list's leaves, in their order.
        node: Cid,
        /// How many there are.
        leaves: u32,
    },
    /// From the follower: it wants to know no more.
    Unfollow {
        /// Its number.
        list: u32,
    },
    /// To the follower: not this list. It has to ask leaf by leaf.
    Refuse {
        /// Its number.
        list: u32,
    },
    /// To the follower: these are here.
    Here {
        /// Its number.
        list: u32,
        /// Whether the others are not. Else they are as they were.
        is_all: bool,
        /// Which.
        leaves: Ranges,
    },
    /// To the follower: these it asked for are not here.
    Lack {
        /// Its number.
        list: u32,
        /// Which.
        leaves: Ranges,
    },
    /// From the follower: these are to be sent.
    Ask {
        /// Its number.
        list: u32,
        /// How urgent the first of them is, beside all else that it wants; each further one is one less.
        priority: u32,
        /// Which.
        leaves: Ranges,
    },
    /// From the follower: these need not be sent any more.
    Cancel {
        /// Its number.
        list: u32,
        /// Which.
        leaves: Ranges,
    },
    /// From the follower: these need not be sent any more where that has not begun; of each of those it is to be told.
    Return {
        /// Its number.
        list: u32,
        /// Which.
        leaves: Ranges,
    },
    /// To the follower: a leaf.
    Leaf {
        /// Its number.
        list: u32,
        /// Which leaf.
        leaf: u32,
        /// Its bytes, under the name that they hash to.
        block: B,
    },
}

impl<B> Message<B> {
    /// All its blocks, by name and as leaves.
    pub fn payloads(&self) -> impl Iterator<Item = &B> {
        let leaves = self.leaves.iter().filter_map(Word::block);
        self.blocks.iter().chain(leaves)
    }
}

impl<B> Word<B> {
    fn block(&self) -> Option<&B> {
        match self {
            Word::Leaf { block, .. } => Some(block),
            _ => None,
        }
    }
}
