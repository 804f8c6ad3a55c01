//! Messages between a supervisor and its worker. Both ends are the same program.

use serde::{Deserialize, Serialize};

/// Changes with every change of these messages: a program that was replaced on disk while its
/// supervisor runs would otherwise misread it.
pub(crate) const PROTOCOL: u16 = 1;

/// Largest piece of the startup_data in one message.
pub(crate) const STARTUP_DATA_PIECE_BYTES: usize = 32 * 1024;

/// Room for any message: a piece of the startup_data and what surrounds it.
pub(crate) const MESSAGE_BYTES_MAX: usize = STARTUP_DATA_PIECE_BYTES + 64;

/// From the supervisor. Descriptors travel beside it, in the order given here.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum SupervisorMessage<'a> {
    /// The first.
    Start { protocol: u16, slot: u16, workers: u16, startup_data_bytes: u32, listeners: u32 },
    /// The next piece of the startup_data.
    StartupData(#[serde(borrow)] &'a [u8]),
    /// The next listeners, as many as there are descriptors.
    Listeners,
    /// The ends for the bus and for handing over.
    Link { to: u16, number: u64 },
    /// The setup is complete.
    Begin,
    /// Finish and end.
    Drain,
}

/// From the worker.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum WorkerReport {
    /// It serves.
    Ready,
    /// The link that it knows under this number broke.
    LinkLost { to: u16, number: u64 },
}
