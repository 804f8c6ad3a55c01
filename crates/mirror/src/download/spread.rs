//! Fetches a blob together with the other hosts of the fleet, as `fleet/mod.rs` explains.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use watchfire_content::Block;
use watchfire_fleet::{
    ALL_NEIGHBOURS_MAX, Assignment, NEIGHBOURS_MAX, REPORT_INTERVAL, Report, SEGMENT_BLOCKS,
    Segments,
};
use watchfire_p2p::{BlockSession, PeerId, SessionEvent};
use watchfire_traces::{Kind, Span, current, within};

use super::DownloadError;
use super::connection::{Connection, Ranges, Spread};
use super::sources::{HostAnswer, Progress};
use super::start::fetch_needed;
use super::task::Task;
use crate::fleet::{Fleet, FleetError, KnownHashes};
use crate::images::RepositoryId;
use crate::store::{Blob, BlobState, cid_of};

/// Hosts that asked for hashes and were not asked back yet.
const ASKERS_MAX: usize = 32;
/// How often to look for readers that wait.
const TICK: Duration = Duration::from_millis(250);
/// A block for which a reader has waited this long is requested before all others.
const URGENT_AFTER: Duration = Duration::from_secs(1);
/// When other hosts send nothing for this time, this host fetches leased blocks that they should have.
const KNOWN_BLOCK_WAIT: Duration = Duration::from_secs(1);
/// How long to wait for a block while any host sends something, of any blob. On a slow link, many blocks arrive
/// side by side.
pub(super) const SLOW_BLOCK_MAX: Duration = Duration::from_secs(10);
/// How long this host fetches nothing from a registry that failed.
const UPSTREAM_PAUSE: Duration = Duration::from_secs(10);
/// When the registry fails and no new block arrives for this time, the download fails.
const FAILURE_AFTER: Duration = Duration::from_secs(3);
/// When nothing arrives for this time at any host, this one may fetch segments that others have.
const STALLED_AFTER: Duration = Duration::from_secs(2);
/// When nothing arrives for this time at any host, this one fetches the blob alone.
const ALONE_AFTER: Duration = Duration::from_secs(30);
/// How long a holder may take to send a small blob.
const SMALL_BLOB_TIMEOUT: Duration = Duration::from_secs(2);

type Reporting = Pin<Box<dyn Future<Output = Result<Assignment<PeerId>, FleetError>> + Send>>;
pub(super) type HashAnswer = Result<Option<(u64, Vec<(u32, [u8; 32])>)>, FleetError>;
type Asking = Pin<Box<dyn Future<Output = (PeerId, HashAnswer)> + Send>>;

/// A host that is asked for hashes.
#[derive(Debug, Default)]
pub(super) struct Neighbour {
    pub(super) list: u64,
    pub(super) after: usize,
    pub(super) empty_answers: u32,
}

/// A count of arrivals, and since when it is the same.
struct Arrivals {
    count: u64,
    since: Instant,
}

impl Default for Arrivals {
    fn default() -> Self {
        Arrivals { count: 0, since: Instant::now() }
    }
}

impl Arrivals {
    fn unchanged_for(&mut self, count: u64) -> Duration {
        if count != self.count {
            *self = Arrivals { count, since: Instant::now() };
        }
        self.since.elapsed()
    }
}

