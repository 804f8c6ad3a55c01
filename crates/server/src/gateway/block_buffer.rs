//! Blocks on their way through the gateway.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use watchfire_content::{Block, Cid, Multihash};
use watchfire_store::{ReadBlocks, StoreError};

/// Bytes of blocks that are being fetched, or are here and were not read by whom they are for.
/// Beyond it nothing more is fetched until some are read.
pub(super) const PASSING_BYTES_MAX: usize = 32 << 20;
/// The same for one page; one block is always allowed.
const PASSING_BYTES_OF_PAGE: usize = 8 << 20;
/// How long a block waits for whom it is for; then it makes room.
const UNREAD_MAX: Duration = Duration::from_secs(30);
/// What a block is taken to weigh while nobody knows.
pub(super) const BLOCK_BYTES_GUESS: usize = 1 << 20;

/// Which page's blocks.
pub(super) type TransferId = u64;

/// Holds what passes: blocks that are fetched for somebody, until they are read, and then for as
/// long as there is room.
pub(super) struct BlockBuffer {
    state: Mutex<State>,
    cache_bytes_max: usize,
    /// Told when something was read, so that more can be fetched.
    pub freed: Notify,
}

#[derive(Default)]
struct State {
    passing: HashMap<Multihash, Passing>,
    passing_bytes: usize,
    passing_of: HashMap<TransferId, usize>,
    here: HashMap<Multihash, Held>,
    here_bytes: usize,
    /// What was read, the longest ago first.
    read: BTreeMap<u64, Multihash>,
    clock: u64,
}

/// Bytes that are reserved for a block on its direction.
struct Passing {
    transfer: TransferId,
    bytes: usize,
    since: Instant,
}

struct Held {
    block: Block,
    transfer: TransferId,
    /// When it was read last, in reads; `None` while it was not.
    read_at: Option<u64>,
}

impl BlockBuffer {
    pub fn new(cache_bytes_max: usize) -> Self {
        BlockBuffer { state: Mutex::default(), cache_bytes_max, freed: Notify::new() }
    }

    /// Makes room for a block that is to be fetched; whether there is any.
    pub fn begin(&self, transfer: TransferId, cid: &Cid, bytes: Option<u32>) -> bool {
        let mut state = self.state.lock();
        let bytes = bytes.map_or(BLOCK_BYTES_GUESS, |bytes| bytes as usize);
        let of_lane = state.passing_of.get(&transfer).copied().unwrap_or(0);
        let has_room = state.passing_bytes + bytes <= PASSING_BYTES_MAX;
        let has_turn = of_lane == 0 || of_lane + bytes <= PASSING_BYTES_OF_PAGE;
        if !has_room || !has_turn || state.passing.contains_key(cid.hash()) {
            return false;
        }
        state.take(cid.hash().clone(), Passing { transfer, bytes, since: Instant::now() });
        true
    }

    /// It came. `None`: it is to be read by somebody; otherwise it only is kept, if there is room.
    pub fn arrived(&self, transfer: TransferId, block: &Block) {
        let mut state = self.state.lock();
        let hash = block.cid().hash().clone();
        if state.here.contains_key(&hash) {
            return;
        }
        state.free(&hash);
        let bytes = block.bytes().len();
        state.take(hash.clone(), Passing { transfer, bytes, since: Instant::now() });
        state.here_bytes += bytes;
        state.here.insert(hash, Held { block: block.clone(), transfer, read_at: None });
        state.evict(self.cache_bytes_max);
    }

    /// Nobody sends it.
    pub fn abandon(&self, cid: &Cid) {
        let mut state = self.state.lock();
        if !state.here.contains_key(cid.hash()) {
            state.free(cid.hash());
        }
        drop(state);
        self.freed.notify_waiters();
    }

    /// Room for what was fetched and is not read comes back after a while.
    pub fn sweep(&self) {
        let mut state = self.state.lock();
        let is_late = |(_, passing): &(&Multihash, &Passing)| passing.since.elapsed() > UNREAD_MAX;
        let late: Vec<Multihash> =
            state.passing.iter().filter(is_late).map(|(hash, _)| hash.clone()).collect();
        for hash in late {
            if state.here.contains_key(&hash) {
                state.was_read(&hash);
            }
        }
        state.evict(self.cache_bytes_max);
        drop(state);
        self.freed.notify_waiters();
    }

    /// Nothing passes for this page any more. Without a cache, nothing stays.
    pub fn end(&self, transfer: TransferId) {
        let mut state = self.state.lock();
        let of_lane = state.here.iter().filter(|(_, held)| held.transfer == transfer);
        let here: Vec<Multihash> = of_lane.map(|(hash, _)| hash.clone()).collect();
        here.iter().for_each(|hash| state.was_read(hash));
        let passing = state.passing.iter().filter(|(_, passing)| passing.transfer == transfer);
        let passing: Vec<Multihash> = passing.map(|(hash, _)| hash.clone()).collect();
        passing.iter().for_each(|hash| state.free(hash));
        if self.cache_bytes_max == 0 {
            here.iter().for_each(|hash| state.forget(hash));
        }
        state.evict(self.cache_bytes_max);
        drop(state);
        self.freed.notify_waiters();
    }

    /// Bytes that are held now.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.state.lock().here_bytes
    }
}

impl State {
    fn take(&mut self, hash: Multihash, passing: Passing) {
        self.passing_bytes += passing.bytes;
        *self.passing_of.entry(passing.transfer).or_default() += passing.bytes;
        self.passing.insert(hash, passing);
    }

