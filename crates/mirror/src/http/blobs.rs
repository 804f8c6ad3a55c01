//! Requests for blobs.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::time::{Instant, timeout_at};

use super::reader::{self, Content, ContentError, ReadError};
use super::{LAST_MOMENT, Shared, without_bytes};
use crate::download::{ContentSource, Download, DownloadError, LayerRead};
use crate::images::Pull;
use crate::oci::{ApiError, Digest, ErrorCode};
use crate::store::{Blob, RangeRead, StoreError};
use crate::upstream::UpstreamError;

pub(super) async fn answer(
    shared: &Arc<Shared>,
    pull: &Pull,
    digest: &Digest,
    request: &Parts,
) -> Result<Response, ApiError> {
    let (_, limit) = first_byte_limit(shared, Some(pull));
    let deadline = Instant::now() + limit;
    let opening = open(shared, pull, digest, request, deadline);
    let opened = timeout_at(deadline + LAST_MOMENT, opening).await;
    opened.unwrap_or_else(|_| Err(no_byte(shared, Some(pull))))
}

/// The servers that are asked for a blob, and how long a client waits for their first byte.
fn first_byte_limit(shared: &Shared, pull: Option<&Pull>) -> (&'static str, Duration) {
    let settings = &shared.settings;
    let (servers, limit) = match (pull, &shared.downloads.rescue) {
        (None, _) => ("the IPFS peers", settings.file_first_byte_timeout),
        // If the registry is down, IPFS peers get the time that it takes to find them.
        (Some(_), Some(_)) => ("the registry and the IPFS peers", settings.file_first_byte_timeout),
        (Some(_), None) => ("the registry", settings.first_byte_timeout),
    };
    (servers, shared.extend(limit))
}

fn no_byte(shared: &Shared, pull: Option<&Pull>) -> ApiError {
    let (servers, limit) = first_byte_limit(shared, pull);
    let message = format!("{servers} sent no byte within {limit:?}");
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
    let id = pull.id();
    let complete = shared.downloads.blobs().find_complete(digest).await;
    let complete = complete.map_err(|error| failed(&error))?;
    let source = ContentSource::Registry(pull.clone());
    let failed_pull = |error| pull_failed(shared, pull, digest, &error);
    let is_get = request.method == Method::GET;
    let in_parts = reads_part(request);
    let layer_read = (is_get && !in_parts).then(|| shared.downloads.note_asked(digest));
    let is_alone = shared.fleet.is_none() && !in_parts;
    if complete.is_none() && is_get && is_alone && shared.catalog.names(&id, digest) {
        // The download asks the registry for this repository, so a check before it would ask twice. A download of parts
        // opens the blob before it has asked.
        let size = shared.catalog.size(&id, digest);
        let started = shared.downloads.start(source.clone(), digest, size, in_parts);
        let mut download = started.map_err(failed_pull)?;
        if download.is_of(&source) {
            let blob = download.blob().await.map_err(failed_pull)?;
            shared.catalog.note_member(&id, digest, Some(blob.size()), Duration::ZERO);
            let download = Some(download);
            return respond(shared, Some(pull), blob, download, request, deadline, layer_read)
                .await;
        }
    }
    // The other half of the time is for the blob.
    let limit = deadline.saturating_duration_since(Instant::now());
    let limit = limit.min(shared.extend(shared.settings.first_byte_timeout)) / 2;
    let checked = match &shared.fleet {
        Some(fleet) => fleet.check_blob(pull, digest, limit).await,
        None => shared.access.check_blob(pull, digest, limit).await,
    };
    let (size, source, complete) = match checked {
        Ok(size) => (size, source, complete),
        Err(error) => {
            // A public blob needs no right.
            let file = match error.is_outage() {
                true => shared.downloads.file_of(digest).await,
                false => None,
            };
            let file = file.ok_or_else(|| error.to_api_error(ErrorCode::BlobUnknown))?;
            // Another host may have named the CID. Its word does not make a stored blob public.
            let complete = complete.filter(|_| file.is_public(digest));
            (Some(file.bytes), ContentSource::Ipfs(file), complete)
        }
    };
    if let Some(blob) = complete {
        return respond(shared, Some(pull), blob, None, request, deadline, layer_read).await;
    }
    if request.method == Method::HEAD {
        if size.is_some() {
            return Ok(head(digest, size, "registry"));
        }
        let size = pull.upstream.blob_size(&pull.repository, digest).await;
        let size = size.map_err(|error| error.to_api_error(ErrorCode::BlobUnknown))?;
        return Ok(head(digest, size, "registry"));
    }
    let started = shared.downloads.start(source.clone(), digest, size, in_parts);
    let mut download = started.map_err(failed_pull)?;
    if let ContentSource::Ipfs(file) = &source
        && !download.is_of(&source)
        && !file.is_public(digest)
    {
        return Err(of_another());
    }
    let blob = download.blob().await.map_err(failed_pull)?;
    respond(shared, Some(pull), blob, Some(download), request, deadline, layer_read).await
}

