use std::fmt::Debug;

use watchfire_content::{Block, Cid};

/// A block, or its stand-in in a simulation, with a verified CID.
///
/// The exchange trusts [`Payload::cid`]. [`Block`] ensures it by hashing. So a malicious peer
/// cannot send wrong bytes under a requested CID: its block has a CID that was never wanted.
pub trait Payload: Clone + Debug {
    /// The CID.
    fn cid(&self) -> &Cid;

    /// The number of bytes that it carries or stands for.
    fn len(&self) -> usize;

    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Payload for Block {
    fn cid(&self) -> &Cid {
        Block::cid(self)
    }

    fn len(&self) -> usize {
        self.bytes().len()
    }
}
