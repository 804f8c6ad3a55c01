use watchfire_content::{Block, Cid};

use crate::{Message, SessionId};

/// A request of the exchange to its driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Output<P, B = Block> {
    /// Write a message to a peer, after those sent before. It fits into the reported room of the
    /// send buffer, unless it is a single block.
    Send {
        peer: P,
        /// At most [`Limits::message_bytes_max`](crate::Limits::message_bytes_max) of blocks,
        /// unless a single block is longer.
        message: Message<B>,
    },
    /// Look a block up in the local store, because a peer wants it. Answer with
    /// [`Exchange::handle_lookup`](crate::Exchange::handle_lookup), or later if the block may be
    /// elsewhere. At most [`Limits::wants_per_peer_max`](crate::Limits::wants_per_peer_max) for
    /// each peer are unanswered.
    Lookup { cid: Cid },
    /// List the links of a node, and which of them are in the local store, because a peer
    /// subscribed to them. Answer with [`Exchange::handle_links`](crate::Exchange::handle_links).
    /// At most 1024 for each peer are unanswered.
    ListLinks { node: Cid },
    /// Read a block to send it to a peer. Answer with
    /// [`Exchange::handle_read`](crate::Exchange::handle_read), even if the peer has left. At most
    /// [`Limits::reading_bytes_max`](crate::Limits::reading_bytes_max) are unanswered or unsent.
    Read { peer: P, cid: Cid },
    /// A wanted block arrived. Each is reported once. Other peers get it after
    /// [`Exchange::handle_stored`](crate::Exchange::handle_stored).
    BlockReceived { sessions: Vec<SessionId>, block: B, from: P },
    /// The answer to [`Exchange::ask`](crate::Exchange::ask).
    Answered {
        /// The peer. It may be gone.
        peer: P,
        cid: Cid,
        /// Whether the peer has the block; false for a peer that is gone.
        has_block: bool,
    },
    /// Search for providers, because no connected peer is known to have a block. Answer with
    /// [`Exchange::handle_providers`](crate::Exchange::handle_providers). Searches repeat at
    /// growing intervals. Each session has one search at a time.
    FindProviders {
        session: SessionId,
        /// One of the blocks that it lacks.
        cid: Cid,
    },
    /// Disconnect a peer that misbehaved. The exchange has forgotten it already.
    DropPeer { peer: P, reason: Misbehaviour },
}

/// Why a peer was dropped. Slowness is never a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misbehaviour {
    #[error("the peer sent blocks that match none of the requested CIDs")]
    ForgedBlocks,
    #[error("the peer named leaves that a list does not have")]
    LeafOutOfRange,
    /// The peer kept sending blocks without a request, blocks that cannot be verified, or the same
    /// messages about lists.
    #[error("the peer kept sending blocks or messages that were not requested")]
    Flooded,
    /// The peer claimed to have blocks, had requests for them, and sent none for very long.
    #[error("the peer claimed to have blocks and never sent them")]
    Stalled,
}
