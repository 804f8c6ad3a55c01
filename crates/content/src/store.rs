use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{Block, Cid, Multihash};

/// A store of blocks.
///
/// A store finds blocks by their hash: a block that was stored under a version 0 CID is found under
/// the version 1 CID of the same bytes.
pub trait BlockStore {
    /// Returns the block of `cid`, or `None` if it is not stored.
    fn get(&self, cid: &Cid) -> Option<Block>;

    /// Whether the block of `cid` is stored.
    fn has(&self, cid: &Cid) -> bool {
        self.get(cid).is_some()
    }

    /// Stores `block`. A block that is stored already changes nothing and never fails.
    fn put(&mut self, block: Block) -> Result<(), StoreFull>;

    /// Removes the block of `cid`. Returns whether it was stored.
    fn remove(&mut self, cid: &Cid) -> bool;
}

/// The error of a store without room for a block. The stored blocks are unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot store {needed} bytes: {held} of {max} bytes are used")]
pub struct StoreFull {
    /// Bytes that the block needs.
    pub needed: usize,
    /// Bytes that are used.
    pub held: usize,
    pub max: usize,
}

/// Bytes that each block counts in a [`MemoryStore`] in addition to its length. They bound the
/// memory of many small blocks.
pub const STORED_BLOCK_OVERHEAD_BYTES: usize = 128;

/// A store in memory. When it is full, it rejects further blocks.
///
/// ```
/// use watchfire_content::{Block, BlockStore, MemoryStore};
///
/// let block = Block::raw("hi".into()).unwrap();
/// let mut store = MemoryStore::new(1024);
/// store.put(block.clone()).unwrap();
/// assert_eq!(store.get(block.cid()), Some(block));
/// assert!(store.put(Block::raw(vec![0; 1024].into()).unwrap()).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct MemoryStore {
    blocks: BTreeMap<Multihash, Bytes>,
    bytes: usize,
    bytes_max: usize,
}

impl MemoryStore {
    /// Creates an empty store of `bytes_max` bytes, including [`STORED_BLOCK_OVERHEAD_BYTES`] for
    /// each block.
    pub const fn new(bytes_max: usize) -> Self {
        MemoryStore { blocks: BTreeMap::new(), bytes: 0, bytes_max }
    }

    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the bytes that are used.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

fn cost(bytes: &Bytes) -> usize {
    bytes.len() + STORED_BLOCK_OVERHEAD_BYTES
}

impl BlockStore for MemoryStore {
    fn get(&self, cid: &Cid) -> Option<Block> {
        let (hash, bytes) = self.blocks.get_key_value(cid.hash())?;
        Block::renamed(cid, hash, bytes)
    }

    fn has(&self, cid: &Cid) -> bool {
        self.blocks.contains_key(cid.hash())
    }

    fn put(&mut self, block: Block) -> Result<(), StoreFull> {
        if self.has(block.cid()) {
            return Ok(());
        }
        let (cid, bytes) = block.into_parts();
        let needed = cost(&bytes);
        if needed > self.bytes_max - self.bytes {
            return Err(StoreFull { needed, held: self.bytes, max: self.bytes_max });
        }
        self.bytes += needed;
        self.blocks.insert(cid.hash().clone(), bytes);
        Ok(())
    }

    fn remove(&mut self, cid: &Cid) -> bool {
        let removed = self.blocks.remove(cid.hash());
        self.bytes -= removed.as_ref().map_or(0, cost);
        removed.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Codec;

    fn block(text: &'static str) -> Block {
        Block::raw(text.into()).unwrap()
    }

    #[test]
    fn a_full_store_rejects_blocks_and_keeps_its_own() {
        let mut store = MemoryStore::new(2 * STORED_BLOCK_OVERHEAD_BYTES + 3);
        store.put(block("a")).unwrap();
        store.put(block("bb")).unwrap();
        let full = StoreFull { needed: 129, held: 259, max: 259 };
        assert_eq!(store.put(block("c")), Err(full));
        assert!(store.has(block("a").cid()) && !store.has(block("c").cid()));
    }

    #[test]
    fn storing_a_block_twice_costs_nothing() {
        let mut store = MemoryStore::new(STORED_BLOCK_OVERHEAD_BYTES + 1);
        store.put(block("a")).unwrap();
        store.put(block("a")).unwrap();
        assert_eq!((store.len(), store.bytes()), (1, 129));
    }

    #[test]
    fn a_removed_block_frees_its_room() {
        let mut store = MemoryStore::new(STORED_BLOCK_OVERHEAD_BYTES + 1);
        store.put(block("a")).unwrap();
        assert!(store.remove(block("a").cid()));
        assert!(!store.remove(block("a").cid()));
        assert_eq!((store.is_empty(), store.bytes()), (true, 0));
    }

    #[test]
    fn a_block_is_found_under_every_cid_of_its_hash() {
        let mut store = MemoryStore::new(1024);
        store.put(block("a")).unwrap();
        let other_name = Cid::v1(Codec::DAG_PB, block("a").cid().hash().clone());
        assert_eq!(store.get(&other_name).unwrap().cid(), &other_name);
    }
}
