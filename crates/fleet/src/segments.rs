//! Which part of a blob is fetched next.

use std::collections::BTreeSet;
use std::ops::Range;

/// Blocks of a segment, which a lease lets one host fetch from the registry.
pub const SEGMENT_BLOCKS: usize = 4;

/// Divides the missing blocks of a blob among several requests.
///
/// A request fetches blocks in their order. It starts with the block that a reader waits for, or else
/// with the first that nobody fetches.
#[derive(Debug)]
pub struct Segments {
    present: Vec<bool>,
    /// The blocks that are being fetched.
    claimed: BTreeSet<usize>,
}

impl Segments {
    /// The segments of a blob of which these blocks are there.
    pub fn new(present: Vec<bool>) -> Self {
        Segments { present, claimed: BTreeSet::new() }
    }

    /// The next blocks to fetch, which the caller now fetches. `None`: others fetch all that are
    /// missing, or none is.
    pub fn claim(&mut self, wanted: Option<usize>, blocks_max: usize) -> Option<Range<usize>> {
        let wanted = wanted.filter(|block| self.is_free(*block));
        let start =
            wanted.or_else(|| (0..self.present.len()).find(|block| self.is_free(*block)))?;
        let limit = start.saturating_add(blocks_max).min(self.present.len());
        let end = (start..limit).find(|block| !self.is_free(*block)).unwrap_or(limit);
        self.claimed.extend(start..end);
        Some(start..end)
    }

    /// Claims the first run of free blocks in a range for which `is_wanted` is true.
    pub fn claim_within(
        &mut self,
        blocks: Range<usize>,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Option<Range<usize>> {
        let is_free = |block: &usize| self.is_free(*block) && is_wanted(*block);
        let start = blocks.clone().find(is_free)?;
        let end = (start..blocks.end).find(|block| !is_free(block)).unwrap_or(blocks.end);
        self.claimed.extend(start..end);
        Some(start..end)
    }

    /// Whether a block is missing, and nobody fetches it.
    pub fn is_free(&self, block: usize) -> bool {
        self.present.get(block) == Some(&false) && !self.claimed.contains(&block)
    }

    /// Claims one more block, behind those that a request fetches already. Returns whether it was
    /// free.
    pub fn extend(&mut self, block: usize) -> bool {
        let is_free = self.is_free(block);
        if is_free {
            self.claimed.insert(block);
        }
        is_free
    }

    pub fn note_written(&mut self, block: usize) {
        self.claimed.remove(&block);
        self.present[block] = true;
    }

    pub fn release(&mut self, blocks: Range<usize>) {
        self.claimed.retain(|block| !blocks.contains(block));
    }

    pub fn is_complete(&self) -> bool {
        self.present.iter().all(|present| *present)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_share_the_missing_blocks() {
        let mut segments = Segments::new(vec![true, false, false, true, false, false]);
        assert_eq!(segments.claim(None, 8), Some(1..3));
        assert_eq!(segments.claim(Some(5), 8), Some(5..6));
        assert_eq!(segments.claim(Some(5), 8), Some(4..5));
        assert_eq!(segments.claim(None, 8), None);
        segments.note_written(1);
        segments.release(2..3);
        assert!(segments.extend(2) && !segments.extend(2) && !segments.extend(6));
        assert!(!segments.is_complete());
        for block in [2, 4, 5] {
            segments.note_written(block);
        }
        assert!(segments.is_complete());
    }

    #[test]
    fn a_claim_is_bounded_and_ends_before_a_claimed_block() {
        let mut segments = Segments::new(vec![false; 10]);
        assert_eq!(segments.claim(Some(4), 2), Some(4..6));
        assert_eq!(segments.claim(None, 100), Some(0..4));
        assert_eq!(segments.claim(Some(99), 3), Some(6..9));
    }
}
