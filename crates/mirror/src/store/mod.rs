//! Blobs and manifests on disk.
//!
//! ```text
//! blobs/sha256/ab/<hex>           a complete and verified blob
//! blobs/sha256/ab/<hex>.blocks    the hashes of its blocks
//! partial/sha256-<hex>            a blob that is being fetched, with holes
//! partial/sha256-<hex>.blocks     the hashes of the blocks that it has
//! manifests/sha256/ab/<hex>       a manifest, after a line with its media type
//! repositories/<hash>             the tags and manifests of one repository
//! files/<hash>                    the version of one file of a proxy host
//! containerd/sha256-<hex>.blocks  the hashes of the blocks of a blob that containerd has
//! lock                            held by the process that uses the store
//! ```

mod blob;
mod block_index;
mod block_list;
mod error;
mod folder;
mod lru;
mod manifests;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use watchfire_content::Block;

pub use blob::{BLOCK_BYTES, Blob, BlobState, Check};
pub use block_index::{BlockIndex, cid_of, hash_of};
pub use block_list::BlockHash;
pub use error::StoreError;
pub use folder::Folder;
pub(crate) use folder::{entries, remove, unix_seconds, write_whole};
pub use manifests::Manifests;

use crate::oci::Digest;
use lru::Lru;

/// The blobs of a mirror.
///
/// - **A killed process** loses at most the block that it was writing. The next process goes on with
///   the blobs that were being fetched, and verifies what it finds.
/// - **A full store** removes the least recently used blobs that nobody reads.
/// - **A damaged block** is never returned: its hash is checked at each read.
#[derive(Debug)]
pub struct Blobs {
    folder: Folder,
    bytes_max: u64,
    index: Arc<BlockIndex>,
    /// Held while a blob is opened, which may take a pass over its bytes.
    opening: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The blobs on disk, complete or not.
    sizes: Lru,
    /// The blobs that are open now. They are never removed.
    open: HashMap<Digest, Weak<Blob>>,
    evicted: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Blobs on disk, complete or not.
    pub blobs: u64,
    /// Their size in bytes; of an incomplete blob, its size when it is complete.
    pub bytes: u64,
    /// The size at which the store is full.
    pub bytes_max: u64,
    /// Blobs that were removed to make room, since the start.
    pub evicted: u64,
}

impl Blobs {
    pub fn open(folder: Folder, bytes_max: u64) -> Result<Self, StoreError> {
        let mut state = State::default();
        for found in folder.scan_blobs()? {
            state.sizes.insert(found.digest, found.bytes);
        }
        let (index, state) = (Arc::default(), Mutex::new(state));
        let blobs = Blobs { folder, bytes_max, index, opening: Mutex::default(), state };
        blobs.make_room(&mut blobs.state.lock(), 0)?;
        Ok(blobs)
    }

    /// The blob, if the store has it completely, or containerd has it. A blob without a list of its
    /// blocks, such as a new one of containerd, is hashed first.
    pub fn complete(&self, digest: &Digest) -> Result<Option<Arc<Blob>>, StoreError> {
        if let Some(blob) = self.open_blob(digest) {
            return Ok(Some(blob).filter(|blob| blob.state() == BlobState::Complete));
        }
        let _opening = self.opening.lock();
        if let Some(blob) = self.open_blob(digest) {
            return Ok(Some(blob).filter(|blob| blob.state() == BlobState::Complete));
        }
        let Some(blob) = Blob::open_complete(&self.folder, &self.index, digest)? else {
            return Ok(None);
        };
        let blob = Arc::new(blob);
        let mut state = self.state.lock();
        if self.folder.blob(digest).exists() {
            state.sizes.insert(digest.clone(), blob.size());
        }
        state.open.insert(digest.clone(), Arc::downgrade(&blob));
        state.drop_closed();
        Ok(Some(blob))
    }

    /// The blob, if it is open. This counts as a use of it.
    fn open_blob(&self, digest: &Digest) -> Option<Arc<Blob>> {
        let mut state = self.state.lock();
        let blob = state.open.get(digest).and_then(Weak::upgrade)?;
        state.sizes.touch(digest);
        Some(blob)
    }

    /// Like [`Blobs::complete`], on a thread that may wait for the disk.
    pub async fn find_complete(
        self: &Arc<Self>,
        digest: &Digest,
    ) -> Result<Option<Arc<Blob>>, StoreError> {
        if let Some(blob) = self.open_blob(digest) {
            return Ok(Some(blob).filter(|blob| blob.state() == BlobState::Complete));
        }
        let (blobs, name) = (self.clone(), digest.clone());
        let opened = tokio::task::spawn_blocking(move || blobs.complete(&name)).await;
        // It fails only if the call panicked, or while the runtime stops.
        opened.unwrap_or(Ok(None))
    }

    /// Removes the blobs that containerd has too, unless they are open, and the lists of blobs that
    /// containerd has no more.
    pub fn remove_copies_of_containerd(&self) -> Result<(), StoreError> {
        self.folder.remove_old_containerd_lists()?;
        for digest in self.digests() {
            let Some(path) = self.folder.containerd_blob(&digest) else { return Ok(()) };
            let mut state = self.state.lock();
            let is_open = state.open.get(&digest).is_some_and(|blob| blob.strong_count() > 0);
            let own = std::fs::metadata(self.folder.blob(&digest)).map(|file| file.len());
            let copy = std::fs::metadata(path).map(|file| file.len());
            if !is_open && matches!((own, copy), (Ok(own), Ok(copy)) if own == copy) {
                state.sizes.remove(&digest);
                state.open.remove(&digest);
                self.folder.remove_blob(&digest)?;
            }
        }
        Ok(())
    }

