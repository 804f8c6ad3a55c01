//! A count for each address that holds across the processes of one server.
//!
//! A server of several processes must refuse the socket number 1,001 of an address, wherever it
//! arrives. The simple ways fail. If each of 52 processes counts alone up to 1,000, an address gets
//! 52,000 sockets. If each gets a part of 19, an office behind one address is refused at 20 sockets
//! when the kernel happens to give them to one process. If one process decides about every socket,
//! each connect waits for a message, and a crowd of a million addresses costs two million messages.
//!
//! So each process counts for itself, reports to the others, and admits while its own count and the
//! last reports of the others are below the limit. Three numbers keep the messages few and the
//! limit close. The examples are for a limit of 1,000 in 52 processes.
//!
//! - **Free share.** Each process admits a few sockets of an address on its own: an eighth of the
//!   limit, divided by the number of processes, but at least 4 if the limit allows it. Here it is
//!   4. Most addresses never need more, so nearly every connect is decided without a message.
//! - **The decider.** Beyond the free share, and when an eighth of the limit or less is left, the
//!   caller should let one process decide for all: see [`AddressCounts::needs_decider`]. Then the
//!   limit is exact. Even if no report ever arrived, all processes together would exceed the limit
//!   by their free shares only: by 208.
//! - **Slack.** A change stays unreported while it is at most the room that is left beyond an
//!   eighth of the limit, divided by twice the number of processes. An address with no sockets has
//!   a room of 1,000 and a slack of 8, so 10,000 addresses with one socket each cause no message,
//!   and no memory in other processes. Close to the limit the slack is 0 and every change is
//!   reported, so no process refuses because of an old report. A process also reports that it has
//!   used its free share, for the decider.
//!
//! Without a deciding process, all processes together exceed the limit by what they admit while
//! reports are in transit. The memory is bounded: one process reports at most 16,384 addresses, and
//! the counts of further addresses hold in each process separately. The counts of a process that is
//! gone are forgotten with it ([`AddressCounts::node_down`]).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use watchfire_types::NodeId;

/// Addresses whose counts one process reports to the others. The counts of further addresses hold
/// in each process separately, until others are reported no more.
const REPORTED_MAX: usize = 16_384;

/// An address is close to its limit when this part of its places is left, as a divisor.
const CLOSE_SHARE: u32 = 8;

/// The least free share, if the limit allows it. With many processes, a smaller one would let another
/// process decide about most sockets.
const FREE_SHARE_MIN: u32 = 4;

/// Counts something of each address, such as its sockets, up to a limit.
///
/// An IPv6 network of 64 bits counts as one address, because providers assign such networks.
///
/// ```
/// use watchfire_tracker::AddressCounts;
/// use watchfire_types::NodeId;
///
/// let address = "192.0.2.1".parse().unwrap();
/// let (mut one, mut other) = (AddressCounts::new(2, 2), AddressCounts::new(2, 2));
/// one.admit(address).unwrap();
/// one.admit(address).unwrap();
/// other.receive(NodeId(0), &one.take_reports(100));
/// assert!(other.admit(address).is_err());
/// ```
#[derive(Debug)]
pub struct AddressCounts {
    max: u32,
    processes: u32,
    /// The count that a process may reach on its own.
    free_share: u32,
    /// The room below which an address is close to its limit.
    close: u32,
    own: BTreeMap<IpAddr, Own>,
    /// The addresses with a reported count, which is not zero.
    reported: usize,
    /// The addresses whose count is to be reported.
    due: BTreeSet<IpAddr>,
    /// The sum of the other processes' reports.
    elsewhere: BTreeMap<IpAddr, u32>,
    /// The last reports of each other process.
    reports: BTreeMap<NodeId, BTreeMap<IpAddr, u32>>,
}

/// The count of this process for one address.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    count: u32,
    /// The count that the other processes know.
    reported: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the address is at its limit of {max}")]
pub struct AddressFull {
    pub max: u32,
}

impl AddressCounts {
    /// Counts up to `max` for each address, in a server with this number of processes.
    pub fn new(max: u32, processes: u32) -> Self {
        AddressCounts {
            max,
            processes,
            free_share: (max / CLOSE_SHARE / processes.max(1))
                .max(FREE_SHARE_MIN.min(max / processes.max(1))),
            close: (max / CLOSE_SHARE).max(processes),
            own: BTreeMap::new(),
            reported: 0,
            due: BTreeSet::new(),
            elsewhere: BTreeMap::new(),
            reports: BTreeMap::new(),
        }
    }

