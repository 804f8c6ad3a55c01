use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the machine started; all its processes share this clock.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
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