/// The answer if the bytes that arrive may be of a private repository.
pub(super) fn of_another() -> ApiError {
    let message = "the blob is being fetched for another repository: try again";
    ApiError::new(ErrorCode::BlobUnknown, message)
}

/// Whether a client reads a part of the blob, as a lazy snapshotter does. A range without an end is the rest of a whole
/// read, or one of containerd's requests for all pieces of a layer.
fn reads_part(request: &Parts) -> bool {
    let range = request.headers.get(header::RANGE);
    request.method == Method::GET && range.is_some_and(|range| !range.as_bytes().ends_with(b"-"))
}

/// Notes that a client reads the blob, so that the start of a container is fetched first.
fn note_read(blob: &Arc<Blob>, request: &Parts) -> Option<RangeRead> {
    if !reads_part(request) {
        if request.method == Method::GET {
            blob.start_order().note_whole_read();
        }
        return None;
    }
    let (read, is_first) = blob.start_order().begin_read();
    if is_first {
        let blob = blob.clone();
        tokio::spawn(async move {
            if let Err(error) = blob.start_order().keep().await {
                tracing::warn!(digest = %blob.digest(), %error, "cannot keep the order of a start");
            }
        });
    }
    Some(read)
}

/// The answer to `HEAD`. Without a size the client has to read to the end of the blob.
pub(super) fn head(digest: &Digest, size: Option<u64>, source: &'static str) -> Response {
    let mut headers = headers(digest, size.unwrap_or_default());
    if size.is_none() {
        headers.remove(header::CONTENT_LENGTH);
    }
    without_bytes(StatusCode::OK, source, headers)
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

pub(super) async fn respond(
    shared: &Arc<Shared>,
    pull: Option<&Pull>,
    blob: Arc<Blob>,
    download: Option<Download>,
    request: &Parts,
    deadline: Instant,
    layer_read: Option<LayerRead>,
) -> Result<Response, ApiError> {
    let headers = headers(blob.digest(), blob.size());
    let digest = blob.digest().clone();
    let range_read = note_read(&blob, request);
    let is_of_ipfs = download.as_ref().is_some_and(Download::is_of_ipfs);
    let server = if is_of_ipfs { "ipfs" } else { "registry" };
    let content = Content { blob, download, headers, server, range_read, layer_read };
    // RFC 9110, 13.1.5: with the validator of something else, the range is not for this blob.
    let is_current = request
        .headers
        .get(header::IF_RANGE)
        .is_none_or(|validator| content.headers.get(header::ETAG) == Some(validator));
    let range = request.headers.get(header::RANGE).filter(|_| is_current);
    let answer = reader::respond(shared, content, &request.method, range, deadline).await;
    answer.map_err(|error| match error {
        ContentError::Range(error) => {
            let value = reader::unsatisfied_range(error.size);
            let error = ApiError::new(ErrorCode::RangeInvalid, error.to_string());
            error.with_header(header::CONTENT_RANGE, value)
        }
        ContentError::Read(ReadError::Download(error)) => pull.map_or_else(
            || download_failed(&error),
            |pull| pull_failed(shared, pull, &digest, &error),
        ),
        ContentError::Read(ReadError::Store(error)) => failed(&error),
        ContentError::Read(error @ ReadError::Stalled) => {
            ApiError::new(ErrorCode::BlobUnknown, error.to_string())
        }
        ContentError::NoByte => no_byte(shared, pull),
    })
}

pub(super) fn failed(error: &StoreError) -> ApiError {
    tracing::error!(%error, "the store failed");
    ApiError::new(ErrorCode::BlobUnknown, error.to_string())
}

/// The answer after a failed download from a registry, which may have named a wrong size.
fn pull_failed(
    shared: &Arc<Shared>,
    pull: &Pull,
    digest: &Digest,
    error: &DownloadError,
) -> ApiError {
    // The size that the registry named may be wrong. It would be believed for `access_ttl`, here and at other hosts.
    let is_wrong = match error {
        DownloadError::Upstream(error) => matches!(error, UpstreamError::InvalidAnswer { .. }),
        DownloadError::Store(error) => matches!(**error, StoreError::LargerThanStore { .. }),
        DownloadError::WrongDigest => true,
        DownloadError::TooMany | DownloadError::Private | DownloadError::Stopped => false,
    };
    if is_wrong && shared.access.is_fresh(&pull.id(), digest) {
        shared.catalog.remove_member(&pull.id(), digest);
        let (access, pull, digest) = (shared.access.clone(), pull.clone(), digest.clone());
        let limit = shared.answer_timeout();
        tokio::spawn(async move { access.check_blob(&pull, &digest, limit).await });
    }
    download_failed(error)
}

/// Every failure is 404 or the registry's own answer, so that the client asks the registry itself.
pub(super) fn download_failed(error: &DownloadError) -> ApiError {
    match error {
        DownloadError::Upstream(error) => error.to_api_error(ErrorCode::BlobUnknown),
        error => ApiError::new(ErrorCode::BlobUnknown, error.to_string()),
    }
}
