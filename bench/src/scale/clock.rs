use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the machine started; all its processes share this clock.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_monotonic() {
        let before = now_ns();
        assert!(now_ns() >= before && before > 0);
    }
}
