//! Why the store failed.

use std::io;
use std::path::{Path, PathBuf};

use crate::oci::Digest;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot {action} {}: {error}; check the folder of --store", path.display())]
    Io {
        /// The action, such as "write".
        action: &'static str,
        path: PathBuf,
        error: io::Error,
    },
    #[error("cannot use the store {}: another process uses it; stop it, or choose another --store", path.display())]
    InUse { path: PathBuf },
    #[error(
        "cannot store a blob of {bytes} bytes: the store has {bytes_max} bytes; raise --store-bytes-max"
    )]
    LargerThanStore { bytes: u64, bytes_max: u64 },
    #[error(
        "cannot store a blob of {bytes} bytes: blobs in use take {held} of {bytes_max} bytes; raise --store-bytes-max"
    )]
    Full { bytes: u64, held: u64, bytes_max: u64 },
    #[error(
        "cannot read blob {digest}: it is damaged on disk at byte {offset}; it is fetched again"
    )]
    Damaged { digest: Digest, offset: u64 },
}

impl StoreError {
    pub fn is_no_space(&self) -> bool {
        match self {
            StoreError::Io { error, .. } => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}

pub(super) trait IoContext<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|error| StoreError::Io { action, path: path.to_owned(), error })
    }
}
