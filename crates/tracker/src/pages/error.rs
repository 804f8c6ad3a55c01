use std::time::Duration;

use thiserror::Error;

/// The reason why a peer cannot join a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum JoinError {
    /// The page has [`peers_per_page_max`](crate::PageLimits::peers_per_page_max) peers.
    #[error("the page has {max} peers, the maximum")]
    PageFull {
        /// The limit.
        max: usize,
    },
    /// [`pages_max`](crate::PageLimits::pages_max) other pages are open, and this one is not.
    #[error("{max} pages are open, the maximum")]
    TooManyPages {
        /// The limit.
        max: usize,
    },
}

/// The reason why a frame or signal is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RelayRefusal {
    /// The sender or the destination is not on the page, or they are the same.
    #[error("no such peer on the page")]
    NoSuchPeer,
    /// The page's peers have used their shared budget.
    #[error("the page's relay budget is used up; retry after {retry_after:?}")]
    PageBudget {
        /// When the same frame will be accepted.
        retry_after: Duration,
    },
    /// The sender has used its budget.
    #[error("the peer's relay budget is used up; retry after {retry_after:?}")]
    PeerBudget {
        /// When the same frame will be accepted.
        retry_after: Duration,
    },
}
