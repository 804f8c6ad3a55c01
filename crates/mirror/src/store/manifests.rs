//! Manifests on disk.

use std::fs;
use std::io;

use bytes::Bytes;

use super::error::{IoContext as _, StoreError};
use super::folder::{Folder, remove, write_whole};
use crate::oci::{Digest, Manifest};

#[derive(Clone, Debug)]
pub struct Manifests {
    folder: Folder,
}

impl Manifests {
    pub const fn new(folder: Folder) -> Self {
        Manifests { folder }
    }

    /// Reads a manifest. A damaged one is removed, as if the store did not have it.
    pub fn get(&self, digest: &Digest) -> Result<Option<Manifest>, StoreError> {
        let path = self.folder.manifest(digest);
        let content = match fs::read(&path) {
            Ok(content) => Bytes::from(content),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context("read", &path),
        };
        let end = content.iter().position(|byte| *byte == b'\n');
        let manifest = end.and_then(|end| {
            let media_type = std::str::from_utf8(&content[..end]).ok()?.to_owned();
            let bytes = content.slice(end + 1..);
            digest.is_of(&bytes).then(|| Manifest { digest: digest.clone(), media_type, bytes })
        });
        if manifest.is_none() {
            tracing::warn!(%digest, "removed a damaged manifest");
            remove(&path)?;
        }
        Ok(manifest)
    }

    pub fn put(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let path = self.folder.manifest(&manifest.digest);
        write_whole(&path, &[manifest.media_type.as_bytes(), b"\n", &manifest.bytes])
    }
}
