use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// How long one input may take before the whole run is given up. On the wall, so much longer than
/// what a target may take of the processor.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

/// Ends the process when an input hangs: what does not return cannot be caught, and a run that
/// never ends says nothing about why.
pub(crate) struct Watchdog {
    inputs: Arc<AtomicU64>,
    /// Dropped to let the watching thread go.
    _leash: Sender<()>,
}

impl Watchdog {
    /// Watches the inputs of a target. `name` says which one hangs, given how many came before it.
    pub fn new(name: impl Fn(u64) -> String + Send + 'static) -> Self {
        let inputs = Arc::new(AtomicU64::new(0));
        let (leash, dropped) = mpsc::channel::<()>();
        let watched = Arc::clone(&inputs);
        thread::spawn(move || {
            let mut last = watched.load(Ordering::Relaxed);
            while dropped.recv_timeout(HANG_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
                let now = watched.load(Ordering::Relaxed);
                if now == last {
                    // Not `eprintln`, which tests capture and would lose with the process.
                    let _ = writeln!(std::io::stderr(), "{} hangs", name(now));
                    std::process::abort();
                }
                last = now;
            }
        });
        Watchdog { inputs, _leash: leash }
    }

    /// An input came back.
    pub fn pat(&self) {
        self.inputs.fetch_add(1, Ordering::Relaxed);
    }
}
