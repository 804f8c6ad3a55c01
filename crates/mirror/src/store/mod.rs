//! Blobs and manifests on disk.
//!
//! ```text
//! blobs/sha256/ab/<hex>           a complete and verified blob
//! blobs/sha256/ab/<hex>.blocks    the hashes of its blocks
//! blobs/sha256/ab/<hex>.start     the order in which a start reads its blocks, 4 bytes for each
//! partial/sha256-<hex>            a blob that is being fetched, with holes
//! partial/sha256-<hex>.blocks     the hashes of the blocks that it has
//! manifests/sha256/ab/<hex>       a manifest, after a line with its media type
//! repositories/<hash>             the tags and the content of one repository, a line for each change
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
mod start_order;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use watchfire_content::Block;

pub use blob::{BLOCK_BYTES, Blob, BlobState, Check};
pub use block_index::{BlockIndex, cid_of, hash_of};
pub use block_list::BlockHash;
pub use error::StoreError;
pub use folder::Folder;
pub(crate) use folder::{age, append, entries, remove, unix_seconds, write_whole};
pub use manifests::Manifests;
pub use start_order::{RangeRead, StartOrder};

use crate::oci::Digest;
use lru::{Entry, Lru, disk_bytes, disk_bytes_of_blob};

/// The blobs of a mirror, and the room that blobs and manifests take together.
///
/// - **A killed process** loses at most the block that it was writing. The next process goes on with
///   the blobs that were being fetched, and verifies what it finds.
/// - **A full store** removes the least recently used blobs and manifests that nobody reads.
/// - **A damaged block** is never returned: its hash is checked at each read, and the blob is removed.
/// - **A power failure** may leave a file empty, short or with zeros, because nothing is synced: a sync of each layer
///   would cost each pull, for content that can be fetched again. When a process opens a blob for the first time, it
///   verifies the length of its list and its last block. So the length is right, for one block of at most 1 MiB.
#[derive(Debug)]
pub struct Blobs {
    folder: Folder,
    bytes_max: u64,
    index: Arc<BlockIndex>,
    /// Held while a blob is opened, which may take a pass over its bytes.
    opening: Mutex<()>,
    state: Mutex<State>,
    /// Notified when content was stored or removed.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The blobs, complete or not, and the manifests on disk.
    sizes: Lru,
    /// The blobs that are open now. They are never removed.
    open: HashMap<Digest, Weak<Blob>>,
    /// The blobs whose length this process has verified.
    verified: HashSet<Digest>,
    evicted: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Blobs on disk, complete or not.
    pub blobs: u64,
    /// The bytes that blobs and manifests take on disk; of an incomplete blob, when it is complete.
    pub bytes: u64,
    /// The size at which the store is full.
    pub bytes_max: u64,
    /// Blobs that were removed to make room, since the start.
    pub evicted: u64,
}

impl Blobs {
    pub fn open(folder: Folder, bytes_max: u64) -> Result<Self, StoreError> {
        let mut state = State::default();
        for found in folder.scan()? {
            let bytes = match found.entry {
                Entry::Blob(_) => disk_bytes_of_blob(found.bytes),
                Entry::Manifest(_) => disk_bytes(found.bytes),
            };
            state.sizes.insert(found.entry, bytes);
        }
        let (index, state, changed) = (Arc::default(), Mutex::new(state), Notify::new());
        let blobs = Blobs { folder, bytes_max, index, opening: Mutex::default(), state, changed };
        blobs.make_room(&mut blobs.state.lock(), 0)?;
        Ok(blobs)
    }

    /// The blob, if the store has it completely, or containerd has it. A blob without a list of its
    /// blocks, such as a new one of containerd, is hashed first.
    pub fn complete(&self, digest: &Digest) -> Result<Option<Arc<Blob>>, StoreError> {
        let Some(blob) = self.open_complete(digest)? else { return Ok(None) };
        if !self.state.lock().verified.insert(digest.clone()) {
            return Ok(Some(blob));
        }
        self.unless_damaged(digest, blob.verify_end().map(|()| Some(blob)))
    }

