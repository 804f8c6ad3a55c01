//! One link, without sockets and clocks: an ordered stream of bytes in each direction, over
//! messages that may be lost, repeated or late.
//!
//! [`Outgoing`] keeps what it sent until the other side has it, and sends it again when asked.
//! Its window bounds what the other side has not consumed, so neither side's queue grows beyond
//! it: when the window is full, no further bytes are read from the bus, and the bus applies its
//! own limits. [`Incoming`] accepts packets in their order only.

mod incoming;
mod outgoing;
#[cfg(test)]
mod simulation;

pub(crate) use incoming::{Arrival, Incoming};
pub(crate) use outgoing::Outgoing;

/// Bytes that the other side may not have consumed yet.
pub(crate) const WINDOW_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of data in one packet. NATS servers accept messages of 1 MiB by default.
pub(crate) const PACKET_BYTES_MAX: usize = 64 * 1024;
