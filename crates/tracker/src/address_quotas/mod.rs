//! Relay quotas per address, and the token bucket for all rate limits.

pub(crate) mod budget;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use thiserror::Error;
use watchfire_types::{Instant, NodeId};

use crate::address_counts::{AddressCounts, network_of};
use crate::address_quotas::budget::{Budget, Rate};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Addresses whose usage is remembered. At the limit, absent ones are forgotten.
const REMEMBERED_MAX: usize = 65_536;
/// A process leaves at most this share of an address's burst or day unreported, divided by the
/// number of processes.
const UNREPORTED_SHARE: u64 = 16;

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
    /// The number of processes of the server, which share the quotas.
    pub processes: u32,
}

/// The quota usage of each address.
///
/// An IPv6 network of 64 bits counts as one address, because providers assign such networks.
///
/// Processes of one server share the quotas. Each charges the bytes that the others relayed to its
/// own budget of the address, as they are reported. So in any time, an address may relay its rate and
/// its burst, one sixteenth of the burst in addition, and what is relayed while reports are in
/// transit.
#[derive(Debug)]
pub struct Quotas {
    limits: QuotaLimits,
    pages: AddressCounts,
    accounts: BTreeMap<IpAddr, Account>,
    /// The addresses whose relayed bytes are to be reported.
    due: BTreeSet<IpAddr>,
}

#[derive(Debug, Default)]
struct Account {
    relay: Budget,
    day: Day,
    /// Bytes that were relayed here since the last report to the other processes.
    unreported_bytes: u64,
}

/// A day that began with the first byte.
#[derive(Clone, Copy, Debug, Default)]
struct Day {
    ends_at: Instant,
    bytes: u64,
}

/// The report of one process to the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaReports {
    /// The pages that addresses have open in that process.
    pub pages: Vec<(IpAddr, u32)>,
    /// The bytes that were relayed there since the last report.
    pub relayed: Vec<(IpAddr, u64)>,
}

/// The bytes that an address relayed in its current day, in all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayUsage {
    pub address: IpAddr,
    pub bytes: u64,
    /// The time until the day ends.
    pub left: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QuotaExceeded {
    #[error("this address has {max} pages open, the maximum")]
    Pages { max: usize },
    #[error("the address's relay budget is used up; retry after {retry_after:?}")]
    RelayRate {
        /// When the same frame will be accepted.
        retry_after: Duration,
    },
    #[error("the address's daily relay budget is used up; retry after {retry_after:?}")]
    RelayDay {
        /// When the next day begins.
        retry_after: Duration,
    },
}

impl Quotas {
    /// Starts without usage.
    pub fn new(limits: QuotaLimits) -> Self {
        let pages_max = u32::try_from(limits.pages_max).unwrap_or(u32::MAX);
        let pages = AddressCounts::new(pages_max, limits.processes);
        Quotas { limits, pages, accounts: BTreeMap::new(), due: BTreeSet::new() }
    }

    /// Counts one more page of this address, unless it is refused. [`Quotas::leave`] subtracts it.
    pub fn enter(&mut self, address: IpAddr) -> Result<(), QuotaExceeded> {
        let max = self.limits.pages_max;
        self.pages.admit(address).map_err(|_| QuotaExceeded::Pages { max })
    }

