//! Requests for images of IPFS: the repository `ipfs/<cid>`, of any registry.
//!
//! The name pins the content, so no registry is asked. A blob that the store has for another repository is served only if
//! strangers may have it: the folder of an image may name any digest, and a name gives no right. A blob that the store does
//! not have is fetched from IPFS peers, which shows that they have it.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use http::Method;
use http::request::Parts;
use tokio::time::{Instant, timeout_at};
use watchfire_content::Cid;

use super::manifests::{self, Source};
use super::{Shared, blobs, count};
use crate::download::ContentSource;
use crate::ipfs::{Ipfs, IpfsError, cids_of, content_of_peers};
use crate::oci::{ApiError, Digest, DigestError, ErrorCode, Reference, Resource};
use crate::status::Kind;

/// The CID of the image that a request is for; `None` for an image of a registry.
pub(super) fn image_of(resource: &Resource) -> Option<Cid> {
    let repository = match resource {
        Resource::Root => return None,
        Resource::Manifest(repository, _)
        | Resource::Blob(repository, _)
        | Resource::Tags(repository)
        | Resource::Referrers(repository, _) => repository,
    };
    // A registry may be in front.
    let mut parts = repository.as_str().rsplit('/');
    let cid = parts.next()?.parse().ok()?;
    (parts.next() == Some("ipfs") && parts.count() <= 1).then_some(cid)
}

pub(super) async fn answer(
    shared: &Arc<Shared>,
    image: &Cid,
    resource: &Resource,
    request: &Parts,
) -> Result<Response, ApiError> {
    let off = "this mirror does not use IPFS: start it with --ipfs";
    let ipfs = shared.ipfs.as_ref().ok_or_else(|| ApiError::new(ErrorCode::NameUnknown, off))?;
    let waited = shared.extend(shared.settings.file_first_byte_timeout);
    let deadline = Instant::now() + waited;
    let (kind, code) = match resource {
        Resource::Blob(..) => (Kind::Blob, ErrorCode::BlobUnknown),
        _ => (Kind::Manifest, ErrorCode::ManifestUnknown),
    };
    let unknown = |error: IpfsError| ApiError::new(code, error.to_string());
    let answer = async {
        match resource {
            Resource::Manifest(_, reference) => {
                manifest(shared, ipfs, image, reference).await.map_err(unknown)
            }
            Resource::Blob(_, digest) => {
                let file = ipfs.find_blob(image, digest).await.map_err(unknown)?;
                blob(shared, ipfs, file, digest, request, deadline).await
            }
            _ => {
                let none = "an image of IPFS has no tags and no referrers: pull it by its CID";
                Err(ApiError::new(ErrorCode::NameUnknown, none))
            }
        }
    };
    let late = |_| Err(unknown(IpfsError::NoBlock { cid: image.clone(), waited }));
    let answer = timeout_at(deadline, answer).await.unwrap_or_else(late);
    match (kind, &request.method) {
        // It asks for the size only.
        (Kind::Blob, &Method::HEAD) => answer,
        _ => count(shared, kind, answer),
    }
}

async fn manifest(
    shared: &Shared,
    ipfs: &Arc<Ipfs>,
    image: &Cid,
    reference: &Reference,
) -> Result<Response, IpfsError> {
    if let Reference::Digest(digest) = reference
        && let Some(age) = shared.catalog.member(&content_of_peers(), digest)
        && let Ok(Some(manifest)) = shared.manifests.get(digest)
    {
        return Ok(manifests::response(manifest, &Source::Store(age)));
    }
    let manifest = ipfs.manifest(image, reference).await?;
    shared.manifests.put(&manifest);
    let reference = Reference::Digest(manifest.digest.clone());
    let named = (&manifest.digest, &*manifest.bytes);
    shared.catalog.note_manifest(&content_of_peers(), &reference, "", named, Duration::ZERO);
    Ok(manifests::response(manifest, &Source::Ipfs))
}

async fn blob(
    shared: &Arc<Shared>,
    ipfs: &Arc<Ipfs>,
    file: Cid,
    digest: &Digest,
    request: &Parts,
    deadline: Instant,
) -> Result<Response, ApiError> {
    let complete = shared.downloads.blobs().find_complete(digest).await;
    let complete = complete.map_err(|error| blobs::failed(&error))?;
    if let Some(blob) = complete.filter(|_| ipfs.is_public(digest)) {
        return blobs::respond(shared, None, blob, None, request, deadline, None).await;
    }
    let size = shared.catalog.size(&content_of_peers(), digest);
    let unknown = "its size is unknown: pull the manifest first";
    let size = size.ok_or_else(|| ApiError::new(ErrorCode::BlobUnknown, unknown))?;
    if request.method == Method::HEAD {
        return Ok(blobs::head(digest, Some(size), "ipfs"));
    }
    let source = ContentSource::Ipfs(ipfs.file(file, size));
    let started = shared.downloads.start(source.clone(), digest, Some(size), false);
    let mut download = started.map_err(|error| blobs::download_failed(&error))?;
    if !download.is_of(&source) {
        return Err(blobs::of_another());
    }
    let blob = download.blob().await.map_err(|error| blobs::download_failed(&error))?;
    blobs::respond(shared, None, blob, Some(download), request, deadline, None).await
}

/// Answers `GET /cids/<digest>`: the CIDs of the image with this manifest.
pub(super) async fn cids(shared: &Arc<Shared>, digest: &str) -> Result<Response, ApiError> {
    let invalid = |error: DigestError| ApiError::new(ErrorCode::DigestInvalid, error.to_string());
    let (shared, digest) = (shared.clone(), digest.parse().map_err(invalid)?);
    let found = tokio::task::spawn_blocking(move || {
        let stores = (&**shared.downloads.blobs(), &shared.manifests);
        cids_of(shared.ipfs.as_deref(), stores, &digest)
    });
    let found = found.await.unwrap_or(Ok(None)).map_err(|error| blobs::failed(&error))?;
    let unknown = "the store has no manifest of an image with this digest";
    let unknown = || ApiError::new(ErrorCode::ManifestUnknown, unknown);
    Ok(axum::Json(found.ok_or_else(unknown)?).into_response())
}
