use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use watchfire_types::Instant;

/// Hash buckets for the allowances of addresses: 128 KiB.
const BUCKETS: usize = 16_384;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StunLimits {
    /// Answers a second to one address (of IPv6, to one network of 64 bits). Above it, requests are
    /// not answered.
    pub answers_per_second_per_address: u32,
    /// Answers a second to all addresses. Above it, requests are not answered.
    pub answers_per_second: u32,
    /// The processes that answer on the same addresses. The kernel directs all requests of an
    /// address to one of them, and each answers its share of `answers_per_second`.
    pub processes: u32,
}

impl Default for StunLimits {
    fn default() -> Self {
        StunLimits { answers_per_second_per_address: 50, answers_per_second: 10_000, processes: 1 }
    }
}

/// Limits the rate of answers.
///
/// Memory is fixed: an address is hashed to a bucket, with a key that peers cannot predict.
/// Addresses in the same bucket share an allowance.
pub(crate) struct Allowance {
    each: Rate,
    all: Rate,
    /// For each bucket, when its allowance is full again.
    buckets: Box<[Instant]>,
    full_at: Instant,
    hasher: RandomState,
}

impl Allowance {
    pub fn new(limits: &StunLimits) -> Self {
        Allowance {
            each: Rate::of(limits.answers_per_second_per_address),
            all: Rate::of(limits.answers_per_second.div_ceil(limits.processes.max(1))),
            buckets: vec![Instant::ZERO; BUCKETS].into(),
            full_at: Instant::ZERO,
            hasher: RandomState::new(),
        }
    }

    /// Spends one answer. Returns false when the rate is exceeded.
    pub fn take(&mut self, now: Instant, to: IpAddr) -> bool {
        let address = to.to_canonical();
        let network = match address {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
        };
        let bucket = self.hasher.hash_one((address.is_ipv4(), network)) as usize % BUCKETS;
        let bucket = &mut self.buckets[bucket];
        // Both are checked before one is spent: an address over its own limit must not use up the
        // answers of all others.
        if !self.each.has_one(now, *bucket) || !self.all.has_one(now, self.full_at) {
            return false;
        }
        *bucket = self.each.spend(now, *bucket);
        self.full_at = self.all.spend(now, self.full_at);
        true
    }
}

/// A rate limit with a burst of one second.
#[derive(Clone, Copy)]
struct Rate {
    /// Time to earn one answer; `None` when the rate is 0.
    period: Option<Duration>,
}

impl Rate {
    fn of(per_second: u32) -> Self {
        Rate { period: Duration::from_secs(1).checked_div(per_second) }
    }

    fn has_one(self, now: Instant, full_at: Instant) -> bool {
        let burst = Duration::from_secs(1);
        self.period.is_some_and(|period| full_at.since(now) + period <= burst)
    }

    fn spend(self, now: Instant, full_at: Instant) -> Instant {
        full_at.max(now) + self.period.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn allowance(each: u32, all: u32) -> Allowance {
        Allowance::new(&StunLimits {
            answers_per_second_per_address: each,
            answers_per_second: all,
            processes: 1,
        })
    }

    fn answered(allowance: &mut Allowance, now: Instant, to: &str, times: usize) -> usize {
        (0..times).filter(|_| allowance.take(now, to.parse().unwrap())).count()
    }

    #[test]
    fn each_process_answers_its_share() {
        let limits = StunLimits { answers_per_second: 10, processes: 4, ..StunLimits::default() };
        assert_eq!(answered(&mut Allowance::new(&limits), at(0), "192.0.2.1", 10), 3);
        let none = StunLimits { answers_per_second: 0, ..limits };
        assert_eq!(answered(&mut Allowance::new(&none), at(0), "192.0.2.1", 10), 0);
    }

    #[test]
    fn an_address_gets_a_burst_of_one_second_and_then_the_rate() {
        let mut allowance = allowance(5, 1_000);
        assert_eq!(answered(&mut allowance, at(0), "192.0.2.1", 100), 5);
        assert_eq!(answered(&mut allowance, at(199), "192.0.2.1", 100), 0);
        assert_eq!(answered(&mut allowance, at(200), "192.0.2.1", 100), 1);
        assert_eq!(answered(&mut allowance, at(60_000), "192.0.2.1", 100), 5);
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address_and_a_mapped_ipv4_address_as_ipv4() {
        let mut allowance = allowance(5, 1_000);
        assert_eq!(answered(&mut allowance, at(0), "2001:db8::1", 3), 3);
        assert_eq!(answered(&mut allowance, at(0), "2001:db8::ffff:1:2", 3), 2);
        assert_eq!(answered(&mut allowance, at(0), "192.0.2.1", 3), 3);
    }

    #[test]
    fn all_addresses_together_get_no_more_than_the_total_rate() {
        let mut allowance = allowance(50, 100);
        let answers = (0..=255_u8)
            .flat_map(|net| (0..=255_u8).map(move |host| IpAddr::from([198, 51, net, host])))
            .filter(|&to| allowance.take(at(0), to))
            .count();
        assert_eq!(answers, 100);
    }

    #[test]
    fn a_rate_of_zero_answers_no_request() {
        assert_eq!(answered(&mut allowance(0, 100), at(0), "192.0.2.1", 3), 0);
        assert_eq!(answered(&mut allowance(100, 0), at(0), "192.0.2.1", 3), 0);
    }
}
