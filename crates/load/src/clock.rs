//! The machine's monotonic clock, counted from the start of the load.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use watchfire_types::Instant;

/// A clock that all processes of one machine share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The time of [`monotonic`] at which it read `passed`.
    origin: Duration,
    passed: Duration,
}

impl Clock {
    /// A clock that reads zero at this time of [`monotonic`].
    pub(crate) fn from_origin(origin: Duration) -> Clock {
        Clock { origin, passed: Duration::ZERO }
    }

    /// The clock of a load that began so long ago, perhaps before this machine was started.
    pub(crate) fn of_running(passed: Duration) -> Clock {
        Clock { origin: monotonic(), passed }
    }

    /// The time of [`monotonic`] at a time of this clock.
    pub(crate) fn monotonic_at(&self, at: Instant) -> Duration {
        (self.origin + at.since(Instant::ZERO)).saturating_sub(self.passed)
    }

    /// Waits until this clock begins. Before that it does not move, so nothing may begin.
    pub(crate) fn wait_for_begin(&self) {
        while let Some(left) = self.origin.checked_sub(monotonic()).filter(|left| !left.is_zero()) {
            std::thread::sleep(left);
        }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + self.passed + monotonic().saturating_sub(self.origin)
    }
}

/// The monotonic time; all processes of the machine have the same origin.
pub(crate) fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Processor time that this process used so far.
pub(crate) fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_may_have_begun_before_the_machine_was_started() {
        let century = Duration::from_secs(100 * 365 * 86_400);
        let (before, clock) = (monotonic(), Clock::of_running(century));
        let now = clock.now();
        assert!(now >= Instant::ZERO + century && now < Instant::ZERO + century * 2);
        assert!((before..=monotonic()).contains(&clock.monotonic_at(now)));
    }
}
