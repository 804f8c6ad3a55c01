use std::time::Duration;

use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageLimits {
    /// Peers of one page, including the peers of other processes. At the limit, joins are refused.
    pub peers_per_page_max: usize,
    /// Open pages. At the limit, a join that would open another page is refused.
    pub pages_max: usize,
    /// Bytes a second that one page's peers may relay together; 0 disables relaying. Above it, a
    /// frame is refused with the time to wait.
    pub relay_bytes_per_second_per_page: u64,
    /// Bytes a second that one peer may relay; 0 for none. Above it, refused with the time to wait.
    pub relay_bytes_per_second_per_peer: u64,
    /// The time over which an unused relay budget accumulates. A larger frame is accepted when the
    /// budget is full; the next frames then wait until it has refilled.
    pub relay_burst: Duration,
    /// Signals a second that a peer may send; 0 for none. Above it, refused with the time to wait.
    pub signals_per_second_per_peer: u32,
    /// The time over which an unused signal budget accumulates.
    pub signal_burst: Duration,
    /// The shortest time between two count events of one page.
    pub counts_period: Duration,
}

impl Default for PageLimits {
    fn default() -> Self {
        PageLimits {
            peers_per_page_max: 10_000,
            pages_max: 100_000,
            relay_bytes_per_second_per_page: 128 << 20,
            relay_bytes_per_second_per_peer: 32 << 20,
            relay_burst: Duration::from_millis(250),
            signals_per_second_per_peer: 20,
            signal_burst: Duration::from_secs(5),
            counts_period: Duration::from_secs(1),
        }
    }
}

/// The reason why a peer cannot join a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum JoinError {
    /// The page has [`peers_per_page_max`](crate::PageLimits::peers_per_page_max) peers.
    #[error("the page has {max} peers, the maximum")]
    PageFull { max: usize },
    /// [`pages_max`](crate::PageLimits::pages_max) other pages are open, and this one is not.
    #[error("{max} pages are open, the maximum")]
    TooManyPages { max: usize },
}

/// The reason why a frame or signal is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RelayRefusal {
    /// The sender or the destination is not on the page, or they are the same.
    #[error("no such peer on the page")]
    NoSuchPeer,
    #[error("the page's relay budget is used up; retry after {retry_after:?}")]
    PageBudget {
        /// When the same frame will be accepted.
        retry_after: Duration,
    },
    #[error("the peer's relay budget is used up; retry after {retry_after:?}")]
    PeerBudget {
        /// When the same frame will be accepted.
        retry_after: Duration,
    },
}
