use std::fmt::Debug;

use content::{Block, Cid};

/// What travels as a block: something whose name is beyond doubt.
///
/// That is the promise which the exchange builds on: it takes what [`Payload::cid`] says for the
/// truth. [`Block`] keeps it by hashing. A peer that lies therefore does not send wrong bytes under
/// a right name, but a name that nobody asked for; in a simulation too.
pub trait Payload: Clone + Debug {
    /// Its name.
    fn cid(&self) -> &Cid;

    /// Bytes that it carries, or stands for.
    fn len(&self) -> usize;

    /// Whether it carries no bytes.
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
