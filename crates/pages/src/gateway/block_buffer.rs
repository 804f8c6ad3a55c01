//! Blocks on their way through the gateway.
//!
//! The buffer says nothing about which peers may have a block: [`GatewayRouter`] does, for each
//! request. Of a page that is gone, the buffer keeps nothing.
//!
//! [`GatewayRouter`]: super::router::GatewayRouter

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use watchfire_content::{Block, Cid, Multihash};
use watchfire_store::{ReadBlocks, StoreError};

/// Bytes of pending blocks: those being fetched, and those stored and not read yet. At the limit,
/// further fetches wait until some are read.
const PENDING_BYTES_MAX: usize = 32 << 20;
/// The same for one transfer; one block is always allowed.
const PENDING_BYTES_OF_TRANSFER_MAX: usize = 8 << 20;
/// How long a stored block counts as pending when it is not read.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The assumed size of a block whose size is unknown.
const BLOCK_BYTES_GUESS: usize = 1 << 20;

pub(super) type TransferId = u64;

/// Stores blocks from their fetch until they are read, and then for as long as there is room.
pub(super) struct BlockBuffer {
    state: Mutex<State>,
    cache_bytes_max: usize,
    /// Notified when there is room again, so that more can be fetched.
    pub freed: Notify,
}

#[derive(Default)]
struct State {
    pending: HashMap<Multihash, Pending>,
    pending_bytes: usize,
    pending_bytes_of: HashMap<TransferId, usize>,
    stored: HashMap<Multihash, Stored>,
    stored_bytes: usize,
    /// Blocks that were read, by the number of their last read.
    read: BTreeMap<u64, Multihash>,
    reads: u64,
}

/// A block that is being fetched, or that is stored and not read yet.
struct Pending {
    transfer: TransferId,
    bytes: usize,
    since: Instant,
}

struct Stored {
    block: Block,
    /// The name of the page that it was fetched for.
    page: Arc<str>,
    transfer: TransferId,
    /// The number of its last read; `None` before the first.
    last_read: Option<u64>,
}

impl BlockBuffer {
    pub fn new(cache_bytes_max: usize) -> Self {
        BlockBuffer { state: Mutex::default(), cache_bytes_max, freed: Notify::new() }
    }

    /// Reserves room for a block before its fetch. Returns false when there is none.
    pub fn reserve(&self, transfer: TransferId, cid: &Cid, bytes: Option<u32>) -> bool {
        let mut state = self.state.lock();
        let bytes = bytes.map_or(BLOCK_BYTES_GUESS, |bytes| bytes as usize);
        let own = state.pending_bytes_of.get(&transfer).copied().unwrap_or(0);
        let has_room = state.pending_bytes + bytes <= PENDING_BYTES_MAX
            && (own == 0 || own + bytes <= PENDING_BYTES_OF_TRANSFER_MAX);
        if !has_room || state.pending.contains_key(cid.hash()) {
            return false;
        }
        state.add_pending(cid.hash().clone(), Pending { transfer, bytes, since: Instant::now() });
        true
    }

    /// Stores a block that was fetched for a page.
    pub fn store(&self, transfer: TransferId, page: &Arc<str>, block: &Block) {
        let mut state = self.state.lock();
        let hash = block.cid().hash().clone();
        if let Some(stored) = state.stored.get_mut(&hash) {
            // The page that needed it last decides how long it stays.
            (stored.transfer, stored.page) = (transfer, page.clone());
            return;
        }
        state.remove_pending(&hash);
        let bytes = block.bytes().len();
        state.add_pending(hash.clone(), Pending { transfer, bytes, since: Instant::now() });
        state.stored_bytes += bytes;
        let stored = Stored { block: block.clone(), page: page.clone(), transfer, last_read: None };
        state.stored.insert(hash, stored);
        state.evict(self.cache_bytes_max);
    }

    /// Releases the room of a block that cannot be fetched.
    pub fn abandon(&self, cid: &Cid) {
        let mut state = self.state.lock();
        if !state.stored.contains_key(cid.hash()) {
            state.remove_pending(cid.hash());
        }
        drop(state);
        self.freed.notify_waiters();
    }

    /// Releases the room of stored blocks that were not read in time.
    pub fn sweep(&self) {
        let mut state = self.state.lock();
        let is_late =
            |(_, pending): &(&Multihash, &Pending)| pending.since.elapsed() > UNREAD_TIMEOUT;
        let late: Vec<Multihash> =
            state.pending.iter().filter(is_late).map(|(hash, _)| hash.clone()).collect();
        for hash in late {
            // The room of a block that is still being fetched is released by `abandon` or `end`.
            if state.stored.contains_key(&hash) {
                state.note_read(&hash);
            }
        }
        state.evict(self.cache_bytes_max);
        drop(state);
        self.freed.notify_waiters();
    }