pub(super) struct SpreadTask {
    pub(super) task: Arc<Task>,
    pub(super) fleet: Arc<Fleet>,
    pub(super) repository: Option<RepositoryId>,
    pub(super) connection: Connection,
    pub(super) spread: Arc<Spread>,
    /// The segments that this host fetches from the registry.
    pub(super) leases: BTreeMap<u32, tokio::task::AbortHandle>,
    pub(super) fetching: JoinSet<(u32, Result<(), DownloadError>)>,
    pub(super) neighbours: HashMap<PeerId, Neighbour>,
    /// Hosts that ask this one for hashes.
    pub(super) askers: mpsc::Receiver<PeerId>,
    pub(super) asking: FuturesUnordered<Asking>,
    /// The last progress of all hosts, as the coordinator told it.
    pub(super) fleet_progress: u64,
    pub(super) upstream_failed: Option<(Instant, DownloadError)>,
    pub(super) progress_at: Instant,
    pub(super) blocks_before: usize,
    /// The arrivals of the blob at all hosts.
    arrivals: Arrivals,
    /// The arrivals of all blobs at this host.
    link_arrivals: Arrivals,
    /// The holders that did not send the small blob.
    pub(super) failed_holders: BTreeSet<PeerId>,
    /// The block that a reader waits for, and since when.
    pub(super) waited_for: Option<(usize, Instant)>,
    /// Whether the exchange was told that more blocks will be requested.
    pub(super) is_growing: bool,
    /// Whether the next layer of the image may be on its way.
    has_fetched_ahead: bool,
    /// The blocks that were requested from other hosts and have not arrived from them.
    pub(super) wanted: BTreeSet<usize>,
    /// Whether a container started at the last look: then the other blocks are not requested yet.
    pub(super) is_starting: bool,
    /// The segment of the first block that the start needed at the last report and whose hash no host had named.
    pub(super) needed_segment: Option<u32>,
    /// How many blocks the order of the start had at the last look.
    pub(super) ordered_blocks: usize,
    /// Whether a neighbour has answered with its hashes, or failed.
    pub(super) has_answer: bool,
}

impl SpreadTask {
    pub(super) async fn new(
        task: Arc<Task>,
        fleet: Arc<Fleet>,
        blob: Arc<Blob>,
        progress: Arc<Progress>,
    ) -> Self {
        let present: Vec<bool> = (0..blob.blocks()).map(|block| blob.has_block(block)).collect();
        let known = Arc::new(KnownHashes::new(&blob, fleet.new_list()));
        let repository = task.source.repository();
        let (asked, askers) = mpsc::channel(ASKERS_MAX);
        fleet.add_download(&task.digest, repository.clone(), known.clone(), asked);
        let spread = Arc::new(Spread { fleet: fleet.clone(), known, progress });
        let connection = Connection {
            task: task.clone(),
            blocks: blob.blocks(),
            blob,
            segments: Arc::new(Mutex::new(Segments::new(present))),
            spread: Some(spread.clone()),
            ranges: Arc::new(Ranges::default()),
        };
        SpreadTask {
            is_starting: task.in_parts || task.reuse.has_old_blobs(),
            task,
            fleet,
            repository,
            connection,
            spread,
            leases: BTreeMap::new(),
            fetching: JoinSet::new(),
            neighbours: HashMap::new(),
            askers,
            asking: FuturesUnordered::new(),
            fleet_progress: 0,
            upstream_failed: None,
            progress_at: Instant::now(),
            blocks_before: 0,
            arrivals: Arrivals::default(),
            link_arrivals: Arrivals::default(),
            failed_holders: BTreeSet::new(),
            waited_for: None,
            is_growing: false,
            has_fetched_ahead: false,
            wanted: BTreeSet::new(),
            needed_segment: None,
            ordered_blocks: 0,
            has_answer: false,
        }
    }

    /// Fetches the blob. Returns when it is complete or wrong.
    pub(super) async fn run(mut self) -> Result<(), DownloadError> {
        let (fleet, digest) = (self.fleet.clone(), self.task.digest.clone());
        let blob = self.connection.blob.clone();
        let result = match blob.blocks() {
            1 => self.run_small().await,
            _ => self.run_large().await,
        };
        fleet.remove_download(&digest);
        match (&result, blob.state()) {
            (Ok(()), BlobState::Complete) => {
                let report = self.report(0);
                tokio::spawn(async move {
                    // Without it, the announcement tells the coordinator.
                    let _ = fleet.report(&digest, &report).await;
                });
                self.fleet.announce(&self.task.digest);
            }
            _ => drop(tokio::spawn(async move { fleet.leave(&digest).await })),
        }
        result
    }

