//! Fetches blobs, each once for all of its readers.

mod ahead;
mod connection;
mod content_source;
mod learning;
mod reuse;
mod run;
mod sources;
mod spool;
mod spread;
mod start;
mod task;
mod toc;
mod waiting;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;
use watchfire_traces::{Kind, Span, current};

pub(crate) use ahead::LayerRead;
pub(crate) use content_source::ContentSource;
use sources::Sources;
pub use sources::{AskedHost, HostAnswer, Progress, RunningDownload};
use waiting::WaitingReaders;

use crate::fleet::Fleet;
use crate::images::{Catalog, IPFS};
use crate::ipfs::{Ipfs, IpfsFile};
use crate::oci::Digest;
use crate::store::{BLOCK_BYTES, Blob, BlobState, Blobs, Folder, StoreError};
use crate::upstream::UpstreamError;

/// Blobs that are fetched at the same time. When the limit is reached, a further blob is not fetched, and its
/// client goes to the registry itself.
const DOWNLOADS_MAX: usize = 1_000;
/// The target of the log that says which blob came from whom.
const AUDIT: &str = "watchfire_mirror::audit";
/// How long the failure of a blob is the answer for further requests of it.
const FAILURE_KEPT: Duration = Duration::from_secs(10);
/// Failures that are kept. When the limit is reached, all are forgotten.
const FAILURES_MAX: usize = 10_000;

#[derive(Debug)]
pub struct Downloads {
    blobs: Arc<Blobs>,
    catalog: Arc<Catalog>,
    /// A TOC takes some memory, so one is read at a time.
    reading_toc: tokio::sync::Mutex<()>,
    folder: Folder,
    connections_per_blob: usize,
    fleet: Option<Arc<Fleet>>,
    /// It stands in for registries that are down; `None` if nothing does.
    pub(crate) rescue: Option<Arc<Ipfs>>,
    running: Mutex<Running>,
    ahead: ahead::Ahead,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Running {
    downloads: HashMap<Digest, Download>,
    /// By the digest, and the repository or URL for which the download was started.
    failures: HashMap<(Digest, Arc<str>), (Instant, DownloadError)>,
}

#[derive(Debug, Default)]
struct Counters {
    upstream_bytes: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadStatus {
    /// Blobs that were fetched completely.
    pub completed: u64,
    pub failed: u64,
    pub registry_bytes: u64,
    /// Bytes of blobs that other hosts of the fleet sent.
    pub host_bytes: u64,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum DownloadError {
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error(transparent)]
    Store(Arc<StoreError>),
    #[error("the server sent bytes that do not have the digest")]
    WrongDigest,
    #[error(
        "cannot fetch the blob from IPFS peers: this host has it from a registry or containerd, and does not know that it is public; pull the image from its registry"
    )]
    Private,
    #[error("too many blobs are being fetched")]
    TooMany,
    #[error("the mirror is stopping")]
    Stopped,
}

#[derive(Clone, Debug)]
pub struct Download {
    phase: watch::Receiver<Phase>,
    waiting: Arc<WaitingReaders>,
    progress: Arc<Progress>,
    sources: Arc<Sources>,
    /// The repository for which the download was started, or the URL of the file.
    name: Arc<str>,
}

#[derive(Clone, Debug)]
enum Phase {
    /// The size of the blob is not known yet.
    Opening,
    Fetching(Arc<Blob>),
    Failed(DownloadError),
}

impl Downloads {
    pub(crate) fn new(
        folder: Folder,
        blobs: Arc<Blobs>,
        catalog: Arc<Catalog>,
        connections_per_blob: usize,
        fleet: Option<Arc<Fleet>>,
        rescue: Option<Arc<Ipfs>>,
    ) -> Self {
        Downloads {
            blobs,
            catalog,
            reading_toc: tokio::sync::Mutex::default(),
            folder,
            connections_per_blob: connections_per_blob.max(1),
            fleet,
            rescue,
            running: Mutex::default(),
            ahead: ahead::Ahead::default(),
            counters: Counters::default(),
        }
    }

    pub const fn blobs(&self) -> &Arc<Blobs> {
        &self.blobs
    }

