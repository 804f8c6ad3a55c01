//! Blocks on disk, and files that are shared in place.
//!
//! - [`DiskStore`]: a folder of blocks with a limit in bytes. When it is full, it evicts the least
//!   recently used blocks that are not pinned.
//! - [`SharedFiles`]: files and directories whose blocks are read from the files, without a copy. A
//!   file that changes is no longer shared.
//! - [`PrivateFiles`]: the same for private pages. [`export_private`] decrypts such a page to
//!   files.
//! - [`import`] splits files and directories into blocks, and [`export`] writes blocks to files.
//! - [`FileAssembler`]: writes the blocks of a file to their final offsets as they arrive.
//! - [`names`]: how file names that other people chose are shown, compared and saved.
//! - [`Stores`]: several stores that are searched in order.
//! - [`PooledBuffer`]: reused memory for blocks that are read or written.
//!
//! Every call may block on a disk, unless its documentation says otherwise. Call it from a thread
//! that may block.
//!
//! Absent on purpose: the network, and the decision which blocks to fetch.

mod assembler;
mod blocks;
mod buffers;
mod chunked_write;
mod disk;
mod error;
mod export;
mod import;
mod leaf;
pub mod names;
mod private;
mod shared;

use std::hash::{BuildHasher, Hasher};

pub use assembler::FileAssembler;
pub use blocks::{LockedMemoryStore, ReadBlocks, Stores, WriteBlocks};
pub use buffers::PooledBuffer;
pub use disk::{DiskLimits, DiskStore, DiskTotals, create_own_folder};
pub use error::{FileChange, StoreError};
pub use export::{ExportError, ExportLimits, Exported, export, resolve};
pub use import::{DIRECTORY_DEPTH_MAX, FileRange, ImportOptions, Imported, cid_of, import};
pub use private::{PrivateFiles, PrivateReader, export_private, private_cid_of};
pub use shared::{SharedFiles, UnsharedFile};

/// The SHA-256 hash of a block, by which stores find it. Blocks with an identity hash are never
/// stored, because their CIDs contain their bytes.
type Key = [u8; 32];

/// Returns checksums with a random seed, so that an attacker cannot construct other bytes with the
/// same checksum.
fn checksums() -> watchfire_content::Checksums {
    watchfire_content::Checksums::new(std::hash::RandomState::new().build_hasher().finish())
}

fn key_of(cid: &watchfire_content::Cid) -> Option<Key> {
    match cid.hash() {
        watchfire_content::Multihash::Sha2_256(digest) => Some(*digest),
        watchfire_content::Multihash::Identity(_) => None,
    }
}
