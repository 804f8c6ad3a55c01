//! One blob on disk, complete or with missing blocks.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use watchfire_content::{Block, Checksum, Multihash};

use super::block_index::{BlockIndex, cid_of};
use super::block_list::{BlockHash, BlockList};
use super::error::{IoContext as _, StoreError};
use super::folder::{Folder, remove};
use super::start_order::StartOrder;
use crate::oci::{Digest, Hasher};

/// The size of a block. The last block of a blob may be shorter.
pub const BLOCK_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobState {
    Partial,
    /// All blocks are there, and the blob has its digest.
    Complete,
    /// The bytes do not have the digest: they were removed.
    Wrong,
}

/// How the bytes of a blob are verified once all blocks are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// All bytes together must have this digest.
    Whole(Digest),
    /// Each block was verified when it arrived, and the digest of the whole is unknown.
    Blocks,
}

/// One blob, shared by its readers and by the task that fetches it.
#[derive(Debug)]
pub struct Blob {
    digest: Arc<Digest>,
    check: Check,
    size: u64,
    file: File,
    path: PathBuf,
    inner: Mutex<Inner>,
    index: Arc<BlockIndex>,
    start_order: Arc<StartOrder>,
    /// Changes whenever a block arrives or the state changes.
    changes: watch::Sender<u64>,
}

/// The files of a blob.
struct Files {
    file: File,
    path: PathBuf,
    blocks: BlockList,
    order: StartOrder,
}

#[derive(Debug)]
struct Inner {
    blocks: BlockList,
    /// Checksums of the blocks that this process has hashed.
    checksums: Vec<Option<Checksum>>,
    state: BlobState,
    /// Computes the digest over the blocks from the first on, without a gap.
    prefix: Hasher,
    prefix_blocks: usize,
}

impl Blob {
    /// Opens a complete blob. `None`: the folder does not have it. The blob of this store is damaged if it is not
    /// what its digest says; a blob of containerd is passed over.
    pub(super) fn open_complete(
        folder: &Folder,
        index: &Arc<BlockIndex>,
        digest: &Digest,
    ) -> Result<Option<Self>, StoreError> {
        let own = folder.blob(digest);
        let own_list = Folder::block_list(&own);
        let of_containerd =
            folder.containerd_blob(digest).map(|path| (path, folder.containerd_list(digest)));
        let mut found = None;
        for (path, list) in [Some((own.clone(), own_list)), of_containerd].into_iter().flatten() {
            match File::open(&path) {
                Ok(file) => {
                    found = Some((file, path, list));
                    break;
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).context("open", &path),
            }
        }
        let Some((file, path, list_path)) = found else { return Ok(None) };
        let size = file.metadata().context("read", &path)?.len();
        let list = BlockList::open(&list_path, block_count(size))?;
        // An empty file has an empty list.
        let is_listed = size > 0 && list.present() == list.len();
        let is_own = path == own;
        let check = Check::Whole(digest.clone());
        // The store keeps nothing beside a blob of containerd.
        let order = StartOrder::open(Folder::start_order(&own), list.len(), is_own);
        let files = Files { file, path, blocks: list, order };
        let blob = Blob::new(index, digest, check, size, files);
        if !is_listed {
            // The list was lost, or is of another length: it is made again from the bytes, which are verified as
            // a whole.
            let mut inner = blob.inner.lock();
            blob.list_blocks(&mut inner)?;
            if inner.state == BlobState::Wrong {
                // A whole list would make it right at the next time.
                remove(&list_path)?;
                let digest = digest.clone();
                return if is_own {
                    Err(StoreError::Damaged { digest, offset: 0 })
                } else {
                    Ok(None)
                };
            }
        }
        blob.inner.lock().state = BlobState::Complete;
        blob.index_blocks();
        Ok(Some(blob))
    }

    /// Opens or creates a blob that is being fetched, and verifies the blocks that it has.
    pub(super) fn open_partial(
        folder: &Folder,
        index: &Arc<BlockIndex>,
        digest: &Digest,
        check: Check,
        size: u64,
    ) -> Result<Self, StoreError> {
        let path = folder.partial(digest);
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .context("open", &path)?;
        file.set_len(size).context("write", &path)?;
        let list = BlockList::open(&Folder::block_list(&path), block_count(size))?;
        let order = Folder::start_order(&folder.blob(digest));
        let order = StartOrder::open(order, list.len(), true);
        let files = Files { file, path, blocks: list, order };
        let blob = Blob::new(index, digest, check, size, files);
        let mut inner = blob.inner.lock();
        blob.verify_blocks(&mut inner)?;
        blob.finish(folder, &mut inner)?;
        drop(inner);
        blob.index_blocks();
        Ok(blob)
    }