    /// A public blob as a file of IPFS, for a registry that is down. Its CID is known here or in the fleet.
    pub(crate) async fn file_of(&self, digest: &Digest) -> Option<IpfsFile> {
        let ipfs = self.rescue.as_ref()?;
        let known = match (ipfs.known(digest), &self.fleet) {
            (None, Some(fleet)) => fleet.find_cid(digest).await,
            (known, _) => known,
        };
        let (root, bytes) = known?;
        Some(ipfs.file(root, bytes))
    }

    pub fn status(&self) -> DownloadStatus {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DownloadStatus {
            completed: count(&self.counters.completed),
            failed: count(&self.counters.failed),
            registry_bytes: count(&self.counters.upstream_bytes),
            host_bytes: self.fleet.as_ref().map_or(0, |fleet| fleet.received_bytes()),
        }
    }

    /// Grows while a host of a fleet receives bytes of any blob. On a busy link a blob waits for others.
    pub(crate) fn arrivals(&self) -> u64 {
        let from_registry = || self.counters.upstream_bytes.load(Ordering::Relaxed);
        self.fleet.as_ref().map_or(0, |fleet| fleet.parts_received() + from_registry())
    }

    /// The downloads that are running, in the order of their start.
    pub(crate) fn running(&self) -> Vec<RunningDownload> {
        let downloads = self.running.lock().downloads.clone();
        let mut downloads: Vec<_> = downloads.into_iter().collect();
        downloads.sort_by_key(|(_, download)| download.sources.started_at);
        downloads.iter().map(|(digest, download)| self.status_of(digest, download)).collect()
    }

    fn status_of(&self, digest: &Digest, download: &Download) -> RunningDownload {
        let Download { sources, name, .. } = download;
        let blob = match &*download.phase.borrow() {
            Phase::Fetching(blob) => Some(blob.clone()),
            Phase::Opening | Phase::Failed(_) => None,
        };
        let present = |blob: &Arc<Blob>| (blob.blocks_present() * BLOCK_BYTES) as u64;
        let addresses = |peer| self.fleet.as_ref().map(|fleet| fleet.addresses_of(peer));
        let asked = sources.hosts().into_iter().map(|(peer, answer)| AskedHost {
            id: peer.to_string(),
            addresses: addresses(peer).unwrap_or_default(),
            answer,
        });
        RunningDownload {
            digest: digest.to_string(),
            repository: name.to_string(),
            seconds: sources.started_at.elapsed().as_secs_f64(),
            bytes: blob.as_ref().map(|blob| blob.size()),
            // The last block may be shorter.
            present_bytes: blob.as_ref().map_or(0, |blob| present(blob).min(blob.size())),
            registry_bytes: sources.registry_bytes(),
            host_bytes: sources.host_bytes(),
            hosts: asked.collect(),
        }
    }

    /// The running download of a blob, or a new one. `in_parts`: its first reader reads a part, so that the blob is not
    /// read from its start.
    pub(crate) fn start(
        self: &Arc<Self>,
        source: ContentSource,
        digest: &Digest,
        size: Option<u64>,
        in_parts: bool,
    ) -> Result<Download, DownloadError> {
        let mut running = self.running.lock();
        if let Some(download) = running.downloads.get(digest) {
            return Ok(download.clone());
        }
        let name: Arc<str> = source.name().into();
        let key = (digest.clone(), name.clone());
        if let Some((failed_at, error)) = running.failures.get(&key) {
            if failed_at.elapsed() < FAILURE_KEPT {
                return Err(error.clone());
            }
            running.failures.remove(&key);
        }
        if running.downloads.len() >= DOWNLOADS_MAX {
            return Err(DownloadError::TooMany);
        }
        let (sender, phase) = watch::channel(Phase::Opening);
        let download = Download {
            phase,
            waiting: Arc::default(),
            progress: Arc::default(),
            sources: Arc::new(Sources::new()),
            name: name.clone(),
        };
        running.downloads.insert(digest.clone(), download.clone());
        drop(running);
        let task = task::Task {
            downloads: self.clone(),
            source,
            digest: digest.clone(),
            size,
            in_parts,
            progress: download.progress.clone(),
            waiting: download.waiting.clone(),
            sources: download.sources.clone(),
            reuse: Arc::default(),
        };
        // Below the first request for the blob; others wait for the same download.
        let mut span = Span::below(current(), "download", Kind::Internal);
        tokio::spawn(async move {
            let (digest, sources) = (task.digest.clone(), task.sources.clone());
            let downloads = task.downloads.clone();
            let result = span.within(task.run(&sender)).await;
            if span.is_recorded() {
                span.set("watchfire.digest", digest.to_string());
                span.set("watchfire.registry_bytes", sources.registry_bytes());
                span.set("watchfire.host_bytes", sources.host_bytes());
                if let Err(error) = &result {
                    span.fail(error);
                }
            }
            drop(span);
            downloads.finish(&digest, name, &sources, &sender, result);
        });
        Ok(download)
    }