    /// Returns a stored block, without counting it as read.
    pub fn peek(&self, cid: &Cid) -> Option<Block> {
        self.state.lock().stored.get(cid.hash()).map(|stored| stored.block.clone())
    }

    /// Drops all blocks of a page that is gone.
    pub fn forget(&self, page: &str) {
        let mut state = self.state.lock();
        let of_page = state.stored.iter().filter(|(_, stored)| *stored.page == *page);
        let of_page: Vec<Multihash> = of_page.map(|(hash, _)| hash.clone()).collect();
        of_page.iter().for_each(|hash| state.remove_stored(hash));
        drop(state);
        self.freed.notify_waiters();
    }

    /// Ends a transfer. Without a cache, none of its blocks stays.
    pub fn end(&self, transfer: TransferId) {
        let mut state = self.state.lock();
        let stored = state.stored.iter().filter(|(_, stored)| stored.transfer == transfer);
        let stored: Vec<Multihash> = stored.map(|(hash, _)| hash.clone()).collect();
        stored.iter().for_each(|hash| state.note_read(hash));
        let pending = state.pending.iter().filter(|(_, pending)| pending.transfer == transfer);
        let pending: Vec<Multihash> = pending.map(|(hash, _)| hash.clone()).collect();
        pending.iter().for_each(|hash| state.remove_pending(hash));
        if self.cache_bytes_max == 0 {
            stored.iter().for_each(|hash| state.remove_stored(hash));
        }
        state.evict(self.cache_bytes_max);
        drop(state);
        self.freed.notify_waiters();
    }

    #[cfg(test)]
    fn stored_bytes(&self) -> usize {
        self.state.lock().stored_bytes
    }
}

impl State {
    fn add_pending(&mut self, hash: Multihash, pending: Pending) {
        self.pending_bytes += pending.bytes;
        *self.pending_bytes_of.entry(pending.transfer).or_default() += pending.bytes;
        self.pending.insert(hash, pending);
    }

    fn remove_pending(&mut self, hash: &Multihash) {
        let Some(pending) = self.pending.remove(hash) else { return };
        self.pending_bytes -= pending.bytes;
        if let Some(bytes) = self.pending_bytes_of.get_mut(&pending.transfer) {
            *bytes -= pending.bytes;
            if *bytes == 0 {
                self.pending_bytes_of.remove(&pending.transfer);
            }
        }
    }

    fn note_read(&mut self, hash: &Multihash) {
        self.remove_pending(hash);
        let Some(stored) = self.stored.get_mut(hash) else { return };
        self.reads += 1;
        let before = stored.last_read.replace(self.reads);
        if let Some(before) = before {
            self.read.remove(&before);
        }
        self.read.insert(self.reads, hash.clone());
    }

    /// Drops the least recently read blocks while there are too many. Without a cache, read blocks
    /// may use the room that pending blocks leave, because several peers may wait for one block.
    fn evict(&mut self, cache_bytes_max: usize) {
        let unread = self.pending_bytes.min(PENDING_BYTES_MAX);
        let bytes_max = cache_bytes_max.max(PENDING_BYTES_MAX - unread) + unread;
        while self.stored_bytes > bytes_max
            && let Some((_, hash)) = self.read.pop_first()
        {
            self.remove_stored(&hash);
        }
    }

    fn remove_stored(&mut self, hash: &Multihash) {
        self.remove_pending(hash);
        if let Some(stored) = self.stored.remove(hash) {
            self.stored_bytes -= stored.block.bytes().len();
            if let Some(last_read) = stored.last_read {
                self.read.remove(&last_read);
            }
        }
    }
}

