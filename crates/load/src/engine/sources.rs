//! Source addresses and ports of users, and their sockets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with, sockopt,
};

use super::Share;
use crate::failure::Failure;
use crate::scenario::Scenario;

/// Ports that are tried before an address counts as full.
const TRIES_MAX: u32 = 2_000;
/// With more users of one address the kernel searches longer for a free port: 0.2 ms for each when
/// 18,000 of its 28,000 ports are in use.
const SYSTEM_PORTS: u64 = 2_000;
/// The default source address of the first worker for a server on this machine; each further worker
/// uses the next one.
const FIRST_LOCAL: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 1);

/// Addresses and ports, used in turn for each server. Without addresses the kernel chooses.
pub(super) struct Sources {
    addresses: Vec<IpAddr>,
    ports: (u16, u16),
    /// Workers share the addresses; each uses every n-th port.
    share: Share,
    /// Number of pairs of address and port that were used for each target.
    taken: Vec<u64>,
}

impl Sources {
    pub(super) fn new(scenario: &Scenario, share: Share) -> Sources {
        // The default sources are for IPv4; a server at `::1` has one source.
        let is_local = |target: &crate::scenario::Target| {
            let ips = || target.addresses().iter().map(SocketAddr::ip);
            ips().all(|ip| ip.is_loopback()) && ips().any(|ip| ip.is_ipv4())
        };
        let mut addresses = scenario.sources.clone();
        if addresses.is_empty()
            && scenario.users_at_once_max() > SYSTEM_PORTS
            && scenario.targets.iter().all(is_local)
        {
            let own = u32::from(FIRST_LOCAL) + share.index as u32;
            addresses.push(IpAddr::V4(Ipv4Addr::from(own)));
            return Sources::of(
                addresses,
                scenario.ports,
                Share { index: 0, count: 1 },
                scenario.targets.len(),
            );
        }
        Sources::of(addresses, scenario.ports, share, scenario.targets.len())
    }

    fn of(addresses: Vec<IpAddr>, ports: (u16, u16), share: Share, targets: usize) -> Sources {
        let range = usize::from(ports.1 - ports.0) + 1;
        // With more workers than ports, the first bind wins.
        let share = if share.count > range { Share { index: 0, count: 1 } } else { share };
        Sources { addresses, ports, share, taken: vec![0; targets] }
    }

    /// Start connecting a socket to a server; `target` is its index in the scenario.
    pub(super) fn connect(
        &mut self,
        target: usize,
        server: SocketAddr,
    ) -> Result<OwnedFd, Failure> {
        let has_family = self.addresses.iter().any(|one| one.is_ipv4() == server.is_ipv4());
        if !has_family {
            return begin(new_socket(server)?, server).map_err(Failure::from_errno);
        }
        let mut socket = None;
        for _ in 0..TRIES_MAX {
            let free = match socket.take() {
                Some(free) => free,
                None => reusing_socket(server)?,
            };
            match bind(&free, &self.next_source_for(target, server)) {
                // This pair may already be connected to the same server.
                Ok(()) => match begin(free, server) {
                    Err(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE) => {}
                    begun => return begun.map_err(Failure::from_errno),
                },
                Err(Errno::ADDRINUSE) => socket = Some(free),
                Err(Errno::ADDRNOTAVAIL) => return Err(Failure::SourceAddress),
                Err(errno) => return Err(Failure::from_errno(errno)),
            }
        }
        Err(Failure::SourcePorts)
    }

    /// The next source with the IP version of the server, which some source has.
    fn next_source_for(&mut self, target: usize, server: SocketAddr) -> SocketAddr {
        loop {
            let source = self.next_source(target);
            if source.is_ipv4() == server.is_ipv4() {
                return source;
            }
        }
    }

    fn next_source(&mut self, target: usize) -> SocketAddr {
        let taken = &mut self.taken[target];
        let addresses = self.addresses.len() as u64;
        let (index, count) = (self.share.index as u64, self.share.count as u64);
        let range = u64::from(self.ports.1 - self.ports.0) + 1;
        let own_ports = (range - index).div_ceil(count);
        // Each worker and target begins with a different address.
        let first = index + target as u64;
        let address = self.addresses[((*taken + first) % addresses) as usize];
        let port_index = (*taken / addresses) % own_ports * count + index;
        *taken += 1;
        SocketAddr::new(address, self.ports.0 + port_index as u16)
    }
}

fn new_socket(server: SocketAddr) -> Result<OwnedFd, Failure> {
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP));
    let socket = socket.map_err(Failure::from_errno)?;
    sockopt::set_tcp_nodelay(&socket, true).map_err(Failure::from_errno)?;
    Ok(socket)
}

/// A socket that may share its port with a connection to another server.
fn reusing_socket(server: SocketAddr) -> Result<OwnedFd, Failure> {
    let socket = new_socket(server)?;
    sockopt::set_socket_reuseaddr(&socket, true).map_err(Failure::from_errno)?;
    Ok(socket)
}

fn begin(socket: OwnedFd, server: SocketAddr) -> Result<OwnedFd, Errno> {
    match connect(&socket, &server) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::TcpListener;

    use super::*;

    const ALONE: Share = Share { index: 0, count: 1 };

    fn address(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 1, last])
    }

    #[test]
    fn addresses_take_turns_and_ports_wrap_around() {
        let mut sources = Sources::of(vec![address(1), address(2)], (5000, 5001), ALONE, 1);
        let taken: Vec<_> = (0..6).map(|_| sources.next_source(0)).collect();
        let expected = [(1, 5000), (2, 5000), (1, 5001), (2, 5001), (1, 5000), (2, 5000)];
        assert_eq!(taken, expected.map(|(last, port)| SocketAddr::new(address(last), port)));
    }

    #[test]
    fn workers_use_disjoint_ports_and_together_use_all() {
        let mut taken = BTreeSet::new();
        for index in 0..3 {
            let share = Share { index, count: 3 };
            let mut sources = Sources::of(vec![address(1), address(2)], (1, 10), share, 1);
            let own_ports = [4, 3, 3][index];
            for _ in 0..own_ports * 2 {
                assert!(taken.insert(sources.next_source(0)), "a port of another worker");
            }
            assert!(!taken.insert(sources.next_source(0)), "all ports of this worker are used");
        }
        assert_eq!(taken.len(), 20);
    }

    #[test]
    fn each_server_is_reached_from_every_port() {
        let servers = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let port = TcpListener::bind("127.0.1.1:0").unwrap().local_addr().unwrap().port();
        let mut sources = Sources::of(vec![address(1)], (port, port), ALONE, 2);
        let mut sockets = Vec::new();
        for (target, server) in servers.iter().enumerate() {
            sockets.push(sources.connect(target, server.local_addr().unwrap()).unwrap());
            assert_eq!(server.accept().unwrap().1, SocketAddr::new(address(1), port));
        }
        // Each server already has a connection from every pair.
        let server = servers[0].local_addr().unwrap();
        assert_eq!(sources.connect(0, server).unwrap_err(), Failure::SourcePorts);
    }

    #[test]
    fn a_full_or_foreign_address_is_a_failure_of_its_own() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        // The only port is the port of the listener.
        let ports = (server.port(), server.port());
        let mut sources = Sources::of(vec![server.ip()], ports, ALONE, 1);
        assert_eq!(sources.connect(0, server).unwrap_err(), Failure::SourcePorts);
        let foreign = vec!["192.0.2.1".parse().unwrap()];
        let mut foreign = Sources::of(foreign, (1024, 65535), ALONE, 1);
        assert_eq!(foreign.connect(0, server).unwrap_err(), Failure::SourceAddress);
    }
}
