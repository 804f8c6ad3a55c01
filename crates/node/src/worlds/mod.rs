//! Between worlds: what browsers hold here, peers of libp2p can have; and what those hold, browsers
//! can open.
//!
//! A host of libp2p runs beside the server, in one of its processes. It holds nothing itself: a
//! block that a peer wants is fetched from the browsers of its page, through a visit to that page,
//! and passed on; and the other way round. [`Standings`] knows which pages are lit or sought,
//! [`Crossings`] which page a wanted block belongs to, [`Transit`] holds what is on its way, and a
//! `lane` carries one page's blocks.

mod crossings;
mod door;
mod encounters;
mod lane;
mod standings;
mod traffic;
mod transit;

pub(crate) use door::VisitKey;
pub(crate) use encounters::Encounters;
pub(crate) use standings::{Light, STANDINGS_TOPIC, Standings};
pub(crate) use traffic::Worlds;
pub use traffic::WorldsError;
