use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use bitswap::Want;
use content::dag_pb::Node;
use content::{Block, Cid, Codec};
use store::{ReadBlocks, WriteBlocks};
use tokio::sync::{mpsc, watch};

use super::frontier::Frontier;
use super::{FetchError, FetchId, Fetched, Progress, Reach};
use crate::settings::FetchLimits;

/// How often progress is told, and speed measured anew.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// Share of the last interval in the speed that is told.
const SPEED_WEIGHT: f64 = 0.2;

/// Urgency of nodes that much is behind: the sooner they are here, the more can be asked for.
const SKELETON: u8 = 2;
/// Urgency of everything else.
const LEAVES: u8 = 1;

/// What a fetch hears from the host.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// A verified block, and the number of the peer that it came from.
    Block { block: Block, from: u64 },
    /// Whether nobody connected has what is needed.
    Searching(bool),
}

/// What a fetch tells the host.
#[derive(Debug)]
pub(crate) enum FromWalker {
    /// These are needed.
    Want { fetch: FetchId, wants: Vec<Want> },
    /// This node of it is known, and what it links to is needed next.
    Node { fetch: FetchId, block: Block },
    /// This block is in the store now, and its bytes do not wait any more.
    Written { fetch: FetchId, cid: Cid, bytes: usize },
    /// It has ended.
    Ended { fetch: FetchId, outcome: Result<Fetched, FetchError> },
}

/// One fetch on a thread of its own, since disks make it wait: keeps what arrives, and finds out
/// what is needed next.
pub(crate) struct Walker {
    pub(crate) fetch: FetchId,
    pub(crate) root: Cid,
    pub(crate) reach: Reach,
    pub(crate) limits: FetchLimits,
    /// Where blocks may be already.
    pub(crate) read: Arc<dyn ReadBlocks>,
    /// Where they are kept.
    pub(crate) keep: Arc<dyn WriteBlocks>,
    /// Bounded by the host: it reads nothing from the network while too many bytes are in it.
    pub(crate) arrived: Receiver<Arrived>,
    pub(crate) host: mpsc::Sender<FromWalker>,
    pub(crate) progress: watch::Sender<Progress>,
}

/// The fetch is not wanted any more, or the host is gone.
struct Dropped;

enum End {
    Dropped,
    Failed(FetchError),
}

impl From<Dropped> for End {
    fn from(Dropped: Dropped) -> Self {
        End::Dropped
    }
}

impl<E: Into<FetchError>> From<E> for End {
    fn from(error: E) -> Self {
        End::Failed(error.into())
    }
}

impl Walker {
    /// Walks until the end.
    pub(crate) fn run(self) {
        let started = Instant::now();
        let mut walk = Walk {
            frontier: Frontier::new(self.root.clone(), self.reach, self.limits.clone()),
            now: Progress::default(),
            peers: BTreeSet::new(),
            told_at: started,
            told_bytes: 0,
            walker: &self,
        };
        let outcome = match walk.run() {
            Ok(()) => Ok(Fetched { progress: walk.now, took: started.elapsed() }),
            Err(End::Failed(error)) => Err(error),
            Err(End::Dropped) => return,
        };
        if let Ok(fetched) = &outcome {
            self.progress.send_replace(fetched.progress.clone());
        }
        // A host that is gone has told the waiting side so.
        let _ = self.host.blocking_send(FromWalker::Ended { fetch: self.fetch, outcome });
    }
}

struct Walk<'a> {
    walker: &'a Walker,
    frontier: Frontier,
    now: Progress,
    peers: BTreeSet<u64>,
    told_at: Instant,
    told_bytes: u64,
}

