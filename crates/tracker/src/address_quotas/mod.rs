//! Relay quotas per address, and the token bucket for all rate limits.

pub(crate) mod budget;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use thiserror::Error;
use watchfire_types::Instant;

use crate::address_quotas::budget::{Budget, Rate};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Addresses whose usage is remembered. At the limit, absent ones are forgotten.
const REMEMBERED_MAX: usize = 65_536;

/// Limits for all peers of one address together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Pages that an address may have open. At the limit, joins are refused.
    pub pages_max: usize,
    /// Bytes a second that it may relay; 0 disables relaying. Above it, a frame is refused with the
    /// time to wait.
    pub relay_bytes_per_second_per_address: u64,
    /// The time over which the unused rate accumulates.
    pub relay_burst: Duration,
    /// Bytes that it may relay within a day of its first byte; 0 for no limit. Above it, a frame is
    /// refused with the time until the next day.
    pub relay_bytes_per_day_per_address: u64,
}

/// The quota usage of each address.
///
/// An IPv6 network of 64 bits counts as one address, because providers assign such networks.
#[derive(Debug)]
pub struct Quotas {
    limits: QuotaLimits,
    accounts: BTreeMap<IpAddr, Account>,
}

#[derive(Debug, Default)]
struct Account {
    pages: usize,
    relay: Budget,
    day: Day,
}

/// A day that began with the first byte.
#[derive(Clone, Copy, Debug, Default)]
struct Day {
    began_at: Instant,
    bytes: u64,
}

/// An address has exceeded a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QuotaExceeded {
    /// It has the maximum number of pages open.
    #[error("this address has {max} pages open, the maximum")]
    Pages {
        /// The limit.
        max: usize,
    },
    /// It relays too fast.
    #[error("the address's relay budget is used up; retry after {retry_after:?}")]
    RelayRate {
        /// When the same frame will be accepted.
        retry_after: Duration,
    },
    /// It has used the budget of the day.
    #[error("the address's daily relay budget is used up; retry after {retry_after:?}")]
    RelayDay {
        /// When the next day begins.
        retry_after: Duration,
    },
}

impl Quotas {
    /// Starts without usage.
    pub fn new(limits: QuotaLimits) -> Self {
        Quotas { limits, accounts: BTreeMap::new() }
    }

    /// Counts one more page of this address, unless it is refused. [`Quotas::leave`] subtracts it.
    pub fn enter(&mut self, now: Instant, address: IpAddr) -> Result<(), QuotaExceeded> {
        let max = self.limits.pages_max;
        let account = self.account(now, address);
        if account.pages >= max {
            return Err(QuotaExceeded::Pages { max });
        }
        account.pages += 1;
        Ok(())
    }

    /// Counts one page less.
    pub fn leave(&mut self, now: Instant, address: IpAddr) {
        let key = network_of(address);
        let Some(account) = self.accounts.get_mut(&key) else { return };
        account.pages = account.pages.saturating_sub(1);
        if account.is_forgettable(now) {
            self.accounts.remove(&key);
        }
    }

    /// Whether this address may relay this amount now; [`Quotas::spend`] then charges it.
    pub fn check(
        &mut self,
        now: Instant,
        address: IpAddr,
        bytes: usize,
    ) -> Result<(), QuotaExceeded> {
        let (rate, daily_max) = (self.rate(), self.limits.relay_bytes_per_day_per_address);
        let account = self.account(now, address);
        let Day { began_at, bytes: used } = account.day_at(now);
        if daily_max > 0 && used.saturating_add(bytes as u64) > daily_max {
            return Err(QuotaExceeded::RelayDay { retry_after: (began_at + DAY).since(now) });
        }
        let retry_after = account.relay.wait(now, rate, bytes);
        if retry_after.is_zero() { Ok(()) } else { Err(QuotaExceeded::RelayRate { retry_after }) }
    }

    /// Charges a relayed amount.
    pub fn spend(&mut self, now: Instant, address: IpAddr, bytes: usize) {
        let (rate, daily_max) = (self.rate(), self.limits.relay_bytes_per_day_per_address);
        let account = self.account(now, address);
        account.relay.spend(now, rate, bytes);
        if daily_max > 0 {
            let Day { began_at, bytes: used } = account.day_at(now);
            account.day = Day { began_at, bytes: used + bytes as u64 };
        }
    }

    /// The number of addresses that are remembered.
    pub fn len(&self) -> usize {
        self.accounts.len()
    }

    /// Whether no address is remembered.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    fn rate(&self) -> Rate {
        let QuotaLimits { relay_bytes_per_second_per_address, relay_burst, .. } = self.limits;
        Rate { per_second: relay_bytes_per_second_per_address, burst: relay_burst }
    }

    fn account(&mut self, now: Instant, address: IpAddr) -> &mut Account {
        let key = network_of(address);
        if !self.accounts.contains_key(&key) && self.accounts.len() >= REMEMBERED_MAX {
            self.accounts.retain(|_, account| !account.is_forgettable(now));
            if self.accounts.len() >= REMEMBERED_MAX {
                self.accounts.retain(|_, account| account.pages > 0);
            }
        }
        self.accounts.entry(key).or_default()
    }
}

