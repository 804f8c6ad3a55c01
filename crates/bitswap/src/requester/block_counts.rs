use watchfire_types::Instant;

use super::recent_cids::RecentCids;

/// Counts of the blocks that one peer sent.
#[derive(Debug)]
pub(crate) struct BlockCounts {
    /// Blocks that the peer may still send after a cancel.
    pub late: RecentCids,
    /// Cancelled want-haves. The peer may have answered each with a short block.
    pub cancelled_want_haves: u64,
    /// Whether a block was ever requested from the peer.
    pub was_requested: bool,
    /// Blocks that were not requested from this peer.
    pub unrequested: u64,
    /// Blocks with CIDs that this node never wanted.
    pub unsolicited: u64,
    /// Blocks that were wanted when they arrived.
    pub useful: u64,
    pub useful_bytes: u64,
    /// When the last useful block arrived.
    pub useful_at: Instant,
}

/// Cancelled blocks that are remembered of a peer. Older ones count as never requested.
const LATE_BLOCKS_MAX: usize = 256;

impl BlockCounts {
    pub(crate) const fn new(now: Instant) -> Self {
        BlockCounts {
            late: RecentCids::new(LATE_BLOCKS_MAX),
            cancelled_want_haves: 0,
            was_requested: false,
            unrequested: 0,
            unsolicited: 0,
            useful: 0,
            useful_bytes: 0,
            useful_at: now,
        }
    }

    pub(crate) fn add_useful(&mut self, now: Instant, bytes: usize) {
        self.useful += 1;
        self.useful_bytes += bytes as u64;
        self.useful_at = now;
    }

    /// Counts a block that was not requested from this peer. If the block was wanted before, it may
    /// answer a cancelled want-have, and then does not count.
    pub(crate) fn add_unrequested(&mut self, was_wanted: bool) {
        if was_wanted && self.cancelled_want_haves > 0 {
            self.cancelled_want_haves -= 1;
        } else {
            self.unrequested += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_a_cancelled_want_have_is_not_unrequested() {
        let mut counts = BlockCounts::new(Instant::ZERO);
        counts.cancelled_want_haves = 1;
        counts.add_unrequested(false);
        counts.add_unrequested(true);
        assert_eq!((counts.unrequested, counts.cancelled_want_haves), (1, 0));
        counts.add_unrequested(true);
        assert_eq!(counts.unrequested, 2);
    }
}
