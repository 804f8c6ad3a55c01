//! The handle of a running fetch.

use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::frontier::DagError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FetchId(pub(crate) u64);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Bytes of blocks that came from peers and are in the store.
    pub fetched_bytes: u64,
    /// Bytes of blocks that were in the store before.
    pub present_bytes: u64,
    /// Bytes of all blocks, as declared by the root; `None` until the root arrived. A block that is
    /// linked twice counts twice, and the declaration is not verified. Use it for a progress bar
    /// only.
    pub total_bytes: Option<u64>,
    pub fetched_blocks: u64,
    /// Blocks that were in the store before.
    pub present_blocks: u64,
    /// Peers that sent blocks of this fetch.
    pub peers: usize,
    /// The average download rate of the last seconds.
    pub bytes_per_second: f64,
    /// No connected peer has the next blocks. The host searches for other peers.
    pub is_searching: bool,
}

impl Progress {
    /// Bytes that are in the store now.
    pub fn bytes(&self) -> u64 {
        self.fetched_bytes + self.present_bytes
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Fetched {
    pub progress: Progress,
    pub took: Duration,
}

/// Why a fetch failed. Blocks that were fetched before the failure stay in the store.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Dag(#[from] DagError),
    #[error(transparent)]
    Store(#[from] watchfire_store::StoreError),
    #[error("{max} fetches are running, which is the limit: try again later")]
    TooMany { max: usize },
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    #[error("the host has stopped")]
    Stopped,
}

impl From<std::io::Error> for FetchError {
    fn from(cause: std::io::Error) -> Self {
        FetchError::Thread(cause)
    }
}

/// A running fetch. Dropping it cancels the fetch. Fetched blocks stay in the store, and another
/// fetch of the same root continues from them.
#[derive(Debug)]
pub struct Fetch {
    pub(crate) progress: watch::Receiver<Progress>,
    pub(crate) outcome: oneshot::Receiver<Result<Fetched, FetchError>>,
    /// Dropping it cancels the fetch.
    pub(crate) _handle: oneshot::Sender<()>,
}

impl Fetch {
    pub fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// Waits for progress, which is reported a few times a second; `None` when the fetch has ended.
    pub async fn next(&mut self) -> Option<Progress> {
        self.progress.changed().await.ok()?;
        Some(self.progress.borrow_and_update().clone())
    }

    pub async fn finished(&mut self) -> Result<Fetched, FetchError> {
        (&mut self.outcome).await.unwrap_or(Err(FetchError::Stopped))
    }
}