    /// Fetches a blob of one block, which hosts send as a whole.
    async fn run_small(&mut self) -> Result<(), DownloadError> {
        let mut report_at = Instant::now();
        loop {
            sleep_until(report_at).await;
            report_at = Instant::now() + TICK;
            let report = self.report(1);
            let asked = self.fleet.report(&self.task.digest, &report).await;
            if self.is_over()? {
                return Ok(());
            }
            let Ok(assignment) = asked else { continue };
            self.note_progress(&assignment);
            if let Some(peer) = assignment.holder {
                if let Some(bytes) = self.ask_for_small(peer).await {
                    self.write(0, &bytes).await?;
                    return Ok(());
                }
                // Another holder is named, or this host gets the lease. An earlier version names the same one.
                if self.failed_holders.insert(peer) {
                    report_at = Instant::now();
                }
            } else if assignment.leases.contains(&0) {
                let mut fetch = Box::pin(fetch_segment(self.connection.clone(), 0));
                let result = loop {
                    match timeout(REPORT_INTERVAL, &mut fetch).await {
                        Ok(result) => break result,
                        Err(_) => {
                            // It renews the lease.
                            let renewal = Report { fetching: vec![0], ..self.report(0) };
                            let _ = self.fleet.report(&self.task.digest, &renewal).await;
                        }
                    }
                };
                self.note_fetched(result)?;
                report_at = Instant::now();
            }
        }
    }

    async fn ask_for_small(&mut self, peer: PeerId) -> Option<Bytes> {
        let (digest, sources) = (&self.task.digest, &self.task.sources);
        let mut span = Span::below(current(), "blob from host", Kind::Client);
        span.set("watchfire.peer", peer.to_string());
        sources.note_asked(peer);
        let asked =
            self.fleet.ask_blob(peer, digest, self.repository.as_ref(), SMALL_BLOB_TIMEOUT).await;
        match asked {
            Ok(Some(bytes)) if self.task.accepts(&bytes) => {
                self.fleet.count_received(bytes.len());
                sources.count_host(Some(peer), bytes.len());
                sources.note_answer(peer, HostAnswer::Blob);
                Some(bytes)
            }
            Ok(Some(_)) => {
                let cause = "it sent other bytes than the digest says".to_owned();
                sources.note_answer(peer, HostAnswer::Error { cause });
                tracing::warn!(%peer, %digest, "a host sent other bytes than the digest says");
                None
            }
            Ok(None) => {
                sources.note_answer(peer, HostAnswer::Absent);
                None
            }
            Err(error) => {
                sources.note_answer(peer, HostAnswer::Error { cause: error.to_string() });
                tracing::debug!(%peer, %digest, %error, "a host did not send a blob");
                None
            }
        }
    }

