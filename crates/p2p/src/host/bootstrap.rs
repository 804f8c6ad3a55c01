//! The peers that a host stays connected to, and those through which it enters the DHT.

use std::time::Duration;

use libp2p::multiaddr::Protocol as Part;
use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, PeerId};
use tokio::time::Instant;

/// The first pause before a peer is dialled again. It doubles with each failure.
const REDIAL_AFTER: Duration = Duration::from_secs(1);
const REDIAL_DOUBLINGS_MAX: u32 = 6;
/// When a peer of the DHT that was reached, or is connected, is dialled again. The DHT forgets peers that it
/// cannot reach, so a host that was without a network enters it anew.
const DHT_REDIAL_AFTER: Duration = Duration::from_secs(600);

/// Decides when to dial the bootstrap peers.
#[derive(Debug)]
pub(super) struct Bootstrap {
    peers: Vec<BootstrapPeer>,
}

#[derive(Debug)]
struct BootstrapPeer {
    address: Multiaddr,
    /// Whether the host stays connected to it.
    is_kept: bool,
    state: State,
    /// Consecutive dials that failed, or connections that ended.
    failures: u32,
}

#[derive(Debug)]
enum State {
    DialAt(Instant),
    /// The connection is established or being dialled.
    Connection(ConnectionId),
}

impl Bootstrap {
    pub(super) fn new(kept: Vec<Multiaddr>, of_dht: Vec<Multiaddr>, now: Instant) -> Self {
        let peer = |address, is_kept| BootstrapPeer {
            address,
            is_kept,
            state: State::DialAt(now),
            failures: 0,
        };
        let kept = kept.into_iter().map(|address| peer(address, true));
        let peers = kept.chain(of_dht.into_iter().map(|address| peer(address, false)));
        Bootstrap { peers: peers.collect() }
    }

    /// Whether the address of a peer to stay connected to contains this peer id.
    pub(super) fn contains(&self, id: &PeerId) -> bool {
        let is_id = |part: Part<'_>| matches!(part, Part::P2p(found) if found == *id);
        self.peers.iter().any(|peer| peer.is_kept && peer.address.iter().any(is_id))
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        let due = |peer: &BootstrapPeer| match peer.state {
            State::DialAt(at) => Some(at),
            State::Connection(_) => None,
        };
        self.peers.iter().filter_map(due).min()
    }

    /// Returns the addresses to dial now. The caller passes each of them to
    /// [`Bootstrap::handle_dialled`] or [`Bootstrap::handle_failed`].
    pub(super) fn due(
        &mut self,
        now: Instant,
        is_connected: impl Fn(&PeerId) -> bool,
    ) -> Vec<Multiaddr> {
        let mut due = Vec::new();
        for peer in &mut self.peers {
            if !matches!(peer.state, State::DialAt(at) if at <= now) {
                continue;
            }
            if !peer.is_kept && peer.id().is_some_and(|id| is_connected(&id)) {
                peer.failures = 0;
                peer.state = State::DialAt(now + DHT_REDIAL_AFTER);
            } else {
                due.push(peer.address.clone());
            }
        }
        due
    }

    /// A dial has started as this connection.
    pub(super) fn handle_dialled(&mut self, address: &Multiaddr, connection: ConnectionId) {
        for peer in self.peers.iter_mut().filter(|peer| peer.address == *address) {
            peer.state = State::Connection(connection);
        }
    }

    /// A dial could not start.
    pub(super) fn handle_failed(&mut self, address: &Multiaddr, now: Instant) {
        for peer in self.peers.iter_mut().filter(|peer| peer.address == *address) {
            peer.schedule_dial(now);
        }
    }

    pub(super) fn handle_connected(&mut self, connection: ConnectionId, now: Instant) {
        for peer in self.peers.iter_mut().filter(|peer| peer.has(connection)) {
            peer.failures = 0;
            if !peer.is_kept {
                peer.state = State::DialAt(now + DHT_REDIAL_AFTER);
            }
        }
    }

