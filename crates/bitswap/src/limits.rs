use std::time::Duration;

/// What an exchange may take, and how patient it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Wants that are remembered of one peer. Newer ones are refused with DONT_HAVE where they ask for
    /// an answer, and passed over where they do not.
    pub wants_per_peer_max: usize,
    /// Wants that one peer is told of at a time; the others wait until some of these are answered.
    /// Below what peers remember.
    pub asks_per_peer_max: usize,
    /// Bytes of blocks being read, or read and not yet sent, for all peers together, and for those who have left
    /// meanwhile. The next peer in turn waits. One block is always allowed. As much is under way to all of them, usually.
    pub reading_bytes_max: usize,
    /// Bytes of a message with blocks after which it is sent; a longer block travels alone.
    pub message_bytes_max: usize,
    /// A block this long or shorter is sent at once to who asks whether we have it.
    pub gift_bytes_max: usize,
    /// Least bytes that one peer is asked for at a time.
    pub window_bytes_min: usize,
    /// Most bytes that one peer is asked for at a time. One block is always allowed.
    pub window_bytes_max: usize,
    /// Most bytes that all peers together are asked for at a time. One block is always allowed, one more of who alone has
    /// it, and one in the place of each that is to be given back. In a
    /// crowd, a quarter less of who is not behind. They may all answer at once, and what has begun to arrive is in memory.
    pub asked_bytes_max: usize,
    /// What a block is taken to weigh while its length is unknown.
    pub block_bytes_guess: usize,
    /// Part of the blocks of a session, in thousandths, that may be asked for twice in its tail. One is always
    /// allowed.
    pub hedges_per_mille: u32,
    /// After a message, how long what is not urgent waits for more of its kind: that a block is here, or is
    /// not wanted any more.
    pub gossip_pause: Duration,
    /// Complete silence of an asked peer after which another is asked as well; longer for one whose
    /// answers take longer. The peer is not held to lack the block.
    pub patience: Duration,
    /// Complete silence of a peer that claims to have blocks, and was asked for them, after which it is
    /// dropped.
    pub stalled_after: Duration,
    /// Blocks that a peer may send and nobody asked it for, beyond as many as were useful.
    pub unasked_max: u64,
    /// Blocks of names that nobody was ever asked for that a peer may send once it was asked for others:
    /// beyond, it lies.
    pub lies_max: u64,
    /// Wait before providers are looked for again; doubled each time, up to the next.
    pub search_interval: Duration,
    /// Longest wait before providers are looked for again.
    pub search_interval_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            wants_per_peer_max: 1024,
            asks_per_peer_max: 960,
            reading_bytes_max: 6 << 20,
            message_bytes_max: 1 << 20,
            gift_bytes_max: 1024,
            window_bytes_min: 512 << 10,
            window_bytes_max: 32 << 20,
            asked_bytes_max: 16 << 20,
            block_bytes_guess: 256 << 10,
            hedges_per_mille: 10,
            gossip_pause: Duration::from_millis(20),
            patience: Duration::from_secs(1),
            stalled_after: Duration::from_secs(600),
            unasked_max: 16,
            lies_max: 0,
            search_interval: Duration::from_secs(1),
            search_interval_max: Duration::from_secs(60),
        }
    }
}

impl Limits {
    /// Wants that a peer may be told of as questions while it is asked for so many blocks. A part
    /// is left for blocks, or questions without an answer would leave no room to ask for any.
    pub(crate) fn told_max(&self, asked: usize) -> usize {
        let max = self.asks_per_peer_max;
        (max - max / 4).min(max.saturating_sub(asked))
    }
}
