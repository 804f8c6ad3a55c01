//! How one blob is fetched: together with the other hosts of the fleet, or alone.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use watchfire_fleet::Segments;
use watchfire_traces::{current, within};

use super::connection::{Connection, REQUEST_BLOCKS, Ranges, pause_after};
use super::content_source::ContentSource;
use super::spool::Spool;
use super::spread::SpreadTask;
use super::task::Task;
use super::{DownloadError, Phase};
use crate::fleet::Fleet;
use crate::store::{Blob, BlobState, Check, StoreError};
use crate::upstream::{BlobBody, BlobPart, UpstreamError};

/// The first answer of a registry.
enum Opened {
    /// The whole blob, of this size, or its first segment.
    Body(BlobBody, u64),
    /// The size of a blob of which the store has a part, or a reader wants one. The rest is fetched in ranges.
    Size(u64),
    /// The whole blob has been read, because nobody told its size.
    Spool(Spool),
}

impl Opened {
    const fn size(&self) -> u64 {
        match self {
            Opened::Body(_, size) | Opened::Size(size) => *size,
            Opened::Spool(spool) => spool.size(),
        }
    }
}

impl Task {
    /// Fetches the blob. Returns when it is complete. If its registry is down, IPFS peers may have it.
    pub(super) async fn run(self, phase: &watch::Sender<Phase>) -> Result<(), DownloadError> {
        self.find_old_blobs().await;
        let task = Arc::new(self);
        if task.needs_peers() {
            if task.downloads.blobs.find_complete(&task.digest).await?.is_some() {
                return Err(DownloadError::Private);
            }
            if task.downloads.blobs.has_part(&task.digest) {
                task.downloads.blobs.remove(&task.digest)?;
            }
        }
        let error = match task.clone().run_with_source(phase).await {
            Err(DownloadError::Upstream(error)) if error.is_outage() => error,
            result => return task.note_source(result),
        };
        let Some(file) = task.downloads.file_of(&task.digest).await else {
            return Err(error.into());
        };
        tracing::warn!(digest = %task.digest, %error, "fetching a blob from IPFS peers while its registry is down");
        let size = Some(file.bytes);
        let rescue = Task { source: ContentSource::Ipfs(file), size, ..(*task).clone() };
        let rescue = Arc::new(rescue);
        // Readers wait for this part, which the registry or a host of the fleet sent, so it stays.
        let has_other_bytes =
            rescue.needs_peers() && rescue.downloads.blobs.has_part(&rescue.digest);
        let result = rescue.run_alone(phase).await;
        if has_other_bytes { result } else { rescue.note_source(result) }
    }

    /// Whether only IPFS peers may send the blob: bytes from elsewhere would not show that strangers have it.
    fn needs_peers(&self) -> bool {
        match &self.source {
            ContentSource::Ipfs(file) => self.size != Some(0) && !file.is_public(&self.digest),
            ContentSource::Registry(_) | ContentSource::File(_) => false,
        }
    }

    fn note_source(&self, result: Result<(), DownloadError>) -> Result<(), DownloadError> {
        if let (Ok(()), ContentSource::Ipfs(file)) = (&result, &self.source) {
            file.note_fetched(&self.digest);
        }
        result
    }

    async fn run_with_source(
        self: Arc<Self>,
        phase: &watch::Sender<Phase>,
    ) -> Result<(), DownloadError> {
        let task = self;
        if task.size == Some(0) && task.source.check(&task.digest) == Check::Blocks {
            // Nobody has to be asked for no bytes.
            phase.send_replace(Phase::Fetching(task.open_blob(0).await?));
            return Ok(());
        }
        if let Some(fleet) = task.downloads.fleet.clone()
            && !task.needs_peers()
        {
            let size = match task.size {
                Some(size) => Some(size),
                None => task.source.size(&task.digest).await?,
            };
            // Without a size there are no segments to share.
            if let Some(size) = size
                && task.run_in_fleet(fleet, size, phase).await?
            {
                return Ok(());
            }
        }
        task.run_alone(phase).await
    }

