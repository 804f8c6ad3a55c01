//! The task that fetches one blob from an upstream registry.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use watchfire_content::Block;
use watchfire_fleet::{SEGMENT_BLOCKS, Segments};
use watchfire_traces::{Kind, Span, current, within};

use super::content_source::ContentSource;
use super::error::DownloadError;
use super::progress::Progress;
use super::sources::Sources;
use super::spool::Spool;
use super::spread::{Spread, SpreadTask};
use super::waiting::WaitingReaders;
use super::{Downloads, Phase};
use crate::fleet::Fleet;
use crate::oci::{ByteRange, Digest};
use crate::store::{BLOCK_BYTES, Blob, BlobState, Check, StoreError};
use crate::upstream::{BlobBody, BlobPart, UpstreamError};

/// Failed requests in a row, without a new block, after which a blob is given up.
const FAILURES_MAX: u32 = 4;
/// The first pause after a failed request. It doubles with each failure in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Task {
    pub(super) downloads: Arc<Downloads>,
    pub(super) source: ContentSource,
    pub(super) digest: Digest,
    /// The size of the blob, if it is known.
    pub(super) size: Option<u64>,
    pub(super) progress: Arc<Progress>,
    pub(super) waiting: Arc<WaitingReaders>,
    pub(super) sources: Arc<Sources>,
}

/// One of the connections that fetch a blob.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) task: Arc<Task>,
    pub(super) blob: Arc<Blob>,
    /// The number of blocks of the blob.
    pub(super) blocks: usize,
    pub(super) segments: Arc<Mutex<Segments>>,
    /// The exchange with other hosts, if there is one.
    pub(super) spread: Option<Arc<Spread>>,
    pub(super) ranges: Arc<Ranges>,
}

/// Whether the server sends the ranges that it is asked for. A server may say that it does, and still
/// send everything, or less than the range: then one connection reads the whole blob.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    is_refused: AtomicBool,
    /// Whether a connection reads the whole blob.
    is_read_whole: AtomicBool,
}

/// A connection that reads the whole blob.
struct WholeReader(Arc<Ranges>);

impl Ranges {
    /// Begins to read the whole blob. `None`: another connection does.
    fn read_whole(self: &Arc<Self>) -> Option<WholeReader> {
        let is_read = self.is_read_whole.swap(true, Ordering::Relaxed);
        (!is_read).then(|| WholeReader(self.clone()))
    }

    fn refuse(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
    }

    fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }
}

impl Drop for WholeReader {
    fn drop(&mut self) {
        self.0.is_read_whole.store(false, Ordering::Relaxed);
    }
}

