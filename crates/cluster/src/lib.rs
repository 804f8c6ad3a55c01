//! One server of several processes, on one machine or on many.
//!
//! - [`workers`] starts the processes of a machine behind one port, supervises them, and links each
//!   two of them with a socket pair.
//! - [`bus`] carries messages over these links to the processes that are interested in their topic.
//! - `nats` makes links between the processes of several machines, over NATS, for the same bus. It
//!   needs the feature `nats`.
//!
//! The crate carries bytes. The server decides which messages it sends, and what they mean.

pub mod bus;
#[cfg(feature = "nats")]
pub mod nats;
pub mod workers;
