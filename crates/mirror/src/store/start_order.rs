//! The order in which the start of a container reads the blocks of a blob.
//!
//! A lazy snapshotter, such as stargz, starts a container before its image is there, and reads ranges of the layers.
//! A start reads a few per cent of a layer. If the rest were fetched beside them, each read would get a part of the
//! link only: at 50 Mbit/s, 15 of 300 MiB take 2.5 s alone, and ten or more beside four requests for the rest.
//!
//! - **A start** begins with the first request for a range with an end. It is over when no such request ran for
//!   3 s, after 60 s, or when a client reads the whole blob. While it runs, a host fetches only the blocks that
//!   readers wait for and those of the order. The rest follows.
//! - **The order** is kept in a file beside the blob. The hosts of a fleet tell it each other with the hashes of the
//!   blocks, and fetch these blocks before they are read. It is of one digest: another version of the image has
//!   other layers.
//! - **The bounds:** 4,096 blocks. An order of more than half of the blob is not useful, and is dropped.

use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::error::StoreError;
use super::folder::write_whole;

/// Blocks of an order. Further ones are not recorded.
pub const ORDER_MAX: usize = 4_096;
/// A start is over when nobody read a range for this time.
const QUIET_TIME: Duration = Duration::from_secs(3);
/// The longest start.
const START_TIME_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct StartOrder {
    /// The number of blocks of the blob.
    blocks: usize,
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    order: Vec<u32>,
    /// The blocks of `order`.
    listed: HashSet<u32>,
    start: Start,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    Before,
    Running { began_at: Instant, readers: usize, read_at: Instant },
    Over { was_lazy: bool },
}

impl StartOrder {
    /// The order in a file, if there is one. `is_recorded`: whether a start may begin.
    pub(super) fn open(path: PathBuf, blocks: usize, is_recorded: bool) -> Self {
        // An order that cannot be read is recorded anew.
        let bytes = std::fs::read(&path).unwrap_or_default();
        let (words, _) = bytes.as_chunks::<4>();
        let start = if is_recorded { Start::Before } else { Start::Over { was_lazy: false } };
        let state = State { order: Vec::new(), listed: HashSet::new(), start };
        let order = StartOrder { blocks, path, state: Mutex::new(state) };
        order.add_all(words.iter().map(|word| u32::from_le_bytes(*word)).collect());
        order
    }

    /// Begins to read a range of the blob. Returns also whether the start begins with it.
    pub fn begin_read(self: &Arc<Self>) -> (RangeRead, bool) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let is_first = state.start == Start::Before;
        if is_first {
            state.start = Start::Running { began_at: now, readers: 0, read_at: now };
        }
        state.end_if_over(now);
        if let Start::Running { readers, .. } = &mut state.start {
            *readers += 1;
        }
        (RangeRead(self.clone()), is_first)
    }

    /// A client reads the whole blob: it needs all blocks in their order.
    pub fn note_whole_read(&self) {
        let mut state = self.state.lock();
        state.start = Start::Over { was_lazy: state.start.is_lazy() };
    }

    pub fn is_running(&self) -> bool {
        let mut state = self.state.lock();
        state.end_if_over(Instant::now());
        matches!(state.start, Start::Running { .. })
    }

    /// Whether this process has seen a start.
    pub fn is_lazy(&self) -> bool {
        self.state.lock().start.is_lazy()
    }

    /// The blocks of the order.
    pub fn order(&self) -> Vec<u32> {
        self.state.lock().order.clone()
    }

    /// How many blocks the order has.
    pub fn count(&self) -> usize {
        self.state.lock().order.len()
    }

    pub fn has(&self, block: usize) -> bool {
        u32::try_from(block).is_ok_and(|block| self.state.lock().listed.contains(&block))
    }

    /// The first blocks of the order, one behind the other in the blob, for which `is_wanted` is true.
    pub fn first(&self, is_wanted: impl Fn(usize) -> bool) -> Option<Range<usize>> {
        let state = self.state.lock();
        let mut wanted =
            state.order.iter().map(|block| *block as usize).skip_while(|block| !is_wanted(*block));
        let start = wanted.next()?;
        let run =
            wanted.zip(start + 1..).take_while(|(block, next)| block == next && is_wanted(*block));
        Some(start..start + 1 + run.count())
    }

    /// Takes over the order of another host.
    pub fn learn(&self, order: Vec<u32>) {
        if self.add_all(order)
            && let Err(error) = self.write()
        {
            tracing::warn!(%error, "cannot keep the order of another host");
        }
    }

    /// Waits until the start is over, and keeps its order.
    pub async fn keep(&self) -> Result<(), StoreError> {
        while self.is_running() {
            tokio::time::sleep(QUIET_TIME / 10).await;
        }
        self.write()
    }

    fn write(&self) -> Result<(), StoreError> {
        let order = {
            let mut state = self.state.lock();
            if state.order.len() * 2 > self.blocks {
                state.order.clear();
                state.listed.clear();
            }
            state.order.clone()
        };
        let bytes: Vec<u8> = order.iter().flat_map(|block| block.to_le_bytes()).collect();
        match bytes.is_empty() {
            true => super::folder::remove(&self.path),
            false => write_whole(&self.path, &[&bytes]),
        }
    }

    /// Adds the blocks that exist and are not listed. Returns whether there is a new one.
    fn add_all(&self, order: Vec<u32>) -> bool {
        let mut state = self.state.lock();
        let before = state.order.len();
        // Of a longer list each block would be looked up in vain.
        for block in order.into_iter().take(ORDER_MAX) {
            state.add(block, self.blocks);
        }
        state.order.len() > before
    }
}

