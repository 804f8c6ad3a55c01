//! Finds the peers of the local network by mDNS.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use libp2p::Multiaddr;
use libp2p::mdns;
use libp2p::multiaddr::Protocol as Part;
use libp2p::swarm::Swarm;
use socket2::{Domain, Socket, Type};
use tokio::time::Instant;

use super::local_peers::LocalPeers;
use crate::behaviour::Behaviour;

/// Addresses that libp2p keeps. No network of hosts has this number, so mDNS ends when the limit is reached.
const ADDRESSES_MAX: usize = 4_096;
const MDNS_PORT: u16 = 5353;

/// Passes the changes to the discovered peers.
pub(super) fn handle_event(
    swarm: &mut Swarm<Behaviour>,
    peers: &mut LocalPeers,
    event: mdns::Event,
    now: Instant,
) {
    match event {
        mdns::Event::Discovered(found) => {
            for (peer, address) in found {
                peers.add(peer, address, now);
            }
        }
        mdns::Event::Expired(expired) => {
            for (peer, address) in expired {
                peers.expire(&peer, &address);
            }
        }
    }
    let mdns = &mut swarm.behaviour_mut().mdns;
    if mdns.as_ref().is_some_and(|mdns| mdns.discovered_nodes().len() > ADDRESSES_MAX) {
        tracing::error!(
            "a program of the local network announces more than {ADDRESSES_MAX} addresses by mDNS: no more hosts are discovered until a restart"
        );
        *mdns = None.into();
    }
}

/// Logs a warning if mDNS cannot work at a new address of this host. libp2p goes on in any case.
pub(super) fn check_address(swarm: &Swarm<Behaviour>, address: &Multiaddr) {
    let ip = match address.iter().next() {
        Some(Part::Ip4(ip)) => IpAddr::V4(ip),
        Some(Part::Ip6(ip)) => IpAddr::V6(ip),
        _ => return,
    };
    if !swarm.behaviour().mdns.is_enabled() || ip.is_loopback() {
        return;
    }
    if let Err(error) = open_socket(ip) {
        tracing::warn!(
            %ip, %error,
            "cannot receive mDNS on port {MDNS_PORT}: hosts of the local network are not discovered at this address"
        );
    }
}

/// Opens and closes a socket, as libp2p would.
fn open_socket(ip: IpAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address((ip, 0).into()), Type::DGRAM, None)?;
    socket.set_reuse_address(true)?;
    #[cfg(unix)]
    socket.set_reuse_port(true)?;
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    socket.bind(&SocketAddr::new(any, MDNS_PORT).into())?;
    match ip {
        IpAddr::V4(ip) => socket.join_multicast_v4(&mdns::IPV4_MDNS_MULTICAST_ADDRESS, &ip),
        IpAddr::V6(_) => socket.join_multicast_v6(&mdns::IPV6_MDNS_MULTICAST_ADDRESS, 0),
    }
}
