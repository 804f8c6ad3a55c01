//! Manifests on disk.

use std::fs;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::Blobs;
use super::error::{IoContext as _, StoreError};
use super::folder::{Folder, remove, write_whole};
use crate::oci::{Digest, Manifest};

/// The manifests, which share the room of the store with the blobs.
#[derive(Clone, Debug)]
pub struct Manifests {
    folder: Folder,
    blobs: Arc<Blobs>,
}

impl Manifests {
    pub const fn new(folder: Folder, blobs: Arc<Blobs>) -> Self {
        Manifests { folder, blobs }
    }

    pub fn digests(&self) -> Vec<Digest> {
        self.blobs.manifests()
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
        match manifest {
            Some(_) => self.blobs.touch_manifest(digest),
            None => {
                tracing::warn!(%digest, "removed a damaged manifest");
                self.blobs.forget_manifest(digest);
                remove(&path)?;
            }
        }
        Ok(manifest)
    }

    /// Stores a manifest, if there is room: otherwise it is fetched again.
    pub fn put(&self, manifest: &Manifest) {
        let Manifest { digest, media_type, bytes } = manifest;
        let path = self.folder.manifest(digest);
        let added = self.blobs.add_manifest(digest, (media_type.len() + 1 + bytes.len()) as u64);
        let written =
            added.and_then(|()| write_whole(&path, &[media_type.as_bytes(), b"\n", bytes]));
        self.blobs.note_changed();
        if let Err(error) = written {
            self.blobs.forget_manifest(digest);
            tracing::warn!(%digest, %error, "cannot store a manifest");
        }
    }
}