impl State {
    fn add(&mut self, block: u32, blocks: usize) {
        if self.order.len() < ORDER_MAX && (block as usize) < blocks && self.listed.insert(block) {
            self.order.push(block);
        }
    }

    fn end_if_over(&mut self, now: Instant) {
        if let Start::Running { began_at, readers, read_at } = self.start
            && (now - began_at >= START_TIME_MAX || (readers == 0 && now - read_at >= QUIET_TIME))
        {
            self.start = Start::Over { was_lazy: true };
        }
    }
}

impl Start {
    const fn is_lazy(self) -> bool {
        !matches!(self, Start::Before | Start::Over { was_lazy: false })
    }
}

/// A request that reads a range of the blob.
#[derive(Debug)]
pub struct RangeRead(Arc<StartOrder>);

impl RangeRead {
    /// The request reads a block.
    pub fn note(&self, block: usize) {
        let mut state = self.0.state.lock();
        if let (Start::Running { .. }, Ok(block)) = (state.start, u32::try_from(block)) {
            state.add(block, self.0.blocks);
        }
    }
}

impl Drop for RangeRead {
    fn drop(&mut self) {
        if let Start::Running { readers, read_at, .. } = &mut self.0.state.lock().start {
            *readers = readers.saturating_sub(1);
            *read_at = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(folder: &std::path::Path, blocks: usize) -> Arc<StartOrder> {
        Arc::new(StartOrder::open(folder.join("a.start"), blocks, true))
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_is_recorded_until_it_is_quiet_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let start = order(folder.path(), 100);
        let (read, is_first) = start.begin_read();
        assert!(is_first && start.is_running());
        [7, 8, 3, 7].into_iter().for_each(|block| read.note(block));
        tokio::time::sleep(2 * QUIET_TIME).await;
        assert!(start.is_running(), "a reader still waits");
        drop(read);
        start.keep().await.unwrap();
        assert!(!start.is_running() && start.is_lazy());
        let (late, is_first) = start.begin_read();
        late.note(50);
        assert!(!is_first && !start.is_running());
        let again = order(folder.path(), 100);
        assert_eq!(again.order(), [7, 8, 3]);
        assert_eq!(again.first(|_| true), Some(7..9));
        assert_eq!(again.first(|block| block != 7), Some(8..9));
        assert_eq!(again.first(|block| block < 7), Some(3..4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_is_over_after_a_minute_and_when_the_whole_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let start = order(folder.path(), 100);
        let (_read, _) = start.begin_read();
        tokio::time::sleep(START_TIME_MAX).await;
        assert!(!start.is_running());
        let start = order(folder.path(), 100);
        start.note_whole_read();
        assert!(!start.begin_read().1 && !start.is_lazy());
    }

    #[test]
    fn an_order_of_another_host_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let start = order(folder.path(), 9);
        start.learn(vec![8, 2, 9, 8, u32::MAX, 2]);
        assert_eq!(start.order(), [8, 2]);
        assert_eq!(order(folder.path(), 9).order(), [8, 2]);
        start.learn((0..9).collect());
        assert!(start.order().is_empty(), "an order of most of the blob is not useful");
        let large = order(folder.path(), 10_000);
        large.learn((0..10_000).collect());
        assert_eq!(large.order().len(), ORDER_MAX);
    }
}