    /// Counts one page less.
    pub fn leave(&mut self, now: Instant, address: IpAddr) {
        self.pages.release(address);
        let key = network_of(address);
        let is_gone = !self.pages.contains(key);
        if is_gone && self.accounts.get(&key).is_some_and(|account| account.is_forgettable(now)) {
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
        let Day { ends_at, bytes: used } = account.day_at(now);
        if daily_max > 0 && used.saturating_add(bytes as u64) > daily_max {
            return Err(QuotaExceeded::RelayDay { retry_after: ends_at.since(now) });
        }
        let retry_after = account.relay.wait(now, rate, bytes);
        if retry_after.is_zero() { Ok(()) } else { Err(QuotaExceeded::RelayRate { retry_after }) }
    }

    /// Charges a relayed amount.
    pub fn spend(&mut self, now: Instant, address: IpAddr, bytes: usize) {
        self.charge(now, address, bytes as u64);
        if self.limits.processes > 1 {
            let unreported_max = self.unreported_bytes_max();
            let account = self.account(now, address);
            account.unreported_bytes = account.unreported_bytes.saturating_add(bytes as u64);
            if account.unreported_bytes > unreported_max {
                self.due.insert(network_of(address));
            }
        }
    }

    fn charge(&mut self, now: Instant, address: IpAddr, bytes: u64) {
        let (rate, daily_max) = (self.rate(), self.limits.relay_bytes_per_day_per_address);
        let account = self.account(now, address);
        if rate.per_second > 0 {
            account.relay.spend(now, rate, usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        if daily_max > 0 {
            let Day { ends_at, bytes: used } = account.day_at(now);
            account.day = Day { ends_at, bytes: used.saturating_add(bytes) };
        }
    }

    /// The bytes of an address that need not be reported yet.
    fn unreported_bytes_max(&self) -> u64 {
        let QuotaLimits { relay_bytes_per_second_per_address: rate, relay_burst, .. } = self.limits;
        let burst = u128::from(rate) * relay_burst.as_millis() / 1_000;
        let burst = u64::try_from(burst).unwrap_or(u64::MAX);
        let day = Some(self.limits.relay_bytes_per_day_per_address).filter(|day| *day > 0);
        let bytes = burst.min(day.unwrap_or(u64::MAX));
        bytes / (UNREPORTED_SHARE * u64::from(self.limits.processes.max(1)))
    }

    /// Whether there is something to report to the other processes.
    pub fn is_report_due(&self) -> bool {
        self.pages.is_report_due() || !self.due.is_empty()
    }

    /// Reports for all other processes, of each kind at most `entries_max`. They must reach each
    /// process in this order.
    pub fn take_reports(&mut self, entries_max: usize) -> QuotaReports {
        let pages = self.pages.take_reports(entries_max);
        let mut relayed = Vec::new();
        while relayed.len() < entries_max
            && let Some(address) = self.due.pop_first()
        {
            if let Some(account) = self.accounts.get_mut(&address) {
                relayed.push((address, std::mem::take(&mut account.unreported_bytes)));
            }
        }
        QuotaReports { pages, relayed }
    }

    /// The pages of this process that other processes know, for a process that is new.
    pub fn reported_pages(&self) -> Vec<(IpAddr, u32)> {
        self.pages.reported()
    }

    /// Notes the reports of another process.
    pub fn receive(&mut self, now: Instant, from: NodeId, reports: &QuotaReports) {
        self.pages.receive(from, &reports.pages);
        for &(address, bytes) in &reports.relayed {
            self.charge(now, address, bytes);
        }
    }

    /// Forgets the pages of a process that is gone. Its relayed bytes stay used.
    pub fn node_down(&mut self, node: NodeId) {
        self.pages.node_down(node);
    }

    /// The use of the current days, for a process that is new.
    pub fn day_usages(&self, now: Instant) -> Vec<DayUsage> {
        let used = self.accounts.iter().map(|(address, account)| (*address, account.day_at(now)));
        let used = used.filter(|(_, day)| day.bytes > 0);
        let usage = |(address, Day { ends_at, bytes })| DayUsage {
            address,
            bytes,
            left: ends_at.since(now),
        };
        used.map(usage).collect()
    }

    /// Notes the use of a day that another process knows, if it is more than is known here.
    pub fn note_day_usage(&mut self, now: Instant, usage: DayUsage) {
        let account = self.account(now, usage.address);
        if account.day_at(now).bytes < usage.bytes && !usage.left.is_zero() {
            account.day = Day { ends_at: now + usage.left.min(DAY), bytes: usage.bytes };
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
                self.accounts.retain(|address, _| self.pages.contains(*address));
            }
        }
        self.accounts.entry(key).or_default()
    }
}

impl Account {
    fn day_at(&self, now: Instant) -> Day {
        let is_over = self.day.bytes == 0 || now >= self.day.ends_at;
        if is_over { Day { ends_at: now + DAY, bytes: 0 } } else { self.day }
    }

    /// Whether a new account would allow no more than this one.
    fn is_forgettable(&self, now: Instant) -> bool {
        self.day_at(now).bytes == 0 && self.relay.is_full(now)
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
        processes: 1,
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
        assert_eq!(quotas.enter(one), Ok(()));
        assert_eq!(quotas.enter(one), Ok(()));
        assert_eq!(quotas.enter(one), Err(QuotaExceeded::Pages { max: 2 }));
        assert_eq!(quotas.enter(other), Ok(()));
        quotas.leave(at(1), one);
        assert_eq!(quotas.enter(one), Ok(()));
    }

    #[test]
    fn an_absent_address_is_forgotten_unless_it_used_bytes_today() {
        let mut quotas = Quotas::new(LIMITS);
        let one = address("192.0.2.1");
        quotas.enter(one).unwrap();
        quotas.leave(at(0), one);
        assert!(quotas.is_empty());
        quotas.enter(one).unwrap();
        relay(&mut quotas, at(0), one, 10).unwrap();
        quotas.leave(at(5), one);
        assert_eq!(quotas.len(), 1);
    }

    #[test]
    fn an_ipv6_network_is_one_address_and_a_mapped_ipv4_address_is_ipv4() {
        let mut quotas = Quotas::new(LIMITS);
        quotas.enter(address("2001:db8::1")).unwrap();
        quotas.enter(address("2001:db8::ffff:2")).unwrap();
        assert!(quotas.enter(address("2001:db8::3")).is_err());
        quotas.enter(address("2001:db8:0:1::3")).unwrap();
        quotas.enter(address("::ffff:192.0.2.1")).unwrap();
        quotas.enter(address("192.0.2.1")).unwrap();
        assert!(quotas.enter(address("192.0.2.1")).is_err());
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

    /// Processes that relay as much as they may, and exchange reports every `report_every`.
    fn relayed_by(processes: u32, seconds: u64, report_every: Duration) -> u64 {
        let limits = QuotaLimits {
            relay_bytes_per_second_per_address: 1_000_000,
            relay_burst: Duration::from_millis(250),
            relay_bytes_per_day_per_address: 0,
            processes,
            ..LIMITS
        };
        let mut all: Vec<_> = (0..processes).map(|_| Quotas::new(limits.clone())).collect();
        let (mut now, mut next, mut total) = (at(10), at(10), 0);
        while now < at(10 + seconds) {
            for quotas in &mut all {
                total += relay(quotas, now, address("192.0.2.1"), 1_000).map_or(0, |()| 1_000);
            }
            if now >= next {
                next = now + report_every;
                let reports: Vec<_> = all.iter_mut().map(|q| q.take_reports(10)).collect();
                for (to, quotas) in all.iter_mut().enumerate() {
                    for (from, reports) in reports.iter().enumerate().filter(|(n, _)| *n != to) {
                        quotas.receive(now, NodeId(from as u16), reports);
                    }
                }
            }
            now += Duration::from_micros(100);
        }
        total
    }

    #[test]
    fn the_rate_of_an_address_holds_across_processes() {
        for processes in [2, 3, 16] {
            // The burst of 250,000 bytes, a sixteenth of it, and 10,000,000 bytes in ten seconds.
            let bound = 10_250_000 + 250_000 / 16;
            let total = relayed_by(processes, 10, Duration::from_millis(2));
            // Within two milliseconds, each process may relay 20 messages.
            let in_transit = u64::from(processes) * 20 * 1_000;
            assert!(total <= bound + in_transit, "{total} bytes by {processes} processes");
            assert!(total >= 9_900_000, "{total} bytes by {processes} processes");
        }
    }

    #[test]
    fn bytes_of_a_day_are_used_in_all_processes_and_known_to_a_new_one() {
        let limits = QuotaLimits { processes: 2, ..LIMITS };
        let (mut here, mut there) = (Quotas::new(limits.clone()), Quotas::new(limits.clone()));
        let one = address("192.0.2.1");
        for second in 10..14 {
            relay(&mut here, at(second), one, 1_000).unwrap();
            there.receive(at(second), NodeId(0), &here.take_reports(10));
        }
        // The clock of the new process begins at zero.
        let mut new = Quotas::new(limits);
        for usage in there.day_usages(at(3_600)) {
            new.note_day_usage(at(0), usage);
        }
        for (quotas, now) in [(&mut there, at(3_600)), (&mut new, at(0))] {
            let retry_after = DAY - Duration::from_secs(3_590);
            assert_eq!(relay(quotas, now, one, 900), Ok(()));
            let over = Err(QuotaExceeded::RelayDay { retry_after });
            assert_eq!(quotas.check(now, one, 101), over);
        }
    }

    #[test]
    fn pages_of_an_address_count_in_all_processes() {
        let limits = QuotaLimits { processes: 2, ..LIMITS };
        let (mut here, mut there) = (Quotas::new(limits.clone()), Quotas::new(limits));
        let one = address("192.0.2.1");
        here.enter(one).unwrap();
        here.enter(one).unwrap();
        there.receive(at(0), NodeId(0), &here.take_reports(10));
        assert_eq!(there.enter(one), Err(QuotaExceeded::Pages { max: 2 }));
        here.leave(at(0), one);
        there.receive(at(0), NodeId(0), &here.take_reports(10));
        assert_eq!(there.enter(one), Ok(()));
        here.receive(at(0), NodeId(1), &there.take_reports(10));
        assert!(here.enter(one).is_err());
        here.node_down(NodeId(1));
        assert_eq!(here.enter(one), Ok(()));
    }

    #[test]
    fn the_number_of_remembered_addresses_is_bounded() {
        let mut quotas = Quotas::new(LIMITS);
        let present = address("192.0.2.1");
        quotas.enter(present).unwrap();
        for n in 0..2 * REMEMBERED_MAX as u32 {
            relay(&mut quotas, at(1), std::net::Ipv4Addr::from_bits(n).into(), 100).unwrap();
            assert!(quotas.len() <= REMEMBERED_MAX + 1);
        }
        quotas.enter(present).unwrap();
        assert!(quotas.enter(present).is_err(), "a present address is not forgotten");
    }
}
