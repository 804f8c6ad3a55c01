//! Other servers, whose pages are found from here.

mod servers;

pub use servers::NeighbourError;
pub(crate) use servers::{KnownServers, origins};
