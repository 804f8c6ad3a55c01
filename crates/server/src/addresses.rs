//! The number of sockets of each address, in all processes of the server.

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use watchfire_tracker::{AddressCounts, AddressFull, network_of};
use watchfire_types::NodeId;

use crate::cluster::{ClusterPart, PartLink, REPORT_ENTRIES_MAX, ReportWaker, Reporter};
use crate::seed::Seed;
use crate::settings::Limits;

/// Counts the sockets of each address. Loopback addresses count only if the settings say so.
pub struct Addresses {
    loopback_limited: bool,
    sockets: Mutex<AddressCounts>,
    link: PartLink,
    /// Equal in all processes.
    seed: Seed,
    waker: ReportWaker,
}

impl Addresses {
    /// Counts for a process of a server with so many `processes` on this machine.
    pub fn new(
        limits: &Limits,
        processes: u32,
        seed: Seed,
        link: PartLink,
        waker: ReportWaker,
    ) -> Self {
        Addresses {
            loopback_limited: limits.loopback_limited,
            sockets: Mutex::new(AddressCounts::new(limits.sockets_per_address_max, processes)),
            link,
            seed,
            waker,
        }
    }

    /// The other process that should decide about a new socket of this address. `None`: this one.
    ///
    /// An address with many sockets has one deciding process, because several could admit at once.
    pub fn decider(&self, address: IpAddr) -> Option<NodeId> {
        let cluster = self.link.cluster();
        if cluster.is_alone() || self.is_exempt(address) {
            return None;
        }
        let address = network_of(address);
        if !self.sockets.lock().needs_decider(address) {
            return None;
        }
        let nodes = cluster.others().map(|(node, _)| node).chain([cluster.me()]);
        let rank = |node: &NodeId| (self.seed.of(&format!("{address} {}", node.0)), *node);
        let decider = nodes.max_by_key(rank)?;
        (decider != cluster.me() && cluster.has_room(decider)).then_some(decider)
    }

    fn is_exempt(&self, address: IpAddr) -> bool {
        address.to_canonical().is_loopback() && !self.loopback_limited
    }

    /// Counts one more socket of an address, up to the limit. An address in the result must be
    /// released later with [`Addresses::release`]; with `None` the socket does not count.
    pub fn admit(&self, address: IpAddr) -> Result<Option<IpAddr>, AddressFull> {
        if self.is_exempt(address) {
            return Ok(None);
        }
        let address = network_of(address);
        self.change(|sockets| sockets.admit(address))?;
        Ok(Some(address))
    }

    /// Removes one socket of an address.
    pub fn release(&self, address: IpAddr) {
        self.change(|sockets| sockets.release(address));
    }

    /// Like [`Addresses::admit`]; the address is released when the result is dropped.
    pub fn admit_for_now(self: &Arc<Self>, address: IpAddr) -> Result<CountedAddress, AddressFull> {
        let address = self.admit(address)?;
        Ok(CountedAddress { address, addresses: self.clone() })
    }

    fn change<R>(&self, change: impl FnOnce(&mut AddressCounts) -> R) -> R {
        let mut sockets = self.sockets.lock();
        let result = change(&mut sockets);
        if sockets.is_report_due() {
            self.waker.wake();
        }
        result
    }
}

/// The address of a client that is not open yet. It is released when this is dropped.
pub struct CountedAddress {
    /// `None`: the client does not count.
    address: Option<IpAddr>,
    addresses: Arc<Addresses>,
}

impl CountedAddress {
    /// The address, to be released with [`Addresses::release`].
    pub fn keep(mut self) -> Option<IpAddr> {
        self.address.take()
    }
}

impl Drop for CountedAddress {
    fn drop(&mut self) {
        if let Some(address) = self.address {
            self.addresses.release(address);
        }
    }
}

#[doc(hidden)]
impl Reporter for Addresses {
    fn send_reports(&self) -> bool {
        let mut sockets = self.sockets.lock();
        let reports = sockets.take_reports(REPORT_ENTRIES_MAX);
        if !reports.is_empty() {
            // Under the lock, so that reports arrive in their order.
            self.link.send_state_all(&reports);
        }
        sockets.is_report_due()
    }
}

#[doc(hidden)]
impl ClusterPart for Addresses {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, from: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        let reports: Vec<(IpAddr, u32)> = postcard::from_bytes(message)?;
        self.change(|sockets| sockets.receive(from, &reports));
        Ok(())
    }

    fn node_up(&self, node: NodeId) {
        let sockets = self.sockets.lock();
        for reports in sockets.reported().chunks(REPORT_ENTRIES_MAX) {
            self.link.send_state(node, &reports);
        }
    }

    fn node_down(&self, node: NodeId) {
        self.sockets.lock().node_down(node);
    }
}

/// Samples of the messages: reports of counts.
#[cfg(test)]
pub fn message_samples() -> Vec<crate::cluster::Samples> {
    let mut sockets = AddressCounts::new(8, 2);
    for address in ["192.0.2.1", "2001:db8::1"] {
        let address = network_of(address.parse().expect("an address"));
        for _ in 0..4 {
            sockets.admit(address).expect("the limit is not reached");
        }
    }
    let reports = sockets.take_reports(REPORT_ENTRIES_MAX);
    assert!(!reports.is_empty());
    let encoded = vec![postcard::to_stdvec(&reports).expect("messages are plain data")];
    vec![crate::cluster::Samples { name: "reports of addresses", encoded }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, PartName};

    fn addresses(limits: &Limits) -> Addresses {
        let link = PartLink::new(&Arc::new(Cluster::alone()), PartName::own("addresses"));
        Addresses::new(limits, 1, Seed::from(&[7; 32]), link, ReportWaker::new().0)
    }

    #[test]
    fn a_closed_socket_makes_room_for_another_of_its_address() {
        let addresses = addresses(&Limits { sockets_per_address_max: 1, ..Limits::default() });
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(addresses.admit(address), Ok(Some(address)));
        assert_eq!(addresses.admit(address), Err(AddressFull { max: 1 }));
        addresses.release(address);
        assert_eq!(addresses.admit(address), Ok(Some(address)));
    }

    #[test]
    fn an_address_is_released_when_its_client_never_opens() {
        let addresses =
            Arc::new(addresses(&Limits { sockets_per_address_max: 1, ..Limits::default() }));
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        for _ in 0..3 {
            let counted = addresses.admit_for_now(address).expect("a free place");
            assert!(addresses.admit(address).is_err());
            drop(counted);
        }
        let counted = addresses.admit_for_now(address).expect("a free place");
        assert_eq!(counted.keep(), Some(address));
        assert!(addresses.admit(address).is_err());
    }

    #[test]
    fn loopback_counts_only_if_the_settings_say_so() {
        let limits = Limits { sockets_per_address_max: 0, ..Limits::default() };
        for address in ["::ffff:127.0.0.1", "127.0.0.1", "::1"] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(addresses(&limits).admit(address), Ok(None));
            let limits = Limits { loopback_limited: true, ..limits.clone() };
            assert!(addresses(&limits).admit(address).is_err());
        }
    }
}
