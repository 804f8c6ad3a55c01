//! Responses with the bytes of a blob or file, also while it is being fetched.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::time::{Instant, timeout_at};

use super::{SOURCE, Shared};
use crate::download::{Download, DownloadError, LayerRead};
use crate::oci::{ByteRange, RangeError};
use crate::store::{BLOCK_BYTES, Blob, RangeRead, StoreError};

/// The longest wait for one block, while others arrive, as a multiple of the wait without any.
const WAIT_FACTOR: u32 = 4;

pub(super) struct Content {
    pub(super) blob: Arc<Blob>,
    /// The download, unless the blob is complete.
    pub(super) download: Option<Download>,
    /// The headers, without those for the range, the length and the source.
    pub(super) headers: HeaderMap,
    /// The source if the bytes are neither from the store nor from a fleet: `registry`, `origin` or `ipfs`.
    pub(super) server: &'static str,
    /// Set for a read of a part, from which an order is made.
    pub(super) range_read: Option<RangeRead>,
    /// Set for a read of a layer as a whole.
    pub(super) layer_read: Option<LayerRead>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ContentError {
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("no byte arrived in time")]
    NoByte,
}

/// The response to a request for a range, or for everything. Waits for the first block.
pub(super) async fn respond(
    shared: &Arc<Shared>,
    content: Content,
    method: &Method,
    range: Option<&HeaderValue>,
    deadline: Instant,
) -> Result<Response, ContentError> {
    let Content { blob, download, mut headers, server, range_read, layer_read } = content;
    let size = blob.size();
    // RFC 9110, 14.2: only `GET` has ranges.
    let range = range.filter(|_| method == Method::GET).and_then(|range| range.to_str().ok());
    let range = range.map(|range| ByteRange::parse(range, size)).transpose()?.flatten();
    let source = match (&download, &shared.fleet) {
        (None, _) => "store",
        (Some(download), Some(_)) if !download.is_of_ipfs() => "fleet",
        (Some(_), _) => server,
    };
    let whole = ByteRange { start: 0, end: size.saturating_sub(1) };
    let bytes = range.unwrap_or(whole);
    let length = if size == 0 { 0 } else { bytes.bytes() };
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(SOURCE, HeaderValue::from_static(source));
    let mut response = Response::new(Body::empty());
    if range.is_some() {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let value = format!("bytes {}-{}/{size}", bytes.start, bytes.end);
        let value = HeaderValue::from_str(&value).expect("digits are valid in a header");
        headers.insert(header::CONTENT_RANGE, value);
    }
    *response.headers_mut() = headers;
    if method == Method::GET && size > 0 {
        let (next, end) = (bytes.start, bytes.end);
        let arrivals = shared.downloads.arrivals();
        let for_reader = shared.clone();
        let mut reader =
            Reader { shared: for_reader, blob, download, range_read, layer_read, next, end };
        // Without the first block there is nothing to promise the client, unless the blob is on its way, or
        // waits for others that the link of this host carries.
        let first = match timeout_at(deadline, reader.next_bytes()).await {
            Ok(first) => first?,
            Err(_) if reader.is_progressing() || shared.downloads.arrivals() > arrivals => None,
            Err(_) => return Err(ContentError::NoByte),
        };
        *response.body_mut() = body(first, reader);
    }
    Ok(response)
}

/// The value of `Content-Range` for a range without a byte.
pub(super) fn unsatisfied_range(size: u64) -> HeaderValue {
    HeaderValue::from_str(&format!("bytes */{size}")).expect("digits are valid in a header")
}

/// A body that starts with bytes which are in memory. A failure cuts the connection, because the
/// status has been sent.
fn body(first: Option<Bytes>, reader: Reader) -> Body {
    Body::from_stream(stream::try_unfold((first, reader), |(first, mut reader)| async move {
        let next = match first {
            Some(bytes) => Some(bytes),
            None => reader.next_bytes().await.map_err(|error| {
                tracing::warn!(digest = %reader.blob.digest(), at = reader.next, %error, "cut a response");
                io::Error::other(error)
            })?,
        };
        Ok::<_, io::Error>(next.map(|bytes| (bytes, (None, reader))))
    }))
}

/// Reads a range of a blob block by block, while it is being fetched.
struct Reader {
    shared: Arc<Shared>,
    blob: Arc<Blob>,
    /// The download, unless the blob is complete.
    download: Option<Download>,
    range_read: Option<RangeRead>,
    layer_read: Option<LayerRead>,
    next: u64,
    end: u64,
}

/// Why bytes of a blob are not sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Download(DownloadError),
    #[error(transparent)]
    Store(StoreError),
    #[error("no further byte arrived in time")]
    Stalled,
}

impl Reader {
    /// The bytes of the next block that are in the range; `None` at its end.
    async fn next_bytes(&mut self) -> Result<Option<Bytes>, ReadError> {
        if self.next > self.end {
            return Ok(None);
        }
        let index = (self.next / BLOCK_BYTES as u64) as usize;
        if let Some(read) = &self.range_read {
            read.note(index);
        }
        if let Some(download) = &self.download {
            self.wait_for(download.clone(), index).await?;
        }
        let blob = self.blob.clone();
        let read = tokio::task::spawn_blocking(move || blob.read_block(index)).await;
        let read = read.map_err(|_| ReadError::Download(DownloadError::Stopped))?;
        let block = read.map_err(|error| self.store_failed(error))?.ok_or(ReadError::Stalled)?;
        let (offset, len) = self.blob.block_range(index);
        let from = (self.next - offset) as usize;
        let to = len.min((self.end - offset + 1) as usize);
        self.next = offset + to as u64;
        if self.next > self.end {
            // A connection that stays open may keep the body until its next request.
            self.range_read = None;
            self.layer_read.take().into_iter().for_each(LayerRead::end);
        }
        Ok(Some(block.slice(from..to)))
    }

    /// Whether the rest of the blob is on its way.
    fn is_progressing(&self) -> bool {
        self.download.as_ref().is_some_and(|download| download.progress().count() > 0)
    }

    /// Waits for a block. The wait is bounded by the time without any new block, and as a whole.
    async fn wait_for(&self, mut download: Download, block: usize) -> Result<(), ReadError> {
        let limit = self.shared.extend(self.shared.settings.progress_timeout);
        let progress = download.clone();
        let count_now = || (progress.progress().count(), self.shared.downloads.arrivals());
        let mut count = count_now();
        let last = (self.end / BLOCK_BYTES as u64) as usize;
        let mut arrived = std::pin::pin!(download.block(&self.blob, block, last));
        let deadline = Instant::now() + limit * WAIT_FACTOR;
        loop {
            let stalled_at = deadline.min(Instant::now() + limit);
            match timeout_at(stalled_at, &mut arrived).await {
                Ok(arrived) => return arrived.map_err(ReadError::Download),
                Err(_) if count_now() == count => return Err(ReadError::Stalled),
                Err(_) if Instant::now() >= deadline => return Err(ReadError::Stalled),
                Err(_) => count = count_now(),
            }
        }
    }

    /// Removes a damaged blob, so that the next request fetches it again.
    fn store_failed(&self, error: StoreError) -> ReadError {
        if matches!(error, StoreError::Damaged { .. }) {
            let removed = self.shared.downloads.blobs().remove(self.blob.digest());
            tracing::error!(%error, is_removed = removed.is_ok(), "a stored blob is damaged");
        }
        ReadError::Store(error)
    }
}
