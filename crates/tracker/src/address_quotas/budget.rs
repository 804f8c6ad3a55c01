use std::time::Duration;

use watchfire_types::Instant;

/// A token bucket in 8 bytes: the time at which it is full again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    full_at: Instant,
}

/// The rate at which a budget refills, and its size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// Bytes or another unit.
    pub per_second: u64,
    pub burst: Duration,
}

impl Rate {
    /// The time to earn this amount, rounded up so that small amounts are not free.
    fn time_for(self, amount: usize) -> Duration {
        let nanos = (amount as u128 * 1_000_000_000).div_ceil(u128::from(self.per_second));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl Budget {
    /// The time until this amount can be spent; zero when it can be spent now.
    pub fn wait(self, now: Instant, rate: Rate, amount: usize) -> Duration {
        if rate.per_second == 0 {
            return Duration::MAX;
        }
        let debt = self.full_at.since(now);
        // More than the maximum is allowed when the budget is full.
        let needed = rate.time_for(amount).min(rate.burst);
        (debt + needed).saturating_sub(rate.burst)
    }

    pub fn is_full(self, now: Instant) -> bool {
        self.full_at <= now
    }

    pub fn spend(&mut self, now: Instant, rate: Rate, amount: usize) {
        self.full_at = self.full_at.max(now) + rate.time_for(amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 1_000, burst: Duration::from_millis(500) };

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn spend(budget: &mut Budget, now: Instant, bytes: usize) -> Duration {
        let wait = budget.wait(now, RATE, bytes);
        if wait.is_zero() {
            budget.spend(now, RATE, bytes);
        }
        wait
    }

    #[test]
    fn a_full_budget_allows_a_burst_and_then_the_rate() {
        let mut budget = Budget::default();
        assert_eq!(spend(&mut budget, at(0), 300), Duration::ZERO);
        assert_eq!(spend(&mut budget, at(0), 200), Duration::ZERO);
        assert_eq!(spend(&mut budget, at(0), 100), Duration::from_millis(100));
        assert_eq!(spend(&mut budget, at(100), 100), Duration::ZERO);
        assert_eq!(spend(&mut budget, at(100), 1), Duration::from_millis(1));
    }

    #[test]
    fn no_more_than_the_burst_accumulates() {
        let mut budget = Budget::default();
        assert_eq!(spend(&mut budget, at(60_000), 500), Duration::ZERO);
        assert_eq!(spend(&mut budget, at(60_000), 500), Duration::from_millis(500));
    }

    #[test]
    fn an_amount_above_the_burst_needs_a_full_budget_and_delays_the_next() {
        let mut budget = Budget::default();
        assert_eq!(spend(&mut budget, at(0), 2_000), Duration::ZERO);
        assert_eq!(spend(&mut budget, at(0), 2_000), Duration::from_millis(2_000));
        assert_eq!(spend(&mut budget, at(2_000), 2_000), Duration::ZERO);
    }

    #[test]
    fn a_rate_of_zero_allows_nothing() {
        let nothing = Rate { per_second: 0, ..RATE };
        assert_eq!(Budget::default().wait(at(0), nothing, 1), Duration::MAX);
    }
}
