//! What the processes of one server tell one another.

mod bus;
mod driver;
pub mod frame;
mod interest;
mod limits;
mod link;
mod local;
mod nodes;
mod outbox;
mod shared;

pub use bus::{Bus, BusTotals, Handler, Loss, Readiness, Undelivered};
pub use limits::BusLimits;
pub use local::LocalBus;

/// How many nodes a bus can have: their ids are below this.
pub const NODES_MAX: u16 = 128;

/// The longest topic, in bytes.
pub const TOPIC_BYTES_MAX: usize = 4096;