    async fn run_large(&mut self) -> Result<(), DownloadError> {
        let mut session = self.fleet.open_session().await.map_err(|_| DownloadError::Stopped)?;
        let mut reporting: Option<Reporting> = None;
        let mut report_at = Instant::now();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (waiting, blob) = (self.task.waiting.clone(), self.connection.blob.clone());
        loop {
            if !self.has_fetched_ahead
                && self.spread.known.has_half()
                && !blob.start_order().is_lazy()
            {
                self.has_fetched_ahead = true;
                tokio::spawn(self.task.downloads.clone().fetch_ahead(self.task.digest.clone()));
            }
            if self.is_over()? {
                return Ok(());
            }
            let is_growing = !self.spread.known.is_complete();
            if is_growing != self.is_growing {
                self.is_growing = is_growing;
                session.set_growing(is_growing).await.map_err(|_| DownloadError::Stopped)?;
            }
            tokio::select! {
                () = sleep_until(report_at), if reporting.is_none() => {
                    let (fleet, digest) = (self.fleet.clone(), self.task.digest.clone());
                    let report = self.report(self.task.downloads.connections_per_blob as u32);
                    reporting = Some(Box::pin(async move { fleet.report(&digest, &report).await }));
                }
                asked = async { reporting.as_mut().expect("checked").await }, if reporting.is_some() => {
                    reporting = None;
                    report_at = Instant::now() + self.handle_answer(&session, asked).await?;
                }
                Some(ended) = self.fetching.join_next() => {
                    let (segment, result) = match ended {
                        Ok(ended) => ended,
                        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                        // A lease that was given to another host.
                        Err(_) => continue,
                    };
                    self.leases.remove(&segment);
                    report_at = Instant::now();
                    // Their hashes may have become known meanwhile.
                    self.want_known(&session, blocks_of(segment, self.connection.blocks)).await?;
                    self.note_fetched(result)?;
                }
                () = waiting.next() => {
                    if self.note_reader(&session).await? {
                        report_at = Instant::now();
                    }
                }
                Some(peer) = self.askers.recv() => self.add_neighbour(peer, ALL_NEIGHBOURS_MAX),
                Some((peer, answer)) = self.asking.next() => {
                    self.learn(&session, peer, answer).await?;
                }
                event = session.next() => match event {
                    Some(SessionEvent::Block { block, from }) => self.handle_block(&block, from).await?,
                    Some(SessionEvent::Searching(_)) => {}
                    None => return Err(DownloadError::Stopped),
                },
                _ = tick.tick() => {
                    self.cancel_present(&session).await?;
                    if self.note_end_of_start(&session).await? {
                        report_at = Instant::now();
                    }
                    self.handle_tick().await;
                }
            }
        }
    }

    /// Does what the coordinator says. Returns when to report again.
    async fn handle_answer(
        &mut self,
        session: &BlockSession,
        answer: Result<Assignment<PeerId>, FleetError>,
    ) -> Result<Duration, DownloadError> {
        let assignment = match answer {
            Ok(assignment) => assignment,
            Err(error) => {
                tracing::debug!(digest = %self.task.digest, %error, "no coordinator answers");
                return Ok(REPORT_INTERVAL);
            }
        };
        let report_within = assignment.report_within;
        self.note_progress(&assignment);
        self.apply(session, assignment).await?;
        Ok(if self.needs_other_segment() { Duration::ZERO } else { report_within })
    }

    /// Whether the blob is complete or wrong, or has to be fetched alone. Fails if the registry fails and no host
    /// sends anything.
    fn is_over(&mut self) -> Result<bool, DownloadError> {
        let blob = &self.connection.blob;
        if blob.state() != BlobState::Partial {
            return Ok(true);
        }
        let blocks = blob.blocks_present();
        if blocks > self.blocks_before {
            self.blocks_before = blocks;
            self.progress_at = Instant::now();
        }
        match &self.upstream_failed {
            Some((_, error)) if self.progress_at.elapsed() >= self.fleet.extend(FAILURE_AFTER) => {
                Err(error.clone())
            }
            _ => Ok(self.has_no_arrivals_for(ALONE_AFTER)),
        }
    }

    /// Whether this host fetches the segment of a block from the registry.
    pub(super) fn is_leased(&self, block: usize) -> bool {
        self.leases.contains_key(&segment_of(block))
    }

    /// Whether nothing has arrived at any host for this time.
    fn has_no_arrivals_for(&mut self, time: Duration) -> bool {
        let arrivals = self.spread.progress.count();
        let is_paused = self.is_starting && self.connection.waited_for(|_| true).is_none();
        if is_paused {
            self.arrivals.since = Instant::now();
        }
        self.arrivals.unchanged_for(arrivals) >= self.fleet.extend(time)
    }