    fn new(
        index: &Arc<BlockIndex>,
        digest: &Digest,
        check: Check,
        size: u64,
        files: Files,
    ) -> Self {
        let Files { file, path, blocks, order } = files;
        let inner = Inner {
            checksums: vec![None; blocks.len()],
            blocks,
            state: BlobState::Partial,
            prefix: Hasher::new(match &check {
                Check::Whole(whole) => whole.algorithm(),
                Check::Blocks => digest.algorithm(),
            }),
            prefix_blocks: 0,
        };
        let (digest, inner) = (Arc::new(digest.clone()), Mutex::new(inner));
        Blob {
            digest,
            check,
            size,
            file,
            path,
            inner,
            index: index.clone(),
            start_order: Arc::new(order),
            changes: watch::Sender::new(0),
        }
    }

    /// Lets other hosts find the blocks.
    fn index_blocks(&self) {
        for block in 0..self.blocks() {
            if let Some(hash) = self.block_hash(block) {
                self.index_block(block, hash);
            }
        }
    }

    /// Lets other hosts find a block by its hash. The hash of a blob of one block is its digest, which
    /// is no secret, so such a blob is sent only to hosts that may have it.
    fn index_block(&self, block: usize, hash: BlockHash) {
        if self.blocks() > 1 {
            self.index.insert(hash, &self.digest, block, self.block_range(block).1);
        }
    }

    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    pub const fn size(&self) -> u64 {
        self.size
    }

    pub fn blocks(&self) -> usize {
        block_count(self.size)
    }

    pub fn blocks_present(&self) -> usize {
        self.inner.lock().blocks.present()
    }

    pub fn state(&self) -> BlobState {
        self.inner.lock().state
    }

    pub fn has_block(&self, block: usize) -> bool {
        self.inner.lock().blocks.get(block).is_some()
    }

    /// The order in which the start of a container reads the blocks.
    pub const fn start_order(&self) -> &Arc<StartOrder> {
        &self.start_order
    }

    /// Changes whenever a block arrives or the state changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The place of a block in the blob: its offset and its length.
    pub fn block_range(&self, block: usize) -> (u64, usize) {
        let offset = (block * BLOCK_BYTES) as u64;
        let len = (self.size - offset).min(BLOCK_BYTES as u64);
        (offset, len as usize)
    }

    /// The hash of a block; `None` if the blob does not have the block.
    pub fn block_hash(&self, block: usize) -> Option<BlockHash> {
        self.inner.lock().blocks.get(block)
    }

    /// The runs of blocks that the blob has, in groups of `group` blocks: from the first group to
    /// behind the last. A group counts only if it is whole.
    pub fn present_groups(&self, group: usize) -> Vec<(u32, u32)> {
        let inner = self.inner.lock();
        let blocks = inner.blocks.len();
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for (number, start) in (0..blocks).step_by(group).enumerate() {
            let mut all = start..(start + group).min(blocks);
            if all.all(|block| inner.blocks.get(block).is_some()) {
                let number = number as u32;
                match runs.last_mut() {
                    Some(last) if last.1 == number => last.1 += 1,
                    _ => runs.push((number, number + 1)),
                }
            }
        }
        runs
    }

    /// Verifies the last block, and with it the length of the file.
    pub(super) fn verify_end(&self) -> Result<(), StoreError> {
        self.blocks().checked_sub(1).map_or(Ok(()), |last| self.read_block(last).map(drop))
    }

    /// Reads a block, and verifies it. `None`: the blob does not have it.
    pub fn read_block(&self, block: usize) -> Result<Option<Bytes>, StoreError> {
        Ok(self.read_named_block(block)?.map(|block| block.into_parts().1))
    }

    /// Reads a block with its CID, and verifies it. `None`: the blob does not have it.
    pub fn read_named_block(&self, block: usize) -> Result<Option<Block>, StoreError> {
        let (hash, checksum) = {
            let inner = self.inner.lock();
            let Some(hash) = inner.blocks.get(block) else { return Ok(None) };
            (hash, inner.checksums.get(block).copied().flatten())
        };
        let (cid, bytes) = (cid_of(hash), self.read_unverified_block(block)?.into());
        if let Some(checksum) = checksum {
            // This process has hashed the block before.
            if let Some(block) = self.index.checksums.verify(&cid, bytes, checksum) {
                return Ok(Some(block));
            }
        } else if let Ok(read) = Block::verify(cid, bytes) {
            let mut inner = self.inner.lock();
            if let Some(checksum) = inner.checksums.get_mut(block) {
                *checksum = Some(self.index.checksums.of(&read));
            }
            return Ok(Some(read));
        }
        let (offset, _) = self.block_range(block);
        Err(StoreError::Damaged { digest: (*self.digest).clone(), offset })
    }

