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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkTotals {
    pub is_connected: bool,
    /// Whether the links to all processes that were there at the start are up.
    pub is_settled: bool,
    pub links: u64,
    pub ended: u64,
    /// Messages and subscriptions that NATS did not accept.
    pub refused: u64,
    /// Packets with data that were sent, and sent again.
    pub sent: u64,
    pub sent_again: u64,
    /// Bytes of data that were sent, and sent again.
    pub bytes_out: u64,
    /// Bytes of data that were received, also twice.
    pub bytes_in: u64,
}
