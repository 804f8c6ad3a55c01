use std::time::Duration;

use thiserror::Error;

/// Why a peer cannot join a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum JoinError {
    /// The page has [`peers_per_page_max`](crate::PageLimits::peers_per_page_max) peers.
    #[error("the page has {max} peers already")]
    PageFull {
        /// The limit.
        max: usize,
    },
    /// [`pages_max`](crate::PageLimits::pages_max) other pages are open, and this one is not.
    #[error("{max} pages are open already")]
    TooManyPages {
        /// The limit.
        max: usize,
    },
}

/// Why bytes or a signal are not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RelayRefusal {
    /// The sender or the destination is not on the page, or they are the same.
    #[error("no such peer on the page")]
    NoSuchPeer,
    /// The page's peers together have used their budget.
    #[error("the page's relay budget is spent for {retry_after:?}")]
    PageBudget {
        /// When the same frame would be accepted.
        retry_after: Duration,
    },
    /// The sender has used its budget.
    #[error("the peer's relay budget is spent for {retry_after:?}")]
    PeerBudget {
        /// When the same frame would be accepted.
        retry_after: Duration,
    },
}
