//! The thread of a fetch.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use watchfire_bitswap::Want;
use watchfire_content::dag_pb::Node;
use watchfire_content::{Block, Cid, Codec};
use watchfire_store::{ReadBlocks, Stores, WriteBlocks};

use super::frontier::{FetchScope, Frontier};
use super::handle::{FetchError, FetchId, Fetched, Progress};
use crate::settings::FetchLimits;

/// How often the worker reports progress and measures the download rate.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// The weight of the last interval in the reported rate.
const RATE_WEIGHT: f64 = 0.2;

/// The urgency of inner nodes. More leaves can be requested once they arrive.
const INNER_NODE_URGENCY: u8 = 2;
const LEAF_URGENCY: u8 = 1;

/// A message of the host to a worker.
#[derive(Debug)]
pub(crate) enum FetchInput {
    /// A verified block, and the number of the peer that sent it.
    Block { block: Block, from: u64 },
    /// No connected peer has the next block, so the host searches for other peers.
    Searching,
}

/// A message of a worker to the host.
#[derive(Debug)]
pub(crate) enum FetchEvent {
    /// The fetch needs these blocks.
    Want {
        fetch: FetchId,
        wants: Vec<Want>,
    },
    /// The fetch knows this node and needs the blocks that it links to.
    Node {
        fetch: FetchId,
        block: Block,
    },
    /// The block is in the store now.
    Written {
        fetch: FetchId,
        cid: Cid,
        bytes: usize,
    },
    Ended {
        fetch: FetchId,
        outcome: Result<Fetched, FetchError>,
    },
}

/// Runs one fetch on its own thread, because disk access blocks. It writes the blocks that arrive,
/// and requests the next ones.
pub(crate) struct FetchWorker {
    pub(crate) fetch: FetchId,
    pub(crate) root: Cid,
    pub(crate) scope: FetchScope,
    pub(crate) limits: FetchLimits,
    /// The stores that may have blocks already.
    pub(crate) stores: Stores,
    /// The store that fetched blocks are written to.
    pub(crate) store: Arc<dyn WriteBlocks>,
    /// The host bounds the queue: it pauses the network while too many bytes are unwritten.
    pub(crate) inputs: Receiver<FetchInput>,
    pub(crate) events: mpsc::Sender<FetchEvent>,
    pub(crate) progress: watch::Sender<Progress>,
}

/// The fetch was cancelled, or the host has stopped.
struct Cancelled;

enum End {
    Cancelled,
    Failed(FetchError),
}

impl From<Cancelled> for End {
    fn from(Cancelled: Cancelled) -> Self {
        End::Cancelled
    }
}

impl<E: Into<FetchError>> From<E> for End {
    fn from(error: E) -> Self {
        End::Failed(error.into())
    }
}

impl FetchWorker {
    pub(crate) fn run(self) {
        let started = Instant::now();
        let mut traversal = Traversal {
            frontier: Frontier::new(self.root.clone(), self.scope, self.limits.clone()),
            progress: Progress::default(),
            peers: BTreeSet::new(),
            reported_at: started,
            reported_bytes: 0,
            worker: &self,
        };
        let outcome = match traversal.run() {
            Ok(()) => Ok(Fetched { progress: traversal.progress, took: started.elapsed() }),
            Err(End::Failed(error)) => Err(error),
            Err(End::Cancelled) => return,
        };
        if let Ok(fetched) = &outcome {
            self.progress.send_replace(fetched.progress.clone());
        }
        // Fails only if the host has stopped.
        let _ = self.events.blocking_send(FetchEvent::Ended { fetch: self.fetch, outcome });
    }
}

struct Traversal<'a> {
    worker: &'a FetchWorker,
    frontier: Frontier,
    progress: Progress,
    peers: BTreeSet<u64>,
    reported_at: Instant,
    reported_bytes: u64,
}