    /// Whether nothing has arrived for this time at this host, of any blob. On a busy link, a blob waits for others.
    fn has_quiet_link_for(&mut self, time: Duration) -> bool {
        let arrivals = self.task.downloads.arrivals();
        self.link_arrivals.unchanged_for(arrivals) >= self.fleet.extend(time)
    }

    /// Whether the other hosts send nothing.
    fn is_stalled(&mut self) -> bool {
        let is_absent = |neighbour: &Neighbour| neighbour.empty_answers > 0;
        let are_absent = !self.neighbours.is_empty() && self.neighbours.values().all(is_absent);
        let is_link_quiet = self.has_quiet_link_for(STALLED_AFTER);
        let wait = if is_link_quiet { STALLED_AFTER } else { SLOW_BLOCK_MAX };
        let sends_nothing = are_absent || self.has_no_arrivals_for(wait);
        !self.failed_holders.is_empty() || (self.leases.is_empty() && sends_nothing)
    }

    fn report(&mut self, wanted_leases: u32) -> Report {
        let is_stalled = self.is_stalled();
        let failed_at = self.upstream_failed.as_ref().map(|(at, _)| *at);
        let is_failing = failed_at.is_some_and(|at| at.elapsed() < UPSTREAM_PAUSE);
        let blob = &self.connection.blob;
        let missing = |block: usize| !blob.has_block(block);
        let first = match self.is_starting {
            true => self.unknown_needed(is_stalled),
            false => self.task.waiting.first(missing),
        };
        // `needs_other_segment` compares it, and does not know whether this host is stalled.
        let needed = self.unknown_needed(false).filter(|_| self.is_starting);
        self.needed_segment = needed.map(segment_of);
        let is_paused = self.is_starting && first.is_none();
        let fetching: Vec<u32> = self.leases.keys().copied().collect();
        Report {
            segments: blob.blocks().div_ceil(SEGMENT_BLOCKS) as u32,
            present: blob.present_groups(SEGMENT_BLOCKS),
            wanted_leases: if is_failing || is_paused {
                0
            } else {
                wanted_leases.saturating_sub(fetching.len() as u32)
            },
            fetching,
            first: first.map(segment_of),
            only_first: self.is_starting,
            wanted_hosts: NEIGHBOURS_MAX.saturating_sub(self.neighbours.len()) as u32,
            wants_holder: blob.blocks() == 1 && blob.state() == BlobState::Partial,
            is_stalled,
            arrivals: self.spread.progress.here(),
            // The fleet adds it.
            lag_ms: 0,
        }
    }

    /// The blob is on its way while any host gets something. Another coordinator counts anew.
    fn note_progress(&mut self, assignment: &Assignment<PeerId>) {
        if assignment.progress != self.fleet_progress {
            self.fleet_progress = assignment.progress;
            self.spread.progress.note_elsewhere();
        }
    }

    /// Begins and ends fetches as the coordinator says, and asks the hosts that it names.
    async fn apply(
        &mut self,
        session: &BlockSession,
        assignment: Assignment<PeerId>,
    ) -> Result<(), DownloadError> {
        let lost: Vec<u32> =
            self.leases.keys().filter(|one| !assignment.leases.contains(one)).copied().collect();
        for segment in lost {
            if let Some(fetch) = self.leases.remove(&segment) {
                tracing::debug!(digest = %self.task.digest, segment, "another host fetches a segment now");
                fetch.abort();
                self.connection.segments.lock().release(blocks_of(segment, self.connection.blocks));
                self.want_known(session, blocks_of(segment, self.connection.blocks)).await?;
            }
        }
        for peer in assignment.hosts {
            self.add_neighbour(peer, NEIGHBOURS_MAX);
        }
        let may_be_known = !self.has_answer && !self.neighbours.is_empty();
        for segment in assignment.leases {
            if !self.leases.contains_key(&segment) {
                let connection = self.connection.clone();
                let (is_starting, is_stalled) = (self.is_starting, self.is_stalled());
                let fetch = self.fetching.spawn(within(current(), async move {
                    let result = match is_starting {
                        true => fetch_needed(&connection, segment, is_stalled, may_be_known).await,
                        false => fetch_segment(connection, segment).await,
                    };
                    (segment, result)
                }));
                self.leases.insert(segment, fetch);
            }
        }
        Ok(())
    }