/// The first answer of a registry.
enum Opened {
    /// The whole blob, of this size.
    Body(BlobBody, u64),
    /// The size of a blob of which the store has a part. The rest is fetched in ranges.
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

/// How a body ended.
enum BodyEnd {
    /// All blocks of the request are written, or another connection fetches the rest.
    Done,
    /// The bytes ended early.
    Short,
    /// The server sends no ranges, and another connection reads the whole blob.
    LeftToOther,
}

impl Task {
    /// Fetches the blob. Returns when it is complete.
    pub(super) async fn run(self, phase: &watch::Sender<Phase>) -> Result<(), DownloadError> {
        let task = Arc::new(self);
        if let Some(fleet) = task.downloads.fleet.clone() {
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

    /// Fetches the blob together with other hosts. Returns false if they sent wrong bytes.
    async fn run_in_fleet(
        self: &Arc<Self>,
        fleet: Arc<Fleet>,
        size: u64,
        phase: &watch::Sender<Phase>,
    ) -> Result<bool, DownloadError> {
        let blob = self.open_blob(size).await?;
        phase.send_replace(Phase::Fetching(blob.clone()));
        if blob.state() == BlobState::Partial {
            let progress = self.progress.clone();
            let spread = SpreadTask::new(self.clone(), fleet, blob.clone(), progress).await;
            match spread.run().await {
                Ok(()) => {}
                Err(DownloadError::WrongDigest) => {}
                Err(error) => {
                    self.free_space(&error, size)?;
                    return Err(error);
                }
            }
        }
        if blob.state() != BlobState::Complete {
            tracing::error!(digest = %self.digest, "other hosts sent wrong hashes; fetching the blob from the registry");
            self.downloads.blobs.remove(&self.digest)?;
            return Ok(false);
        }
        Ok(true)
    }

    async fn open_blob(&self, size: u64) -> Result<Arc<Blob>, DownloadError> {
        let (digest, downloads) = (self.digest.clone(), self.downloads.clone());
        let check = self.source.check(&digest);
        Ok(blocking(move || downloads.blobs.open_partial(&digest, check, size)).await??)
    }

    /// Whether these are the bytes of the blob, as far as their digest is known.
    pub(super) fn accepts(&self, bytes: &[u8]) -> bool {
        match self.source.check(&self.digest) {
            Check::Whole(digest) => digest.is_of(bytes),
            Check::Blocks => self.size == Some(bytes.len() as u64),
        }
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
        phase.send_replace(Phase::Fetching(blob.clone()));
        if blob.state() == BlobState::Partial
            && let Err(error) = task.fetch_missing(&blob, opened).await
        {
            task.free_space(&error, size)?;
            return Err(error);
        }
        match blob.state() {
            BlobState::Complete => Ok(()),
            BlobState::Partial => Err(DownloadError::Stopped),
            BlobState::Wrong => {
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
        if self.downloads.blobs.has_part(&self.digest) {
            match self.source.size(&self.digest).await?.or(self.size) {
                Some(size) => return Ok(Opened::Size(size)),
                None => self.downloads.blobs.remove(&self.digest)?,
            }
        }
        let body = self.request_whole().await?;
        match body.size {
            Some(size) => Ok(Opened::Body(body, size)),
            None => Ok(Opened::Spool(self.read_to_end(body).await?)),
        }
    }

    /// Requests the whole blob.
    async fn request_whole(&self) -> Result<BlobBody, UpstreamError> {
        let body = self.source.request(&self.digest, None, self.size).await?;
        if body.part != BlobPart::Whole {
            let registry = self.source.server().to_owned();
            let cause = "it sends a part, and was asked for everything".to_owned();
            return Err(UpstreamError::InvalidAnswer { registry, cause });
        }
        Ok(body)
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

    /// The server sent bytes.
    fn note_received(&self, bytes: usize) {
        self.progress.note();
        self.downloads.counters.upstream_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.sources.count_registry(bytes);
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
        let useful = missing.div_ceil(SEGMENT_BLOCKS).min(self.downloads.connections_per_blob);
        let mut connections = JoinSet::new();
        let further = match opened {
            Opened::Spool(spool) => return connection().write_spool(&spool).await,
            Opened::Body(body, _) => {
                let further = if body.accepts_ranges { useful - 1 } else { 0 };
                let first = connection();
                connections
                    .spawn(within(current(), async move { first.fetch_from_start(body).await }));
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

impl Connection {
    /// Fetches with the body of the whole blob, and then whatever is left.
    async fn fetch_from_start(self, mut body: BlobBody) -> Result<(), DownloadError> {
        let accepts_ranges = body.accepts_ranges;
        let blocks = self.blob.blocks();
        let reader = self.ranges.read_whole();
        let mut failures = 0;
        loop {
            let written = self.blob.blocks_present();
            // Without ranges, bytes of blocks that are there already are read and dropped.
            let error = match self.read_body(&mut body, 0..blocks, !accepts_ranges).await {
                Ok(BodyEnd::Done | BodyEnd::LeftToOther) => break,
                Ok(BodyEnd::Short) => self.short(),
                Err(DownloadError::Upstream(error)) => error,
                Err(error) => return Err(error),
            };
            if accepts_ranges {
                drop(reader);
                return self.fetch_segments(1).await;
            }
            if self.blob.blocks_present() > written {
                failures = 0;
            }
            pause_after(&mut failures, error).await?;
            body = self.task.request_whole().await?;
        }
        drop(reader);
        match accepts_ranges {
            true => self.fetch_segments(0).await,
            false => Ok(()),
        }
    }

    /// Writes the blob from a file.
    async fn write_spool(&self, spool: &Spool) -> Result<(), DownloadError> {
        for block in 0..self.blocks {
            if self.segments.lock().extend(block) {
                let (start, len) = self.blob.block_range(block);
                self.write(block, spool.read(start, len).await?).await?;
            }
        }
        Ok(())
    }

    /// Fetches ranges until no block is free.
    async fn fetch_segments(&self, failures: u32) -> Result<(), DownloadError> {
        let claim = |segments: &mut Segments| {
            let wanted = self.task.waiting.first(|block| !self.blob.has_block(block));
            segments.claim(wanted, SEGMENT_BLOCKS)
        };
        self.fetch_all(claim, failures).await
    }

    /// Fetches what `claim` claims, until it claims nothing.
    pub(super) async fn fetch_claims(
        &self,
        claim: impl Fn(&mut Segments) -> Option<Range<usize>>,
    ) -> Result<(), DownloadError> {
        self.fetch_all(claim, 0).await
    }

    async fn fetch_all(
        &self,
        claim: impl Fn(&mut Segments) -> Option<Range<usize>>,
        failures: u32,
    ) -> Result<(), DownloadError> {
        let mut failures = failures;
        loop {
            let claimed = claim(&mut self.segments.lock());
            let Some(claimed) = claimed else { return Ok(()) };
            let written = self.blob.blocks_present();
            let result = self.fetch_segment_within_span(claimed.clone()).await;
            self.segments.lock().release(claimed);
            if self.blob.blocks_present() > written {
                failures = 0;
            }
            match result {
                Ok(BodyEnd::Done) => {}
                Ok(BodyEnd::LeftToOther) => return Ok(()),
                Ok(BodyEnd::Short) => pause_after(&mut failures, self.short()).await?,
                Err(DownloadError::Upstream(error)) => pause_after(&mut failures, error).await?,
                Err(error) => return Err(error),
            }
        }
    }

    async fn fetch_segment_within_span(
        &self,
        blocks: Range<usize>,
    ) -> Result<BodyEnd, DownloadError> {
        let mut span = Span::below(current(), "fetch range", Kind::Internal);
        span.set("watchfire.first_block", blocks.start);
        span.set("watchfire.blocks", blocks.len());
        let result = span.within(self.fetch_segment(blocks)).await;
        result.inspect_err(|error| span.fail(error))
    }

    async fn fetch_segment(&self, blocks: Range<usize>) -> Result<BodyEnd, DownloadError> {
        let (start, _) = self.blob.block_range(blocks.start);
        let (last, len) = self.blob.block_range(blocks.end - 1);
        let range = ByteRange { start, end: last + len as u64 - 1 };
        let Task { source, digest, .. } = &*self.task;
        let size = self.blob.size();
        let mut body = self.wait(source.request(digest, Some(range), Some(size))).await?;
        if let Some(other) = body.size.filter(|other| *other != size) {
            let registry = source.server().to_owned();
            let cause = format!("the blob has {other} bytes, and had {size} before");
            return Err(UpstreamError::InvalidAnswer { registry, cause }.into());
        }
        if body.part == BlobPart::Range {
            return self.read_claimed(&mut body, blocks).await;
        }
        self.segments.lock().release(blocks);
        self.fetch_whole(body).await
    }

    /// Reads the whole blob, because the server did not send the requested range. In a fleet each lease
    /// does so; alone, one connection does.
    async fn fetch_whole(&self, mut body: BlobBody) -> Result<BodyEnd, DownloadError> {
        self.ranges.refuse();
        let reader = self.ranges.read_whole();
        if reader.is_none() && self.spread.is_none() {
            return Ok(BodyEnd::LeftToOther);
        }
        if body.part != BlobPart::Whole {
            drop(body);
            body = self.wait(self.task.request_whole()).await?;
        }
        let end = self.read_body(&mut body, 0..self.blocks, true).await;
        drop(reader);
        end
    }

    /// Writes the blocks of a body that are claimed already.
    async fn read_claimed(
        &self,
        body: &mut BlobBody,
        blocks: Range<usize>,
    ) -> Result<BodyEnd, DownloadError> {
        let mut reader = BlockAssembler::new(&self.blob, blocks.start);
        while let Some(bytes) = self.next(body).await? {
            let mut bytes = &bytes[..];
            while let Some(block) = reader.take(&mut bytes) {
                self.write(block, reader.take_bytes()).await?;
                reader.advance();
                if block + 1 == blocks.end {
                    return Ok(BodyEnd::Done);
                }
            }
        }
        Ok(BodyEnd::Short)
    }

    /// Claims the blocks of a body one by one while they arrive.
    ///
    /// A block that is not free ends the reading, or is skipped if `skips` is set.
    async fn read_body(
        &self,
        body: &mut BlobBody,
        blocks: Range<usize>,
        skips: bool,
    ) -> Result<BodyEnd, DownloadError> {
        let mut reader = BlockAssembler::new(&self.blob, blocks.start);
        let skips = || skips || self.ranges.is_refused();
        let mut is_claimed = self.segments.lock().extend(blocks.start);
        if !is_claimed && !skips() {
            return Ok(BodyEnd::Done);
        }
        let result = loop {
            let bytes = match self.next(body).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break Ok(BodyEnd::Short),
                Err(error) => break Err(error),
            };
            let mut bytes = &bytes[..];
            let mut end = None;
            while let Some(block) = reader.take(&mut bytes) {
                if is_claimed && let Err(error) = self.write(block, reader.take_bytes()).await {
                    end = Some(Err(error));
                    break;
                }
                reader.advance();
                is_claimed = self.segments.lock().extend(block + 1);
                if block + 1 == blocks.end || (!is_claimed && !skips()) {
                    end = Some(Ok(BodyEnd::Done));
                    break;
                }
            }
            if let Some(end) = end {
                break end;
            }
        };
        if is_claimed {
            self.segments.lock().release(reader.block()..reader.block() + 1);
        }
        result
    }

    async fn next(&self, body: &mut BlobBody) -> Result<Option<Bytes>, DownloadError> {
        let bytes = self.wait(body.next()).await?;
        if let Some(bytes) = &bytes {
            self.task.note_received(bytes.len());
        }
        Ok(bytes)
    }

    async fn write(&self, block: usize, bytes: Bytes) -> Result<(), DownloadError> {
        let content = Block::raw(bytes).expect("a block of a blob is short enough for a block");
        self.write_block(block, &content).await
    }

    /// Writes a block from the registry or from another host.
    pub(super) async fn write_block(
        &self,
        block: usize,
        content: &Block,
    ) -> Result<(), DownloadError> {
        // A block takes a millisecond: less than handing its bytes to another thread is worth.
        self.blob.write_block(&self.task.downloads.folder, block, content)?;
        self.segments.lock().note_written(block);
        if let Some(spread) = &self.spread {
            spread.note_written(block, content).await;
        }
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Waits for the registry.
    async fn wait<T>(
        &self,
        answer: impl Future<Output = Result<T, UpstreamError>>,
    ) -> Result<T, UpstreamError> {
        match &self.spread {
            Some(spread) => spread.wait(answer, &self.task.source).await,
            None => answer.await,
        }
    }

    fn short(&self) -> UpstreamError {
        let registry = self.task.source.server().to_owned();
        UpstreamError::Unreachable { registry, cause: "the body ended early".into() }
    }
}

/// Assembles the bytes of a body into blocks.
struct BlockAssembler<'a> {
    blob: &'a Blob,
    block: usize,
    buffer: Vec<u8>,
}

impl<'a> BlockAssembler<'a> {
    fn new(blob: &'a Blob, block: usize) -> Self {
        BlockAssembler { blob, block, buffer: Vec::with_capacity(BLOCK_BYTES) }
    }

    /// Takes bytes until a block is whole. `None`: more bytes are needed.
    fn take(&mut self, bytes: &mut &[u8]) -> Option<usize> {
        if self.block >= self.blob.blocks() {
            return None;
        }
        let (_, len) = self.blob.block_range(self.block);
        let (taken, rest) = bytes.split_at((len - self.buffer.len()).min(bytes.len()));
        self.buffer.extend_from_slice(taken);
        *bytes = rest;
        (self.buffer.len() == len).then_some(self.block)
    }

    /// The bytes of the whole block.
    fn take_bytes(&mut self) -> Bytes {
        std::mem::replace(&mut self.buffer, Vec::with_capacity(BLOCK_BYTES)).into()
    }

    fn block(&self) -> usize {
        self.block
    }

    fn advance(&mut self) {
        self.block += 1;
        self.buffer.clear();
    }
}

/// Waits before the next try, or gives up.
async fn pause_after(failures: &mut u32, error: UpstreamError) -> Result<(), DownloadError> {
    *failures += 1;
    if *failures >= FAILURES_MAX || !error.is_outage() {
        return Err(error.into());
    }
    let pause = match &error {
        UpstreamError::TooManyRequests { .. } => return Err(error.into()),
        _ => FIRST_PAUSE * 2u32.pow(*failures - 1),
    };
    tracing::debug!(%error, ?pause, "a request to a registry failed; trying again");
    tokio::time::sleep(pause).await;
    Ok(())
}

/// Runs a call that waits for the disk.
async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, DownloadError> {
    tokio::task::spawn_blocking(call).await.map_err(|_| DownloadError::Stopped)
}
