//! A peer of a page on a Watchfire server, without a browser.
//!
//! A [`Visit`] joins `page:<cid>` over a websocket, says how much of the page is here, and carries
//! Bitswap's messages between a [`p2p::Host`] and the page's other peers: browsers, and others like
//! itself. The host's one exchange asks and serves them beside its libp2p peers. When the connection
//! is lost it joins again, in its own time. What is said is in `docs/protocols/page.md`.
//!
//! ```no_run
//! use std::sync::Arc;
//! use store::{Memory, Stores};
//! use visit::{Have, Plan, Site, Visit};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let site: Site = "http://localhost:4000".parse()?;
//! let page: content::Cid = "bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u".parse()?;
//! let kept = Arc::new(Memory::new(1 << 20));
//! let host = p2p::Host::start(Default::default(), Stores::default(), kept).await?;
//! let plan = Plan {
//!     door: site.door()?,
//!     page: page.clone(),
//!     have: Have::None,
//!     scope: None,
//!     extra: serde_json::Value::Null,
//! };
//! let visit = Visit::begin(&host, plan);
//! host.fetch(page).await?.finished().await?;
//! visit.set_have(Have::All);
//! # Ok(())
//! # }
//! ```
//!
//! Absent on purpose: direct connections between peers; everything goes through the server's relay.

mod assembler;
mod frame;
mod outgoing;
mod segment;
mod site;
mod talk;
mod told;
mod visit;

pub use site::{Connection, Door, Site, SiteError};
pub use told::{Counts, Have};
pub use visit::{News, Plan, Standing, Visit, page_of};
