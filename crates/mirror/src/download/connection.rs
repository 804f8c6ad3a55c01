//! One of the connections to a server that fetch a blob.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use watchfire_bitswap::Want;
use watchfire_content::Block;
use watchfire_fleet::Segments;
use watchfire_p2p::SessionEvent;
use watchfire_traces::{Kind, Span, current};

use super::DownloadError;
use super::content_source::ContentSource;
use super::sources::Progress;
use super::spool::Spool;
use super::spread::SLOW_BLOCK_MAX;
use super::task::Task;
use crate::fleet::{Fleet, KnownHashes, LinkedRegion, RegionContent, RegionCopy};
use crate::oci::ByteRange;
use crate::store::{BLOCK_BYTES, Blob, cid_of, hash_of};
use crate::upstream::{BlobBody, BlobPart, UpstreamError};

/// Failed requests in a row, without a new block, after which a blob is given up.
const FAILURES_MAX: u32 = 4;
/// The first pause after a failed request. It doubles with each failure in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Blocks of one request of a host that fetches a blob alone. Longer ones wait for fewer answers of a registry that is
/// far away.
pub(super) const REQUEST_BLOCKS: usize = 16;
pub(super) const REQUEST_BYTES: u64 = (REQUEST_BLOCKS * BLOCK_BYTES) as u64;
/// Blocks of one request for a blob from which a container runs: its reads wait for such requests.
const LAZY_BLOCKS: usize = 4;
/// How often to look whether a start is over, after which the rest of the blob is fetched.
const START_TICK: Duration = Duration::from_millis(250);
/// How long a download waits for the first read of the start for which it was begun.
const FIRST_READ_WITHIN: Duration = Duration::from_secs(1);

/// A host that gets no byte from the registry for this time gives its lease to another one.
const LEASE_STALLED_AFTER: Duration = Duration::from_secs(3);

/// The exchange of one blob with other hosts.
#[derive(Debug)]
pub(super) struct Spread {
    pub(super) fleet: Arc<Fleet>,
    pub(super) known: Arc<KnownHashes>,
    pub(super) progress: Arc<Progress>,
}

impl Spread {
    /// Waits for the registry, but not for long: another host may get its answer.
    pub(super) async fn wait<T>(
        &self,
        answer: impl Future<Output = Result<T, UpstreamError>>,
        source: &ContentSource,
    ) -> Result<T, UpstreamError> {
        let limit = self.fleet.extend(LEASE_STALLED_AFTER);
        timeout(limit, answer)
            .await
            .unwrap_or_else(|_| Err(UpstreamError::no_answer(source.server(), limit)))
    }

    pub(super) async fn note_written(&self, block: usize, content: &Block) {
        if let Some(hash) = hash_of(content.cid()) {
            self.known.insert(block as u32, hash);
        }
        self.fleet.note_stored(content.cid().clone(), content.bytes().len()).await;
    }
}

#[derive(Clone)]
pub(super) struct Connection {
    pub(super) task: Arc<Task>,
    pub(super) blob: Arc<Blob>,
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
    is_read_whole: AtomicBool,
}

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

enum BodyEnd {
    /// All blocks of the request are written, or the rest is fetched in another way.
    Done,
    /// The bytes ended early.
    Short,
    /// The server sends no ranges, and another connection reads the whole blob.
    LeftToOther,
}

