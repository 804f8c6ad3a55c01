//! The signals that end a command, and timeouts that do not end one that a signal has stopped.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior};

/// Base of the exit code after a signal; the signal's number is added.
pub const SIGNALLED: u8 = 128;

/// Interval of timeout checks, and of reports of progress.
pub const TICK: Duration = Duration::from_secs(1);

/// Waits for an interrupt or termination signal.
pub struct Signals {
    interrupts: Signal,
    terminations: Signal,
}

impl Signals {
    /// Handles both signals from now on; neither ends the process by itself.
    pub fn listen() -> io::Result<Self> {
        let interrupts = signal(SignalKind::interrupt())?;
        Ok(Signals { interrupts, terminations: signal(SignalKind::terminate())? })
    }

    /// Waits for a signal, and returns the exit code that a shell expects.
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

/// Waits, and does not count the time in which the process was stopped.
pub async fn awake(time: Duration) {
    let mut ticks = ticks();
    // The first tick is at once.
    for _ in 0..=time.as_secs() {
        ticks.tick().await;
    }
}

/// Calls `end` at the first signal, after which the command writes what is complete. A second signal ends the process
/// immediately. The result is the exit code that a shell expects after the first.
pub fn end_at_signals(end: impl FnOnce() + Send + 'static) -> io::Result<Arc<AtomicU8>> {
    let exit_code = Arc::new(AtomicU8::new(0));
    let signalled = Arc::clone(&exit_code);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::listen()?
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            signalled.store(signals.next().await, Ordering::Relaxed);
            end();
            std::process::exit(signals.next().await.into());
        });
    });
    Ok(exit_code)
}