    async fn write(&mut self, block: usize, bytes: &Bytes) -> Result<(), DownloadError> {
        let content = Block::raw(bytes.clone()).map_err(|_| DownloadError::WrongDigest)?;
        self.connection.write_block(block, &content).await
    }

    fn note_fetched(&mut self, result: Result<(), DownloadError>) -> Result<(), DownloadError> {
        match result {
            Ok(()) => Ok(()),
            Err(error @ DownloadError::Upstream(_)) => {
                tracing::warn!(digest = %self.task.digest, %error, "the registry failed; waiting for other hosts");
                self.upstream_failed = Some((Instant::now(), error));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Sees to the readers that wait for long.
    pub(super) async fn handle_tick(&mut self) {
        let blob = self.connection.blob.clone();
        let waited_for = self.task.waiting.first(|block| !blob.has_block(block));
        if self.is_starting {
            let known = |block| self.spread.known.get(block).filter(|_| !blob.has_block(block));
            let needed = self.connection.waited_for(|block| known(block).is_some());
            let cids = needed.into_iter().flatten().filter_map(known).map(cid_of).collect();
            return self.fleet.set_urgent(&self.task.digest, cids).await;
        }
        let since = match (waited_for, self.waited_for) {
            (Some(block), Some((before, since))) if block == before => since,
            _ => Instant::now(),
        };
        self.waited_for = waited_for.map(|block| (block, since));
        let Some(block) = waited_for else { return };
        if (since.elapsed() >= URGENT_AFTER || blob.start_order().is_lazy())
            && let Some(hash) = self.spread.known.get(block)
        {
            self.fleet.set_urgent(&self.task.digest, vec![cid_of(hash)]).await;
        }
    }
}

pub(super) const fn segment_of(block: usize) -> u32 {
    (block / SEGMENT_BLOCKS) as u32
}

pub(super) fn blocks_of(segment: u32, blocks: usize) -> std::ops::Range<usize> {
    let start = segment as usize * SEGMENT_BLOCKS;
    start..(start + SEGMENT_BLOCKS).min(blocks)
}

/// Fetches the blocks of a segment that no host has, and then those that no host sends.
async fn fetch_segment(connection: Connection, segment: u32) -> Result<(), DownloadError> {
    let spread = connection.spread.clone().expect("a lease is of the fleet");
    let blocks = blocks_of(segment, connection.blocks);
    fetch_blocks(&connection, blocks.clone(), |block| spread.known.get(block).is_none()).await?;
    let mut changes = connection.blob.changes();
    let (mut changed_at, mut parts) = (Instant::now(), spread.fleet.parts_received());
    while blocks.clone().any(|block| !connection.blob.has_block(block)) {
        if timeout(spread.fleet.extend(KNOWN_BLOCK_WAIT), changes.changed()).await.is_ok() {
            changed_at = Instant::now();
            continue;
        }
        let before = std::mem::replace(&mut parts, spread.fleet.parts_received());
        if parts == before || changed_at.elapsed() >= SLOW_BLOCK_MAX {
            return fetch_blocks(&connection, blocks, |_| true).await;
        }
    }
    Ok(())
}

/// Fetches the missing ones of these blocks from the registry.
pub(super) async fn fetch_blocks(
    connection: &Connection,
    blocks: std::ops::Range<usize>,
    is_wanted: impl Fn(usize) -> bool,
) -> Result<(), DownloadError> {
    connection.fetch_claims(|segments| segments.claim_within(blocks.clone(), &is_wanted)).await
}
