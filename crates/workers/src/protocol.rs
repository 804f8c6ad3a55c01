//! Messages between a supervisor and its worker. Both ends are the same program.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Must change with these messages: otherwise a program that was replaced on disk, under a running
/// supervisor, would misread them.
pub(crate) const PROTOCOL: u16 = 2;

/// Maximum bytes of startup data in one message.
pub(crate) const STARTUP_DATA_PIECE_BYTES: usize = 32 * 1024;

/// Maximum bytes of a message: a piece of startup data and its encoding.
pub(crate) const MESSAGE_BYTES_MAX: usize = STARTUP_DATA_PIECE_BYTES + 64;

/// From the supervisor. Descriptors are sent with the message, in the order given here.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum SupervisorMessage<'a> {
    /// The first message.
    Start {
        protocol: u16,
        slot: u16,
        workers: u16,
        startup_data_bytes: u32,
        listeners: u32,
        restarts: u64,
        hangs: u64,
        heartbeat_period: Duration,
    },
    /// The next piece of the startup data.
    StartupData(#[serde(borrow)] &'a [u8]),
    /// The next listeners, as many as there are descriptors.
    Listeners,
    /// The sockets for the bus and for handing over connections.
    Link { to: u16, number: u64 },
    /// The setup is complete.
    Begin,
    /// All workers that do not respond now.
    Unresponsive(Vec<u16>),
    /// Finish open work, then exit.
    Drain,
}

/// From the worker.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum WorkerReport {
    /// The worker serves its listeners.
    Ready,
    /// The worker's event loops run.
    Heartbeat,
    /// The link with this number broke.
    LinkLost { to: u16, number: u64 },
}
