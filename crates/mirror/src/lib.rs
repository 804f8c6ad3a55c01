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
//!
//! Its modules import only those in the lines below their own:
//!
//! ```text
//! mirror, client    starts a mirror; asks a running one
//! http              answers container engines, clients of files, and the operator
//! status, settings  the report about a mirror; the settings of one
//! download          fetches blobs, alone or with the fleet
//! fleet             this host's part in the fleet
//! ipfs              CIDs of blobs and images, which IPFS peers get here or have
//! images            which manifests and blobs may be served, and under which repository
//! proxy             files of other HTTP servers
//! upstream, store   registries; blobs and manifests on disk
//! oci               names, digests, ranges and errors of the specification
//! ```

#![allow(missing_docs, reason = "only the crate `watchfire` is documented item by item")]

pub mod client;
mod download;
mod fleet;
mod http;
mod images;
mod ipfs;
mod mirror;
pub mod oci;
mod proxy;
mod settings;
mod status;
mod store;
pub mod upstream;

pub use download::{AskedHost, DownloadStatus, HostAnswer, RunningDownload};
pub use fleet::{
    FleetSettings, FleetStatus, Region, RegionError, RegionLink, RegionLinkError, RegionStatus,
};
pub use ipfs::ContentCid;
pub use mirror::{Mirror, RunningMirror, StartError};
pub use settings::MirrorSettings;
pub use status::{FileStatus, ImageStatus, RequestTotals, SourceTotals, StatusReport};
pub use store::{StoreError, StoreStatus};
