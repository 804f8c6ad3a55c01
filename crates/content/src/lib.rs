//! Content addressing: CIDs, blocks, UnixFS files and directories, archives and an in-memory store.
//! [`encryption`] is the format of private pages, [`live`] that of pages that grow while they are open.
//!
//! The same content under the same [`Profile`] has the same CID here, in kubo and in the browser.
//! `tests/vectors` tests all three. Bytes from a peer become a [`Block`] only if their hash
//! matches, and a file is returned only if all sizes in its blocks are right.
//!
//! Absent on purpose: hash functions other than sha2-256 and identity, content-defined chunking,
//! disks and networks.
//!
//! ```
//! use watchfire_content::{BlockStore, FileBuilder, MemoryStore, Profile, assemble};
//!
//! let mut store = MemoryStore::new(1024 * 1024);
//! let mut builder = FileBuilder::new(Profile::UNIXFS_V1_2025)?;
//! builder.write(b"Hello, world!\n", &mut |block| store.put(block))?;
//! let root = builder.finish(&mut |block| store.put(block))?;
//!
//! let link = "bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u";
//! assert_eq!(root.cid.to_string(), link);
//! assert_eq!(assemble(&store, &root.cid, 1024)?, "Hello, world!\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod car;
pub mod dag_pb;
pub mod encryption;
pub mod live;
pub mod protobuf;
pub mod unixfs;
pub mod varint;

mod block;
mod checksum;
mod cid;
mod directory;
mod file_builder;
mod file_reader;
mod profile;
mod store;
mod walk;

pub use block::{BLOCK_BYTES_MAX, Block, BlockError};
pub use checksum::{Checksum, Checksums};
pub use cid::{
    CID_BYTES_MAX, CID_TEXT_CHARS_MAX, Cid, CidError, Codec, HashFunction, IDENTITY_BYTES_MAX,
    Multihash, Prefix, Version,
};
pub use directory::{
    Directory, DirectoryBuildError, DirectoryBuilder, DirectoryError, DirectoryReader, Entry,
    ListError, Lookup, LookupStep, NAME_BYTES_MAX, NameError, ShardError, build_symlink, list,
};
pub use file_builder::{FileBuilder, Root};
pub use file_reader::{AssembleError, FILE_DEPTH_MAX, FileReader, Read, ReadError, assemble};
pub use profile::{
    CHUNK_BYTES_MAX, FILE_LINKS_MAX, HAMT_THRESHOLD_BYTES, HamtSizeEstimation, Profile,
    ProfileError,
};
pub use store::{BlockStore, MemoryStore, STORED_BLOCK_OVERHEAD_BYTES, StoreFull};
pub use walk::{Walk, WalkError, WalkStep};
