//! Addresses that an operator has denied: their requests are refused, in all processes.
//!
//! The list is in memory. Each entry ends by itself, and the whole list ends with the last process.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use watchfire::feature::{ClusterPart, PartLink};
use watchfire::internal::now_ms;
use watchfire_tracker::network_of;
use watchfire_types::NodeId;

/// The most entries. A further address is not denied, and its operator is told.
const ENTRIES_MAX: usize = 1_000;

/// The addresses whose requests are refused. An IPv6 address stands for its /64 network.
pub(crate) struct DeniedAddresses {
    link: PartLink,
    /// When each entry ends, in milliseconds since 1970.
    until_ms: RwLock<BTreeMap<IpAddr, u64>>,
    /// Whether there are entries, so that a server without any pays one read.
    has_entries: AtomicBool,
}

/// The list has as many entries as it may have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{ENTRIES_MAX} addresses are denied already; allow one of them first")]
pub(crate) struct TooManyDenied;

impl DeniedAddresses {
    pub fn new(link: PartLink) -> Self {
        DeniedAddresses { link, until_ms: RwLock::default(), has_entries: AtomicBool::new(false) }
    }

    /// Whether no address is denied, as on most servers. It is asked for each request.
    pub fn is_empty(&self) -> bool {
        !self.has_entries.load(Ordering::Relaxed)
    }

    /// Whether requests of an address are refused.
    pub fn has(&self, address: IpAddr) -> bool {
        let until_ms = self.until_ms.read().get(&network_of(address)).copied();
        until_ms.is_some_and(|until_ms| now_ms() < until_ms)
    }

    /// Denies an address for a while, in all processes. Returns when that ends.
    pub fn deny(&self, address: IpAddr, time: Duration) -> Result<u64, TooManyDenied> {
        let until_ms = now_ms().saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let change = (network_of(address), until_ms);
        if !self.apply(&[change]) {
            return Err(TooManyDenied);
        }
        self.link.send_state_all(&[change].as_slice());
        Ok(until_ms)
    }

    /// Allows an address again, in all processes. Returns whether it was denied.
    pub fn allow(&self, address: IpAddr) -> bool {
        let was_denied = self.has(address);
        let change = (network_of(address), 0);
        self.apply(&[change]);
        self.link.send_state_all(&[change].as_slice());
        was_denied
    }

    /// The denied addresses, and when each entry ends.
    pub fn entries(&self) -> Vec<(IpAddr, u64)> {
        let now_ms = now_ms();
        let entries = self.until_ms.read();
        entries
            .iter()
            .filter(|(_, until)| **until > now_ms)
            .map(|(at, until)| (*at, *until))
            .collect()
    }

    /// Makes changes; an entry that has ended is removed. Returns whether the list had room.
    fn apply(&self, changes: &[(IpAddr, u64)]) -> bool {
        let now_ms = now_ms();
        let mut entries = self.until_ms.write();
        entries.retain(|_, until| *until > now_ms);
        let mut has_room = true;
        for (address, until_ms) in changes {
            if *until_ms <= now_ms {
                entries.remove(address);
            } else if entries.len() < ENTRIES_MAX || entries.contains_key(address) {
                entries.insert(*address, *until_ms);
            } else {
                has_room = false;
            }
        }
        self.has_entries.store(!entries.is_empty(), Ordering::Relaxed);
        has_room
    }
}

impl ClusterPart for DeniedAddresses {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, _: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        let changes: Vec<(IpAddr, u64)> = postcard::from_bytes(message)?;
        self.apply(&changes);
        Ok(())
    }

    fn node_up(&self, node: NodeId) {
        let entries = self.entries();
        if !entries.is_empty() {
            self.link.send_state(node, &entries);
        }
    }
}

#[cfg(test)]
pub(crate) fn message_samples() -> Vec<watchfire::internal::Samples> {
    let addresses = [[192, 0, 2, 1].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()];
    let changes: Vec<(IpAddr, u64)> = addresses.map(|address| (address, 1_000)).into();
    vec![watchfire::message_samples!(Vec<(IpAddr, u64)>: changes)]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use watchfire::feature::PartName;
    use watchfire::internal::Cluster;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn list() -> DeniedAddresses {
        DeniedAddresses::new(PartLink::new(
            &Arc::new(Cluster::alone()),
            PartName::new("denied_addresses", 0),
        ))
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_is_denied_with_its_network_until_its_time_is_over() {
        let list = list();
        assert!(!list.has(address("192.0.2.1")));
        list.deny(address("192.0.2.1"), HOUR).unwrap();
        list.deny(address("2001:db8::1"), HOUR).unwrap();
        for (text, denied) in [
            ("192.0.2.1", true),
            ("::ffff:192.0.2.1", true),
            ("192.0.2.10", false),
            ("2001:db8::ffff", true),
            ("2001:db8:0:1::1", false),
        ] {
            assert_eq!(list.has(address(text)), denied, "{text}");
        }
        assert_eq!(list.entries().len(), 2);
        list.deny(address("192.0.2.1"), Duration::ZERO).unwrap();
        assert!(!list.has(address("192.0.2.1")));
        assert!(list.allow(address("2001:db8::2")), "of the same network");
        assert!(!list.allow(address("2001:db8::2")));
        assert_eq!(list.entries(), []);
    }

    #[test]
    fn a_full_list_takes_no_further_address() {
        let list = list();
        for n in 0..ENTRIES_MAX {
            list.deny(std::net::Ipv4Addr::from_bits(n as u32).into(), HOUR).unwrap();
        }
        assert_eq!(list.deny(address("192.0.2.1"), HOUR), Err(TooManyDenied));
        list.deny(address("0.0.0.1"), HOUR).expect("it is in the list");
        list.allow(address("0.0.0.2"));
        list.deny(address("192.0.2.1"), HOUR).expect("there is room");
    }
}
