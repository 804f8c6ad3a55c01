use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use watchfire_types::Instant;

/// How many places there are for the allowances of addresses: 128 KiB of them.
const PLACES: usize = 16_384;

/// How much a responder answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StunLimits {
    /// Answers a second to one address (of IPv6, to one network of 64 bits). Above it, requests are
    /// not answered.
    pub answers_per_second_per_address: u32,
    /// Answers a second to all addresses. Above it, requests are not answered.
    pub answers_per_second: u32,
}

impl Default for StunLimits {
    fn default() -> Self {
        StunLimits { answers_per_second_per_address: 50, answers_per_second: 10_000 }
    }
}

/// Limits the rate of answers.
///
/// The memory is the same however many ask: an address has its place by a hash that nobody outside
/// can foresee. Two that share a place share an allowance.
pub(crate) struct Allowance {
    each: Rate,
    all: Rate,
    /// For each place, when all that was spent will have been earned.
    places: Box<[Instant]>,
    paid_off_at: Instant,
    hasher: RandomState,
}

impl Allowance {
    pub fn new(limits: &StunLimits) -> Self {
        Allowance {
            each: Rate::of(limits.answers_per_second_per_address),
            all: Rate::of(limits.answers_per_second),
            places: vec![Instant::ZERO; PLACES].into(),
            paid_off_at: Instant::ZERO,
            hasher: RandomState::new(),
        }
    }

    /// Whether somebody may be answered; then one answer is spent.
    pub fn take(&mut self, now: Instant, to: IpAddr) -> bool {
        let address = to.to_canonical();
        let network = match address {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
        };
        let place = self.hasher.hash_one((address.is_ipv4(), network)) as usize % PLACES;
        let place = &mut self.places[place];
        if !self.each.has_one(now, *place) || !self.all.has_one(now, self.paid_off_at) {
            return false;
        }
        *place = self.each.spend(now, *place);
        self.paid_off_at = self.all.spend(now, self.paid_off_at);
        true
    }
}

/// So many a second, and at most a second's worth at once.
#[derive(Clone, Copy)]
struct Rate {
    /// How long it takes to earn one; `None` when nothing is ever earned.
    period: Option<Duration>,
}

impl Rate {
    fn of(per_second: u32) -> Self {
        Rate { period: Duration::from_secs(1).checked_div(per_second) }
    }

    fn has_one(self, now: Instant, paid_off_at: Instant) -> bool {
        let burst = Duration::from_secs(1);
        self.period.is_some_and(|period| paid_off_at.since(now) + period <= burst)
    }

    fn spend(self, now: Instant, paid_off_at: Instant) -> Instant {
        paid_off_at.max(now) + self.period.unwrap_or_default()
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
        })
    }

    fn taken(allowance: &mut Allowance, now: Instant, to: &str, times: usize) -> usize {
        (0..times).filter(|_| allowance.take(now, to.parse().unwrap())).count()
    }

    #[test]
    fn an_address_gets_a_second_s_worth_at_once_and_then_the_rate() {
        let mut allowance = allowance(5, 1_000);
        assert_eq!(taken(&mut allowance, at(0), "192.0.2.1", 100), 5);
        assert_eq!(taken(&mut allowance, at(199), "192.0.2.1", 100), 0);
        assert_eq!(taken(&mut allowance, at(200), "192.0.2.1", 100), 1);
        assert_eq!(taken(&mut allowance, at(60_000), "192.0.2.1", 100), 5);
    }

    #[test]
    fn a_network_of_ipv6_is_one_address_and_so_is_ipv4_in_either_guise() {
        let mut allowance = allowance(5, 1_000);
        assert_eq!(taken(&mut allowance, at(0), "2001:db8::1", 3), 3);
        assert_eq!(taken(&mut allowance, at(0), "2001:db8::ffff:1:2", 3), 2);
        assert_eq!(taken(&mut allowance, at(0), "192.0.2.1", 3), 3);
    }

    #[test]
    fn all_together_get_no_more_than_their_rate() {
        let mut allowance = allowance(50, 100);
        let answered = (0..=255_u8)
            .flat_map(|net| (0..=255_u8).map(move |host| IpAddr::from([198, 51, net, host])))
            .filter(|&to| allowance.take(at(0), to))
            .count();
        assert_eq!(answered, 100);
    }

    #[test]
    fn a_rate_of_zero_answers_no_request() {
        assert_eq!(taken(&mut allowance(0, 100), at(0), "192.0.2.1", 3), 0);
        assert_eq!(taken(&mut allowance(100, 0), at(0), "192.0.2.1", 3), 0);
    }
}