impl Traversal<'_> {
    fn run(&mut self) -> Result<(), End> {
        loop {
            self.request_next()?;
            if self.frontier.is_done() {
                return Ok(());
            }
            match self.worker.inputs.recv_timeout(REPORT_INTERVAL) {
                Ok(input) => self.handle_input(input)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(End::Cancelled),
            }
            // All waiting blocks are written before more are requested.
            while let Ok(input) = self.worker.inputs.try_recv() {
                self.handle_input(input)?;
            }
            self.report_progress()?;
        }
    }

    /// Takes the next blocks from the stores, and requests those that are missing.
    fn request_next(&mut self) -> Result<(), End> {
        let mut wants = Vec::new();
        while let Some(pending) = self.frontier.next() {
            match self.find_present(&pending.cid)? {
                Some(Present::Leaf { bytes }) => self.count_present(bytes),
                Some(Present::Block(block)) => {
                    self.count_present(block.bytes().len() as u64);
                    self.read_total(&block);
                    let expanded = self.frontier.handle_present(&pending, block.bytes());
                    expanded.map_err(FetchError::from)?;
                    self.report_node(block)?;
                }
                None => {
                    let urgency = if pending.is_inner { INNER_NODE_URGENCY } else { LEAF_URGENCY };
                    wants.push(Want { cid: pending.cid.clone(), len: pending.bytes, urgency });
                    self.frontier.handle_requested(pending);
                }
            }
            self.report_progress()?;
        }
        if !wants.is_empty() {
            self.send(FetchEvent::Want { fetch: self.worker.fetch, wants })?;
        }
        Ok(())
    }

    /// Reports a node with links to the host, so that the leaves protocol can use its list.
    fn report_node(&self, block: Block) -> Result<(), Cancelled> {
        if self.frontier.is_expanded(block.cid()) {
            self.send(FetchEvent::Node { fetch: self.worker.fetch, block })?;
        }
        Ok(())
    }

    fn find_present(&self, cid: &Cid) -> Result<Option<Present>, End> {
        if let Some(block) = Block::from_cid(cid) {
            return Ok(Some(Present::Block(block)));
        }
        let Some(bytes) = self.worker.stores.len_of(cid) else { return Ok(None) };
        if cid.codec() != Codec::DAG_PB && *cid != self.worker.root {
            return Ok(Some(Present::Leaf { bytes }));
        }
        match self.worker.stores.get(cid) {
            Ok(block) => Ok(block.map(Present::Block)),
            // The store has the block but cannot read it. Peers may have it.
            Err(error) => {
                tracing::warn!(%cid, %error, "cannot read a block from the store, fetching it");
                Ok(None)
            }
        }
    }

    fn count_present(&mut self, bytes: u64) {
        self.progress.present_blocks += 1;
        self.progress.present_bytes += bytes;
    }

    fn handle_input(&mut self, input: FetchInput) -> Result<(), End> {
        match input {
            FetchInput::Searching => self.progress.is_searching = true,
            FetchInput::Block { block, from } => {
                let block = self.as_requested(block);
                let bytes = block.bytes().len();
                let cid = block.cid().clone();
                self.worker.store.put(&block).map_err(FetchError::from)?;
                let fetch = self.worker.fetch;
                self.send(FetchEvent::Written { fetch, cid: cid.clone(), bytes })?;
                self.read_total(&block);
                let is_new = self.frontier.handle_arrived(&cid, block.bytes());
                if is_new.map_err(FetchError::from)? {
                    self.progress.fetched_blocks += 1;
                    self.progress.fetched_bytes += bytes as u64;
                    self.progress.is_searching = false;
                    self.peers.insert(from);
                    self.progress.peers = self.peers.len();
                    self.report_node(block)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the block under the CID that was requested. Old versions of Bitswap send blocks
    /// without their CIDs.
    fn as_requested(&self, block: Block) -> Block {
        match self.frontier.requested_cid(block.cid()) {
            Some(cid) => Block::verify(cid, block.bytes().clone()).unwrap_or(block),
            None => block,
        }
    }

    fn read_total(&mut self, block: &Block) {
        if *block.cid() != self.worker.root || self.progress.total_bytes.is_some() {
            return;
        }
        let mut total = block.bytes().len() as u64;
        if block.cid().codec() == Codec::DAG_PB
            && let Ok(node) = Node::decode(block.bytes())
        {
            for link in node.links {
                total = total.saturating_add(link.tsize.unwrap_or(0));
            }
        }
        self.progress.total_bytes = Some(total);
    }

    fn report_progress(&mut self) -> Result<(), Cancelled> {
        let elapsed = self.reported_at.elapsed();
        if elapsed < REPORT_INTERVAL {
            return Ok(());
        }
        let new_bytes = self.progress.fetched_bytes - self.reported_bytes;
        let rate = new_bytes as f64 / elapsed.as_secs_f64();
        let last = self.progress.bytes_per_second;
        let is_first = self.reported_bytes == 0;
        self.progress.bytes_per_second =
            if is_first { rate } else { last + RATE_WEIGHT * (rate - last) };
        self.reported_at = Instant::now();
        self.reported_bytes = self.progress.fetched_bytes;
        // Without a receiver the handle was dropped.
        self.worker.progress.send(self.progress.clone()).map_err(|_| Cancelled)
    }

    fn send(&self, event: FetchEvent) -> Result<(), Cancelled> {
        self.worker.events.blocking_send(event).map_err(|_| Cancelled)
    }
}

enum Present {
    /// It has no links, so it is not read.
    Leaf {
        bytes: u64,
    },
    Block(Block),
}
