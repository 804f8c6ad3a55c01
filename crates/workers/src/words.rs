//! What a supervisor and its worker say to each other. One message each, one program on both ends.

use serde::{Deserialize, Serialize};

/// Changes with every change of these messages: a program that was replaced on disk while its
/// supervisor runs would otherwise misread it.
pub(crate) const PROTOCOL: u16 = 1;

/// Largest piece of the hello in one message.
pub(crate) const HELLO_PIECE_BYTES: usize = 32 * 1024;

/// Room for any message: a piece of the hello and what surrounds it.
pub(crate) const MESSAGE_BYTES_MAX: usize = HELLO_PIECE_BYTES + 64;

/// From the supervisor. Descriptors travel beside it, in the order that is told here.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Word<'a> {
    /// The first.
    Muster { protocol: u16, slot: u16, workers: u16, hello_bytes: u32, listeners: u32 },
    /// The next piece of the hello.
    Hello(#[serde(borrow)] &'a [u8]),
    /// The next listeners, as many as there are descriptors.
    Listeners,
    /// The ends for the bus and for handing over.
    Link { to: u16, number: u64 },
    /// All that is there at the start has been told.
    Begin,
    /// Finish and end.
    Drain,
}

/// From the worker.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// It serves.
    Ready,
    /// The link that it knows under this number broke.
    LinkLost { to: u16, number: u64 },
}
