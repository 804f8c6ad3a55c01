//! The messages of Bitswap: wants, presences and blocks.
//!
//! On a stream, each message follows its length ([`FrameReader`], [`encode_framed`]). A message
//! changes the state that earlier ones left. Answers may come in any later message on any stream.
//!
//! ```
//! use watchfire_bitswap::message::{FrameReader, decode, encode_framed};
//! use watchfire_bitswap::{Message, Protocol};
//! use watchfire_content::Block;
//!
//! let block = Block::raw("hello".into()).unwrap();
//! let message = Message { blocks: vec![block], ..Message::default() };
//! let mut reader = FrameReader::default();
//! reader.push(&encode_framed(&message, Protocol::V1_2));
//! let bytes = reader.next_frame()?.unwrap();
//! assert_eq!(decode(&bytes)?, message);
//! # Ok::<(), watchfire_bitswap::message::MessageError>(())
//! ```

mod decode;
mod encode;
mod frame;
pub(crate) mod leaf_frame;
pub(crate) mod list_message;
pub(crate) mod ranges;

use std::fmt::Debug;

use watchfire_content::protobuf::ProtobufError;
use watchfire_content::{Block, BlockError, Cid, CidError};
use watchfire_types::TraceContext;

pub use decode::decode;
pub use encode::{encode, encode_framed};
pub use frame::FrameReader;
use list_message::ListMessage;
use ranges::{Ranges, RangesError};

/// Longest message that is read, in bytes. Every implementation accepts this length.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Entries of one kind that are read from one message. Further ones are skipped and counted.
pub const ENTRIES_MAX: usize = 1024;

/// The field of [`Message::trace`], far from the numbers that Bitswap may use one day.
const TRACE_FIELD: u64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// Blocks without a CID, read as dag-pb nodes of CID version 0. No HAVE.
    V1_0,
    /// Blocks with the prefix of their CID. No HAVE.
    V1_1,
    /// HAVE, DONT_HAVE, and want-haves.
    V1_2,
    /// All of 1.2, and lists of leaves. [`leaves`](crate::leaves) has its own protocol id.
    Leaves,
}

impl Protocol {
    /// The protocol ids of Bitswap, preferred first. The unversioned id is an older name of 1.0.
    pub const IDS: [(&'static str, Protocol); 4] = [
        ("/ipfs/bitswap/1.2.0", Protocol::V1_2),
        ("/ipfs/bitswap/1.1.0", Protocol::V1_1),
        ("/ipfs/bitswap/1.0.0", Protocol::V1_0),
        ("/ipfs/bitswap", Protocol::V1_0),
    ];

    /// Whether the protocol has want-haves, HAVE and DONT_HAVE.
    pub const fn has_presences(self) -> bool {
        matches!(self, Protocol::V1_2 | Protocol::Leaves)
    }
}

/// A block, or its stand-in in a simulation, with a verified CID.
///
/// The exchange trusts [`Payload::cid`]. [`Block`] ensures it by hashing. So a malicious peer
/// cannot send wrong bytes under a requested CID: its block has a CID that was never wanted.
pub trait Payload: Clone + Debug {
    fn cid(&self) -> &Cid;

    /// The number of bytes that it carries or stands for.
    fn len(&self) -> usize;

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<B = Block> {
    /// Whether the wants replace all earlier wants.
    pub full: bool,
    pub wants: Vec<WantEntry>,
    pub blocks: Vec<B>,
    /// HAVE and DONT_HAVE.
    pub presences: Vec<Presence>,
    /// Bytes of blocks that the sender still has queued for the receiver.
    pub pending_bytes: u32,
    /// Messages about lists of leaves, which are handled first. Bitswap itself has none.
    pub leaves: Vec<ListMessage<B>>,
    /// The span of the sender that its wants belong to, in a distributed trace. In a field that other
    /// implementations skip.
    pub trace: Option<TraceContext>,
    /// Wants and presences that were not read: too many, or with an unknown hash. Never encoded.
    pub skipped_entries: usize,
    /// Blocks that were not read: too many, or with an unknown hash function. Never encoded.
    pub skipped_blocks: usize,
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
            trace: None,
            skipped_entries: 0,
            skipped_blocks: 0,
        }
    }
}

impl<B> Message<B> {
    /// All blocks of the message, leaves included.
    pub fn payloads(&self) -> impl Iterator<Item = &B> {
        let leaves = self.leaves.iter().filter_map(ListMessage::block);
        self.blocks.iter().chain(leaves)
    }

    /// Whether it has any part that Bitswap itself has.
    pub fn has_bitswap(&self) -> bool {
        let Message { full, wants, blocks, presences, trace, .. } = self;
        let is_empty = wants.is_empty() && blocks.is_empty() && presences.is_empty();
        *full || !is_empty || trace.is_some()
    }

    pub fn is_empty(&self) -> bool {
        !self.has_bitswap() && self.leaves.is_empty()
    }

    /// Splits it into a message without blocks and one with them. Together they have the length of the
    /// whole. On a stream of its own, the first does not wait for blocks.
    pub fn apart(mut self) -> (Self, Self) {
        let leaves = std::mem::take(&mut self.leaves);
        let (leaf_messages, other_messages) =
            leaves.into_iter().partition(|message| matches!(message, ListMessage::Leaf { .. }));
        let (mut without_blocks, mut with_blocks) = match self.blocks.is_empty() {
            true => (self, Message::default()),
            false => (Message::default(), self),
        };
        (without_blocks.leaves, with_blocks.leaves) = (other_messages, leaf_messages);
        (without_blocks, with_blocks)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantEntry {
    pub cid: Cid,
    /// Higher is more urgent.
    pub priority: i32,
    /// Whether this cancels an earlier want.
    pub cancel: bool,
    pub kind: WantKind,
    /// Whether the receiver must answer DONT_HAVE. In a cancel between peers that speak
    /// [`leaves`](crate::leaves): whether it must answer HAVE if the block was still queued.
    pub send_dont_have: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WantKind {
    /// HAVE, if the receiver has the block.
    Have,
    Block,
}

/// Whether a peer has a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    pub cid: Cid,
    /// HAVE, or else DONT_HAVE.
    pub has_block: bool,
}

/// Why bytes are not a valid message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    #[error("cannot read a message of {len} bytes: the limit is {max}")]
    TooLong { len: u64, max: usize },
    #[error("cannot read the length of a message: not a valid varint")]
    InvalidLength,
    /// The message is not valid protobuf.
    #[error(transparent)]
    Protobuf(#[from] ProtobufError),
    /// A field has another type than the schema says, or the number 0.
    #[error("cannot read {of}: field {field} has another type than in the schema")]
    Field { field: u64, of: &'static str },
    /// An entry has no CID, or a block has no prefix.
    #[error("cannot read {of}: it has no CID")]
    MissingCid { of: &'static str },
    #[error(transparent)]
    Cid(#[from] CidError),
    #[error(transparent)]
    Block(#[from] BlockError),
}