    /// Counts one more, up to the limit. [`AddressCounts::release`] subtracts it.
    pub fn admit(&mut self, address: IpAddr) -> Result<(), AddressFull> {
        let address = network_of(address);
        let elsewhere = self.elsewhere(address);
        // One lookup: with a million addresses, each costs half a microsecond.
        let mut entry = match self.own.entry(address) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(_) if elsewhere >= self.max => return Err(AddressFull { max: self.max }),
            Entry::Vacant(entry) => entry.insert_entry(Own::default()),
        };
        let own = entry.get_mut();
        if own.count.saturating_add(elsewhere) >= self.max {
            return Err(AddressFull { max: self.max });
        }
        own.count += 1;
        let own = *own;
        self.update_due(address, own);
        Ok(())
    }

    /// Counts one less.
    ///
    /// # Panics
    ///
    /// When nothing of this address was admitted.
    pub fn release(&mut self, address: IpAddr) {
        let address = network_of(address);
        let own = self.own.get_mut(&address).filter(|own| own.count > 0);
        let own = own.expect("only admitted addresses are released");
        own.count -= 1;
        let own = *own;
        self.update_due(address, own);
    }

    /// Whether this process counts anything of an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.own.get(&network_of(address)).is_some_and(|own| own.count > 0)
    }

    /// Whether one process, the same for all, should decide about one more of this address. A full
    /// address needs no decision.
    pub fn needs_decider(&self, address: IpAddr) -> bool {
        if self.processes <= 1 {
            return false;
        }
        let address = network_of(address);
        let own = self.own.get(&address).map_or(0, |own| own.count);
        let room = self.room(address, own);
        room > 0 && (own >= self.free_share || room <= self.close)
    }

    /// Whether counts are to be reported.
    pub fn is_report_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Counts for all other processes, at most `entries_max`, which then count as reported. The
    /// reports must reach each process in this order.
    pub fn take_reports(&mut self, entries_max: usize) -> Vec<(IpAddr, u32)> {
        let mut reports = Vec::new();
        while reports.len() < entries_max
            && let Some(address) = self.due.pop_first()
        {
            let Some(own) = self.own.get_mut(&address) else { continue };
            let (before, count) = (own.reported, own.count);
            own.reported = count;
            self.reported += usize::from(count > 0);
            self.reported -= usize::from(before > 0);
            if count == 0 {
                self.own.remove(&address);
            }
            reports.push((address, count));
        }
        reports
    }

    /// All counts that other processes know, for a process that is new.
    pub fn reported(&self) -> Vec<(IpAddr, u32)> {
        let reported = self.own.iter().filter(|(_, own)| own.reported > 0);
        reported.map(|(address, own)| (*address, own.reported)).collect()
    }

    /// Notes the reports of another process.
    pub fn receive(&mut self, from: NodeId, reports: &[(IpAddr, u32)]) {
        for &(address, count) in reports {
            let known = self.reports.entry(from).or_default();
            let before = match count {
                0 => known.remove(&address),
                count => known.insert(address, count),
            };
            self.change_elsewhere(address, before.unwrap_or(0), count);
            if let Some(&own) = self.own.get(&address) {
                self.update_due(address, own);
            }
        }
    }

    /// Forgets the reports of a process that is gone, with everything that it counted.
    pub fn node_down(&mut self, node: NodeId) {
        for (address, count) in self.reports.remove(&node).unwrap_or_default() {
            self.change_elsewhere(address, count, 0);
        }
    }

    /// The places that an address has left, if this process counts `own` of it.
    fn room(&self, address: IpAddr, own: u32) -> u32 {
        self.max.saturating_sub(own.saturating_add(self.elsewhere(address)))
    }

    fn elsewhere(&self, address: IpAddr) -> u32 {
        self.elsewhere.get(&address).copied().unwrap_or(0)
    }

    fn change_elsewhere(&mut self, address: IpAddr, before: u32, now: u32) {
        let sum = self.elsewhere(address).saturating_sub(before).saturating_add(now);
        match sum {
            0 => self.elsewhere.remove(&address),
            sum => self.elsewhere.insert(address, sum),
        };
    }

    /// Notes whether the count of an address is to be reported.
    fn update_due(&mut self, address: IpAddr, Own { count, reported }: Own) {
        let room = self.room(address, count);
        let slack = room.saturating_sub(self.close) / (2 * self.processes.max(1));
        let is_new = reported == 0;
        let is_due = self.processes > 1
            && (count.abs_diff(reported) > slack
                || (count == 0 && !is_new)
                // The deciding process should know the used shares of the others.
                || (count == self.free_share && reported < count))
            && !(is_new && self.reported + self.due.len() >= REPORTED_MAX);
        if is_due {
            self.due.insert(address);
        } else {
            self.due.remove(&address);
            if count == 0 && is_new {
                self.own.remove(&address);
            }
        }
    }
}

