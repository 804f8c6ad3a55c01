//! What peers tell one another: wants, presences and blocks.
//!
//! A stream is messages one after the other, each behind its length ([`FrameReader`],
//! [`encode_framed`]). A message changes what was said before; nothing needs to be answered in the
//! message that comes next, or on the stream that the question came on.
//!
//! ```
//! use bitswap::message::{FrameReader, decode, encode_framed};
//! use bitswap::{Message, Protocol};
//! use content::Block;
//!
//! let block = Block::raw("hello".into()).unwrap();
//! let message = Message { blocks: vec![block], ..Message::default() };
//! let mut reader = FrameReader::default();
//! reader.push(&encode_framed(&message, Protocol::V1_2));
//! let bytes = reader.next_frame()?.unwrap();
//! assert_eq!(decode(&bytes)?, message);
//! # Ok::<(), bitswap::message::MessageError>(())
//! ```

mod decode;
mod encode;
mod frame;

use content::protobuf::ProtobufError;
use content::{Block, BlockError, Cid, CidError};

use crate::leaves::Word;
pub use decode::decode;
pub use encode::{encode, encode_framed};
pub use frame::FrameReader;

/// Longest message that is read, in bytes; what every implementation accepts.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Entries of one kind that are read from one message; those behind are passed over and counted.
pub const ENTRIES_MAX: usize = 1024;

/// What one peer tells another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<B = Block> {
    /// Whether the wants replace all earlier ones.
    pub full: bool,
    /// What the sender wants, or wants no more.
    pub wants: Vec<WantEntry>,
    /// Blocks, verified.
    pub blocks: Vec<B>,
    /// What the sender has, and has not.
    pub presences: Vec<Presence>,
    /// Bytes of blocks that the sender still has queued for the receiver.
    pub pending_bytes: u32,
    /// What is said by lists of leaves, before all else. Bitswap itself has no words for it.
    pub leaves: Vec<Word<B>>,
    /// Wants and presences that were not read: beyond [`ENTRIES_MAX`], or of a hash that cannot be checked.
    /// Nothing of it is ever written.
    pub passed_over: usize,
    /// Blocks that were not read: beyond [`ENTRIES_MAX`], or of a hash that cannot be checked. Nothing of it is
    /// ever written.
    pub passed_over_blocks: usize,
}

impl<B> Default for Message<B> {
    fn default() -> Self {
        Message {
            full: false,
            wants: Vec::new(),
            blocks: Vec::new(),
            presences: Vec::new(),
            pending_bytes: 0,
            leaves: Vec::new(),
            passed_over: 0,
            passed_over_blocks: 0,
        }
    }
}

impl<B> Message<B> {
    /// Whether it tells anything in the words of Bitswap.
    pub fn has_bitswap(&self) -> bool {
        let Message { full, wants, blocks, presences, .. } = self;
        *full || !(wants.is_empty() && blocks.is_empty() && presences.is_empty())
    }

    /// Whether it tells nothing.
    pub fn is_empty(&self) -> bool {
        !self.has_bitswap() && self.leaves.is_empty()
    }

    /// What it says, and what it brings: together as long as the whole. Where each has a stream of its own, what is said
    /// does not wait for blocks.
    pub fn apart(mut self) -> (Self, Self) {
        let leaves = std::mem::take(&mut self.leaves);
        let (brings, says) = leaves.into_iter().partition(|word| matches!(word, Word::Leaf { .. }));
        let (mut words, mut blocks) = match self.blocks.is_empty() {
            true => (self, Message::default()),
            false => (Message::default(), self),
        };
        (words.leaves, blocks.leaves) = (says, brings);
        (words, blocks)
    }
}

/// One line of a wantlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantEntry {
    /// Which block.
    pub cid: Cid,
    /// Higher is more urgent.
    pub priority: i32,
    /// Whether an earlier want is taken back.
    pub cancel: bool,
    /// What is to be sent.
    pub kind: WantKind,
    /// Whether silence is not an answer: DONT_HAVE is asked for. Of a want that is taken back, between those who speak
    /// [`leaves`](crate::leaves): HAVE, if the block waited for its turn.
    pub send_dont_have: bool,
}

/// What a want is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WantKind {
    /// To know who has the block.
    Have,
    /// The block.
    Block,
}

/// Whether a peer has a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    /// Which block.
    pub cid: Cid,
    /// HAVE, or else DONT_HAVE.
    pub is_here: bool,
}

/// Why bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// More bytes than any implementation sends.
    #[error("a message of {len} bytes, and at most {max} are read")]
    TooLong {
        /// Bytes of the message, as declared.
        len: u64,
        /// Most bytes of a message.
        max: usize,
    },
    /// The length in front of a message is not a number.
    #[error("the length of a message is not a varint")]
    Length,
    /// Not protobuf.
    #[error(transparent)]
    Protobuf(#[from] ProtobufError),
    /// A field has another type than the schema says, or the number 0.
    #[error("field {field} of {of} is not what the schema says")]
    Field {
        /// The field's number.
        field: u64,
        /// Which message of the schema.
        of: &'static str,
    },
    /// An entry or a block does not say which block it is about.
    #[error("{of} names no block")]
    Nameless {
        /// Which message of the schema.
        of: &'static str,
    },
    /// A name is not a CID.
    #[error(transparent)]
    Cid(#[from] CidError),
    /// A block is too long.
    #[error(transparent)]
    Block(#[from] BlockError),
}