impl ReadBlocks for BlockBuffer {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        let mut state = self.state.lock();
        let Some(stored) = state.stored.get(cid.hash()) else { return Ok(None) };
        let block = stored.block.clone();
        state.note_read(cid.hash());
        state.evict(self.cache_bytes_max);
        drop(state);
        self.freed.notify_waiters();
        if block.cid() == cid {
            return Ok(Some(block));
        }
        // Another CID with the same hash, such as version 0 instead of 1.
        Ok(Block::verify(cid.clone(), block.into_parts().1).ok())
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        let state = self.state.lock();
        state.stored.get(cid.hash()).map(|stored| stored.block.bytes().len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn block(number: usize, bytes: usize) -> Block {
        let mut content = vec![0; bytes];
        content[..8].copy_from_slice(&(number as u64).to_le_bytes());
        Block::raw(content.into()).expect("the block is short")
    }

    fn fetch(buffer: &BlockBuffer, transfer: TransferId, block: &Block) {
        let bytes = u32::try_from(block.bytes().len()).ok();
        assert!(buffer.reserve(transfer, block.cid(), bytes));
        buffer.store(transfer, &"page".into(), block);
    }

    #[test]
    fn fetches_wait_until_pending_blocks_are_read() {
        let buffer = BlockBuffer::new(0);
        let blocks: Vec<Block> = (0..40).map(|number| block(number, MIB)).collect();
        let reserved = |transfer, blocks: &[Block]| {
            let bytes = Some(1 << 20);
            blocks.iter().filter(|block| buffer.reserve(transfer, block.cid(), bytes)).count()
        };
        assert_eq!(reserved(1, &blocks[..10]), 8, "of one transfer");
        let all: usize = (2..5)
            .map(|transfer| reserved(transfer, &blocks[10 * (transfer as usize - 1)..][..10]))
            .sum();
        assert_eq!(all, 24, "of all transfers");
        buffer.store(1, &"page".into(), &blocks[0]);
        assert!(!buffer.reserve(1, blocks[8].cid(), None));
        assert_eq!(buffer.get(blocks[0].cid()).unwrap().as_ref(), Some(&blocks[0]));
        assert!(buffer.reserve(1, blocks[8].cid(), None));
        buffer.abandon(blocks[8].cid());
        assert!(buffer.reserve(1, blocks[9].cid(), None));
    }

    #[test]
    fn the_least_recently_read_block_is_dropped_first() {
        let buffer = BlockBuffer::new(40 * MIB);
        let blocks: Vec<Block> = (0..50).map(|number| block(number, MIB)).collect();
        for block in &blocks {
            fetch(&buffer, 1, block);
            assert!(buffer.get(block.cid()).unwrap().is_some());
            // A block that is read often stays.
            assert!(buffer.get(blocks[0].cid()).unwrap().is_some());
        }
        assert_eq!(buffer.stored_bytes(), 40 * MIB);
        assert_eq!(buffer.len_of(blocks[1].cid()), None);
        assert_eq!(buffer.len_of(blocks[49].cid()), Some(1 << 20));
    }

    #[test]
    fn without_a_cache_no_block_stays_after_its_transfer_ends() {
        let buffer = BlockBuffer::new(0);
        let (one, two) = (block(1, MIB), block(2, MIB));
        fetch(&buffer, 1, &one);
        fetch(&buffer, 2, &two);
        assert!(buffer.get(one.cid()).unwrap().is_some());
        assert!(buffer.get(one.cid()).unwrap().is_some(), "for another peer");
        buffer.end(1);
        assert_eq!((buffer.len_of(one.cid()), buffer.stored_bytes()), (None, MIB));
        assert!(buffer.get(two.cid()).unwrap().is_some(), "of another transfer");
    }

    #[test]
    fn no_block_of_a_page_that_is_gone_stays() {
        let buffer = BlockBuffer::new(64 * MIB);
        let blocks = [1, 2, 3].map(|number| block(number, MIB));
        fetch(&buffer, 1, &blocks[0]);
        assert!(buffer.reserve(1, blocks[1].cid(), Some(1 << 20)));
        buffer.store(1, &"page".into(), &blocks[1]);
        buffer.store(2, &"other".into(), &blocks[2]);
        assert!(buffer.get(blocks[0].cid()).unwrap().is_some());
        // Another page needs a block of the first too.
        buffer.store(3, &"other".into(), &blocks[1]);
        buffer.forget("page");
        let stays = blocks.each_ref().map(|block| buffer.peek(block.cid()).is_some());
        assert_eq!((stays, buffer.stored_bytes()), ([false, true, true], 2 * MIB));
        buffer.forget("other");
        assert_eq!(buffer.stored_bytes(), 0);
        assert_eq!(buffer.state.lock().pending_bytes, 0);
    }

    #[test]
    fn a_block_is_found_by_any_cid_with_its_hash() {
        let buffer = BlockBuffer::new(0);
        let bytes = bytes::Bytes::from_static(b"\x0a\x00");
        let node = Block::dag_pb(watchfire_content::Version::V1, bytes.clone()).unwrap();
        let old = Block::dag_pb(watchfire_content::Version::V0, bytes).unwrap();
        fetch(&buffer, 1, &node);
        assert_eq!(buffer.get(old.cid()).unwrap(), Some(old));
    }
}