/// The address for which something is counted: of IPv6, the network of 64 bits.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use watchfire_types::Rng;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn one() -> IpAddr {
        address("192.0.2.1")
    }

    type Reports = Vec<(IpAddr, u32)>;

    /// Processes of one server, with a queue of reports from each to each.
    struct Processes {
        counts: Vec<AddressCounts>,
        /// By sender and receiver.
        in_transit: BTreeMap<(u16, u16), Vec<Reports>>,
        messages: usize,
    }

    impl Processes {
        fn new(max: u32, processes: u16) -> Self {
            let counts =
                (0..processes).map(|_| AddressCounts::new(max, processes.into())).collect();
            Processes { counts, in_transit: BTreeMap::new(), messages: 0 }
        }

        fn send(&mut self, from: u16) {
            let reports = self.counts[usize::from(from)].take_reports(usize::MAX);
            if reports.is_empty() {
                return;
            }
            for to in (0..self.counts.len() as u16).filter(|to| *to != from) {
                self.messages += 1;
                self.in_transit.entry((from, to)).or_default().push(reports.clone());
            }
        }

        fn deliver(&mut self, from: u16, to: u16) {
            for reports in self.in_transit.remove(&(from, to)).unwrap_or_default() {
                self.counts[usize::from(to)].receive(NodeId(from), &reports);
            }
        }

        /// Sends and delivers until nothing is due.
        fn settle(&mut self) {
            let all = 0..self.counts.len() as u16;
            while self.counts.iter().any(AddressCounts::is_report_due)
                || !self.in_transit.is_empty()
            {
                all.clone().for_each(|from| self.send(from));
                for (from, to) in self.in_transit.keys().copied().collect::<Vec<_>>() {
                    self.deliver(from, to);
                }
            }
        }

        fn total(&self, address: IpAddr) -> u32 {
            let own = |counts: &AddressCounts| counts.own.get(&address).map_or(0, |own| own.count);
            self.counts.iter().map(own).sum()
        }

        fn admit(&mut self, at: u16, address: IpAddr) -> bool {
            self.counts[usize::from(at)].admit(address).is_ok()
        }
    }

    #[test]
    fn a_limit_holds_across_processes_when_reports_arrive_at_once() {
        for (max, processes) in [(1, 2), (2, 3), (10, 3), (1_000, 3), (1_000, 52), (5_000, 64)] {
            let mut server = Processes::new(max, processes);
            let mut rng = Rng::from_seed(7);
            let mut admitted = 0;
            for _ in 0..3 * max + 10 {
                let at = (rng.next_u64() % u64::from(processes)) as u16;
                admitted += u32::from(server.admit(at, one()));
                server.settle();
            }
            assert_eq!(admitted, max, "{processes} processes");
            for at in 0..processes {
                assert!(!server.admit(at, one()), "process {at} of {processes}");
            }
        }
    }

    #[test]
    fn no_place_is_lost_when_sockets_close() {
        for (max, processes) in [(2, 3), (100, 3), (1_000, 52)] {
            let mut server = Processes::new(max, processes);
            let mut rng = Rng::from_seed(7);
            let mut held = Vec::new();
            for round in 0..6 {
                for _ in 0..2 * max {
                    let at = (rng.next_u64() % u64::from(processes)) as u16;
                    if server.admit(at, one()) {
                        held.push(at);
                    }
                    server.settle();
                }
                assert_eq!(held.len(), max as usize, "round {round}, {processes} processes");
                for at in held.split_off(if round % 2 == 0 { held.len() / 2 } else { 0 }) {
                    server.counts[usize::from(at)].release(one());
                    server.settle();
                }
            }
        }
    }

    #[test]
    fn reports_in_transit_cost_at_most_what_is_admitted_meanwhile() {
        let (max, processes, delay) = (1_000, 3_u16, 20);
        let mut server = Processes::new(max, processes);
        let mut rng = Rng::from_seed(7);
        for step in 0..5_000 {
            let at = (rng.next_u64() % u64::from(processes)) as u16;
            server.admit(at, one());
            server.send(at);
            if step % delay == 0 {
                server.settle();
            }
        }
        let total = server.total(one());
        assert!((max..=max + delay as u32).contains(&total), "{total}");
    }

    #[test]
    fn a_limit_is_exact_when_one_process_decides_beyond_the_free_shares() {
        for (max, processes, delay) in [(2, 3, 1), (1_000, 3, 100), (1_000, 52, 100), (90, 3, 10)] {
            let mut server = Processes::new(max, processes);
            let mut rng = Rng::from_seed(7);
            for step in 0..5 * max {
                let mut at = (rng.next_u64() % u64::from(processes)) as u16;
                if server.counts[usize::from(at)].needs_decider(one()) {
                    at = 0;
                }
                server.admit(at, one());
                server.send(at);
                if step % delay == 0 {
                    server.settle();
                }
            }
            server.settle();
            assert_eq!(server.total(one()), max, "{processes} processes");
            assert!(!server.counts[0].needs_decider(one()), "no room is left");
        }
    }

    #[test]
    fn free_shares_bound_the_excess_even_if_no_report_arrives() {
        for (max, processes) in [(2, 3), (90, 3), (1_000, 3), (1_000, 52), (5_000, 64)] {
            let mut server = Processes::new(max, processes);
            for at in (0..processes).cycle().take(10 * max as usize) {
                if !server.counts[usize::from(at)].needs_decider(one()) {
                    server.admit(at, one());
                }
            }
            let free = server.total(one());
            assert!(free <= (max / 8).max(4 * u32::from(processes)), "{free} of {max}");
            while server.admit(0, one()) {}
            assert!(server.total(one()) <= max + free, "{processes} processes");
        }
    }

    #[test]
    fn an_address_far_from_its_limit_causes_no_messages() {
        let mut server = Processes::new(1_000, 52);
        for n in 0..10_000 {
            assert!(server.admit((n % 52) as u16, std::net::Ipv4Addr::from_bits(n).into()));
        }
        server.settle();
        assert_eq!(server.messages, 0);
    }

    #[test]
    fn the_count_of_a_killed_process_is_freed_and_a_new_one_learns_the_others() {
        let mut server = Processes::new(4, 3);
        for at in [0, 0, 1, 2] {
            assert!(server.admit(at, one()));
            server.settle();
        }
        assert!(!server.admit(2, one()));
        for counts in &mut server.counts[1..] {
            counts.node_down(NodeId(0));
        }
        server.counts[0] = AddressCounts::new(4, 3);
        for from in [1, 2] {
            let reported = server.counts[from].reported();
            server.counts[0].receive(NodeId(from as u16), &reported);
        }
        assert!(server.admit(0, one()));
        server.settle();
        assert!(server.admit(1, one()));
        server.settle();
        for at in 0..3 {
            assert!(!server.admit(at, one()), "process {at}");
        }
    }

    #[test]
    fn a_server_of_one_process_reports_nothing() {
        let mut counts = AddressCounts::new(2, 1);
        counts.admit(one()).unwrap();
        counts.admit(one()).unwrap();
        assert_eq!(counts.admit(one()), Err(AddressFull { max: 2 }));
        counts.release(one());
        assert!(!counts.is_report_due());
        counts.release(one());
        assert!(counts.own.is_empty() && !counts.contains(one()));
    }

    #[test]
    fn an_ipv6_network_is_one_address_and_a_mapped_ipv4_address_is_ipv4() {
        let mut counts = AddressCounts::new(2, 1);
        counts.admit(address("2001:db8::1")).unwrap();
        counts.admit(address("2001:db8::ffff:2")).unwrap();
        assert!(counts.admit(address("2001:db8::3")).is_err());
        counts.admit(address("2001:db8:0:1::3")).unwrap();
        counts.admit(address("::ffff:192.0.2.1")).unwrap();
        counts.admit(one()).unwrap();
        assert!(counts.admit(one()).is_err());
        counts.release(address("2001:db8::1"));
        counts.admit(address("2001:db8::9")).unwrap();
    }

    #[test]
    fn the_number_of_reported_addresses_is_bounded() {
        let mut server = Processes::new(1, 2);
        for n in 0..2 * REPORTED_MAX as u32 {
            assert!(server.admit(0, std::net::Ipv4Addr::from_bits(n).into()));
        }
        let reports = server.counts[0].take_reports(usize::MAX);
        assert_eq!((reports.len(), server.counts[0].reported), (REPORTED_MAX, REPORTED_MAX));
        // A released address makes room for another.
        server.counts[0].release(reports[0].0);
        assert_eq!(server.counts[0].take_reports(10), [(reports[0].0, 0)]);
        server.counts[0].admit(one()).unwrap();
        assert_eq!(server.counts[0].take_reports(10), [(one(), 1)]);
    }

    #[test]
    fn reports_are_taken_in_pieces() {
        let mut counts = AddressCounts::new(1, 2);
        for n in 0..5 {
            counts.admit(std::net::Ipv4Addr::from_bits(n).into()).unwrap();
        }
        assert_eq!([2, 2, 2].map(|max| counts.take_reports(max).len()), [2, 2, 1]);
        assert!(!counts.is_report_due());
    }
}
