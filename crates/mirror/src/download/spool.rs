//! Content whose size nobody tells: it is read to its end first.
//!
//! A blob on disk has blocks at fixed places and a last block that may be shorter, room is made for it before it
//! is fetched, and an engine gets its `Content-Length`. All three need the size. Most often a manifest or the
//! registry tells it. A registry may send chunks instead, for a blob that no known manifest names.
//!
//! **Without a spool** there are two ways, and both are wrong. Memory: ten layers of 2 GiB are 20 GiB. A blob that
//! grows: its last block moves with every chunk, and a body that breaks off looks like a whole one.
//!
//! So the body goes into a file of the store. The file loses its name immediately after it is created, so it is
//! gone when the process ends, however that happens, and nothing has to be cleaned up. At the end the size is
//! known; the blocks are copied into the blob, which verifies its digest as always. For example, of a layer of
//! 2 GiB the disk holds 4 GiB for a moment, and memory holds one chunk.
//!
//! An engine that asks while the spool is filled waits for its first byte, gets 404 after 2 s, and pulls from the
//! registry itself. The download goes on, and the next engine is served from the store.
//!
//! The bound: the size of the store. A body that is longer ends the download with an error that names the setting.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::store::{Folder, StoreError};

/// The bytes of a body, in a file that has no name any more: it is gone with the process.
#[derive(Debug)]
pub(super) struct Spool {
    file: Arc<File>,
    path: PathBuf,
    size: u64,
}

impl Spool {
    pub(super) fn new(folder: &Folder) -> Result<Self, StoreError> {
        let (file, path) = folder.unnamed_file()?;
        Ok(Spool { file: Arc::new(file), path, size: 0 })
    }

    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    pub(super) async fn push(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        let (file, at) = (self.file.clone(), self.size);
        self.size += bytes.len() as u64;
        let written = tokio::task::spawn_blocking(move || file.write_all_at(&bytes, at)).await;
        self.checked("write", written)
    }

    pub(super) async fn read(&self, start: u64, len: usize) -> Result<Bytes, StoreError> {
        let file = self.file.clone();
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, start).map(|()| Bytes::from(bytes))
        });
        self.checked("read", read.await)
    }

    fn checked<T>(
        &self,
        action: &'static str,
        result: Result<io::Result<T>, tokio::task::JoinError>,
    ) -> Result<T, StoreError> {
        let result = result.map_err(io::Error::other).flatten();
        result.map_err(|error| StoreError::Io { action, path: self.path.clone(), error })
    }
}
