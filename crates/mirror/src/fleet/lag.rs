//! How late this process runs, and the answers of others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use watchfire_fleet::{LAG_MAX, extended};
use watchfire_p2p::Host;

const INTERVAL: Duration = Duration::from_millis(100);
/// The part of the lag that is left after each look, in thousandths. After five seconds without lag, a
/// twentieth is left.
const DECAY_PER_MILLE: u64 = 940;

/// A request and its answer wait at both ends, so the lag is this part of the time between them.
/// [`extended`] makes more than that time of it.
const LAGS_PER_ROUND_TRIP: u32 = 3;

/// How late this process handles events, at most and lately: from a timer to the answer of the thread
/// that exchanges blocks. On a machine with too much work all timeouts are longer, because hosts that
/// are slow are not gone. So they are while requests wait behind blocks on slow links.
#[derive(Debug, Default)]
pub(crate) struct Lag(AtomicU64);

impl Lag {
    pub(super) async fn measure(&self, host: &Host) {
        loop {
            let due_at = Instant::now() + INTERVAL;
            tokio::time::sleep_until(due_at).await;
            if host.stats().await.is_err() {
                return;
            }
            self.note(due_at.elapsed());
        }
    }

    /// A host has answered after this time, or has not answered for this time.
    pub(super) fn note_round_trip(&self, time: Duration) {
        let lag = u64::try_from((time.min(LAG_MAX) / LAGS_PER_ROUND_TRIP).as_micros());
        self.0.fetch_max(lag.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn note(&self, lag: Duration) {
        let before = self.0.load(Ordering::Relaxed);
        let lag = u64::try_from(lag.min(LAG_MAX).as_micros()).unwrap_or(u64::MAX);
        self.0.store(lag.max(before * DECAY_PER_MILLE / 1000), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn extend(&self, timeout: Duration) -> Duration {
        extended(timeout, self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_grow_by_more_than_the_time_until_an_answer() {
        let lag = Lag::default();
        lag.note_round_trip(Duration::from_secs(1));
        lag.note_round_trip(Duration::from_millis(1));
        assert!(lag.extend(Duration::from_secs(1)) > Duration::from_millis(2300));
    }

    #[test]
    fn the_lag_fades_and_is_bounded() {
        let lag = Lag::default();
        lag.note(Duration::from_secs(100));
        assert_eq!(lag.get(), LAG_MAX);
        (0..100).for_each(|_| lag.note(Duration::from_millis(1)));
        assert!(lag.get() < LAG_MAX / 20, "{:?}", lag.get());
        (0..1000).for_each(|_| lag.note(Duration::from_millis(1)));
        assert_eq!(lag.extend(Duration::from_secs(1)), Duration::from_millis(1004));
    }
}
