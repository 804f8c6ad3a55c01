//! The tracker: which peers hold which page, which peers are introduced to each other, and how much
//! may be relayed between them.
//!
//! [`Pages`] counts the peers and holders of each page. [`Rings`] decides which peers are
//! neighbours. [`Quotas`] limits the bytes that peers send each other through the server. [`AddressCounts`] counts
//! for each address across the processes of a server. None of
//! them reads a page's bytes, opens a socket or reads a clock.
//!
//! ```
//! use watchfire_tracker::{Counts, Have, Output, PageLimits, Pages};
//! use watchfire_types::{Instant, PeerId};
//!
//! let (alice, bob, now) = (PeerId(1), PeerId(2), Instant::ZERO);
//! let mut pages = Pages::new(PageLimits::default());
//! pages.join(now, "bafy", alice, "alice's socket", Have::All).unwrap();
//! let counts = pages.join(now, "bafy", bob, "bob's socket", Have::Nothing).unwrap();
//! assert_eq!(counts, Counts { watching: 2, holders: 1, ..Counts::default() });
//!
//! assert_eq!(pages.peers_with_blocks("bafy", bob, 4, 0), [(alice, Have::All)]);
//! assert_eq!(pages.relay(now, "bafy", bob, alice, 100), Ok("alice's socket"));
//!
//! pages.leave(now, "bafy", alice);
//! assert_eq!(pages.poll_output(), Some(Output::Available { page: "bafy".into() }));
//! ```

mod address_counts;
mod address_quotas;
mod neighbours;
mod pages;

pub use address_counts::{AddressCounts, AddressFull, network_of};
pub use address_quotas::{DayUsage, QuotaExceeded, QuotaLimits, QuotaReports, Quotas};
pub use neighbours::{Change, FULL_MESH_PEERS_MAX, Rings};
pub use pages::{
    Counts, Have, JoinError, LastAvailable, NodeCounts, Output, PageLimits, Pages, RelayRefusal,
};
