//! Content whose size nobody tells: it is read to its end first.

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

    /// The bytes so far.
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// Appends bytes.
    pub(super) async fn push(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        let (file, at) = (self.file.clone(), self.size);
        self.size += bytes.len() as u64;
        let written = tokio::task::spawn_blocking(move || file.write_all_at(&bytes, at)).await;
        self.checked("write", written)
    }

    /// A part of the bytes.
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
