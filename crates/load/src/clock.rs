//! The machine's monotonic clock, counted from the start of the load.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use watchfire_types::Instant;

/// A clock that all processes of one machine share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Duration,
}

impl Clock {
    /// A clock that reads zero at this time of [`monotonic`].
    pub(crate) fn from_origin(origin: Duration) -> Clock {
        Clock { origin }
    }

    /// The time of [`monotonic`] at which this clock was zero.
    pub(crate) fn origin(&self) -> Duration {
        self.origin
    }

    /// Waits until this clock is zero. Before that it does not move, so nothing may begin.
    pub(crate) fn wait_for_begin(&self) {
        while let Some(left) = self.origin.checked_sub(monotonic()).filter(|left| !left.is_zero()) {
            std::thread::sleep(left);
        }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + monotonic().saturating_sub(self.origin)
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
