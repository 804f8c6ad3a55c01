//! The sockets of a shard, and the interface to them for its handler.
//!
//! Each file builds on the ones before it: `state` holds the slab and the accounting,
//! `registration` adds connections to the epoll and removes them, `transmit` writes or queues
//! bytes, `closing` ends sockets, and `writing` has the send functions.
//!
//! `shard/timeouts.rs` explains the two rules that close a slow client.

mod closing;
mod recent_peers;
mod registration;
mod state;
mod transmit;
mod writing;

pub(crate) use self::registration::{Released, socket_of};
pub(crate) use self::state::Clock;
pub use self::state::Sockets;
pub use self::writing::{OfferError, SendError};
