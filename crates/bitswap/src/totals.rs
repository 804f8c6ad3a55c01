use std::time::Duration;

/// What an exchange did since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages that came.
    pub messages_in: u64,
    /// Messages that went.
    pub messages_out: u64,
    /// Blocks that came and were wanted.
    pub blocks_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Blocks that went.
    pub blocks_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Blocks that had been asked for and came when they were no longer wanted.
    pub duplicate_blocks: u64,
    /// Their bytes.
    pub duplicate_bytes: u64,
    /// Blocks that came and had never been asked for.
    pub unasked_blocks: u64,
    /// Their bytes.
    pub unasked_bytes: u64,
    /// Second want-blocks for a block that was already asked for.
    pub hedges: u64,
    /// Wants of peers that did not fit into their ledger.
    pub wants_refused: u64,
    /// Want-blocks that were taken from a silent peer.
    pub silences: u64,
    /// Wants and presences that messages were too long for, or whose names cannot be checked.
    pub passed_over: u64,
    /// Peers that were dropped.
    pub dropped_peers: u64,
}

/// What passed between an exchange and one peer, and what it is known to be capable of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerTotals {
    /// Blocks that it sent and that were wanted.
    pub blocks_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Blocks that were sent to it.
    pub blocks_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Blocks that it is asked for at the moment.
    pub asked_blocks: usize,
    /// Blocks that it wants of us.
    pub wants: usize,
    /// Bytes that it may be asked for at a time.
    pub window_bytes: usize,
    /// The shortest time from a want to its answer of late; `None` before the first.
    pub latency: Option<Duration>,
}
