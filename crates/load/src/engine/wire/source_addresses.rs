//! Source addresses and ports of users, and their sockets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with, sockopt,
};

use crate::engine::Share;
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

/// Turns in which addresses of different weights are ordered.
const WEIGHED_TURNS: usize = 1_000;

/// Addresses and ports, used in turn for each server. Without addresses the kernel chooses.
pub(super) struct SourceAddresses {
    addresses: Vec<IpAddr>,
    /// The indices of the addresses in the order of their use, which begins again at its end.
    order: Vec<u32>,
    ports: (u16, u16),
    /// Workers share the addresses; each uses every n-th port.
    share: Share,
    /// For each target, the number of sockets, and of each address's ports that were used.
    taken: Vec<(u64, Vec<u32>)>,
}

impl SourceAddresses {
    pub(super) fn new(scenario: &Scenario, share: Share) -> SourceAddresses {
        // The default sources are for IPv4; a server at `::1` has one source.
        let is_local = |target: &crate::scenario::Target| {
            let ips = || target.addresses().iter().map(SocketAddr::ip);
            ips().all(|ip| ip.is_loopback()) && ips().any(|ip| ip.is_ipv4())
        };
        // Users get the addresses of a group in turn, and groups by their weights.
        let groups = scenario.sources.iter().filter(|group| group.weight > 0.0);
        let weighed = groups.flat_map(|group| {
            let weight = group.weight / group.addresses.len() as f64;
            group.addresses.iter().map(move |address| (*address, weight))
        });
        let mut addresses: Vec<(IpAddr, f64)> = weighed.collect();
        if addresses.is_empty()
            && scenario.users_at_once_max() > SYSTEM_PORTS
            && scenario.targets.iter().all(is_local)
        {
            let own = u32::from(FIRST_LOCAL) + share.index as u32;
            addresses.push((IpAddr::V4(Ipv4Addr::from(own)), 1.0));
            let share = Share { index: 0, count: 1 };
            return SourceAddresses::of(addresses, scenario.ports, share, scenario.targets.len());
        }
        SourceAddresses::of(addresses, scenario.ports, share, scenario.targets.len())
    }

    /// `weighed` has the addresses, and the weight of each.
    fn of(
        weighed: Vec<(IpAddr, f64)>,
        ports: (u16, u16),
        share: Share,
        targets: usize,
    ) -> SourceAddresses {
        let range = usize::from(ports.1 - ports.0) + 1;
        // With more workers than ports, the first bind wins.
        let share = if share.count > range { Share { index: 0, count: 1 } } else { share };
        let (addresses, weights): (Vec<_>, Vec<_>) = weighed.into_iter().unzip();
        let order = order(&weights);
        let taken = vec![(0, vec![0; addresses.len()]); targets];
        SourceAddresses { addresses, order, ports, share, taken }
    }

    /// Starts connecting a socket to a server; `target` is its index in the scenario.
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
        let (turns, taken) = &mut self.taken[target];
        let (index, count) = (self.share.index as u64, self.share.count as u64);
        let range = u64::from(self.ports.1 - self.ports.0) + 1;
        let own_ports = (range - index).div_ceil(count);
        // Each worker and target begins with a different address.
        let first = index + target as u64;
        let turn = (*turns + first) % self.order.len() as u64;
        let address = self.order[turn as usize] as usize;
        let port_index = u64::from(taken[address]) % own_ports * count + index;
        *turns += 1;
        taken[address] = taken[address].wrapping_add(1);
        SocketAddr::new(self.addresses[address], self.ports.0 + port_index as u16)
    }
}

/// The order in which addresses are used. Each gets its share of the turns, evenly spread.
fn order(weights: &[f64]) -> Vec<u32> {
    let is_even = weights.windows(2).all(|pair| pair[0] == pair[1]);
    if is_even {
        return (0..weights.len() as u32).collect();
    }
    let total: f64 = weights.iter().sum();
    let turns_in_all = WEIGHED_TURNS.max(weights.len()) as f64;
    // The time of each turn, from 0 to 1.
    let mut turns: Vec<(f64, u32)> = Vec::new();
    for (index, weight) in weights.iter().enumerate() {
        let own = (weight / total * turns_in_all).round();
        // One that is too light for a turn gets a last one, because no other may reach some server.
        let own_times = (0..own as u32).map(|turn| (f64::from(turn) + 0.5) / own);
        let times = own_times.chain((own == 0.0).then_some(1.0));
        turns.extend(times.map(|time| (time, index as u32)));
    }
    turns.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    turns.into_iter().map(|(_, index)| index).collect()
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

    fn even(addresses: &[IpAddr]) -> Vec<(IpAddr, f64)> {
        addresses.iter().map(|address| (*address, 1.0)).collect()
    }

    #[test]
    fn addresses_get_turns_by_their_weights() {
        let weighed = vec![(address(1), 2.0), (address(2), 1.0), (address(3), 1e-9)];
        let mut sources = SourceAddresses::of(weighed, (5000, 5999), ALONE, 1);
        let taken: Vec<_> = (0..1000).map(|_| sources.next_source(0)).collect();
        let count = |last| taken.iter().filter(|taken| taken.ip() == address(last)).count();
        assert_eq!((count(1), count(2), count(3)), (667, 333, 0));
        assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), 1000, "each port once");
        assert_eq!(sources.next_source(0).ip(), address(3));
    }

    #[test]
    fn many_addresses_of_different_weights_are_ordered_in_a_short_time() {
        let weights: Vec<f64> = (0..65_536).map(|index| f64::from(index % 4 + 1)).collect();
        let order = order(&weights);
        let mut turns = vec![0; weights.len()];
        order.iter().for_each(|index| turns[*index as usize] += 1);
        assert_eq!((turns.iter().min(), turns.iter().max()), (Some(&1), Some(&2)));
    }

    #[test]
    fn addresses_take_turns_and_ports_wrap_around() {
        let mut sources =
            SourceAddresses::of(even(&[address(1), address(2)]), (5000, 5001), ALONE, 1);
        let taken: Vec<_> = (0..6).map(|_| sources.next_source(0)).collect();
        let expected = [(1, 5000), (2, 5000), (1, 5001), (2, 5001), (1, 5000), (2, 5000)];
        assert_eq!(taken, expected.map(|(last, port)| SocketAddr::new(address(last), port)));
    }

    #[test]
    fn workers_use_disjoint_ports_and_together_use_all() {
        let mut taken = BTreeSet::new();
        for index in 0..3 {
            let share = Share { index, count: 3 };
            let mut sources =
                SourceAddresses::of(even(&[address(1), address(2)]), (1, 10), share, 1);
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
        let mut sources = SourceAddresses::of(even(&[address(1)]), (port, port), ALONE, 2);
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
        let mut sources = SourceAddresses::of(even(&[server.ip()]), ports, ALONE, 1);
        assert_eq!(sources.connect(0, server).unwrap_err(), Failure::SourcePorts);
        let foreign = even(&["192.0.2.1".parse().unwrap()]);
        let mut foreign = SourceAddresses::of(foreign, (1024, 65535), ALONE, 1);
        assert_eq!(foreign.connect(0, server).unwrap_err(), Failure::SourceAddress);
    }
}
