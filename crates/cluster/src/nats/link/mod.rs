//! One link, without sockets and clocks: an ordered stream of bytes in each direction, over
//! messages that may be lost, repeated or late.
//!
//! # The fault without it
//!
//! The bus needs a stream of bytes, as a socket is. NATS delivers a message at most once: a server
//! that dies, or a client that it considers slow, loses what was on its way. If the bytes of one packet
//! were missing, the bus would read the length of a frame out of the middle of a message, and the link
//! would end. Ending it for each lost packet would be correct, too, but expensive: both sides then
//! announce all topics and send all state again.
//!
//! # Numbers and repeats
//!
//! Packets with data are numbered from 0. [`Outgoing`] keeps each until the other side has it.
//! [`Incoming`] accepts them in their order only, so it needs no buffer for those that are early.
//!
//! Ten packets are sent, 0 to 9, and NATS loses 3 and 4. Packet 5 is early: it is dropped, and the answer
//! is "3 is expected, and missing". Packets 6 to 9 are dropped without an answer, because one answer is
//! enough for one gap. The sender sends 3 to 9 again. Packets that arrive twice are ignored.
//!
//! If packet 9 is lost, no later one shows the gap. If the answer is lost, nothing is sent again. So
//! once a second each side asks whether the other one has all packets that were sent, while it does not
//! know: a loss costs at most about a second, and no state.
//!
//! # The window
//!
//! A link is a queue between two buses, and a bus must not wait for another one. Without a bound, a
//! process that reads nothing would fill the memory of those that send to it. So an acknowledgement has
//! two numbers: how many packets arrived (the sender may drop them), and how many the bus of the
//! receiver has taken (the sender may send more). Only the second opens the window: if arrival did, the
//! queue of the receiver would have no bound.
//!
//! # Bounds
//!
//! - At most [`WINDOW_BYTES`] and one packet are sent and not yet taken by the other bus. Both sides keep
//!   no more than that, and a sender that exceeds it is cut off. With a round trip of 50 ms, that allows
//!   160 MB a second.
//! - When the window is full, no bytes are taken from the bus of the sender. Its own queue grows, up to
//!   [`BusLimits`](crate::bus::BusLimits): then it drops messages, or ends the link.
//! - A process that is silent for six seconds counts as gone, and its link ends.

mod incoming;
mod outgoing;
#[cfg(test)]
mod simulation;

pub(crate) use incoming::{Arrival, Incoming};
pub(crate) use outgoing::Outgoing;

/// Bytes that the other side may not have consumed yet.
pub(crate) const WINDOW_BYTES: usize = 8 * 1024 * 1024;
/// The most bytes of data in one packet. NATS servers accept messages of 1 MiB by default; with a smaller
/// `max_payload`, packets have less.
pub(crate) const PACKET_BYTES_MAX: usize = 64 * 1024;
