//! The peers of each page: which of them hold it, and what may be relayed between them.
//!
//! A page is available while at least one of its peers holds all of it, and unavailable while its
//! peers hold only parts. It is forgotten when no peer has it open. [`Pages`] counts peers, names
//! holders and enforces limits. It reads no page's bytes, opens no socket and reads no clock.

mod last_available;
mod limits;
mod output;
mod page;
mod page_table;
mod pending_events;

pub use last_available::LastAvailable;
pub use limits::{JoinError, PageLimits, RelayRefusal};
pub use output::{Counts, Have, NodeCounts, Output};
pub use page_table::Pages;