    pub fn containerd_digests(&self) -> Result<Vec<Digest>, StoreError> {
        self.folder.containerd_digests()
    }

    /// The blob as far as it is there. Makes room for it, and creates it when it is new.
    ///
    /// The caller fetches the missing blocks. Only one caller may fetch a blob at a time. A file of a
    /// server is a blob with a [`Check`] of its own; its digest is only its name.
    pub fn open_partial(
        &self,
        digest: &Digest,
        check: Check,
        size: u64,
    ) -> Result<Arc<Blob>, StoreError> {
        if size > self.bytes_max {
            return Err(StoreError::LargerThanStore { bytes: size, bytes_max: self.bytes_max });
        }
        if let Some(blob) = self.complete(digest)? {
            return Ok(blob);
        }
        let mut state = self.state.lock();
        if let Some(blob) = state.open.get(digest).and_then(Weak::upgrade) {
            return Ok(blob);
        }
        state.sizes.remove(digest);
        self.make_room(&mut state, size)?;
        state.sizes.insert(digest.clone(), size);
        drop(state);
        // It may verify many blocks. The other blobs can be used meanwhile.
        let blob = Arc::new(Blob::open_partial(&self.folder, &self.index, digest, check, size)?);
        self.state.lock().open.insert(digest.clone(), Arc::downgrade(&blob));
        Ok(blob)
    }

    /// Lets other hosts find the blocks of all complete blobs, which takes a while in a large store.
    /// Damaged blobs are skipped.
    pub fn index_all(&self) {
        for digest in self.digests() {
            if let Err(error) = self.complete(&digest) {
                tracing::warn!(%digest, %error, "cannot open a blob of the store");
            }
        }
    }

    /// The blobs on disk, complete or not.
    pub fn digests(&self) -> Vec<Digest> {
        self.state.lock().sizes.digests()
    }

    /// A block of any blob; `None` if the store lacks it.
    pub fn block(&self, hash: &BlockHash) -> Result<Option<Block>, StoreError> {
        let Some(place) = self.index.get(hash) else { return Ok(None) };
        let open = self.state.lock().open.get(&*place.digest).and_then(Weak::upgrade);
        let blob = match open {
            Some(blob) => Some(blob),
            None => self.complete(&place.digest)?,
        };
        let block = match &blob {
            Some(blob) if blob.block_hash(place.block as usize) == Some(*hash) => {
                blob.read_named_block(place.block as usize)?
            }
            _ => None,
        };
        if block.is_none() {
            self.index.remove(hash);
        }
        Ok(block)
    }

    /// The length of a block of any blob, without a look at the disk; `None` if the store lacks it.
    pub fn block_len(&self, hash: &BlockHash) -> Option<u64> {
        self.index.get(hash).map(|place| place.len.into())
    }

    /// Whether the store has a part of a blob, from a download that did not end.
    pub fn has_part(&self, digest: &Digest) -> bool {
        self.folder.partial(digest).exists()
    }

    /// Removes a blob. Readers that have it open read on.
    pub fn remove(&self, digest: &Digest) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        state.sizes.remove(digest);
        state.open.remove(digest);
        self.folder.remove_blob(digest)
    }

    /// Removes a blob for which the disk has no room, and at least `bytes` of the least recently used
    /// blobs, so that it may fit at the next try.
    pub fn remove_for_room(&self, digest: &Digest, bytes: u64) -> Result<(), StoreError> {
        self.remove(digest)?;
        let mut state = self.state.lock();
        let mut freed = 0;
        while freed < bytes
            && let Some(removed) = self.evict_oldest(&mut state)?
        {
            freed += removed;
        }
        Ok(())
    }

    pub const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    pub fn status(&self) -> StoreStatus {
        let state = self.state.lock();
        StoreStatus {
            blobs: state.sizes.len() as u64,
            bytes: state.sizes.bytes(),
            bytes_max: self.bytes_max,
            evicted: state.evicted,
        }
    }

    /// Removes blobs until `bytes` more fit.
    fn make_room(&self, state: &mut State, bytes: u64) -> Result<(), StoreError> {
        while state.sizes.bytes() + bytes > self.bytes_max {
            if self.evict_oldest(state)?.is_none() {
                let held = state.sizes.bytes();
                return Err(StoreError::Full { bytes, held, bytes_max: self.bytes_max });
            }
        }
        Ok(())
    }

    /// Removes the least recently used blob that nobody has open. Returns its size; `None` if all are
    /// open.
    fn evict_oldest(&self, state: &mut State) -> Result<Option<u64>, StoreError> {
        let is_open =
            |digest: &Digest| state.open.get(digest).is_some_and(|blob| blob.strong_count() > 0);
        let Some(digest) = state.sizes.oldest(|digest| !is_open(digest)) else { return Ok(None) };
        self.folder.remove_blob(&digest)?;
        let before = state.sizes.bytes();
        state.sizes.remove(&digest);
        state.open.remove(&digest);
        state.evicted += 1;
        Ok(Some(before - state.sizes.bytes()))
    }
}

impl State {
    /// Forgets blobs that nobody has open, once they are the larger part.
    fn drop_closed(&mut self) {
        if self.open.len() > 64 && self.open.len().is_power_of_two() {
            self.open.retain(|_, blob| blob.strong_count() > 0);
        }
    }
}

#[cfg(test)]
mod tests;
