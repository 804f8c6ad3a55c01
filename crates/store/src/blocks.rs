use std::sync::{Arc, Mutex, MutexGuard};

use content::{Block, BlockStore, Cid, MemoryStore};

use crate::StoreError;

/// Where blocks are read from, by any number of threads; reading may wait for a disk.
///
/// A store goes by the hash alone: what was put in under one CID is found under every CID of the
/// same bytes. All that comes out was verified.
pub trait ReadBlocks: Send + Sync {
    /// The block that `cid` names, if it is here.
    ///
    /// An error says that it was here and cannot be had. When that is for good (a damaged block, a
    /// file that was changed), the store has forgotten it, and the next call says `None`.
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError>;

    /// Bytes of the block that `cid` names, if it is here. Never waits for a disk.
    fn len_of(&self, cid: &Cid) -> Option<u64>;

    /// Whether the block that `cid` names is here. Never waits for a disk.
    fn has(&self, cid: &Cid) -> bool {
        self.len_of(cid).is_some()
    }
}

/// Where blocks are kept as well.
pub trait WriteBlocks: ReadBlocks {
    /// Keeps `block`. Keeping what is here already changes nothing and never fails.
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

/// Several stores, asked in turn.
///
/// A store that cannot give a block that it has is not the end: the next one may. Its error is
/// logged, and handed on when no other has the block.
///
/// ```
/// use content::{Block, MemoryStore};
/// use store::{Memory, ReadBlocks, Stores, WriteBlocks};
/// use std::sync::Arc;
///
/// let (first, second) = (Memory::new(1024), Memory::new(1024));
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
    /// These stores, in this order.
    pub fn new(stores: Vec<Arc<dyn ReadBlocks>>) -> Self {
        Stores { stores }
    }

    /// One more, asked last.
    pub fn push(&mut self, store: Arc<dyn ReadBlocks>) {
        self.stores.push(store);
    }
}

impl ReadBlocks for Stores {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        let mut refused = None;
        for store in &self.stores {
            match store.get(cid) {
                Ok(Some(block)) => return Ok(Some(block)),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%cid, %error, "a store could not give a block");
                    refused.get_or_insert(error);
                }
            }
        }
        refused.map_or(Ok(None), Err)
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        self.stores.iter().find_map(|store| store.len_of(cid))
    }
}

/// A [`MemoryStore`] that several threads share.
#[derive(Debug)]
pub struct Memory {
    store: Mutex<MemoryStore>,
}

impl Memory {
    /// An empty store for `bytes_max` bytes; when it is full, further blocks are refused.
    pub const fn new(bytes_max: usize) -> Self {
        Memory { store: Mutex::new(MemoryStore::new(bytes_max)) }
    }

    /// The store itself, for as long as it is held.
    pub fn lock(&self) -> MutexGuard<'_, MemoryStore> {
        crate::locked(&self.store)
    }
}

impl ReadBlocks for Memory {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        Ok(Block::implied_by(cid).or_else(|| self.lock().get(cid)))
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        let block = Block::implied_by(cid).or_else(|| self.lock().get(cid))?;
        Some(block.bytes().len() as u64)
    }
}

impl WriteBlocks for Memory {
    fn put(&self, block: &Block) -> Result<(), StoreError> {
        Ok(self.lock().put(block.clone())?)
    }
}
