//! The limit of the bytes that a user receives.

use watchfire_types::Instant;

use crate::scenario::Rate;

/// A token bucket: it fills evenly, up to its burst.
pub(in crate::engine) struct RateLimit {
    rate: Rate,
    tokens: u64,
    filled_at: Instant,
    /// Whether the socket is left alone until there are tokens.
    is_paused: bool,
}

impl RateLimit {
    pub(in crate::engine) fn new(rate: Rate, now: Instant) -> RateLimit {
        RateLimit { rate, tokens: rate.burst_bytes, filled_at: now, is_paused: false }
    }

    /// How many bytes may be received now. Without any, the user pauses until it is resumed.
    pub(in crate::engine) fn allowed(&mut self, now: Instant) -> u64 {
        let nanos = u128::from(now.since(self.filled_at).as_nanos() as u64);
        let earned = nanos * u128::from(self.rate.bytes_per_second) / 1_000_000_000;
        // Without a whole byte the time stays, or frequent calls would never fill the bucket.
        if earned > 0 {
            let earned = u64::try_from(earned).unwrap_or(u64::MAX);
            self.tokens = self.tokens.saturating_add(earned).min(self.rate.burst_bytes);
            self.filled_at = now;
        }
        self.is_paused = self.tokens == 0;
        self.tokens
    }

    pub(in crate::engine) fn take(&mut self, bytes: u64) {
        self.tokens = self.tokens.saturating_sub(bytes);
    }

    /// Returns whether a paused user may receive bytes again.
    pub(in crate::engine) fn resumes(&mut self, now: Instant) -> bool {
        self.is_paused && self.allowed(now) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_fills_evenly_up_to_its_burst() {
        let rate = Rate { bytes_per_second: 1000, burst_bytes: 500 };
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut limit = RateLimit::new(rate, at(0));
        assert_eq!((limit.allowed(at(0)), limit.resumes(at(0))), (500, false));
        limit.take(500);
        assert_eq!(limit.allowed(at(0)), 0);
        assert!(!limit.resumes(at(0)) && limit.resumes(at(100)));
        assert_eq!(limit.allowed(at(100)), 100);
        limit.take(40);
        assert_eq!(limit.allowed(at(200)), 160);
        assert_eq!(limit.allowed(at(5000)), 500);
    }
}
