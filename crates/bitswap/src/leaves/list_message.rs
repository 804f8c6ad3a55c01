use watchfire_content::{Block, Cid};

use super::Ranges;
use crate::Message;

/// A message about the leaves of a list.
///
/// The subscriber gives each list a number, and never uses it for another list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListMessage<B = Block> {
    /// From the subscriber: announce which links of a node you have, now and later.
    Subscribe {
        /// The number of the list.
        list: u32,
        /// The node whose links are the leaves, in their order.
        node: Cid,
        /// How many leaves there are.
        leaves: u32,
    },
    /// From the subscriber: stop the announcements.
    Unsubscribe {
        /// The number of the list.
        list: u32,
    },
    /// To the subscriber: this list is not announced. Request each leaf by its CID.
    Reject {
        /// The number of the list.
        list: u32,
    },
    /// To the subscriber: these leaves are in the store.
    Have {
        /// The number of the list.
        list: u32,
        /// Whether all other leaves are missing. Otherwise the message does not cover them.
        is_complete: bool,
        /// The leaves.
        leaves: Ranges,
    },
    /// To the subscriber: these requested leaves are not in the store.
    DontHave {
        /// The number of the list.
        list: u32,
        /// The leaves.
        leaves: Ranges,
    },
    /// From the subscriber: send these leaves.
    Request {
        /// The number of the list.
        list: u32,
        /// The priority of the first leaf among all wants; one less for each further leaf.
        priority: u32,
        /// The leaves.
        leaves: Ranges,
    },
    /// From the subscriber: do not send these leaves any more.
    Cancel {
        /// The number of the list.
        list: u32,
        /// The leaves.
        leaves: Ranges,
    },
    /// From the subscriber: do not send those of these leaves that are still queued, and answer
    /// HAVE for each of them.
    CancelQueued {
        /// The number of the list.
        list: u32,
        /// The leaves.
        leaves: Ranges,
    },
    /// To the subscriber: a leaf.
    Leaf {
        /// The number of the list.
        list: u32,
        /// The number of the leaf.
        leaf: u32,
        /// Its bytes, with their verified CID.
        block: B,
    },
}

impl<B> Message<B> {
    /// All blocks of the message, leaves included.
    pub fn payloads(&self) -> impl Iterator<Item = &B> {
        let leaves = self.leaves.iter().filter_map(ListMessage::block);
        self.blocks.iter().chain(leaves)
    }
}

impl<B> ListMessage<B> {
    fn block(&self) -> Option<&B> {
        match self {
            ListMessage::Leaf { block, .. } => Some(block),
            _ => None,
        }
    }
}
