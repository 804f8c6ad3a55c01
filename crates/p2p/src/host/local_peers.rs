//! The peers of the local network that were discovered.

use std::collections::BTreeMap;
use std::time::Duration;

use libp2p::multiaddr::Protocol as Part;
use libp2p::{Multiaddr, PeerId};
use tokio::time::Instant;

/// Peers that are remembered. Further ones are ignored until one is forgotten.
const PEERS_MAX: usize = 1_024;
/// Addresses of one peer that are remembered. Further ones are ignored.
const ADDRESSES_MAX: usize = 4;
/// Discovered peers that the host stays connected to. Content routing finds the others through them.
const NEIGHBOURS: usize = 8;
/// How often the connections with the neighbours are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// The time from a dial to the next one, if the peer is not connected. Other libp2p programs, and hosts
/// of other private networks, fail each handshake.
const REDIAL_AFTER: Duration = Duration::from_secs(5 * 60);

/// Decides which of the discovered peers to dial, and when.
///
/// The neighbours of a host are those whose ids follow its own, and the lowest id follows the highest. So
/// all hosts of a network are connected, and each has about the same number of connections.
#[derive(Debug)]
pub(super) struct LocalPeers {
    own: PeerId,
    peers: BTreeMap<PeerId, LocalPeer>,
    check_at: Option<Instant>,
}

#[derive(Debug)]
struct LocalPeer {
    /// None if they have expired. The peer is remembered until it may be dialled again.
    addresses: Vec<Multiaddr>,
    dial_at: Instant,
}

impl LocalPeers {
    pub(super) fn new(own: PeerId) -> Self {
        LocalPeers { own, peers: BTreeMap::new(), check_at: None }
    }

    /// When to call [`LocalPeers::due`].
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.check_at
    }

    /// A peer was discovered at an address.
    #[cfg_attr(not(feature = "mdns"), allow(dead_code, reason = "only mDNS discovers peers"))]
    pub(super) fn add(&mut self, peer: PeerId, address: Multiaddr, now: Instant) {
        let is_full = self.peers.len() >= PEERS_MAX && !self.peers.contains_key(&peer);
        if is_full || peer == self.own || !is_tcp(&address) {
            return;
        }
        let new = || LocalPeer { addresses: Vec::new(), dial_at: now };
        let addresses = &mut self.peers.entry(peer).or_insert_with(new).addresses;
        if addresses.len() < ADDRESSES_MAX && !addresses.contains(&address) {
            addresses.push(address);
            self.check_at = Some(now);
        }
    }

    /// A peer has not announced an address again.
    #[cfg_attr(not(feature = "mdns"), allow(dead_code, reason = "only mDNS discovers peers"))]
    pub(super) fn expire(&mut self, peer: &PeerId, address: &Multiaddr) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.addresses.retain(|one| one != address);
        }
    }

    /// Returns the peers to dial now, with their addresses.
    pub(super) fn due(
        &mut self,
        now: Instant,
        is_connected: impl Fn(&PeerId) -> bool,
    ) -> Vec<(PeerId, Vec<Multiaddr>)> {
        if self.check_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        self.peers.retain(|_, peer| !peer.addresses.is_empty() || peer.dial_at > now);
        self.check_at = (!self.peers.is_empty()).then(|| now + CHECK_INTERVAL);
        let mut due = Vec::new();
        let mut neighbours = 0;
        let ids: Vec<PeerId> = self.peers.keys().copied().collect();
        let (before, after) = ids.split_at(ids.partition_point(|id| *id < self.own));
        for id in after.iter().chain(before) {
            if neighbours == NEIGHBOURS {
                break;
            }
            let peer = self.peers.get_mut(id).expect("the ids are those of the peers");
            if is_connected(id) {
                // It has proved its membership, so it is dialled soon after a disconnect.
                peer.dial_at = now;
                neighbours += 1;
            } else if peer.dial_at <= now {
                peer.dial_at = now + REDIAL_AFTER;
                neighbours += 1;
                due.push((*id, peer.addresses.clone()));
            }
        }
        due
    }
}

