//! Fetching: a DAG is walked from its root, what the store has is taken from there, and the rest
//! is asked for.

mod frontier;
mod walker;

use std::time::Duration;

use tokio::sync::{oneshot, watch};

pub use frontier::DagError;
pub(crate) use walker::{Arrived, FromWalker, Walker};

/// How much of a DAG is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The root alone.
    Block,
    /// All that can be reached from it.
    Whole,
}

/// Which of a host's fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FetchId(pub(crate) u64);

/// How far a fetch has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Bytes of blocks that came from peers and are in the store.
    pub fetched_bytes: u64,
    /// Bytes of blocks that were in the store before.
    pub present_bytes: u64,
    /// Bytes of all blocks, as the root tells them; `None` until the root is here. What occurs
    /// twice is told twice and fetched once, and a root can lie: good for a progress bar.
    pub total_bytes: Option<u64>,
    /// Blocks that came from peers.
    pub fetched_blocks: u64,
    /// Blocks that were in the store before.
    pub present_blocks: u64,
    /// Peers that some of it came from.
    pub peers: usize,
    /// Bytes a second that came from peers in the last seconds.
    pub bytes_per_second: f64,
    /// Nobody who is connected has what is needed next; others are being looked for.
    pub is_searching: bool,
}

impl Progress {
    /// Bytes that are in the store now.
    pub fn bytes(&self) -> u64 {
        self.fetched_bytes + self.present_bytes
    }
}

/// What a fetch came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetched {
    /// The last of its progress.
    pub progress: Progress,
    /// How long it took.
    pub took: Duration,
}

/// Why a fetch ended before its end. What was fetched by then is in the store.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The DAG cannot be followed.
    #[error(transparent)]
    Dag(#[from] DagError),
    /// The store cannot keep or give a block.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// As many are running as may.
    #[error("{max} fetches are running, and no more are allowed")]
    TooMany {
        /// Most of them.
        max: usize,
    },
    /// The system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
    /// The host has stopped.
    #[error("the host has stopped")]
    Stopped,
}

/// A fetch that is running. Dropping it ends it; what was fetched stays in the store, and another
/// fetch of the same root goes on from there.
#[derive(Debug)]
pub struct Fetch {
    pub(crate) progress: watch::Receiver<Progress>,
    pub(crate) outcome: oneshot::Receiver<Result<Fetched, FetchError>>,
    /// Its end is what the host hears when this is dropped.
    pub(crate) _handle: oneshot::Sender<()>,
}

impl Fetch {
    /// How far it has come.
    pub fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// Waits until it has come further, at most a few times a second; `None` when it has ended.
    pub async fn next(&mut self) -> Option<Progress> {
        self.progress.changed().await.ok()?;
        Some(self.progress.borrow_and_update().clone())
    }

    /// Waits for its end.
    pub async fn finished(&mut self) -> Result<Fetched, FetchError> {
        (&mut self.outcome).await.unwrap_or(Err(FetchError::Stopped))
    }
}