impl Connection {
    /// Fetches with the body of the whole blob, and then whatever is left.
    pub(super) async fn fetch_from_start(self, mut body: BlobBody) -> Result<(), DownloadError> {
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

    /// Fetches with the body of the first segment, which is claimed, and then whatever is left.
    pub(super) async fn fetch_from_segment(
        self,
        mut body: BlobBody,
        claimed: Range<usize>,
    ) -> Result<(), DownloadError> {
        let result = self.read_claimed(&mut body, claimed.clone()).await;
        drop(body);
        self.segments.lock().release(claimed);
        match result {
            Ok(BodyEnd::Done) => self.fetch_segments(0).await,
            Ok(_) | Err(DownloadError::Upstream(_)) => self.fetch_segments(1).await,
            Err(error) => Err(error),
        }
    }

    pub(super) async fn write_spool(&self, spool: &Spool) -> Result<(), DownloadError> {
        for block in 0..self.blocks {
            if self.segments.lock().extend(block) {
                let (start, len) = self.blob.block_range(block);
                self.write(block, spool.read(start, len).await?).await?;
            }
        }
        Ok(())
    }

    /// Fetches ranges until no block is free.
    pub(super) async fn fetch_segments(&self, failures: u32) -> Result<(), DownloadError> {
        let claim = |segments: &mut Segments| {
            if self.is_starting() {
                let needed = self.needed(|block| segments.is_free(block))?;
                return segments.claim(Some(needed.start), needed.len().min(REQUEST_BLOCKS));
            }
            let wanted = self.task.waiting.first(|block| segments.is_free(block));
            let is_lazy = self.blob.start_order().is_lazy();
            segments.claim(wanted, if is_lazy { LAZY_BLOCKS } else { REQUEST_BLOCKS })
        };
        self.fetch_all(claim, failures).await
    }

    /// The next blocks while a container starts: those that readers wait for, and then those of the order.
    pub(super) fn needed(&self, is_wanted: impl Fn(usize) -> bool) -> Option<Range<usize>> {
        let order =
            || self.blob.start_order().first(&is_wanted).filter(|_| self.is_container_start());
        self.waited_for(&is_wanted).or_else(order)
    }

    /// The next blocks that readers wait for while a container starts, or that the reuse of older blobs waits for.
    pub(super) fn waited_for(&self, is_wanted: impl Fn(usize) -> bool) -> Option<Range<usize>> {
        let Task { waiting, reuse, .. } = &*self.task;
        let by_readers = waiting.first_range(&is_wanted).filter(|_| self.is_container_start());
        by_readers.or_else(|| reuse.waiting.first_range(&is_wanted))
    }

    /// Whether only some blocks are needed now.
    pub(super) fn is_starting(&self) -> bool {
        self.task.reuse.is_running() || self.is_container_start()
    }

    pub(super) fn is_needed(&self, block: usize) -> bool {
        let Task { waiting, reuse, .. } = &*self.task;
        let by_start = || waiting.has(block) || self.blob.start_order().has(block);
        reuse.waiting.has(block) || (self.is_container_start() && by_start())
    }

    /// Whether a container starts. The reader for which the download began may not have begun to read yet.
    fn is_container_start(&self) -> bool {
        let order = self.blob.start_order();
        let will_start = || self.task.in_parts && !order.is_lazy();
        order.is_running()
            || (will_start() && self.task.sources.started_at.elapsed() < FIRST_READ_WITHIN)
    }

    /// Whether a container starts that needs none of the free blocks now. In a fleet, the lease ends then.
    fn is_paused(&self) -> bool {
        let is_starting = self.spread.is_none() && self.is_starting();
        is_starting && !self.segments.lock().is_complete()
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
            let Some(claimed) = claimed else {
                if !self.is_paused() {
                    return Ok(());
                }
                // At its end, or when a reader begins to wait.
                let _ = timeout(START_TICK, self.task.waiting.next()).await;
                continue;
            };
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
        if let Some(spread) = &self.spread
            && self.fetch_from_region(spread, blocks.clone()).await?
        {
            return Ok(BodyEnd::Done);
        }
        let size = self.blob.size();
        let mut body = self.wait(source.request(digest, Some(range), Some(size))).await?;
        if let Some(other) = body.size.filter(|other| *other != size) {
            let cause = format!("the blob has {other} bytes, and had {size} before");
            return Err(UpstreamError::invalid(source.server(), cause).into());
        }
        if body.part == BlobPart::Range {
            return self.read_claimed(&mut body, blocks).await;
        }
        self.segments.lock().release(blocks);
        self.fetch_whole(body).await
    }

    /// Fetches blocks from the cheapest region that has the blob, if any is cheaper than the registry. Returns
    /// false if none is. What the region does not send is left to the next claim, which passes over the region.
    async fn fetch_from_region(
        &self,
        spread: &Spread,
        blocks: Range<usize>,
    ) -> Result<bool, DownloadError> {
        let Task { source, digest, .. } = &*self.task;
        let repository = source.repository();
        let found = spread.fleet.find_in_regions(digest, self.blocks, repository.as_ref()).await;
        let Some(RegionCopy { region, content }) = found else { return Ok(false) };
        let hashes = match content {
            RegionContent::Hashes(hashes) if hashes.len() == self.blocks => hashes,
            // A download of the same digest with another size got them.
            RegionContent::Hashes(_) => return Ok(false),
            RegionContent::Small(bytes) => {
                let is_right = bytes.len() as u64 == self.blob.size() && self.task.accepts(&bytes);
                match Block::raw(bytes) {
                    Ok(content) if is_right => {
                        self.write_from_region(spread, &region, &[0], &content).await?;
                    }
                    _ => region.note_failed(digest),
                }
                return Ok(true);
            }
        };
        let mut missing: HashMap<[u8; 32], Vec<usize>> = HashMap::new();
        for block in blocks {
            missing.entry(hashes[block]).or_default().push(block);
        }
        let mut session = region.open_session().await.map_err(|_| DownloadError::Stopped)?;
        let wants = missing.iter().map(|(hash, places)| Want {
            len: u32::try_from(self.blob.block_range(places[0]).1).ok(),
            ..Want::new(cid_of(*hash))
        });
        session.want(wants.collect()).await.map_err(|_| DownloadError::Stopped)?;
        session.set_growing(false).await.map_err(|_| DownloadError::Stopped)?;
        let limit = spread.fleet.extend(LEASE_STALLED_AFTER);
        let (mut block_at, mut part_at) = (Instant::now(), Instant::now());
        let mut parts = region.parts_received();
        while !missing.is_empty() {
            let (content, from) = match timeout_at(part_at + limit, session.next()).await {
                Ok(Some(SessionEvent::Block { block, from })) => (block, from),
                Ok(Some(SessionEvent::Searching(_))) => continue,
                Ok(None) => return Err(DownloadError::Stopped),
                Err(_) => {
                    let before = std::mem::replace(&mut parts, region.parts_received());
                    if parts == before || block_at.elapsed() >= SLOW_BLOCK_MAX {
                        region.note_failed(digest);
                        break;
                    }
                    spread.progress.note();
                    part_at = Instant::now();
                    continue;
                }
            };
            let places = hash_of(content.cid()).and_then(|hash| missing.remove(&hash));
            let places = places.unwrap_or_default();
            let len = content.bytes().len();
            if places.iter().any(|block| self.blob.block_range(*block).1 != len) {
                region.note_failed(digest);
                break;
            }
            self.task.sources.count_host(from, len);
            self.write_from_region(spread, &region, &places, &content).await?;
            (block_at, part_at) = (Instant::now(), Instant::now());
        }
        Ok(true)
    }

    async fn write_from_region(
        &self,
        spread: &Spread,
        region: &LinkedRegion,
        places: &[usize],
        content: &Block,
    ) -> Result<(), DownloadError> {
        // The last block of the blob ends the download, and this task with it.
        let bytes = content.bytes().len();
        region.count_received(bytes);
        spread.fleet.count_received(bytes);
        spread.progress.note();
        for block in places {
            if !self.blob.has_block(*block) {
                self.write_block(*block, content).await?;
            }
        }
        Ok(())
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
        // The block that was begun last is not complete. Another connection may fetch it.
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
pub(super) async fn pause_after(
    failures: &mut u32,
    error: UpstreamError,
) -> Result<(), DownloadError> {
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
