//! The hashes of a blob's blocks, as far as this host knows them.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use watchfire_fleet::{COMPLETE_LIST, HASHES_MAX, HashList, Learned};

use super::message::BlockHash;
use crate::store::{Blob, StartOrder};

/// The hashes of a blob that is being fetched. Several tasks share them, and others wait for more.
#[derive(Debug)]
pub(crate) struct KnownHashes {
    hashes: Mutex<HashList>,
    count: watch::Sender<usize>,
    start_order: Arc<StartOrder>,
}

impl KnownHashes {
    /// The hashes of the blocks that a blob has. `list` is random.
    pub(crate) fn new(blob: &Blob, list: u64) -> Self {
        let blocks = blob.blocks();
        let hashes = Mutex::new(HashList::new(blocks, list));
        let start_order = blob.start_order().clone();
        let known = KnownHashes { hashes, count: watch::Sender::new(0), start_order };
        for block in 0..blocks {
            if let Some(hash) = blob.block_hash(block) {
                known.insert(block as u32, hash);
            }
        }
        known
    }

    pub(crate) fn insert(&self, block: u32, hash: [u8; 32]) -> Learned {
        let mut hashes = self.hashes.lock();
        let learned = hashes.insert(block, hash);
        let count = hashes.count();
        drop(hashes);
        if learned == Learned::New {
            self.count.send_replace(count);
        }
        learned
    }

    pub(super) const fn start_order(&self) -> &Arc<StartOrder> {
        &self.start_order
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.hashes.lock().is_complete()
    }

    /// Whether half of the hashes are known or more.
    pub(crate) fn has_half(&self) -> bool {
        self.hashes.lock().has_half()
    }

    pub(crate) fn get(&self, block: usize) -> Option<[u8; 32]> {
        self.hashes.lock().get(block)
    }

    pub(crate) fn places(&self, hash: &[u8; 32]) -> Vec<u32> {
        self.hashes.lock().places(hash)
    }

    /// Waits until any hash is known.
    pub(crate) async fn any(&self) {
        // It cannot fail: the sender is a part of this.
        let _ = self.count.subscribe().wait_for(|count| *count > 0).await;
    }

    /// Waits until more hashes than a host has are known. Returns the list and those hashes.
    pub(super) async fn after(&self, list: u64, after: usize) -> (u64, Vec<BlockHash>) {
        let position = self.hashes.lock().position(list, after);
        // It cannot fail: the sender is a part of this.
        let _ = self.count.subscribe().wait_for(|count| *count > position).await;
        let (list, hashes) = self.hashes.lock().after(list, after);
        (list, hashes.into_iter().map(|(block, hash)| BlockHash(block, hash)).collect())
    }
}

/// The hashes of a complete blob that follow the first `after`.
pub(super) fn of_complete(blob: &Blob, list: u64, after: usize) -> (u64, Vec<BlockHash>) {
    let after = if list == COMPLETE_LIST { after } else { 0 };
    let blocks = (after..blob.blocks()).take(HASHES_MAX);
    let hashes = blocks.filter_map(|block| Some(BlockHash(block as u32, blob.block_hash(block)?)));
    (COMPLETE_LIST, hashes.collect())
}