    /// `None`, if the blob is damaged: it is removed, and will be fetched again.
    fn unless_damaged<T>(
        &self,
        digest: &Digest,
        result: Result<Option<T>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match result {
            Err(error @ StoreError::Damaged { .. }) => {
                tracing::error!(%error, "a stored blob is damaged");
                self.remove(digest)?;
                Ok(None)
            }
            result => result,
        }
    }

    fn open_complete(&self, digest: &Digest) -> Result<Option<Arc<Blob>>, StoreError> {
        if let Some(blob) = self.open_blob(digest) {
            return Ok(Some(blob).filter(|blob| blob.state() == BlobState::Complete));
        }
        let _opening = self.opening.lock();
        if let Some(blob) = self.open_blob(digest) {
            return Ok(Some(blob).filter(|blob| blob.state() == BlobState::Complete));
        }
        let opened = Blob::open_complete(&self.folder, &self.index, digest);
        let Some(blob) = self.unless_damaged(digest, opened)? else { return Ok(None) };
        let blob = Arc::new(blob);
        let mut state = self.state.lock();
        if self.folder.blob(digest).exists() {
            let entry = Entry::Blob(digest.clone());
            state.sizes.insert(entry, disk_bytes_of_blob(blob.size()));
        }
        state.open.insert(digest.clone(), Arc::downgrade(&blob));
        state.drop_closed();
        Ok(Some(blob))
    }

    /// The blob, if it is open. This counts as a use of it.
    fn open_blob(&self, digest: &Digest) -> Option<Arc<Blob>> {
        let mut state = self.state.lock();
        let blob = state.open.get(digest).and_then(Weak::upgrade)?;
        state.sizes.touch(&Entry::Blob(digest.clone()));
        Some(blob)
    }

    /// Like [`Blobs::complete`], on a thread that may wait for the disk.
    pub async fn find_complete(
        self: &Arc<Self>,
        digest: &Digest,
    ) -> Result<Option<Arc<Blob>>, StoreError> {
        let is_verified = self.state.lock().verified.contains(digest);
        if let Some(blob) = self.open_blob(digest).filter(|_| is_verified) {
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
        // Some are blobs that containerd has no more.
        self.state.lock().verified.clear();
        for digest in self.digests() {
            let Some(path) = self.folder.containerd_blob(&digest) else { return Ok(()) };
            let mut state = self.state.lock();
            let is_open = state.open.get(&digest).is_some_and(|blob| blob.strong_count() > 0);
            let own = std::fs::metadata(self.folder.blob(&digest)).map(|file| file.len());
            let copy = std::fs::metadata(path).map(|file| file.len());
            if !is_open && matches!((own, copy), (Ok(own), Ok(copy)) if own == copy) {
                state.forget(&digest);
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
        let (entry, bytes) = (Entry::Blob(digest.clone()), disk_bytes_of_blob(size));
        if bytes > self.bytes_max {
            return Err(StoreError::LargerThanStore { bytes, bytes_max: self.bytes_max });
        }
        if let Some(blob) = self.complete(digest)? {
            return Ok(blob);
        }
        let mut state = self.state.lock();
        if let Some(blob) = state.open.get(digest).and_then(Weak::upgrade) {
            return Ok(blob);
        }
        state.sizes.remove(&entry);
        self.make_room(&mut state, bytes)?;
        state.sizes.insert(entry, bytes);
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
            // Without a look at their bytes, which would read a MiB of each blob at each start.
            if let Err(error) = self.open_complete(&digest) {
                tracing::warn!(%digest, %error, "cannot open a blob of the store");
            }
        }
    }

    /// The blobs on disk, complete or not.
    pub fn digests(&self) -> Vec<Digest> {
        let blob_of = |entry: &Entry| match entry {
            Entry::Blob(digest) => Some(digest.clone()),
            Entry::Manifest(_) => None,
        };
        self.state.lock().sizes.entries().filter_map(blob_of).collect()
    }

    /// The manifests on disk.
    pub fn manifests(&self) -> Vec<Digest> {
        let manifest_of = |entry: &Entry| match entry {
            Entry::Manifest(digest) => Some(digest.clone()),
            Entry::Blob(_) => None,
        };
        self.state.lock().sizes.entries().filter_map(manifest_of).collect()
    }

    /// Makes room for a manifest of `bytes`.
    pub(super) fn add_manifest(&self, digest: &Digest, bytes: u64) -> Result<(), StoreError> {
        let (entry, bytes) = (Entry::Manifest(digest.clone()), disk_bytes(bytes));
        let mut state = self.state.lock();
        state.sizes.remove(&entry);
        self.make_room(&mut state, bytes)?;
        state.sizes.insert(entry, bytes);
        Ok(())
    }

    pub(super) fn touch_manifest(&self, digest: &Digest) {
        self.state.lock().sizes.touch(&Entry::Manifest(digest.clone()));
    }

    pub(super) fn forget_manifest(&self, digest: &Digest) {
        self.state.lock().sizes.remove(&Entry::Manifest(digest.clone()));
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
                self.read(blob, place.block as usize)?
            }
            _ => None,
        };
        if block.is_none() {
            self.index.remove(hash);
        }
        Ok(block)
    }