    /// Fetches the blob together with other hosts. Returns false if they sent wrong bytes, or nothing.
    async fn run_in_fleet(
        self: &Arc<Self>,
        fleet: Arc<Fleet>,
        size: u64,
        phase: &watch::Sender<Phase>,
    ) -> Result<bool, DownloadError> {
        let blob = self.open_blob(size).await?;
        publish(&blob, phase);
        let mut is_wrong = false;
        if blob.state() == BlobState::Partial {
            let progress = self.progress.clone();
            let spread = SpreadTask::new(self.clone(), fleet, blob.clone(), progress).await;
            let _reuse = self.begin_reuse(|| spread.connection.clone());
            match spread.run().await {
                Ok(()) => {}
                Err(DownloadError::WrongDigest) => is_wrong = true,
                Err(error) => {
                    self.free_space(&error, size)?;
                    return Err(error);
                }
            }
        }
        match blob.state() {
            BlobState::Complete => return Ok(true),
            BlobState::Partial if !is_wrong => {
                tracing::warn!(digest = %self.digest, "no host sends anything; fetching the rest from the registry");
            }
            BlobState::Partial | BlobState::Wrong => {
                tracing::error!(digest = %self.digest, "other hosts sent wrong hashes; fetching the blob from the registry");
                self.downloads.blobs.remove(&self.digest)?;
            }
        }
        Ok(false)
    }

    async fn open_blob(&self, size: u64) -> Result<Arc<Blob>, DownloadError> {
        let (digest, downloads) = (self.digest.clone(), self.downloads.clone());
        let check = self.source.check(&digest);
        Ok(blocking(move || downloads.blobs.open_partial(&digest, check, size)).await??)
    }

    /// Removes old blobs if the disk is full.
    fn free_space(&self, error: &DownloadError, size: u64) -> Result<(), DownloadError> {
        if let DownloadError::Store(cause) = error
            && cause.is_no_space()
        {
            tracing::error!(digest = %self.digest, %error, "the disk of the store is full; removing old blobs");
            self.downloads.blobs.remove_for_room(&self.digest, size)?;
        }
        Ok(())
    }

    async fn run_alone(
        self: &Arc<Self>,
        phase: &watch::Sender<Phase>,
    ) -> Result<(), DownloadError> {
        let task = self;
        let opened = task.open().await?;
        let size = opened.size();
        let blob = task.open_blob(size).await?;
        // containerd may have stored it meanwhile.
        if blob.state() == BlobState::Complete && task.needs_peers() {
            return Err(DownloadError::Private);
        }
        publish(&blob, phase);
        if blob.state() == BlobState::Partial
            && let Err(error) = task.fetch_missing(&blob, opened).await
        {
            task.free_space(&error, size)?;
            return Err(error);
        }
        match blob.state() {
            BlobState::Complete => {
                task.source.note_digest(true);
                Ok(())
            }
            BlobState::Partial => Err(DownloadError::Stopped),
            BlobState::Wrong => {
                task.source.note_digest(false);
                task.downloads.blobs.remove(&task.digest)?;
                Err(DownloadError::WrongDigest)
            }
        }
    }

