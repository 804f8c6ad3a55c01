//! Why the store failed.

use std::io;
use std::path::{Path, PathBuf};

use crate::oci::Digest;

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A call to the operating system failed.
    #[error("cannot {action} {}: {error}; check the folder of --store", path.display())]
    Io {
        /// The action, such as "write".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// Another process uses the store.
    #[error("cannot use the store {}: another process uses it; stop it, or choose another --store", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// A blob is larger than the whole store.
    #[error(
        "cannot store a blob of {bytes} bytes: the store has {bytes_max} bytes; raise --store-bytes-max"
    )]
    LargerThanStore {
        /// The size of the blob.
        bytes: u64,
        /// The size of the store.
        bytes_max: u64,
    },
    /// Every blob of the store is in use.
    #[error(
        "cannot store a blob of {bytes} bytes: blobs in use take {held} of {bytes_max} bytes; raise --store-bytes-max"
    )]
    Full {
        /// The size of the blob.
        bytes: u64,
        /// The bytes in use.
        held: u64,
        /// The size of the store.
        bytes_max: u64,
    },
    /// A blob on disk is not what was written.
    #[error(
        "cannot read blob {digest}: it is damaged on disk at byte {offset}; it is fetched again"
    )]
    Damaged {
        /// The blob.
        digest: Digest,
        /// The start of the damaged block.
        offset: u64,
    },
}

impl StoreError {
    /// Whether the disk has no room.
    pub fn is_no_space(&self) -> bool {
        match self {
            StoreError::Io { error, .. } => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}

/// Adds the action and the path to an error.
pub(super) trait IoContext<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|error| StoreError::Io { action, path: path.to_owned(), error })
    }
}
