mod folder;
mod index;

use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;

use watchfire_content::dag_pb::Node;
use watchfire_content::{Block, Checksums, Cid, Codec};

use crate::error::IoContext;
use crate::{Key, ReadBlocks, StoreError, WriteBlocks, checksums, key_of};
pub use folder::create_own_folder;
use folder::{Folder, verified};
use index::Index;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskLimits {
    /// Largest total size of the blocks in bytes, each rounded up to pages of 4 KiB.
    pub bytes_max: u64,
    /// Largest number of pinned blocks, including those that are not stored yet. Each takes about
    /// 50 bytes of memory. Beyond it, pinning fails.
    pub pinned_blocks_max: usize,
}

impl Default for DiskLimits {
    fn default() -> Self {
        DiskLimits { bytes_max: 10 << 30, pinned_blocks_max: 4_000_000 }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskTotals {
    pub blocks: u64,
    /// Their size in bytes, rounded up to pages.
    pub bytes: u64,
    /// Pinned blocks, including those that are not stored.
    pub pinned_blocks: u64,
    /// Blocks that were evicted since the store was opened.
    pub evicted: u64,
    /// Damaged blocks that were removed since the store was opened.
    pub damaged: u64,
}

/// A folder of blocks. Each block is a file that is named by its CID.
///
/// - **A killed process** leaves whole blocks, because a file gets its name only after all of it is
///   written. Incomplete files are removed when the store is opened again.
/// - **A power failure** can destroy blocks that were written since the last [`DiskStore::sync`].
///   Syncing each block would cost more than all other work. A damaged block is never returned: its
///   first read checks the hash, and later reads check a checksum. It is removed and reported once.
///   The list of pins is synced on each change.
/// - **A full store** evicts the least recently used blocks that are not pinned (see
///   [`DiskStore::pin`]). If that frees too little, or the disk is full, it rejects the new block
///   and keeps all others. The time of the last use is known since the store was opened; before
///   that, the time of writing counts.
/// - **One process** at a time: opening fails in a second process, and the error names the first
///   one.
///
/// Threads can share a store. Reads and writes of different blocks run in parallel.
///
/// ```
/// use watchfire_content::Block;
/// use watchfire_store::{DiskLimits, DiskStore, ReadBlocks, WriteBlocks};
///
/// # let folder = std::env::temp_dir().join(format!("watchfire-store-doc-{}", std::process::id()));
/// let block = Block::raw("hi".into())?;
/// let store = DiskStore::open(&folder, DiskLimits::default())?;
/// store.put(&block)?;
/// drop(store);
///
/// let store = DiskStore::open(&folder, DiskLimits::default())?;
/// assert_eq!(store.get(block.cid())?, Some(block));
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DiskStore {
    limits: DiskLimits,
    folder: Folder,
    checksums: Checksums,
    /// Locked before `state` when both are locked.
    pins: Mutex<BTreeSet<Cid>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    index: Index,
    evicted: u64,
    damaged: u64,
}

impl DiskStore {
    /// Opens the store in `folder`, and creates the folder if it does not exist.
    ///
    /// Opening lists the files of all blocks, reads all pinned nodes, and evicts blocks beyond the
    /// limits.
    pub fn open(folder: &Path, limits: DiskLimits) -> Result<Self, StoreError> {
        DiskStore::open_folder(Folder::open(folder, false)?, limits)
    }

    /// Opens a temporary store, whose `folder` may be in one to which other users can write. The store is
    /// for this user alone: [`StoreError::NotOwn`] if another user has made the folder.
    pub fn open_own(folder: &Path, limits: DiskLimits) -> Result<Self, StoreError> {
        DiskStore::open_folder(Folder::open(folder, true)?, limits)
    }

    fn open_folder(folder: Folder, limits: DiskLimits) -> Result<Self, StoreError> {
        let mut index = Index::new(limits.bytes_max);
        for found in folder.scan()? {
            index.insert(found.key, found.len);
        }
        let pins = folder.read_pins()?.into_iter().collect();
        let state = Mutex::new(State { index, evicted: 0, damaged: 0 });
        let pinned = Mutex::new(BTreeSet::new());
        let store = DiskStore { limits, folder, checksums: checksums(), pins: pinned, state };
        store.protect(&pins)?;
        *store.pins.lock() = pins;
        {
            let mut state = store.state.lock();
            let evicted = state.index.make_room();
            store.evict(&mut state, evicted)?;
        }
        Ok(store)
    }

    /// Protects `root` and all blocks below it from eviction until [`DiskStore::unpin`], also
    /// across restarts. Returns whether it was not pinned before.
    ///
    /// Blocks that are not stored yet are protected as soon as they are. Pin a root before fetching
    /// it, so that no block of it is evicted meanwhile.
    pub fn pin(&self, root: &Cid) -> Result<bool, StoreError> {
        let mut pins = self.pins.lock();
        if pins.contains(root) {
            return Ok(false);
        }
        if let Err(error) = self.protect(std::iter::once(root)) {
            // Unprotect the blocks of this root alone.
            self.protect_only(&pins)?;
            return Err(error);
        }
        pins.insert(root.clone());
        if let Err(error) = self.folder.write_pins(pins.iter()) {
            pins.remove(root);
            self.protect_only(&pins)?;
            return Err(error);
        }
        Ok(true)
    }

    /// Ends the protection of [`DiskStore::pin`]. Returns whether the root was pinned. Blocks of
    /// other pins stay protected.
    pub fn unpin(&self, root: &Cid) -> Result<bool, StoreError> {
        let mut pins = self.pins.lock();
        if !pins.remove(root) {
            return Ok(false);
        }
        if let Err(error) = self.folder.write_pins(pins.iter()) {
            pins.insert(root.clone());
            return Err(error);
        }
        self.protect_only(&pins)?;
        Ok(true)
    }

    /// Returns the pinned roots.
    pub fn pins(&self) -> Vec<Cid> {
        self.pins.lock().iter().cloned().collect()
    }

    /// Removes a block, even if it is pinned. Returns whether it was stored.
    pub fn remove(&self, cid: &Cid) -> Result<bool, StoreError> {
        let Some(key) = key_of(cid) else { return Ok(false) };
        let mut state = self.state.lock();
        self.folder.remove(&key)?;
        Ok(state.index.remove(&key))
    }

    /// Syncs all stored blocks to the disk, so that they survive a power failure.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.folder.sync()
    }

    pub fn totals(&self) -> DiskTotals {
        let state = self.state.lock();
        DiskTotals {
            blocks: state.index.blocks() as u64,
            bytes: state.index.bytes(),
            pinned_blocks: state.index.pinned() as u64,
            evicted: state.evicted,
            damaged: state.damaged,
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.root()
    }

    /// Removes the folder with all blocks and the files of others in it. The store is not used any more.
    pub fn remove_folder(&self) -> Result<(), StoreError> {
        self.folder.remove_all()
    }

    /// Removes the files of blocks that the index evicted.
    fn evict(&self, state: &mut State, keys: Vec<Key>) -> Result<(), StoreError> {
        for key in keys {
            state.evicted += 1;
            self.folder.remove(&key)?;
        }
        Ok(())
    }

    /// Protects these roots and all blocks below them, in addition to the protected blocks.
    fn protect<'a>(&self, roots: impl IntoIterator<Item = &'a Cid>) -> Result<(), StoreError> {
        let mut pending: Vec<Cid> = roots.into_iter().cloned().collect();
        while let Some(cid) = pending.pop() {
            let is_node = cid.codec() == Codec::DAG_PB;
            if let Some(key) = key_of(&cid) {
                // Pin before reading. A concurrent `put` stores before it checks the pins, so one
                // of the two sees the other.
                let mut state = self.state.lock();
                if !state.index.pin(key, is_node) {
                    continue;
                }
                self.check_pinned(state.index.pinned())?;
            }
            if is_node {
                pending.extend(self.links_of(&cid)?);
            }
        }
        Ok(())
    }

    /// Protects these roots and all blocks below them, and no other blocks.
    fn protect_only(&self, roots: &BTreeSet<Cid>) -> Result<(), StoreError> {
        let mut pinned = HashMap::new();
        let mut pending: Vec<Cid> = roots.iter().cloned().collect();
        while let Some(cid) = pending.pop() {
            let is_node = cid.codec() == Codec::DAG_PB;
            if let Some(key) = key_of(&cid) {
                let known = pinned.get(&key).copied();
                if known.is_some_and(|was_node: bool| was_node || !is_node) {
                    continue;
                }
                pinned.insert(key, is_node);
                self.check_pinned(pinned.len())?;
            }
            if is_node {
                pending.extend(self.links_of(&cid)?);
            }
        }
        self.state.lock().index.replace_pins(pinned);
        Ok(())
    }

    fn check_pinned(&self, pinned: usize) -> Result<(), StoreError> {
        let max = self.limits.pinned_blocks_max;
        if pinned > max { Err(StoreError::TooManyPinned { max }) } else { Ok(()) }
    }

    /// Returns the links of a node; none if it is not stored or not a node.
    fn links_of(&self, cid: &Cid) -> Result<Vec<Cid>, StoreError> {
        match self.get(cid) {
            Ok(Some(block)) => Ok(links(&block)),
            Ok(None) | Err(StoreError::Damaged { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn remove_damaged(&self, cid: &Cid, key: &Key) -> StoreError {
        let mut state = self.state.lock();
        if state.index.remove(key) {
            state.damaged += 1;
        }
        match self.folder.remove(key) {
            Ok(()) => StoreError::Damaged { cid: cid.clone(), path: self.folder.path_of(key) },
            Err(error) => error,
        }
    }
}

fn links(block: &Block) -> Vec<Cid> {
    let links = Node::decode(block.bytes()).map(|node| node.links).unwrap_or_default();
    links.into_iter().map(|link| link.cid).collect()
}

impl ReadBlocks for DiskStore {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        if let Some(block) = Block::from_cid(cid) {
            return Ok(Some(block));
        }
        let Some(key) = key_of(cid) else { return Ok(None) };
        let (len, checksum) = {
            let mut state = self.state.lock();
            let Some(len) = state.index.touch(&key) else { return Ok(None) };
            (len, state.index.checksum_of(&key))
        };
        let path = self.folder.path_of(&key);
        let read = match self.folder.read(&path, len) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // The block was evicted after the lookup, and perhaps stored again after the read.
                // While the state is locked, neither can happen.
                let state = self.state.lock();
                if state.index.len_of(&key).is_none() {
                    return Ok(None);
                }
                self.folder.read(&path, len)
            }
            read => read,
        };
        match read {
            Ok(bytes) => match checksum {
                Some(checksum) => match self.checksums.verify(cid, bytes.into(), checksum) {
                    Some(block) => Ok(Some(block)),
                    None => Err(self.remove_damaged(cid, &key)),
                },
                None => match verified(cid, bytes) {
                    Some(block) => {
                        let checksum = self.checksums.of(&block);
                        self.state.lock().index.set_checksum(&key, checksum);
                        Ok(Some(block))
                    }
                    None => Err(self.remove_damaged(cid, &key)),
                },
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(self.remove_damaged(cid, &key))
            }
            Err(error) => Err(error).doing("read", &path),
        }
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        if let Some(block) = Block::from_cid(cid) {
            return Some(block.bytes().len() as u64);
        }
        self.state.lock().index.len_of(&key_of(cid)?)
    }
}

impl WriteBlocks for DiskStore {
    fn put(&self, block: &Block) -> Result<(), StoreError> {
        let (Some(key), false) = (key_of(block.cid()), block.bytes().is_empty()) else {
            return Ok(());
        };
        let len = block.bytes().len() as u64;
        {
            let mut state = self.state.lock();
            if state.index.touch(&key).is_some() {
                return Ok(());
            }
            let max = self.limits.bytes_max;
            let room = state.index.reserve(len);
            let evicted = room.map_err(|index::NoRoom { held }| StoreError::Full {
                needed: index::cost(len),
                held,
                max,
            })?;
            if let Err(error) = self.evict(&mut state, evicted) {
                state.index.release(len);
                return Err(error);
            }
        }
        let checksum = self.checksums.of(block);
        let written = self.folder.write(block.bytes());
        let mut state = self.state.lock();
        match written.and_then(|file| file.move_to(&self.folder.path_of(&key))) {
            Ok(()) => {
                state.index.commit(key, len);
                state.index.set_checksum(&key, checksum);
            }
            Err(error) => {
                state.index.release(len);
                return Err(error);
            }
        };
        let is_pinned_node = state.index.is_pinned_node(&key);
        drop(state);
        if is_pinned_node {
            let _pins = self.pins.lock();
            // The block may have been unpinned meanwhile.
            let is_still_pinned = self.state.lock().index.is_pinned_node(&key);
            if is_still_pinned {
                self.protect(&links(block))?;
            }
        }
        Ok(())
    }
}