    /// Asks for the size, or requests the whole blob. Its headers tell the size and whether ranges are
    /// possible.
    async fn open(&self) -> Result<Opened, DownloadError> {
        let mut failures = 0;
        loop {
            match self.try_open().await {
                Ok(opened) => return Ok(opened),
                Err(DownloadError::Upstream(error)) => pause_after(&mut failures, error).await?,
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_open(&self) -> Result<Opened, DownloadError> {
        let has_part = self.downloads.blobs.has_part(&self.digest) || self.reuse.has_old_blobs();
        if self.in_parts
            && !has_part
            && let Some(size) = self.size
        {
            return Ok(Opened::Size(size));
        }
        if has_part {
            match self.source.size(&self.digest).await?.or(self.size) {
                Some(size) => return Ok(Opened::Size(size)),
                None => self.downloads.blobs.remove(&self.digest)?,
            }
        }
        let body = self.request_first().await?;
        match body.size {
            Some(size) => Ok(Opened::Body(body, size)),
            None => Ok(Opened::Spool(self.read_to_end(body).await?)),
        }
    }

    /// Reads a blob whose size nobody tells.
    async fn read_to_end(&self, mut body: BlobBody) -> Result<Spool, DownloadError> {
        let bytes_max = self.downloads.blobs.bytes_max();
        let mut spool = Spool::new(&self.downloads.folder)?;
        while let Some(bytes) = body.next().await? {
            self.note_received(bytes.len());
            if spool.size() + bytes.len() as u64 > bytes_max {
                let bytes = spool.size() + bytes.len() as u64;
                return Err(StoreError::LargerThanStore { bytes, bytes_max }.into());
            }
            spool.push(bytes).await?;
        }
        Ok(spool)
    }

    async fn fetch_missing(
        self: &Arc<Self>,
        blob: &Arc<Blob>,
        opened: Opened,
    ) -> Result<(), DownloadError> {
        let present: Vec<bool> = (0..blob.blocks()).map(|block| blob.has_block(block)).collect();
        let missing = present.iter().filter(|present| !**present).count();
        let segments = Arc::new(Mutex::new(Segments::new(present)));
        let ranges = Arc::new(Ranges::default());
        let connection = || Connection {
            task: self.clone(),
            blocks: blob.blocks(),
            blob: blob.clone(),
            segments: segments.clone(),
            spread: None,
            ranges: ranges.clone(),
        };
        let useful = missing.div_ceil(REQUEST_BLOCKS).min(self.downloads.connections_per_blob);
        let _reuse = self.begin_reuse(connection);
        let mut connections = JoinSet::new();
        let further = match opened {
            Opened::Spool(spool) => return connection().write_spool(&spool).await,
            Opened::Body(body, _) => {
                let further = if body.accepts_ranges { useful - 1 } else { 0 };
                let first = connection();
                let claimed = (body.part == BlobPart::Range)
                    .then(|| segments.lock().claim(Some(0), REQUEST_BLOCKS))
                    .flatten();
                connections.spawn(within(current(), async move {
                    match claimed {
                        Some(claimed) => first.fetch_from_segment(body, claimed).await,
                        None => first.fetch_from_start(body).await,
                    }
                }));
                further
            }
            Opened::Size(_) => useful,
        };
        for _ in 0..further {
            let one = connection();
            connections.spawn(within(current(), async move { one.fetch_segments(0).await }));
        }
        let mut failure = None;
        while let Some(ended) = connections.join_next().await {
            match ended {
                Ok(Ok(())) => {}
                // One connection may fail where others succeed.
                Ok(Err(error)) => failure = Some(error),
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => failure = Some(DownloadError::Stopped),
            }
        }
        if let Some(error) = failure.filter(|_| !segments.lock().is_complete()) {
            // A registry without ranges cannot complete a part: the next download starts anew.
            if matches!(error, DownloadError::Upstream(UpstreamError::InvalidAnswer { .. })) {
                self.downloads.blobs.remove(&self.digest)?;
            }
            return Err(error);
        }
        // A connection that ended early left blocks that none of the others saw as free.
        if !segments.lock().is_complete() && blob.state() == BlobState::Partial {
            return connection().fetch_segments(0).await;
        }
        Ok(())
    }
}

/// Lets clients read a blob. One of no bytes whose digest says otherwise is wrong before any byte arrives.
fn publish(blob: &Arc<Blob>, phase: &watch::Sender<Phase>) {
    if blob.state() != BlobState::Wrong {
        phase.send_replace(Phase::Fetching(blob.clone()));
    }
}

/// Runs a call that waits for the disk.
pub(super) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, DownloadError> {
    tokio::task::spawn_blocking(call).await.map_err(|_| DownloadError::Stopped)
}
