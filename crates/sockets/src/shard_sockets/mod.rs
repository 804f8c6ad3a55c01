//! The sockets of a shard, as its handler sees them.
//!
//! Each file builds on the ones before it: `state` holds the slab and the accounting,
//! `registration` takes connections in and out of the epoll, `transmit` writes or queues bytes,
//! `closing` ends sockets, and `writing` is what the handler calls to send.
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