    fn finish(
        &self,
        digest: &Digest,
        name: Arc<str>,
        sources: &Sources,
        phase: &watch::Sender<Phase>,
        result: Result<(), DownloadError>,
    ) {
        let mut running = self.running.lock();
        running.downloads.remove(digest);
        match result {
            Ok(()) => {
                self.counters.completed.fetch_add(1, Ordering::Relaxed);
                self.blobs.note_changed();
                // A query may have a secret.
                let repository = name.split('?').next().unwrap_or_default();
                let (registry_bytes, host_bytes) = (sources.registry_bytes(), sources.host_bytes());
                let hosts = sources.senders();
                tracing::info!(target: AUDIT, %digest, repository, registry_bytes, host_bytes, hosts, "fetched a blob");
            }
            Err(error) => {
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%digest, %error, "cannot fetch a blob");
                if running.failures.len() >= FAILURES_MAX {
                    running.failures.clear();
                }
                let key = (digest.clone(), name);
                running.failures.insert(key, (Instant::now(), error.clone()));
                phase.send_replace(Phase::Failed(error));
            }
        }
    }
}

impl Download {
    /// Whether it fetches for this repository or URL: then a known size means that the server has answered
    /// for it, if there is no fleet.
    pub(crate) fn is_of(&self, source: &ContentSource) -> bool {
        *self.name == *source.name()
    }

    /// Waits until the size of the blob is known.
    pub async fn blob(&mut self) -> Result<Arc<Blob>, DownloadError> {
        loop {
            match &*self.phase.borrow_and_update() {
                Phase::Opening => {}
                Phase::Fetching(blob) => return Ok(blob.clone()),
                Phase::Failed(error) => return Err(error.clone()),
            }
            if self.phase.changed().await.is_err() {
                return Err(DownloadError::Stopped);
            }
        }
    }

    /// Whether it was started for a file of IPFS.
    pub(crate) fn is_of_ipfs(&self) -> bool {
        self.name.starts_with(IPFS)
    }

    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Waits until the blob has a block. The block is fetched before the blocks that no reader waits
    /// for. The reader reads on to the block `last`.
    pub async fn block(
        &mut self,
        blob: &Blob,
        block: usize,
        last: usize,
    ) -> Result<(), DownloadError> {
        let mut changes = blob.changes();
        let _waiting = self.waiting.wait_for(block, last);
        loop {
            changes.mark_unchanged();
            // The last block of a blob with wrong bytes is never sent.
            if blob.state() == BlobState::Wrong {
                return Err(DownloadError::WrongDigest);
            }
            if blob.has_block(block) {
                return Ok(());
            }
            if let Phase::Failed(error) = &*self.phase.borrow_and_update() {
                return Err(error.clone());
            }
            tokio::select! {
                changed = changes.changed() => {
                    if changed.is_err() {
                        return Err(DownloadError::Stopped);
                    }
                }
                changed = self.phase.changed() => {
                    if changed.is_err() && !blob.has_block(block) {
                        return Err(DownloadError::Stopped);
                    }
                }
            }
        }
    }
}

impl From<StoreError> for DownloadError {
    fn from(error: StoreError) -> Self {
        DownloadError::Store(Arc::new(error))
    }
}
