//! Blocks on their way from one world to another.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::time::Duration;

use content::{Block, Cid, Multihash};
use store::{ReadBlocks, StoreError};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::presence::lock;

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
pub(super) type LaneId = u64;

/// Holds what passes: blocks that are fetched for somebody, until they are read, and then for as
/// long as there is room.
pub(super) struct Transit {
    state: Mutex<State>,
    cache_bytes_max: usize,
    /// Told when something was read, so that more can be fetched.
    pub freed: Notify,
}

#[derive(Default)]
struct State {
    passing: HashMap<Multihash, Passing>,
    passing_bytes: usize,
    passing_of: HashMap<LaneId, usize>,
    here: HashMap<Multihash, Held>,
    here_bytes: usize,
    /// What was read, the longest ago first.
    read: BTreeMap<u64, Multihash>,
    clock: u64,
}

/// Bytes that are reserved for a block on its way.
struct Passing {
    lane: LaneId,
    bytes: usize,
    since: Instant,
}

struct Held {
    block: Block,
    lane: LaneId,
    /// When it was read last, in reads; `None` while it was not.
    read_at: Option<u64>,
}

impl Transit {
    pub fn new(cache_bytes_max: usize) -> Self {
        Transit { state: Mutex::default(), cache_bytes_max, freed: Notify::new() }
    }

    /// Makes room for a block that is to be fetched; whether there is any.
    pub fn begin(&self, lane: LaneId, cid: &Cid, bytes: Option<u32>) -> bool {
        let mut state = lock(&self.state);
        let bytes = bytes.map_or(BLOCK_BYTES_GUESS, |bytes| bytes as usize);
        let of_lane = state.passing_of.get(&lane).copied().unwrap_or(0);
        let has_room = state.passing_bytes + bytes <= PASSING_BYTES_MAX;
        let has_turn = of_lane == 0 || of_lane + bytes <= PASSING_BYTES_OF_PAGE;
        if !has_room || !has_turn || state.passing.contains_key(cid.hash()) {
            return false;
        }
        state.take(cid.hash().clone(), Passing { lane, bytes, since: Instant::now() });
        true
    }

    /// It came. `None`: it is to be read by somebody; otherwise it only is kept, if there is room.
    pub fn arrived(&self, lane: LaneId, block: &Block) {
        let mut state = lock(&self.state);
        let hash = block.cid().hash().clone();
        if state.here.contains_key(&hash) {
            return;
        }
        state.free(&hash);
        let bytes = block.bytes().len();
        state.take(hash.clone(), Passing { lane, bytes, since: Instant::now() });
        state.here_bytes += bytes;
        state.here.insert(hash, Held { block: block.clone(), lane, read_at: None });
        state.evict(self.cache_bytes_max);
    }

    /// Nobody sends it.
    pub fn abandon(&self, cid: &Cid) {
        let mut state = lock(&self.state);
        if !state.here.contains_key(cid.hash()) {
            state.free(cid.hash());
        }
        drop(state);
        self.freed.notify_waiters();
    }

    /// Room for what was fetched and is not read comes back after a while.
    pub fn sweep(&self) {
        let mut state = lock(&self.state);
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
    pub fn end(&self, lane: LaneId) {
        let mut state = lock(&self.state);
        let of_lane = state.here.iter().filter(|(_, held)| held.lane == lane);
        let here: Vec<Multihash> = of_lane.map(|(hash, _)| hash.clone()).collect();
        here.iter().for_each(|hash| state.was_read(hash));
        let passing = state.passing.iter().filter(|(_, passing)| passing.lane == lane);
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
        lock(&self.state).here_bytes
    }
}

impl State {
    fn take(&mut self, hash: Multihash, passing: Passing) {
        self.passing_bytes += passing.bytes;
        *self.passing_of.entry(passing.lane).or_default() += passing.bytes;
        self.passing.insert(hash, passing);
    }

    fn free(&mut self, hash: &Multihash) {
        let Some(passing) = self.passing.remove(hash) else { return };
        self.passing_bytes -= passing.bytes;
        if let Some(bytes) = self.passing_of.get_mut(&passing.lane) {
            *bytes -= passing.bytes;
            if *bytes == 0 {
                self.passing_of.remove(&passing.lane);
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

impl ReadBlocks for Transit {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        let mut state = lock(&self.state);
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
        let state = lock(&self.state);
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

    fn pass(transit: &Transit, lane: LaneId, block: &Block) {
        let bytes = u32::try_from(block.bytes().len()).ok();
        assert!(transit.begin(lane, block.cid(), bytes));
        transit.arrived(lane, block);
    }

    #[test]
    fn no_more_is_fetched_than_is_read() {
        let transit = Transit::new(0);
        let blocks: Vec<Block> = (0..40).map(|number| block(number, MIB)).collect();
        let begun = |lane, blocks: &[Block]| {
            blocks.iter().filter(|block| transit.begin(lane, block.cid(), Some(1 << 20))).count()
        };
        assert_eq!(begun(1, &blocks[..10]), 8, "of one page");
        let all: usize =
            (2..5).map(|lane| begun(lane, &blocks[10 * (lane as usize - 1)..][..10])).sum();
        assert_eq!(all, 24, "of all pages");
        transit.arrived(1, &blocks[0]);
        assert!(!transit.begin(1, blocks[8].cid(), None));
        assert_eq!(transit.get(blocks[0].cid()).unwrap().as_ref(), Some(&blocks[0]));
        assert!(transit.begin(1, blocks[8].cid(), None));
        transit.abandon(blocks[8].cid());
        assert!(transit.begin(1, blocks[9].cid(), None));
    }

    #[test]
    fn what_was_read_stays_while_there_is_room_and_the_oldest_goes_first() {
        let transit = Transit::new(40 * MIB);
        let blocks: Vec<Block> = (0..50).map(|number| block(number, MIB)).collect();
        for block in &blocks {
            pass(&transit, 1, block);
            assert!(transit.get(block.cid()).unwrap().is_some());
            // Asked for again and again, it stays.
            assert!(transit.get(blocks[0].cid()).unwrap().is_some());
        }
        assert_eq!(transit.bytes(), 40 * MIB);
        assert_eq!(transit.len_of(blocks[1].cid()), None);
        assert_eq!(transit.len_of(blocks[49].cid()), Some(1 << 20));
    }

    #[test]
    fn without_a_cache_nothing_stays_when_nothing_passes_any_more() {
        let transit = Transit::new(0);
        let (one, two) = (block(1, MIB), block(2, MIB));
        pass(&transit, 1, &one);
        pass(&transit, 2, &two);
        assert!(transit.get(one.cid()).unwrap().is_some());
        assert!(transit.get(one.cid()).unwrap().is_some(), "somebody else waits for it too");
        transit.end(1);
        assert_eq!((transit.len_of(one.cid()), transit.bytes()), (None, MIB));
        assert!(transit.get(two.cid()).unwrap().is_some(), "of another page");
    }

    #[test]
    fn a_block_has_all_its_names() {
        let transit = Transit::new(0);
        let bytes = bytes::Bytes::from_static(b"\x0a\x00");
        let node = Block::dag_pb(content::Version::V1, bytes.clone()).unwrap();
        let old = Block::dag_pb(content::Version::V0, bytes).unwrap();
        pass(&transit, 1, &node);
        assert_eq!(transit.get(old.cid()).unwrap(), Some(old));
    }
}