impl Account {
    fn day_at(&self, now: Instant) -> Day {
        let is_over = self.day.bytes == 0 || now.since(self.day.began_at) >= DAY;
        if is_over { Day { began_at: now, bytes: 0 } } else { self.day }
    }

    /// Whether a new account would allow no more than this one.
    fn is_forgettable(&self, now: Instant) -> bool {
        self.pages == 0 && self.day_at(now).bytes == 0 && self.relay.is_full(now)
    }
}

/// The address that a quota is counted for.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: QuotaLimits = QuotaLimits {
        pages_max: 2,
        relay_bytes_per_second_per_address: 1_000,
        relay_burst: Duration::from_secs(1),
        relay_bytes_per_day_per_address: 5_000,
    };

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn relay(
        quotas: &mut Quotas,
        now: Instant,
        from: IpAddr,
        bytes: usize,
    ) -> Result<(), QuotaExceeded> {
        quotas.check(now, from, bytes).inspect(|()| quotas.spend(now, from, bytes))
    }

    #[test]
    fn each_address_has_its_own_limit_of_pages() {
        let mut quotas = Quotas::new(LIMITS);
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        assert_eq!(quotas.enter(at(0), one), Ok(()));
        assert_eq!(quotas.enter(at(0), one), Ok(()));
        assert_eq!(quotas.enter(at(0), one), Err(QuotaExceeded::Pages { max: 2 }));
        assert_eq!(quotas.enter(at(0), other), Ok(()));
        quotas.leave(at(1), one);
        assert_eq!(quotas.enter(at(1), one), Ok(()));
    }

    #[test]
    fn an_absent_address_is_forgotten_unless_it_used_bytes_today() {
        let mut quotas = Quotas::new(LIMITS);
        let one = address("192.0.2.1");
        quotas.enter(at(0), one).unwrap();
        quotas.leave(at(0), one);
        assert!(quotas.is_empty());
        quotas.enter(at(0), one).unwrap();
        relay(&mut quotas, at(0), one, 10).unwrap();
        quotas.leave(at(5), one);
        assert_eq!(quotas.len(), 1);
    }

    #[test]
    fn an_ipv6_network_is_one_address_and_a_mapped_ipv4_address_is_ipv4() {
        let mut quotas = Quotas::new(LIMITS);
        quotas.enter(at(0), address("2001:db8::1")).unwrap();
        quotas.enter(at(0), address("2001:db8::ffff:2")).unwrap();
        assert!(quotas.enter(at(0), address("2001:db8::3")).is_err());
        quotas.enter(at(0), address("2001:db8:0:1::3")).unwrap();
        quotas.enter(at(0), address("::ffff:192.0.2.1")).unwrap();
        quotas.enter(at(0), address("192.0.2.1")).unwrap();
        assert!(quotas.enter(at(0), address("192.0.2.1")).is_err());
    }

    #[test]
    fn the_rate_refills_every_second_and_the_daily_budget_with_the_next_day() {
        let mut quotas = Quotas::new(LIMITS);
        let one = address("192.0.2.1");
        for second in 10..15 {
            assert_eq!(relay(&mut quotas, at(second), one, 1_000), Ok(()));
            let refused = relay(&mut quotas, at(second), one, 1);
            assert!(refused.is_err(), "{second}");
        }
        let next_day = at(10) + DAY;
        let over = Err(QuotaExceeded::RelayDay { retry_after: next_day.since(at(3_600)) });
        assert_eq!(relay(&mut quotas, at(3_600), one, 1), over);
        assert_eq!(relay(&mut quotas, next_day, one, 1_000), Ok(()));
    }

    #[test]
    fn a_daily_budget_of_zero_is_unlimited() {
        let mut quotas = Quotas::new(QuotaLimits { relay_bytes_per_day_per_address: 0, ..LIMITS });
        for second in 0..100 {
            assert_eq!(relay(&mut quotas, at(second), address("192.0.2.1"), 1_000), Ok(()));
        }
    }

    #[test]
    fn the_number_of_remembered_addresses_is_bounded() {
        let mut quotas = Quotas::new(LIMITS);
        let present = address("192.0.2.1");
        quotas.enter(at(0), present).unwrap();
        for n in 0..2 * REMEMBERED_MAX as u32 {
            relay(&mut quotas, at(1), std::net::Ipv4Addr::from_bits(n).into(), 100).unwrap();
            assert!(quotas.len() <= REMEMBERED_MAX + 1);
        }
        quotas.enter(at(1), present).unwrap();
        assert!(quotas.enter(at(1), present).is_err(), "a present address is not forgotten");
    }
}
