//! The parts of one download share this: its blob, the server that has the bytes, and the readers that wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Downloads;
use super::connection::REQUEST_BYTES;
use super::content_source::ContentSource;
use super::reuse::Reuse;
use super::sources::{Progress, Sources};
use super::waiting::WaitingReaders;
use crate::oci::{ByteRange, Digest};
use crate::store::Check;
use crate::upstream::{BlobBody, BlobPart, UpstreamError};

#[derive(Clone)]
pub(super) struct Task {
    pub(super) downloads: Arc<Downloads>,
    pub(super) source: ContentSource,
    pub(super) digest: Digest,
    pub(super) size: Option<u64>,
    pub(super) in_parts: bool,
    pub(super) progress: Arc<Progress>,
    pub(super) waiting: Arc<WaitingReaders>,
    pub(super) sources: Arc<Sources>,
    pub(super) reuse: Arc<Reuse>,
}

impl Task {
    /// Whether these are the bytes of the blob, as far as their digest is known.
    pub(super) fn accepts(&self, bytes: &[u8]) -> bool {
        match self.source.check(&self.digest) {
            Check::Whole(digest) => digest.is_of(bytes),
            Check::Blocks => self.size == Some(bytes.len() as u64),
        }
    }

    /// Requests the whole blob, or the first segment of one that several connections fetch. A body that ends where
    /// another connection goes on would be cut, and a fast server would have sent much more by then.
    pub(super) async fn request_first(&self) -> Result<BlobBody, UpstreamError> {
        let is_shared =
            |size: &u64| self.downloads.connections_per_blob > 1 && *size > REQUEST_BYTES;
        let Some(size) = self.size.filter(is_shared) else { return self.request_whole().await };
        let range = ByteRange { start: 0, end: REQUEST_BYTES - 1 };
        let body = self.source.request(&self.digest, Some(range), Some(size)).await?;
        match body.part {
            BlobPart::Range | BlobPart::Whole => Ok(body),
            BlobPart::Other => self.request_whole().await,
        }
    }

    pub(super) async fn request_whole(&self) -> Result<BlobBody, UpstreamError> {
        let body = self.source.request(&self.digest, None, self.size).await?;
        if body.part != BlobPart::Whole {
            let cause = "it sends a part, and was asked for everything";
            return Err(UpstreamError::invalid(self.source.server(), cause));
        }
        Ok(body)
    }

    pub(super) fn note_received(&self, bytes: usize) {
        self.progress.note();
        self.downloads.counters.upstream_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.sources.count_registry(bytes);
    }
}