    fn free(&mut self, hash: &Multihash) {
        let Some(passing) = self.passing.remove(hash) else { return };
        self.passing_bytes -= passing.bytes;
        if let Some(bytes) = self.passing_of.get_mut(&passing.transfer) {
            *bytes -= passing.bytes;
            if *bytes == 0 {
                self.passing_of.remove(&passing.transfer);
            }
        }
    }

    fn was_read(&mut self, hash: &Multihash) {
        self.free(hash);
        let Some(held) = self.here.get_mut(hash) else { return };
        self.clock += 1;
        let before = held.read_at.replace(self.clock);
        if let Some(before) = before {
            self.read.remove(&before);
        }
        self.read.insert(self.clock, hash.clone());
    }

    /// What was read makes room, the longest ago first. Without a cache, what was read just now
    /// stays as long as it is no more than may pass, for others who wait for the same.
    fn evict(&mut self, cache_bytes_max: usize) {
        let unread = self.passing_bytes.min(PASSING_BYTES_MAX);
        let bytes_max = cache_bytes_max.max(PASSING_BYTES_MAX - unread) + unread;
        while self.here_bytes > bytes_max
            && let Some((_, hash)) = self.read.pop_first()
        {
            self.forget(&hash);
        }
    }

    fn forget(&mut self, hash: &Multihash) {
        self.free(hash);
        if let Some(held) = self.here.remove(hash) {
            self.here_bytes -= held.block.bytes().len();
            if let Some(read_at) = held.read_at {
                self.read.remove(&read_at);
            }
        }
    }
}

impl ReadBlocks for BlockBuffer {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        let mut state = self.state.lock();
        let Some(held) = state.here.get(cid.hash()) else { return Ok(None) };
        let block = held.block.clone();
        state.was_read(cid.hash());
        state.evict(self.cache_bytes_max);
        drop(state);
        self.freed.notify_waiters();
        if block.cid() == cid {
            return Ok(Some(block));
        }
        // The same bytes by another name, as CIDs of version 0 and 1 are.
        Ok(Block::verify(cid.clone(), block.into_parts().1).ok())
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        let state = self.state.lock();
        state.here.get(cid.hash()).map(|held| held.block.bytes().len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn block(number: usize, bytes: usize) -> Block {
        let mut content = vec![0; bytes];
        content[..8].copy_from_slice(&(number as u64).to_le_bytes());
        Block::raw(content.into()).expect("it is short enough")
    }

    fn pass(buffer: &BlockBuffer, transfer: TransferId, block: &Block) {
        let bytes = u32::try_from(block.bytes().len()).ok();
        assert!(buffer.begin(transfer, block.cid(), bytes));
        buffer.arrived(transfer, block);
    }

    #[test]
    fn no_more_is_fetched_than_is_read() {
        let buffer = BlockBuffer::new(0);
        let blocks: Vec<Block> = (0..40).map(|number| block(number, MIB)).collect();
        let begun = |transfer, blocks: &[Block]| {
            blocks.iter().filter(|block| buffer.begin(transfer, block.cid(), Some(1 << 20))).count()
        };
        assert_eq!(begun(1, &blocks[..10]), 8, "of one page");
        let all: usize = (2..5)
            .map(|transfer| begun(transfer, &blocks[10 * (transfer as usize - 1)..][..10]))
            .sum();
        assert_eq!(all, 24, "of all pages");
        buffer.arrived(1, &blocks[0]);
        assert!(!buffer.begin(1, blocks[8].cid(), None));
        assert_eq!(buffer.get(blocks[0].cid()).unwrap().as_ref(), Some(&blocks[0]));
        assert!(buffer.begin(1, blocks[8].cid(), None));
        buffer.abandon(blocks[8].cid());
        assert!(buffer.begin(1, blocks[9].cid(), None));
    }

    #[test]
    fn what_was_read_stays_while_there_is_room_and_the_oldest_goes_first() {
        let buffer = BlockBuffer::new(40 * MIB);
        let blocks: Vec<Block> = (0..50).map(|number| block(number, MIB)).collect();
        for block in &blocks {
            pass(&buffer, 1, block);
            assert!(buffer.get(block.cid()).unwrap().is_some());
            // Asked for again and again, it stays.
            assert!(buffer.get(blocks[0].cid()).unwrap().is_some());
        }
        assert_eq!(buffer.bytes(), 40 * MIB);
        assert_eq!(buffer.len_of(blocks[1].cid()), None);
        assert_eq!(buffer.len_of(blocks[49].cid()), Some(1 << 20));
    }

    #[test]
    fn without_a_cache_nothing_stays_when_nothing_passes_any_more() {
        let buffer = BlockBuffer::new(0);
        let (one, two) = (block(1, MIB), block(2, MIB));
        pass(&buffer, 1, &one);
        pass(&buffer, 2, &two);
        assert!(buffer.get(one.cid()).unwrap().is_some());
        assert!(buffer.get(one.cid()).unwrap().is_some(), "somebody else waits for it too");
        buffer.end(1);
        assert_eq!((buffer.len_of(one.cid()), buffer.bytes()), (None, MIB));
        assert!(buffer.get(two.cid()).unwrap().is_some(), "of another page");
    }

    #[test]
    fn a_block_has_all_its_names() {
        let buffer = BlockBuffer::new(0);
        let bytes = bytes::Bytes::from_static(b"\x0a\x00");
        let node = Block::dag_pb(watchfire_content::Version::V1, bytes.clone()).unwrap();
        let old = Block::dag_pb(watchfire_content::Version::V0, bytes).unwrap();
        pass(&buffer, 1, &node);
        assert_eq!(buffer.get(old.cid()).unwrap(), Some(old));
    }
}
