//! Requests for blobs.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::time::{Instant, timeout_at};

use super::{SOURCE, Shared};
use crate::access::AccessError;
use crate::download::{Download, DownloadError};
use crate::oci::{ApiError, ByteRange, Digest, ErrorCode};
use crate::pull::Pull;
use crate::store::{BLOCK_BYTES, Blob, StoreError};

/// The longest wait for one block, while others arrive, as a multiple of the wait without any.
const WAIT_FACTOR: u32 = 4;
/// A response that is due at the deadline is sent a little later.
const LAST_MOMENT: Duration = Duration::from_millis(100);

pub(super) async fn answer(
    shared: &Arc<Shared>,
    pull: &Pull,
    digest: &Digest,
    request: &Parts,
) -> Result<Response, ApiError> {
    let limit = shared.extend(shared.settings.first_byte_timeout);
    let deadline = Instant::now() + limit;
    let opening = open(shared, pull, digest, request, deadline);
    timeout_at(deadline + LAST_MOMENT, opening).await.unwrap_or_else(|_| Err(no_byte(limit)))
}

fn no_byte(limit: Duration) -> ApiError {
    let message = format!("the registry sent no byte within {limit:?}");
    ApiError::new(ErrorCode::BlobUnknown, message)
}

/// Opens a blob, and waits for the first block of the response.
async fn open(
    shared: &Arc<Shared>,
    pull: &Pull,
    digest: &Digest,
    request: &Parts,
    deadline: Instant,
) -> Result<Response, ApiError> {
    // The other half of the time is for the blob.
    let limit = deadline.saturating_duration_since(Instant::now()) / 2;
    let access = shared.access.check_blob(pull, digest, limit).await;
    let size = access.map_err(|error| match error {
        AccessError::Upstream(error) => error.to_api_error(ErrorCode::BlobUnknown),
        AccessError::Store(error) => failed(&error),
    })?;
    let complete = shared.downloads.blobs().find_complete(digest).await;
    let complete = complete.map_err(|error| failed(&error))?;
    if let Some(blob) = complete {
        return respond(shared, blob, None, request, deadline).await;
    }
    if request.method == Method::HEAD {
        if let Some(size) = size {
            return Ok(head(digest, size));
        }
        let size = pull.upstream.blob_size(&pull.repository, digest).await;
        let size = size.map_err(|error| error.to_api_error(ErrorCode::BlobUnknown))?;
        return Ok(head(digest, size));
    }
    let mut download =
        shared.downloads.start(pull, digest, size).map_err(|error| download_failed(&error))?;
    let blob = download.blob().await.map_err(|error| download_failed(&error))?;
    respond(shared, blob, Some(download), request, deadline).await
}

fn head(digest: &Digest, size: u64) -> Response {
    let mut response = Response::new(Body::empty());
    *response.headers_mut() = headers(digest, size);
    response.headers_mut().insert(SOURCE, HeaderValue::from_static("registry"));
    response
}

fn headers(digest: &Digest, length: u64) -> HeaderMap {
    let text = digest.to_string();
    let value = |text: &str| HeaderValue::from_str(text).expect("a digest is valid in a header");
    HeaderMap::from_iter([
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_LENGTH, HeaderValue::from(length)),
        (header::ACCEPT_RANGES, HeaderValue::from_static("bytes")),
        (header::ETAG, value(&format!("\"{text}\""))),
        ("docker-content-digest".parse().expect("a header"), value(&text)),
    ])
}

async fn respond(
    shared: &Arc<Shared>,
    blob: Arc<Blob>,
    download: Option<Download>,
    request: &Parts,
    deadline: Instant,
) -> Result<Response, ApiError> {
    let size = blob.size();
    let range = request.headers.get(header::RANGE).and_then(|range| range.to_str().ok());
    let range = match range.map(|range| ByteRange::parse(range, size)).transpose() {
        Ok(range) => range.flatten(),
        Err(error) => {
            let value = HeaderValue::from_str(&format!("bytes */{size}"));
            let error = ApiError::new(ErrorCode::RangeInvalid, error.to_string());
            return Err(error
                .with_header(header::CONTENT_RANGE, value.expect("digits are valid in a header")));
        }
    };
    let source = match (&download, &shared.fleet) {
        (None, _) => "store",
        (Some(_), Some(_)) => "fleet",
        (Some(_), None) => "registry",
    };
    let whole = ByteRange { start: 0, end: size.saturating_sub(1) };
    let bytes = range.unwrap_or(whole);
    let length = if size == 0 { 0 } else { bytes.bytes() };
    let mut headers = headers(blob.digest(), length);
    headers.insert(SOURCE, HeaderValue::from_static(source));
    let mut response = Response::new(Body::empty());
    if range.is_some() {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let value = format!("bytes {}-{}/{size}", bytes.start, bytes.end);
        let value = HeaderValue::from_str(&value).expect("digits are valid in a header");
        headers.insert(header::CONTENT_RANGE, value);
    }
    *response.headers_mut() = headers;
    if request.method == Method::GET && size > 0 {
        let (next, end) = (bytes.start, bytes.end);
        let mut reader = Reader { shared: shared.clone(), blob, download, next, end };
        // Without the first block there is nothing to promise the client, unless other hosts have it.
        let first = match timeout_at(deadline, reader.next_bytes()).await {
            Ok(first) => first.map_err(|error| match error {
                ReadError::Download(error) => download_failed(&error),
                ReadError::Store(error) => failed(&error),
                ReadError::Stalled => ApiError::new(ErrorCode::BlobUnknown, error.to_string()),
            })?,
            Err(_) if reader.is_progressing() => None,
            Err(_) => return Err(no_byte(shared.settings.first_byte_timeout)),
        };
        *response.body_mut() = body(first, reader);
    }
    Ok(response)
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
    next: u64,
    end: u64,
}

#[derive(Debug, thiserror::Error)]
enum ReadError {
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
        let mut count = progress.progress().count();
        let mut arrived = std::pin::pin!(download.block(&self.blob, block));
        let deadline = Instant::now() + limit * WAIT_FACTOR;
        loop {
            let stalled_at = deadline.min(Instant::now() + limit);
            match timeout_at(stalled_at, &mut arrived).await {
                Ok(arrived) => return arrived.map_err(ReadError::Download),
                Err(_) if progress.progress().count() == count => return Err(ReadError::Stalled),
                Err(_) if Instant::now() >= deadline => return Err(ReadError::Stalled),
                Err(_) => count = progress.progress().count(),
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

fn failed(error: &StoreError) -> ApiError {
    tracing::error!(%error, "the store failed");
    ApiError::new(ErrorCode::BlobUnknown, error.to_string())
}

/// Every failure is 404 or the registry's own answer, so that the client asks the registry itself.
fn download_failed(error: &DownloadError) -> ApiError {
    match error {
        DownloadError::Upstream(error) => error.to_api_error(ErrorCode::BlobUnknown),
        error => ApiError::new(ErrorCode::BlobUnknown, error.to_string()),
    }
}