    /// Reads a block of a blob, and verifies it. `None`: the blob does not have it, or is damaged and was removed.
    pub fn read(&self, blob: &Blob, block: usize) -> Result<Option<Block>, StoreError> {
        self.unless_damaged(blob.digest(), blob.read_named_block(block))
    }

    /// The last bytes of a complete blob, unverified, and its size. `None`: the store lacks it, or it is shorter.
    pub fn read_end<const N: usize>(&self, digest: &Digest) -> Option<([u8; N], u64)> {
        let paths = [Some(self.folder.blob(digest)), self.folder.containerd_blob(digest)];
        let file = paths.into_iter().flatten().find_map(|path| File::open(path).ok())?;
        let (mut end, size) = ([0; N], file.metadata().ok()?.len());
        file.read_exact_at(&mut end, size.checked_sub(N as u64)?).ok()?;
        Some((end, size))
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
        state.forget(digest);
        self.note_changed();
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

    /// Content was stored or removed.
    pub(crate) fn note_changed(&self) {
        self.changed.notify_one();
    }

    /// Waits until content was stored or removed since the last call. It is for one task.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    pub fn status(&self) -> StoreStatus {
        let state = self.state.lock();
        let blobs = state.sizes.entries().filter(|entry| matches!(entry, Entry::Blob(_))).count();
        StoreStatus {
            blobs: blobs as u64,
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

    /// Removes the least recently used manifest, or blob that nobody has open. Returns its size; `None` if
    /// there is none.
    fn evict_oldest(&self, state: &mut State) -> Result<Option<u64>, StoreError> {
        let is_open = |entry: &Entry| match entry {
            Entry::Blob(digest) => state.open.get(digest).is_some_and(|one| one.strong_count() > 0),
            Entry::Manifest(_) => false,
        };
        let Some(entry) = state.sizes.oldest(|entry| !is_open(entry)) else { return Ok(None) };
        let before = state.sizes.bytes();
        self.note_changed();
        match &entry {
            Entry::Blob(digest) => {
                self.folder.remove_blob(digest)?;
                state.forget(digest);
                state.evicted += 1;
            }
            Entry::Manifest(digest) => {
                folder::remove(&self.folder.manifest(digest))?;
                state.sizes.remove(&entry);
            }
        }
        Ok(Some(before - state.sizes.bytes()))
    }
}

impl State {
    /// Forgets a blob that is removed.
    fn forget(&mut self, digest: &Digest) {
        self.sizes.remove(&Entry::Blob(digest.clone()));
        self.open.remove(digest);
        self.verified.remove(digest);
    }

    /// Forgets blobs that nobody has open, once they are the larger part.
    fn drop_closed(&mut self) {
        if self.open.len() > 64 && self.open.len().is_power_of_two() {
            self.open.retain(|_, blob| blob.strong_count() > 0);
        }
    }
}

#[cfg(test)]
mod tests;
