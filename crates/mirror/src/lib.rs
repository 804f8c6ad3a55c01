//! A pull-through mirror of OCI registries.
//!
//! A container engine pulls from the mirror of its host. The mirror has the content in its store, or
//! fetches it from the upstream registry while the engine reads. It implements the pulls of the OCI
//! distribution specification 1.1: manifests, blobs with ranges, tags and referrers.
//!
//! - Content is verified: a manifest before it is served, a blob block by block while it is read
//!   from the store, and as a whole before it is complete.
//! - Content is served under a repository only if the registry lets this mirror pull it from there.
//! - A client never waits long: without a first byte in time it gets 404, and asks the registry
//!   itself.
//!
//! It also serves HTTP files of other servers, such as models: see [`MirrorSettings::proxy_hosts`].
//!
//! Absent on purpose: pushes, and any change of images.

mod accept;
mod access;
mod catalog;
pub mod client;
mod download;
mod fleet;
mod flights;
mod http;
mod manifest_fetcher;
mod metrics;
mod mirror;
pub mod oci;
mod proxy;
mod pull;
mod requests;
mod settings;
mod status;
mod store;
pub mod upstream;

pub use download::{DownloadTotals, HostAnswer};
pub use fleet::{FleetSettings, FleetStatus, Region, RegionError};
pub use mirror::{Mirror, MirrorStatus, RunningMirror, StartError};
pub use requests::{RequestTotals, SourceTotals};
pub use settings::MirrorSettings;
pub use status::{
    AskedHost, DownloadStatus, FileStatus, ImageStatus, RunningDownload, StatusReport, StoreStatus,
};
pub use store::{BlobTotals, StoreError};
