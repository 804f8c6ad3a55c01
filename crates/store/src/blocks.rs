use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

use watchfire_content::{Block, BlockStore, Cid, MemoryStore};

use crate::StoreError;

/// A store that threads read blocks from. Reading may block on a disk.
///
/// A store finds blocks by their hash: a block that was stored under one CID is found under every
/// CID of the same bytes. Every block that it returns was verified.
pub trait ReadBlocks: Send + Sync {
    /// Returns the block of `cid`, or `None` if it is not stored.
    ///
    /// An error means that the block was stored but cannot be read. If the error is permanent, such
    /// as a damaged block or a modified file, the store has removed the block.
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError>;

    /// Returns the length of the block of `cid` in bytes, or `None` if it is not stored. Never
    /// blocks on a disk.
    fn len_of(&self, cid: &Cid) -> Option<u64>;

    /// Whether the block of `cid` is stored. Never blocks on a disk.
    fn has(&self, cid: &Cid) -> bool {
        self.len_of(cid).is_some()
    }
}

/// A store that blocks can be written to.
pub trait WriteBlocks: ReadBlocks {
    /// Stores `block`. A block that is stored already changes nothing and never fails.
    fn put(&self, block: &Block) -> Result<(), StoreError>;
}

impl<S: ReadBlocks + ?Sized> ReadBlocks for Arc<S> {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        (**self).get(cid)
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        (**self).len_of(cid)
    }
}

impl<S: WriteBlocks + ?Sized> WriteBlocks for Arc<S> {
    fn put(&self, block: &Block) -> Result<(), StoreError> {
        (**self).put(block)
    }
}

/// Several stores that are searched in order.
///
/// If a store fails to read a block, the error is logged and the next store is searched. The error
/// is returned only if no other store has the block.
///
/// ```
/// use watchfire_content::{Block, MemoryStore};
/// use watchfire_store::{LockedMemoryStore, ReadBlocks, Stores, WriteBlocks};
/// use std::sync::Arc;
///
/// let (first, second) = (LockedMemoryStore::new(1024), LockedMemoryStore::new(1024));
/// let block = Block::raw("hi".into()).unwrap();
/// second.put(&block).unwrap();
/// let stores = Stores::new(vec![Arc::new(first), Arc::new(second)]);
/// assert_eq!(stores.get(block.cid()).unwrap(), Some(block));
/// ```
#[derive(Clone, Default)]
pub struct Stores {
    stores: Vec<Arc<dyn ReadBlocks>>,
}

impl Stores {
    /// Creates a list of stores in their search order.
    pub fn new(stores: Vec<Arc<dyn ReadBlocks>>) -> Self {
        Stores { stores }
    }

    /// Adds a store at the end of the search order.
    pub fn push(&mut self, store: Arc<dyn ReadBlocks>) {
        self.stores.push(store);
    }
}

impl ReadBlocks for Stores {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        let mut failed = None;
        for store in &self.stores {
            match store.get(cid) {
                Ok(Some(block)) => return Ok(Some(block)),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%cid, %error, "cannot read a block from a store");
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(None), Err)
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        self.stores.iter().find_map(|store| store.len_of(cid))
    }
}

/// A [`MemoryStore`] behind a lock, for several threads.
#[derive(Debug)]
pub struct LockedMemoryStore {
    store: Mutex<MemoryStore>,
}

impl LockedMemoryStore {
    /// Creates an empty store of at most `bytes_max` bytes. When it is full, it rejects blocks.
    pub const fn new(bytes_max: usize) -> Self {
        LockedMemoryStore { store: Mutex::new(MemoryStore::new(bytes_max)) }
    }

    pub fn lock(&self) -> MutexGuard<'_, MemoryStore> {
        self.store.lock()
    }
}

impl ReadBlocks for LockedMemoryStore {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        Ok(Block::from_cid(cid).or_else(|| self.lock().get(cid)))
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        let block = Block::from_cid(cid).or_else(|| self.lock().get(cid))?;
        Some(block.bytes().len() as u64)
    }
}

impl WriteBlocks for LockedMemoryStore {
    fn put(&self, block: &Block) -> Result<(), StoreError> {
        Ok(self.lock().put(block.clone())?)
    }
}
