//! The state of a mirror, as `GET /status` answers it.

pub(crate) mod metrics;
mod requests;

use serde::{Deserialize, Serialize};

pub(crate) use requests::{Kind, Requests, Source};
pub use requests::{RequestTotals, SourceTotals};

use crate::download::{DownloadStatus, RunningDownload};
use crate::fleet::FleetStatus;
use crate::store::StoreStatus;

/// The state of a mirror: the JSON that `GET /status` answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    pub version: String,
    pub uptime_seconds: f64,
    pub image_count: u64,
    /// The first 1,000 images in the order of their names.
    pub images: Vec<ImageStatus>,
    #[serde(default)]
    pub file_count: u64,
    /// The first 1,000 files in the order of their URLs.
    #[serde(default)]
    pub files: Vec<FileStatus>,
    pub store: StoreStatus,
    pub downloads: DownloadStatus,
    pub requests: RequestTotals,
    pub running: Vec<RunningDownload>,
    /// The fleet; `None` if the mirror is for one host.
    pub fleet: Option<FleetStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageStatus {
    /// `<registry>/<repository>:<tag>`.
    pub name: String,
    pub digest: String,
}

/// A file of a proxy host that a client has requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStatus {
    pub url: String,
    pub bytes: u64,
    /// The name of its version in the store.
    pub digest: String,
}
