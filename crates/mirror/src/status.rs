//! The state of a mirror, as `GET /status` answers it.

use serde::{Deserialize, Serialize};

use crate::download::HostAnswer;
use crate::fleet::FleetStatus;
use crate::http::Shared;
use crate::requests::RequestTotals;

/// Images that a report names. `image_count` has the number of all.
const IMAGES_MAX: usize = 1_000;
/// Files that a report names. `file_count` has the number of all.
const FILES_MAX: usize = 1_000;

/// The state of a mirror: the JSON that `GET /status` answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// The version of Watchfire.
    pub version: String,
    /// Seconds since the start.
    pub uptime_seconds: f64,
    /// The number of images.
    pub image_count: u64,
    /// The first 1,000 images in the order of their names.
    pub images: Vec<ImageStatus>,
    /// The number of files of proxy hosts.
    #[serde(default)]
    pub file_count: u64,
    /// The first 1,000 files in the order of their URLs.
    #[serde(default)]
    pub files: Vec<FileStatus>,
    /// The store.
    pub store: StoreStatus,
    /// The downloads since the start.
    pub downloads: DownloadStatus,
    /// The answered requests since the start.
    pub requests: RequestTotals,
    /// The downloads that are running.
    pub running: Vec<RunningDownload>,
    /// The fleet; `None` if the mirror is for one host.
    pub fleet: Option<FleetStatus>,
}

/// An image that a client has pulled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageStatus {
    /// `<registry>/<repository>:<tag>`.
    pub name: String,
    /// The digest of its manifest.
    pub digest: String,
}

/// A file of a proxy host that a client has requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStatus {
    /// Its URL.
    pub url: String,
    /// Its size.
    pub bytes: u64,
    /// The name of its version in the store.
    pub digest: String,
}

/// The store of a mirror.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Blobs, complete or not.
    pub blobs: u64,
    /// Their size in bytes; of an incomplete blob, its size when it is complete.
    pub bytes: u64,
    /// The size at which the store is full.
    pub bytes_max: u64,
    /// Blobs that were removed to make room, since the start.
    pub evicted: u64,
}

/// The downloads since the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadStatus {
    /// Blobs that were fetched completely.
    pub completed: u64,
    /// Blobs that could not be fetched.
    pub failed: u64,
    /// Bytes of blobs that registries sent.
    pub registry_bytes: u64,
    /// Bytes of blobs that other hosts of the fleet sent.
    pub host_bytes: u64,
}

/// A download that is running.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunningDownload {
    /// The blob.
    pub digest: String,
    /// The repository for which the download was started, with its registry; or the URL of a file.
    pub repository: String,
    /// Seconds since its start.
    pub seconds: f64,
    /// The size of the blob; `None` while it is unknown.
    pub bytes: Option<u64>,
    /// Bytes that are in the store, some perhaps from before the start.
    pub present_bytes: u64,
    /// Bytes that the registry sent.
    pub registry_bytes: u64,
    /// Bytes that other hosts sent.
    pub host_bytes: u64,
    /// Hosts of the fleet that were asked for the blob.
    pub hosts: Vec<AskedHost>,
}

/// A host of the fleet that was asked for a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedHost {
    /// Its id in the fleet.
    pub id: String,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// Its last answer.
    #[serde(flatten)]
    pub answer: HostAnswer,
}

impl StatusReport {
    /// The state now.
    pub(crate) async fn of(shared: &Shared) -> Self {
        let downloads = shared.downloads.totals();
        let blobs = shared.downloads.blobs().totals();
        let (image_count, images) = shared.catalog.first_images(IMAGES_MAX);
        let images = images.into_iter().map(|(name, digest)| ImageStatus { name, digest });
        let (file_count, files) = shared.files.first(FILES_MAX);
        let files = files.into_iter().map(|version| FileStatus {
            url: version.url.clone(),
            bytes: version.length,
            digest: version.key().to_string(),
        });
        let fleet = match &shared.fleet {
            Some(fleet) => Some(fleet.status().await),
            None => None,
        };
        StatusReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: shared.started_at.elapsed().as_secs_f64(),
            image_count: image_count as u64,
            images: images.collect(),
            file_count: file_count as u64,
            files: files.collect(),
            store: StoreStatus {
                blobs: blobs.blobs,
                bytes: blobs.bytes,
                bytes_max: shared.settings.store_bytes_max,
                evicted: blobs.evicted,
            },
            downloads: DownloadStatus {
                completed: downloads.completed,
                failed: downloads.failed,
                registry_bytes: downloads.upstream_bytes,
                host_bytes: fleet.as_ref().map_or(0, |fleet| fleet.received_bytes),
            },
            requests: shared.requests.totals(),
            running: shared.downloads.running(),
            fleet,
        }
    }
}