impl Walk<'_> {
    fn run(&mut self) -> Result<(), End> {
        loop {
            self.ask()?;
            if self.frontier.is_done() {
                return Ok(());
            }
            match self.walker.arrived.recv_timeout(TELL_EVERY) {
                Ok(arrived) => self.arrived(arrived)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(End::Dropped),
            }
            // What came meanwhile comes before asking for more.
            while let Ok(arrived) = self.walker.arrived.try_recv() {
                self.arrived(arrived)?;
            }
            self.tell()?;
        }
    }

    /// Takes what is here, and asks for what is not.
    fn ask(&mut self) -> Result<(), End> {
        let mut wants = Vec::new();
        while let Some(ahead) = self.frontier.next() {
            match self.present(&ahead.cid)? {
                Some(Present::Leaf { bytes }) => self.count_present(bytes),
                Some(Present::Block(block)) => {
                    self.count_present(block.bytes().len() as u64);
                    self.look_at_root(&block);
                    self.frontier.found(&ahead, block.bytes()).map_err(FetchError::from)?;
                    self.tell_node(block)?;
                }
                None => {
                    let urgency = if ahead.is_heavy { SKELETON } else { LEAVES };
                    wants.push(Want { cid: ahead.cid.clone(), len: ahead.bytes, urgency });
                    self.frontier.ask(ahead);
                }
            }
            self.tell()?;
        }
        if !wants.is_empty() {
            self.send(FromWalker::Want { fetch: self.walker.fetch, wants })?;
        }
        Ok(())
    }

    /// Tells the host what a node links to, if it does: peers can then be spoken to in terms of it.
    fn tell_node(&self, block: Block) -> Result<(), Dropped> {
        if self.frontier.is_opened(block.cid()) {
            self.send(FromWalker::Node { fetch: self.walker.fetch, block })?;
        }
        Ok(())
    }

    fn present(&self, cid: &Cid) -> Result<Option<Present>, End> {
        if let Some(block) = Block::implied_by(cid) {
            return Ok(Some(Present::Block(block)));
        }
        let Some(bytes) = self.walker.read.len_of(cid) else { return Ok(None) };
        if cid.codec() != Codec::DAG_PB && *cid != self.walker.root {
            return Ok(Some(Present::Leaf { bytes }));
        }
        match self.walker.read.get(cid) {
            Ok(block) => Ok(block.map(Present::Block)),
            // Here and not to be had: others may have it.
            Err(error) => {
                tracing::warn!(%cid, %error, "fetching a block that the store cannot give");
                Ok(None)
            }
        }
    }

    fn count_present(&mut self, bytes: u64) {
        self.now.present_blocks += 1;
        self.now.present_bytes += bytes;
    }

    fn arrived(&mut self, arrived: Arrived) -> Result<(), End> {
        match arrived {
            Arrived::Searching(is_searching) => self.now.is_searching = is_searching,
            Arrived::Block { block, from } => {
                let block = self.as_asked(block);
                let bytes = block.bytes().len();
                let cid = block.cid().clone();
                self.walker.keep.put(&block).map_err(FetchError::from)?;
                let fetch = self.walker.fetch;
                self.send(FromWalker::Written { fetch, cid: cid.clone(), bytes })?;
                self.look_at_root(&block);
                let is_new = self.frontier.arrived(&cid, block.bytes());
                if is_new.map_err(FetchError::from)? {
                    self.now.fetched_blocks += 1;
                    self.now.fetched_bytes += bytes as u64;
                    self.now.is_searching = false;
                    self.peers.insert(from);
                    self.now.peers = self.peers.len();
                    self.tell_node(block)?;
                }
            }
        }
        Ok(())
    }

    /// The block under the name that it was asked for by: old versions of Bitswap do not tell it.
    fn as_asked(&self, block: Block) -> Block {
        match self.frontier.name_asked(block.cid()) {
            Some(name) => Block::verify(name, block.bytes().clone()).unwrap_or(block),
            None => block,
        }
    }

    fn look_at_root(&mut self, block: &Block) {
        if *block.cid() != self.walker.root || self.now.total_bytes.is_some() {
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
        self.now.total_bytes = Some(total);
    }

    fn tell(&mut self) -> Result<(), Dropped> {
        let passed = self.told_at.elapsed();
        if passed < TELL_EVERY {
            return Ok(());
        }
        let speed = (self.now.fetched_bytes - self.told_bytes) as f64 / passed.as_secs_f64();
        let last = self.now.bytes_per_second;
        let is_first = self.told_bytes == 0;
        self.now.bytes_per_second =
            if is_first { speed } else { last + SPEED_WEIGHT * (speed - last) };
        self.told_at = Instant::now();
        self.told_bytes = self.now.fetched_bytes;
        // Nobody listens: the fetch was dropped.
        self.walker.progress.send(self.now.clone()).map_err(|_| Dropped)
    }

    fn send(&self, message: FromWalker) -> Result<(), Dropped> {
        self.walker.host.blocking_send(message).map_err(|_| Dropped)
    }
}

enum Present {
    /// Nothing is behind it, so that it need not be read.
    Leaf {
        bytes: u64,
    },
    Block(Block),
}