    /// A dial failed, or a connection ended.
    pub(super) fn handle_ended(&mut self, connection: ConnectionId, now: Instant) {
        for peer in self.peers.iter_mut().filter(|peer| peer.has(connection)) {
            peer.schedule_dial(now);
        }
    }
}

impl BootstrapPeer {
    /// The id at the end of its address.
    fn id(&self) -> Option<PeerId> {
        match self.address.iter().last() {
            Some(Part::P2p(id)) => Some(id),
            _ => None,
        }
    }

    fn has(&self, connection: ConnectionId) -> bool {
        matches!(self.state, State::Connection(one) if one == connection)
    }

    fn schedule_dial(&mut self, now: Instant) {
        let pause = REDIAL_AFTER * 2u32.pow(self.failures.min(REDIAL_DOUBLINGS_MAX));
        self.failures += 1;
        self.state = State::DialAt(now + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_dialled_at_once_and_then_after_growing_pauses_until_it_is_connected() {
        let address: Multiaddr = "/ip4/127.0.0.1/tcp/1".parse().unwrap();
        let mut now = Instant::now();
        let mut bootstrap = Bootstrap::new(vec![address.clone()], Vec::new(), now);
        for pause in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert_eq!(bootstrap.due(now, |_| false), std::slice::from_ref(&address));
            let connection = ConnectionId::new_unchecked(pause);
            bootstrap.handle_dialled(&address, connection);
            assert!(bootstrap.due(now, |_| false).is_empty());
            assert_eq!(bootstrap.next_wake(), None);
            bootstrap.handle_ended(connection, now);
            now += Duration::from_secs(pause as u64);
            assert_eq!(bootstrap.next_wake(), Some(now));
        }
        let connection = ConnectionId::new_unchecked(100);
        bootstrap.handle_dialled(&address, connection);
        bootstrap.handle_connected(connection, now);
        bootstrap.handle_ended(connection, now);
        assert_eq!(bootstrap.next_wake(), Some(now + Duration::from_secs(1)));
    }

    #[test]
    fn a_peer_of_the_dht_is_dialled_again_ten_minutes_after_it_was_reached_and_not_protected() {
        let id = PeerId::random();
        let address: Multiaddr = format!("/ip4/127.0.0.1/tcp/1/p2p/{id}").parse().unwrap();
        let now = Instant::now();
        let mut bootstrap = Bootstrap::new(Vec::new(), vec![address.clone()], now);
        let connections = [1, 2].map(ConnectionId::new_unchecked);
        bootstrap.handle_dialled(&address, connections[0]);
        bootstrap.handle_ended(connections[0], now);
        assert_eq!(bootstrap.next_wake(), Some(now + Duration::from_secs(1)), "it was not reached");
        bootstrap.handle_dialled(&address, connections[1]);
        bootstrap.handle_connected(connections[1], now);
        bootstrap.handle_ended(connections[1], now);
        assert_eq!(bootstrap.next_wake(), Some(now + Duration::from_secs(600)));
        assert!(!bootstrap.contains(&id));
    }

    #[test]
    fn a_peer_of_the_dht_that_is_connected_is_not_dialled_for_ten_minutes_and_a_kept_one_is() {
        let id = PeerId::random();
        let address: Multiaddr = format!("/ip4/127.0.0.1/tcp/1/p2p/{id}").parse().unwrap();
        let now = Instant::now();
        let mut of_dht = Bootstrap::new(Vec::new(), vec![address.clone()], now);
        assert!(of_dht.due(now, |peer| *peer == id).is_empty());
        let later = now + Duration::from_secs(600);
        assert_eq!(of_dht.next_wake(), Some(later));
        assert_eq!(of_dht.due(later, |_| false), std::slice::from_ref(&address));
        let mut kept = Bootstrap::new(vec![address.clone()], Vec::new(), now);
        assert_eq!(kept.due(now, |_| true), [address]);
    }
}
