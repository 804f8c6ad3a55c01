use std::time::Duration;

/// Counts of all that an exchange has done since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub messages_in: u64,
    pub messages_out: u64,
    /// Wanted blocks received.
    pub blocks_in: u64,
    pub bytes_in: u64,
    pub blocks_out: u64,
    pub bytes_out: u64,
    /// Blocks received that had been wanted before.
    pub duplicate_blocks: u64,
    pub duplicate_bytes: u64,
    /// Blocks received with CIDs that were never wanted.
    pub unsolicited_blocks: u64,
    pub unsolicited_bytes: u64,
    /// Second requests for a block in the endgame.
    pub endgame_requests: u64,
    /// Wants of peers that were rejected because their wantlist was full.
    pub rejected_wants: u64,
    /// Requests that were moved away from a silent peer.
    pub silent_requests: u64,
    /// Wants and presences that were skipped: too many in a message, or unknown hash functions.
    pub skipped_entries: u64,
    pub dropped_peers: u64,
}

/// Counts of the exchange with one peer, and the speed of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerTotals {
    /// Wanted blocks that the peer sent.
    pub blocks_in: u64,
    pub bytes_in: u64,
    /// Blocks that were sent to the peer.
    pub blocks_out: u64,
    pub bytes_out: u64,
    /// Blocks that are requested from the peer now.
    pub requested_blocks: usize,
    /// Blocks that the peer wants from this node.
    pub wants: usize,
    /// Bytes that may be requested from the peer at a time.
    pub window_bytes: usize,
    /// The shortest time from a want to its answer; `None` before the first answer.
    pub latency: Option<Duration>,
}
