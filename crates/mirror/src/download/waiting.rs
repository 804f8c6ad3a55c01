//! The blocks that readers wait for.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// The blocks that readers wait for, and how many readers wait for each. Its size is bounded by the
/// number of readers.
#[derive(Debug, Default)]
pub(super) struct WaitingReaders(Mutex<BTreeMap<usize, usize>>);

impl WaitingReaders {
    /// Notes that a reader waits for a block, until the result is dropped.
    pub(super) fn wait_for(self: &Arc<Self>, block: usize) -> WaitingReader {
        *self.0.lock().entry(block).or_default() += 1;
        WaitingReader { readers: self.clone(), block }
    }

    /// The first block that a reader waits for and for which `is_free` is true.
    pub(super) fn first(&self, is_free: impl Fn(usize) -> bool) -> Option<usize> {
        self.0.lock().keys().copied().find(|block| is_free(*block))
    }
}

#[derive(Debug)]
pub(super) struct WaitingReader {
    readers: Arc<WaitingReaders>,
    block: usize,
}

impl Drop for WaitingReader {
    fn drop(&mut self) {
        let mut blocks = self.readers.0.lock();
        if let Some(count) = blocks.get_mut(&self.block) {
            *count -= 1;
            if *count == 0 {
                blocks.remove(&self.block);
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
        let (first, second) = (readers.wait_for(3), readers.wait_for(3));
        let third = readers.wait_for(1);
        assert_eq!(readers.first(|_| true), Some(1));
        assert_eq!(readers.first(|block| block != 1), Some(3));
        drop((first, third));
        assert_eq!(readers.first(|_| true), Some(3));
        drop(second);
        assert_eq!(readers.first(|_| true), None);
    }
}
