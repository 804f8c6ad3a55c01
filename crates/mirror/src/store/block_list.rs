//! The hashes of the blocks of a blob, in memory and in a file beside it.
//!
//! The file has 32 bytes for each block, at the place of its index. 32 zero bytes mean that the block
//! is missing.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::error::{IoContext as _, StoreError};

pub(super) const HASH_BYTES: usize = 32;
const MISSING: [u8; HASH_BYTES] = [0; HASH_BYTES];

pub type BlockHash = [u8; HASH_BYTES];

#[derive(Debug)]
pub(super) struct BlockList {
    hashes: Vec<BlockHash>,
    present: usize,
    file: File,
    path: PathBuf,
}

impl BlockList {
    /// Opens or creates the list of a blob with this number of blocks. Reads the hashes that it has.
    pub(super) fn open(path: &Path, blocks: usize) -> Result<Self, StoreError> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .context("open", path)?;
        let len = (blocks * HASH_BYTES) as u64;
        if file.metadata().context("read", path)?.len() != len {
            // A list of another length belongs to no blob of this size.
            file.set_len(0).and_then(|()| file.set_len(len)).context("write", path)?;
        }
        let mut bytes = vec![0; blocks * HASH_BYTES];
        file.read_exact_at(&mut bytes, 0).context("read", path)?;
        let (hashes, _) = bytes.as_chunks::<HASH_BYTES>();
        let present = hashes.iter().filter(|hash| **hash != MISSING).count();
        Ok(BlockList { hashes: hashes.to_vec(), present, file, path: path.to_owned() })
    }

    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }

    pub(super) const fn present(&self) -> usize {
        self.present
    }

    /// The hash of a block; `None` if the blob does not have the block.
    pub(super) fn get(&self, block: usize) -> Option<BlockHash> {
        self.hashes.get(block).copied().filter(|hash| *hash != MISSING)
    }

    pub(super) fn insert(&mut self, block: usize, hash: BlockHash) -> Result<(), StoreError> {
        self.file.write_all_at(&hash, (block * HASH_BYTES) as u64).context("write", &self.path)?;
        if self.hashes[block] == MISSING {
            self.present += 1;
        }
        self.hashes[block] = hash;
        Ok(())
    }

    pub(super) fn remove(&mut self, block: usize) -> Result<(), StoreError> {
        if self.get(block).is_some() {
            self.present -= 1;
        }
        self.hashes[block] = MISSING;
        self.file.write_all_at(&MISSING, (block * HASH_BYTES) as u64).context("write", &self.path)
    }
}
