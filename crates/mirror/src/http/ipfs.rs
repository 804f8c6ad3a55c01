//! The CIDs of an image.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};

use super::{Shared, blobs};
use crate::ipfs::cids_of;
use crate::oci::{ApiError, DigestError, ErrorCode};

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
