//! Blocks on disk: files named by their CIDs, and files that are shared where they lie.
//!
//! - [`DiskStore`]: a folder of blocks with a limit in bytes. What is not pinned is forgotten when
//!   room is needed, the least recently used first.
//! - [`SharedFiles`]: files and directories whose blocks are read from where they lie, without a
//!   copy. A file that changes is noticed, and shared no longer.
//! - [`PrivateFiles`]: the same as pages that only a key opens; [`export_private`] is the way back.
//! - [`import`]: files and directories as blocks, for whoever wants them; [`export`] is the way
//!   back.
//! - [`Assembly`]: a file that is put together where it will lie, while its blocks come.
//! - [`Stores`]: several of them, asked in turn.
//! - [`Buffer`]: memory for what is read of them, and for what comes to be written, used again.
//!
//! Every call may wait for a disk, unless it says that it does not: call from threads that may
//! wait.
//!
//! Absent on purpose: networks, and what to fetch. A store holds what it is given.

mod assembly;
mod blocks;
mod buffers;
mod disk;
mod error;
mod export;
mod import;
mod pieces;
mod sealed;
mod shared;

use std::hash::{BuildHasher, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use assembly::Assembly;
pub use blocks::{Memory, ReadBlocks, Stores, WriteBlocks};
pub use buffers::Buffer;
pub use disk::{DiskLimits, DiskStore, DiskTotals};
pub use error::{Change, StoreError};
pub use export::{ExportError, ExportLimits, Exported, export, resolve};
pub use import::{DIRECTORIES_DEEP_MAX, ImportOptions, Imported, Place, cid_of, import};
pub use sealed::{PrivateFiles, PrivateReader, export_private, private_cid_of};
pub use shared::{SharedFiles, Withdrawn};

/// The SHA-256 of a block: all that a store goes by. Blocks with an identity hash are never kept,
/// since their names carry them.
type Key = [u8; 32];

/// Of a store's own, so that nobody can aim at its checksums.
fn checksums() -> content::Checksums {
    content::Checksums::new(std::hash::RandomState::new().build_hasher().finish())
}

fn key_of(cid: &content::Cid) -> Option<Key> {
    match cid.hash() {
        content::Multihash::Sha2_256(digest) => Some(*digest),
        content::Multihash::Identity(_) => None,
    }
}

/// A thread that panicked within left nothing half-done: every change is made in one step.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
