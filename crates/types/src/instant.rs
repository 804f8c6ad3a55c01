use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// A point in time, in whole nanoseconds since its driver started.
///
/// The standard library's `Instant` cannot be written down in a test, printed in a trace or
/// replayed; this one can. Arithmetic saturates: a clock at the end of time stays there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The start of a driver's clock.
    pub const ZERO: Instant = Instant(0);

    /// The instant `nanos` nanoseconds after [`Instant::ZERO`].
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Nanoseconds since [`Instant::ZERO`].
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole seconds since [`Instant::ZERO`].
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// The time since `earlier`; zero when `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, rest: Duration) -> Instant {
        let nanos = u64::try_from(rest.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, rest: Duration) {
        *self = *self + rest;
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_since_a_later_instant_is_zero() {
        let early = Instant::from_nanos(1);
        let late = early + Duration::from_secs(1);
        assert_eq!(late.since(early), Duration::from_secs(1));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn arithmetic_saturates_at_the_end_of_time() {
        let end = Instant::from_nanos(u64::MAX);
        assert_eq!(end + Duration::MAX, end);
    }
}
