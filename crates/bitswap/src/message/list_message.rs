use watchfire_content::{Block, Cid};

use super::Ranges;

/// A message about the leaves of a list.
///
/// The subscriber gives each list a number, and never uses it for another list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListMessage<B = Block> {
    /// From the subscriber: announce which links of a node you have, now and later.
    Subscribe {
        list: u32,
        /// The node whose links are the leaves, in their order.
        node: Cid,
        leaves: u32,
    },
    /// From the subscriber: stop the announcements.
    Unsubscribe { list: u32 },
    /// To the subscriber: this list is not announced. Request each leaf by its CID.
    Reject { list: u32 },
    /// To the subscriber: these leaves are in the store.
    Have {
        list: u32,
        /// Whether all other leaves are missing. Otherwise the message does not cover them.
        is_complete: bool,
        leaves: Ranges,
    },
    /// To the subscriber: these requested leaves are not in the store.
    DontHave { list: u32, leaves: Ranges },
    /// From the subscriber: send these leaves.
    Request {
        list: u32,
        /// The priority of the first leaf among all wants; one less for each further leaf.
        priority: u32,
        leaves: Ranges,
    },
    /// From the subscriber: do not send these leaves any more.
    Cancel { list: u32, leaves: Ranges },
    /// From the subscriber: do not send these leaves while they are still queued, and answer
    /// HAVE for each of them.
    CancelQueued { list: u32, leaves: Ranges },
    Leaf {
        list: u32,
        leaf: u32,
        /// Its bytes, with their verified CID.
        block: B,
    },
}

impl<B> ListMessage<B> {
    pub(crate) fn block(&self) -> Option<&B> {
        match self {
            ListMessage::Leaf { block, .. } => Some(block),
            _ => None,
        }
    }
}