/// Whether an address is an IP address with a TCP port. Others would be looked up by name, or need
/// another transport.
fn is_tcp(address: &Multiaddr) -> bool {
    let mut parts = address.iter();
    matches!(parts.next(), Some(Part::Ip4(_) | Part::Ip6(_)))
        && matches!(parts.next(), Some(Part::Tcp(_)))
        && matches!(parts.next(), None | Some(Part::P2p(_)))
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Multiaddr {
        format!("/ip4/192.0.2.1/tcp/{port}").parse().unwrap()
    }

    fn ids(due: Vec<(PeerId, Vec<Multiaddr>)>) -> Vec<PeerId> {
        due.into_iter().map(|(id, _)| id).collect()
    }

    fn sorted_peers(count: usize) -> Vec<PeerId> {
        let mut peers: Vec<PeerId> = (0..count).map(|_| PeerId::random()).collect();
        peers.sort_unstable();
        peers
    }

    #[test]
    fn the_peers_whose_ids_follow_the_own_one_are_dialled() {
        let now = Instant::now();
        let all = sorted_peers(13);
        let mut local = LocalPeers::new(all[10]);
        for peer in &all {
            local.add(*peer, address(1), now);
        }
        let expected = [11, 12, 0, 1, 2, 3, 4, 5].map(|at: usize| all[at]);
        assert_eq!(ids(local.due(now, |_| false)), expected);
    }

    #[test]
    fn a_peer_that_refuses_is_dialled_again_after_minutes_and_others_meanwhile() {
        let start = Instant::now();
        let all = sorted_peers(11);
        let mut local = LocalPeers::new(all[0]);
        for peer in &all[1..] {
            local.add(*peer, address(1), start);
        }
        assert_eq!(ids(local.due(start, |_| false)), all[1..9]);
        assert_eq!(ids(local.due(start + CHECK_INTERVAL, |_| false)), all[9..]);
        // Another address, or the same again, is no reason to dial earlier.
        let later = start + REDIAL_AFTER / 2;
        local.expire(&all[1], &address(1));
        local.add(all[1], address(2), later);
        assert_eq!(ids(local.due(later, |_| false)), []);
        let again = start + REDIAL_AFTER;
        assert_eq!(local.due(again, |_| false)[0], (all[1], vec![address(2)]));
    }

    #[test]
    fn a_peer_that_was_connected_is_dialled_soon_after_a_disconnect() {
        let start = Instant::now();
        let all = sorted_peers(2);
        let mut local = LocalPeers::new(all[0]);
        local.add(all[1], address(1), start);
        assert_eq!(local.due(start, |_| false).len(), 1);
        assert_eq!(local.next_wake(), Some(start + CHECK_INTERVAL));
        assert_eq!(ids(local.due(start + CHECK_INTERVAL, |_| true)), []);
        assert_eq!(local.due(start + 2 * CHECK_INTERVAL, |_| false).len(), 1);
    }

    #[test]
    fn peers_without_addresses_are_forgotten() {
        let start = Instant::now();
        let mut local = LocalPeers::new(PeerId::random());
        let peer = PeerId::random();
        local.add(peer, address(1), start);
        assert_eq!(local.due(start, |_| false).len(), 1);
        local.expire(&peer, &address(1));
        assert_eq!(local.due(start + REDIAL_AFTER, |_| false), []);
        assert_eq!((local.peers.len(), local.next_wake()), (0, None));
    }

    #[test]
    fn the_number_of_peers_and_addresses_has_a_limit() {
        let now = Instant::now();
        let mut local = LocalPeers::new(PeerId::random());
        for peer in sorted_peers(PEERS_MAX + 1) {
            for port in 0..2 * ADDRESSES_MAX as u16 {
                local.add(peer, address(port), now);
            }
        }
        assert_eq!(local.peers.len(), PEERS_MAX);
        assert!(local.peers.values().all(|peer| peer.addresses.len() == ADDRESSES_MAX));
    }

    #[test]
    fn only_tcp_addresses_without_names_are_dialled() {
        let peer = PeerId::random();
        for (text, expected) in [
            ("/ip4/192.0.2.1/tcp/5001".to_owned(), true),
            (format!("/ip6/2001:db8::1/tcp/5001/p2p/{peer}"), true),
            ("/ip4/192.0.2.1/udp/5001/quic-v1".to_owned(), false),
            ("/dns4/a.example/tcp/5001".to_owned(), false),
            ("/ip4/192.0.2.1/tcp/5001/ws".to_owned(), false),
            (format!("/ip4/192.0.2.1/tcp/5001/p2p/{peer}/p2p-circuit"), false),
        ] {
            assert_eq!(is_tcp(&text.parse().unwrap()), expected, "{text}");
        }
    }
}
