//! The sockets of a shard, and the interface to them for its handler.
//!
//! Each file builds on the ones before it: `state` holds the slab and the accounting,
//! `registration` adds connections to the epoll and removes them, `transmit` writes or queues
//! bytes, `closing` ends sockets, and `writing` has the send functions.
//!
//! A slow reader is closed for one of two reasons, both with code 1013:
//!
//! - Its queue would pass `queued_bytes_max`: [`Sockets::send`] closes it at once.
//! - Its queue made no progress for `slow_timeout`: the sweep in `shard/sweep.rs` closes it.

mod closing;
mod recent_peers;
mod registration;
mod state;
mod transmit;
mod writing;

pub(crate) use self::registration::socket_of;
pub use self::state::Sockets;
pub use self::writing::{OfferError, SendError};
