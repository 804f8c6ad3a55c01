//! The blocks that readers wait for.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The blocks that readers wait for, with the last block of each reader, and how many readers wait for each pair.
/// Its size is bounded by the number of readers.
#[derive(Debug, Default)]
pub(super) struct WaitingReaders {
    blocks: Mutex<BTreeMap<(usize, usize), usize>>,
    /// Wakes one of the tasks that fetch when a reader begins to wait.
    begun: Notify,
}

impl WaitingReaders {
    /// Notes that a reader waits for a block, and will read to `last`, until the result is dropped.
    pub(super) fn wait_for(self: &Arc<Self>, block: usize, last: usize) -> WaitingReader {
        *self.blocks.lock().entry((block, last)).or_default() += 1;
        self.begun.notify_one();
        WaitingReader { readers: self.clone(), blocks: (block, last) }
    }

    /// Waits until a reader begins to wait.
    pub(super) async fn next(&self) {
        self.begun.notified().await;
    }

    /// Wakes one of the tasks that fetch.
    pub(super) fn wake(&self) {
        self.begun.notify_one();
    }

    /// The first block that a reader waits for and for which `is_free` is true.
    pub(super) fn first(&self, is_free: impl Fn(usize) -> bool) -> Option<usize> {
        self.blocks.lock().keys().map(|(block, _)| *block).find(|block| is_free(*block))
    }

    /// The first blocks that one reader waits for or reads next, and for which `is_free` is true.
    pub(super) fn first_range(&self, is_free: impl Fn(usize) -> bool) -> Option<Range<usize>> {
        let blocks = self.blocks.lock();
        let (start, last) = blocks.keys().find_map(|(block, last)| {
            Some(((*block..=*last).find(|block| is_free(*block))?, *last))
        })?;
        let end = (start..=last).find(|block| !is_free(*block)).unwrap_or(last + 1);
        Some(start..end)
    }

    /// Whether a reader waits for a block, or reads it next.
    pub(super) fn has(&self, block: usize) -> bool {
        self.blocks.lock().keys().any(|(first, last)| (*first..=*last).contains(&block))
    }
}

#[derive(Debug)]
pub(super) struct WaitingReader {
    readers: Arc<WaitingReaders>,
    blocks: (usize, usize),
}

impl Drop for WaitingReader {
    fn drop(&mut self) {
        let mut blocks = self.readers.blocks.lock();
        if let Some(count) = blocks.get_mut(&self.blocks) {
            *count -= 1;
            if *count == 0 {
                blocks.remove(&self.blocks);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_waited_for_until_its_last_reader_is_gone() {
        let readers = Arc::<WaitingReaders>::default();
        let (first, second) = (readers.wait_for(3, 5), readers.wait_for(3, 5));
        let third = readers.wait_for(1, 1);
        assert_eq!(readers.first(|_| true), Some(1));
        assert_eq!(readers.first(|block| block != 1), Some(3));
        assert_eq!(readers.first_range(|block| block > 3), Some(4..6));
        assert_eq!(readers.first_range(|block| block == 3 || block == 5), Some(3..4));
        drop((first, third));
        assert_eq!(readers.first(|_| true), Some(3));
        assert!(readers.has(5) && !readers.has(1) && !readers.has(6));
        drop(second);
        assert_eq!(readers.first(|_| true), None);
    }
}
