//! Messages and subscriptions that NATS does not accept: a permission is missing, or a limit is exceeded.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How often a refusal is logged. All are counted.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Refusals {
    count: AtomicU64,
    /// The last reason in the log, and its time.
    logged: Mutex<Option<(String, Instant)>>,
}

impl Refusals {
    /// Counts a refusal.
    pub fn note(&self, reason: impl Display) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut logged = self.logged.lock();
        if logged.as_ref().is_none_or(|(_, at)| at.elapsed() >= LOG_INTERVAL) {
            *logged = Some((reason.to_string(), Instant::now()));
            tracing::error!(%reason, "NATS does not accept a message or a subscription");
        }
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The reason of a refusal, if there was one.
    pub fn reason(&self) -> Option<String> {
        self.logged.lock().as_ref().map(|(reason, _)| reason.clone())
    }
}
