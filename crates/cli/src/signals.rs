//! The signals that end a command.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Base of the exit code after a signal; the signal's number is added.
const SIGNALLED: u8 = 128;

/// Waits for an interrupt or termination signal.
pub struct Signals {
    interrupts: Signal,
    terminations: Signal,
}

impl Signals {
    /// Handle both signals from now on; neither ends the process by itself.
    pub fn listen() -> io::Result<Self> {
        let interrupts = signal(SignalKind::interrupt())?;
        Ok(Signals { interrupts, terminations: signal(SignalKind::terminate())? })
    }

    /// Wait for a signal, and return the exit code that a shell expects.
    pub async fn next(&mut self) -> u8 {
        let kind = tokio::select! {
            _ = self.interrupts.recv() => SignalKind::interrupt(),
            _ = self.terminations.recv() => SignalKind::terminate(),
        };
        SIGNALLED + kind.as_raw_value() as u8
    }
}
