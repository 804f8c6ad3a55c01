use content::{Block, Cid};

use crate::{Message, SessionId};

/// What an exchange wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output<P, B = Block> {
    /// To be written to the peer, after what was sent to it before. Fits the room that the peer's
    /// pipe last said it had.
    Send {
        /// To whom.
        peer: P,
        /// At most [`Limits::message_bytes_max`](crate::Limits::message_bytes_max), unless a
        /// single block is longer.
        message: Message<B>,
    },
    /// Whether this block is in the local store is asked, because a peer wants it. To be answered
    /// with [`Exchange::found`](crate::Exchange::found); late, if it can perhaps be had from elsewhere.
    /// At most [`Limits::wants_per_peer_max`](crate::Limits::wants_per_peer_max) for each peer are
    /// unanswered.
    Look {
        /// Which block.
        cid: Cid,
    },
    /// What a node links to, and what of that is in the local store, is asked, because a peer follows
    /// it. To be answered with [`Exchange::listed`](crate::Exchange::listed). For each peer at most
    /// 1024 are unanswered.
    List {
        /// Which node.
        node: Cid,
    },
    /// A block of the local store is to be sent to a peer. To be answered with
    /// [`Exchange::read`](crate::Exchange::read), even if the peer has left meanwhile. At most
    /// [`Limits::reading_bytes_max`](crate::Limits::reading_bytes_max) are unanswered or unsent.
    Read {
        /// For whom.
        peer: P,
        /// Which block.
        cid: Cid,
    },
    /// A wanted block arrived. Each is put out once. It is served to others once
    /// [`Exchange::have`](crate::Exchange::have) tells that it is stored.
    Got {
        /// Who wanted it.
        sessions: Vec<SessionId>,
        /// The block.
        block: B,
        /// Who sent it.
        from: P,
    },
    /// Nobody who is connected is known to have this block: others are to be looked for, and told
    /// with [`Exchange::providers`](crate::Exchange::providers). Asked again, ever less often,
    /// while that stays so. One search of a session is under way at a time.
    FindProviders {
        /// For which session.
        session: SessionId,
        /// One of the blocks that it misses.
        cid: Cid,
    },
    /// This peer is no good; the exchange has forgotten it already, as if it had disconnected.
    Drop {
        /// Which peer.
        peer: P,
        /// What it did.
        reason: Misbehaviour,
    },
}

/// Why a peer was dropped. Slowness is never among the reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misbehaviour {
    /// Asked for blocks, it sent something else.
    #[error("it sent blocks that hash to nothing it was asked for")]
    Lied,
    /// It spoke of leaves that a list does not have.
    #[error("it spoke of leaves that a list does not have")]
    Overreached,
    /// It kept sending blocks that nobody had asked it for or that cannot be checked, or saying the
    /// same of lists over and over.
    #[error("it kept sending blocks that nobody had asked for")]
    Flooded,
    /// It claimed to have blocks, was asked for them, and sent none in a very long time.
    #[error("it claimed to have blocks and never sent them")]
    Stalled,
}
