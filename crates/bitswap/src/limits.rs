use std::time::Duration;

/// Limits on the resources of an exchange, and its timeouts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most wants that are kept for one peer. Further ones are answered with DONT_HAVE if they
    /// request an answer, and ignored otherwise.
    pub wants_per_peer_max: usize,
    /// Most unanswered wants that one peer is sent. Further ones wait. Less than peers keep.
    pub sent_wants_per_peer_max: usize,
    /// Most bytes of blocks that are being read, or were read and are unsent, for all peers
    /// together and for peers that left. At the limit, the next peer waits. One block is always
    /// allowed. Usually at most this number of bytes is under way to all peers.
    pub reading_bytes_max: usize,
    /// Bytes of blocks after which a message is sent. A longer block is sent alone.
    pub message_bytes_max: usize,
    /// A block up to this length is sent in answer to a want-have.
    pub inline_block_bytes_max: usize,
    /// Least bytes to request from one peer at a time.
    pub window_bytes_min: usize,
    /// Most bytes to request from one peer at a time. One block is always allowed.
    pub window_bytes_max: usize,
    /// Most bytes to request from all peers at a time. All may answer at the same time, and a message that
    /// has begun to arrive is in memory. Always allowed are one block, one more from its only
    /// holder, and one in place of each request that is being cancelled. In a swarm, a node that is
    /// not behind the others requests a quarter less.
    pub requested_bytes_max: usize,
    /// Assumed bytes of a block whose length is unknown.
    pub block_bytes_estimate: usize,
    /// Part of the wanted blocks, in thousandths, that may be requested twice in the endgame. One
    /// is always allowed.
    pub endgame_duplicates_per_mille: u32,
    /// Wait of messages that are not urgent after the last message to the same peer, so that they
    /// are sent together: HAVE for new blocks, and cancels of want-haves.
    pub batching_delay: Duration,
    /// Silence of a peer after which another peer receives its requests. It is longer for a peer
    /// with slow answers. The peer is not assumed to lack the blocks.
    pub response_timeout: Duration,
    /// Silence of a peer that claims to have requested blocks after which the peer is dropped.
    pub stalled_after: Duration,
    /// Most blocks that a peer may send without a request, besides one for each useful block. A peer
    /// that sends more is dropped.
    pub unrequested_blocks_max: u64,
    /// Most blocks with CIDs that were never wanted, from a peer that has requests. A peer that
    /// sends more is dropped as a forger.
    pub unsolicited_blocks_max: u64,
    /// Wait before the second search for providers. It doubles each time, up to the next limit.
    pub search_interval: Duration,
    /// Longest wait before the next search for providers.
    pub search_interval_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            wants_per_peer_max: 1024,
            sent_wants_per_peer_max: 960,
            reading_bytes_max: 6 << 20,
            message_bytes_max: 1 << 20,
            inline_block_bytes_max: 1024,
            window_bytes_min: 512 << 10,
            window_bytes_max: 32 << 20,
            requested_bytes_max: 16 << 20,
            block_bytes_estimate: 256 << 10,
            endgame_duplicates_per_mille: 10,
            batching_delay: Duration::from_millis(20),
            response_timeout: Duration::from_secs(1),
            stalled_after: Duration::from_secs(600),
            unrequested_blocks_max: 16,
            unsolicited_blocks_max: 0,
            search_interval: Duration::from_secs(1),
            search_interval_max: Duration::from_secs(60),
        }
    }
}

/// Least number of leechers that form a swarm. With fewer, a node does not count on others to have
/// blocks for each other.
pub(crate) const SWARM_LEECHERS_MIN: usize = 4;
