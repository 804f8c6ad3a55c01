//! The clock of the exchange.

use std::time::Duration;

use tokio::time::Instant;
use watchfire_types::Instant as CoreInstant;

/// A clock that stops while the host is paused.
///
/// A paused host reads nothing from the network because its disk is behind. Without this clock the
/// exchange would time out peers for a delay that they did not cause.
#[derive(Debug)]
pub(super) struct PausableClock {
    started_at: Instant,
    paused: Duration,
    paused_at: Option<Instant>,
}

impl PausableClock {
    pub(super) fn new(now: Instant) -> Self {
        PausableClock { started_at: now, paused: Duration::ZERO, paused_at: None }
    }

    /// Stops or starts the clock. Does nothing if it is already in that state.
    pub(super) fn set_paused(&mut self, is_paused: bool, now: Instant) {
        match (is_paused, self.paused_at) {
            (true, None) => self.paused_at = Some(now),
            (false, Some(at)) => {
                self.paused += now.saturating_duration_since(at);
                self.paused_at = None;
            }
            _ => {}
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused_at.is_some()
    }

    pub(super) fn paused(&self) -> Duration {
        self.paused
    }

    /// The time of the exchange at `now`.
    pub(super) fn at(&self, now: Instant) -> CoreInstant {
        let now = self.paused_at.unwrap_or(now);
        let elapsed = now.saturating_duration_since(self.started_at).saturating_sub(self.paused);
        CoreInstant::from_nanos(elapsed.as_nanos().try_into().unwrap_or(u64::MAX))
    }

    /// When the clock will show `at`, unless it is paused until then.
    pub(super) fn wake_at(&self, at: CoreInstant) -> Instant {
        self.started_at + at.since(CoreInstant::ZERO) + self.paused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_clock_stops_and_continues_where_it_stopped() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let core = |seconds| CoreInstant::ZERO + Duration::from_secs(seconds);
        let mut clock = PausableClock::new(start);
        assert_eq!(clock.at(at(5)), core(5));

        clock.set_paused(true, at(10));
        clock.set_paused(true, at(15));
        assert_eq!((clock.at(at(20)), clock.is_paused()), (core(10), true));

        clock.set_paused(false, at(30));
        assert_eq!((clock.at(at(31)), clock.paused()), (core(11), Duration::from_secs(20)));
        assert_eq!(clock.wake_at(core(12)), at(32));
    }
}
