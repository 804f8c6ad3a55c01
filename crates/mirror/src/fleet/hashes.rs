//! The hashes of a blob's blocks, as far as this host knows them.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::message::{BlockHash, HASHES_MAX};
use crate::store::Blob;

/// The list of a blob that is complete. Its order is that of the blocks.
const COMPLETE_LIST: u64 = 0;

/// The hashes of the blocks of a blob that is being fetched, in the order in which this host learned
/// them. Other hosts ask for those that they lack.
#[derive(Debug)]
pub(crate) struct KnownHashes {
    /// Tells the lists of two downloads apart.
    list: u64,
    state: Mutex<State>,
    /// The number of known hashes.
    count: watch::Sender<usize>,
}

#[derive(Debug)]
struct State {
    hashes: Vec<Option<[u8; 32]>>,
    order: Vec<u32>,
    /// Equal blocks have several places.
    places: HashMap<[u8; 32], Vec<u32>>,
}

/// The effect of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    New,
    Known,
    /// It is another hash than the known one, or of a block that does not exist.
    Contradiction,
}

impl KnownHashes {
    /// The hashes of the blocks that a blob has. `list` is random.
    pub(crate) fn new(blob: &Blob, list: u64) -> Self {
        let blocks = blob.blocks();
        let state = State { hashes: vec![None; blocks], order: Vec::new(), places: HashMap::new() };
        let known = KnownHashes {
            list: list.max(COMPLETE_LIST + 1),
            state: Mutex::new(state),
            count: watch::Sender::new(0),
        };
        for block in 0..blocks {
            if let Some(hash) = blob.block_hash(block) {
                known.insert(block as u32, hash);
            }
        }
        known
    }

    /// Adds a hash.
    pub(crate) fn insert(&self, block: u32, hash: [u8; 32]) -> Learned {
        let mut state = self.state.lock();
        match state.hashes.get(block as usize) {
            None => return Learned::Contradiction,
            Some(Some(known)) if *known == hash => return Learned::Known,
            Some(Some(_)) => return Learned::Contradiction,
            Some(None) => {}
        }
        state.hashes[block as usize] = Some(hash);
        state.order.push(block);
        state.places.entry(hash).or_default().push(block);
        let count = state.order.len();
        drop(state);
        self.count.send_replace(count);
        Learned::New
    }

    /// Whether the hash of every block is known.
    pub(crate) fn is_complete(&self) -> bool {
        let state = self.state.lock();
        state.order.len() == state.hashes.len()
    }

    /// The hash of a block.
    pub(crate) fn get(&self, block: usize) -> Option<[u8; 32]> {
        self.state.lock().hashes.get(block).copied().flatten()
    }

    /// The places of a block.
    pub(crate) fn places(&self, hash: &[u8; 32]) -> Vec<u32> {
        self.state.lock().places.get(hash).cloned().unwrap_or_default()
    }

    /// Waits until more hashes than a host has are known. Returns the list and those hashes.
    pub(super) async fn after(&self, list: u64, after: usize) -> (u64, Vec<BlockHash>) {
        let after = if list == self.list { after } else { 0 };
        // It cannot fail: the sender is a part of this.
        let _ = self.count.subscribe().wait_for(|count| *count > after).await;
        let state = self.state.lock();
        let order = state.order.get(after..).unwrap_or_default();
        let hashes = order.iter().take(HASHES_MAX).filter_map(|block| {
            let hash = state.hashes[*block as usize]?;
            Some(BlockHash(*block, hash))
        });
        (self.list, hashes.collect())
    }
}

/// The hashes of a complete blob that follow the first `after`.
pub(super) fn of_complete(blob: &Blob, list: u64, after: usize) -> (u64, Vec<BlockHash>) {
    let after = if list == COMPLETE_LIST { after } else { 0 };
    let blocks = (after..blob.blocks()).take(HASHES_MAX);
    let hashes = blocks.filter_map(|block| Some(BlockHash(block as u32, blob.block_hash(block)?)));
    (COMPLETE_LIST, hashes.collect())
}
