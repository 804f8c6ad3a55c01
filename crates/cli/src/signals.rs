//! The signals that end a command, and timeouts that do not end one that a signal has stopped.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior};

/// Base of the exit code after a signal; the signal's number is added.
const SIGNALLED: u8 = 128;

/// Interval of timeout checks, and of reports of progress.
pub const TICK: Duration = Duration::from_secs(1);

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

/// An interval for timeouts. The time in which the process was stopped, as by Ctrl-Z, is one tick.
pub fn ticks() -> Interval {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Wait, and do not count the time in which the process was stopped.
pub async fn awake(time: Duration) {
    let mut ticks = ticks();
    // The first tick is at once.
    for _ in 0..=time.as_secs() {
        ticks.tick().await;
    }
}
