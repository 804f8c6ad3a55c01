//! Why a blob was not fetched.

use std::sync::Arc;

use crate::store::StoreError;
use crate::upstream::UpstreamError;

/// Why a blob was not fetched.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DownloadError {
    /// The registry did not send it.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The store failed, or has no room.
    #[error(transparent)]
    Store(Arc<StoreError>),
    /// The registry, or the server of a file, sent other bytes.
    #[error("the server sent bytes that do not have the digest")]
    WrongDigest,
    /// Too many blobs are being fetched.
    #[error("too many blobs are being fetched")]
    TooMany,
    /// The mirror is stopping.
    #[error("the mirror is stopping")]
    Stopped,
}
