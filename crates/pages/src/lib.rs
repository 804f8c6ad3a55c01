//! A page's life: who watches it, who holds it, and what may be relayed between them.
//!
//! A page is lit while someone who has it open holds all of it, dark while others still seek it,
//! and forgotten when nobody has it open. [`Pages`] counts, introduces and bounds; it never sees a
//! page's bytes, opens no socket and reads no clock.
//!
//! ```
//! use pages::{Counts, Have, Output, PageLimits, Pages};
//! use vocab::{Instant, PeerId};
//!
//! let (alice, bob, now) = (PeerId(1), PeerId(2), Instant::ZERO);
//! let mut pages = Pages::new(PageLimits::default());
//! pages.join(now, "bafy", alice, "alice's socket", Have::All).unwrap();
//! let counts = pages.join(now, "bafy", bob, "bob's socket", Have::Nothing).unwrap();
//! assert_eq!(counts, Counts { watching: 2, holders: 1, ..Counts::default() });
//!
//! assert_eq!(pages.some_holders("bafy", bob, 4, 0), [(alice, Have::All)]);
//! assert_eq!(pages.relay(now, "bafy", bob, alice, 100), Ok("alice's socket"));
//!
//! pages.leave(now, "bafy", alice);
//! assert_eq!(pages.poll_output(), Some(Output::Lit { page: "bafy".into() }));
//! ```

mod budget;
mod error;
mod have;
mod last_lit;
mod limits;
mod news;
mod output;
mod page;
mod pages;
mod quotas;

pub use error::{JoinError, RelayRefusal};
pub use have::Have;
pub use last_lit::LastLit;
pub use limits::PageLimits;
pub use output::{Counts, NodeCounts, Output};
pub use pages::Pages;
pub use quotas::{OverQuota, QuotaLimits, Quotas};