    /// Writes a block of the blob. The state becomes complete or wrong with the last one.
    ///
    /// # Panics
    ///
    /// When the block has another length than its place.
    pub fn write_block(
        &self,
        folder: &Folder,
        block: usize,
        content: &Block,
    ) -> Result<BlobState, StoreError> {
        let (offset, len) = self.block_range(block);
        let bytes = content.bytes();
        assert_eq!(bytes.len(), len, "a block has the length of its place");
        let Multihash::Sha2_256(hash) = content.cid().hash() else {
            unreachable!("a block of a blob has a SHA-256 hash")
        };
        self.file.write_all_at(bytes, offset).context("write", &self.path)?;
        let checksum = self.index.checksums.of(content);
        let mut inner = self.inner.lock();
        if inner.state == BlobState::Partial && inner.blocks.get(block).is_none() {
            inner.blocks.insert(block, *hash)?;
            inner.checksums[block] = Some(checksum);
            self.advance_prefix(&mut inner, block, bytes)?;
            self.finish(folder, &mut inner)?;
            self.index_block(block, *hash);
        }
        let state = inner.state;
        drop(inner);
        self.changes.send_modify(|changes| *changes += 1);
        Ok(state)
    }

    fn read_unverified_block(&self, block: usize) -> Result<Vec<u8>, StoreError> {
        let (offset, len) = self.block_range(block);
        self.read_unverified(offset, len)
    }

    /// Reads bytes for a caller that verifies them.
    pub fn read_unverified(&self, offset: u64, len: usize) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, offset).context("read", &self.path)?;
        Ok(bytes)
    }

    /// Hashes the blocks that follow the prefix without a gap. `bytes` are the bytes of a new block.
    fn advance_prefix(
        &self,
        inner: &mut Inner,
        block: usize,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        if self.check != Check::Blocks {
            if block != inner.prefix_blocks {
                return Ok(());
            }
            inner.extend_prefix(bytes);
            while inner.blocks.get(inner.prefix_blocks).is_some() {
                inner.extend_prefix(&self.read_unverified_block(inner.prefix_blocks)?);
            }
        }
        self.compare_digest(inner);
        Ok(())
    }

    /// Sets the state once all blocks are there, and are hashed if the whole has a digest.
    fn compare_digest(&self, inner: &mut Inner) {
        let blocks = inner.blocks.len();
        inner.state = match &self.check {
            Check::Whole(whole) if inner.prefix_blocks == blocks => {
                match inner.prefix.clone().finish() == *whole {
                    true => BlobState::Complete,
                    false => BlobState::Wrong,
                }
            }
            Check::Blocks if inner.blocks.present() == blocks => BlobState::Complete,
            Check::Whole(_) | Check::Blocks => return,
        };
    }

    /// Moves a complete blob to its place, and removes a wrong one.
    fn finish(&self, folder: &Folder, inner: &mut Inner) -> Result<(), StoreError> {
        match inner.state {
            BlobState::Partial => Ok(()),
            BlobState::Wrong => folder.remove_blob(&self.digest),
            BlobState::Complete => {
                let place = folder.blob(&self.digest);
                if let Some(parent) = place.parent() {
                    fs::create_dir_all(parent).context("create", parent)?;
                }
                // The list first: a blob without its list costs a pass over its bytes.
                rename(&Folder::block_list(&self.path), &Folder::block_list(&place))?;
                rename(&self.path, &place)
            }
        }
    }

    /// Removes the blocks whose bytes do not have their hash from the list, and hashes the prefix. A
    /// killed process or a power failure may have left such blocks.
    fn verify_blocks(&self, inner: &mut Inner) -> Result<(), StoreError> {
        for block in 0..inner.blocks.len() {
            let Some(hash) = inner.blocks.get(block) else { continue };
            let bytes = self.read_unverified_block(block)?;
            if Sha256::digest(&bytes)[..] != hash {
                inner.blocks.remove(block)?;
            } else if block == inner.prefix_blocks {
                inner.extend_prefix(&bytes);
            }
        }
        self.compare_digest(inner);
        Ok(())
    }

    /// Lists the hashes of all blocks, and hashes the whole blob.
    fn list_blocks(&self, inner: &mut Inner) -> Result<(), StoreError> {
        for block in 0..inner.blocks.len() {
            let bytes = self.read_unverified_block(block)?;
            inner.blocks.insert(block, Sha256::digest(&bytes).into())?;
            inner.extend_prefix(&bytes);
        }
        self.compare_digest(inner);
        Ok(())
    }
}

impl Inner {
    fn extend_prefix(&mut self, bytes: &[u8]) {
        self.prefix.update(bytes);
        self.prefix_blocks += 1;
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::rename(from, to).context("move", from)
}

pub(super) fn block_count(size: u64) -> usize {
    usize::try_from(size.div_ceil(BLOCK_BYTES as u64)).expect("the number of blocks fits")
}
