//! The peers that a host stays connected to.

use std::time::Duration;

use libp2p::multiaddr::Protocol as Part;
use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, PeerId};
use tokio::time::Instant;

/// The first pause before a peer is dialled again. It doubles with each failure.
const REDIAL_AFTER: Duration = Duration::from_secs(1);
const REDIAL_DOUBLINGS_MAX: u32 = 6;

/// Decides when to dial the bootstrap peers.
#[derive(Debug)]
pub(super) struct Bootstrap {
    peers: Vec<BootstrapPeer>,
}

#[derive(Debug)]
struct BootstrapPeer {
    address: Multiaddr,
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
    pub(super) fn new(addresses: Vec<Multiaddr>, now: Instant) -> Self {
        let peer = |address| BootstrapPeer { address, state: State::DialAt(now), failures: 0 };
        Bootstrap { peers: addresses.into_iter().map(peer).collect() }
    }

    /// Whether the address of a bootstrap peer contains this peer id.
    pub(super) fn contains(&self, id: &PeerId) -> bool {
        let is_id = |part: Part<'_>| matches!(part, Part::P2p(found) if found == *id);
        self.peers.iter().any(|peer| peer.address.iter().any(is_id))
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
    pub(super) fn due(&self, now: Instant) -> Vec<Multiaddr> {
        let is_due = |peer: &&BootstrapPeer| matches!(peer.state, State::DialAt(at) if at <= now);
        self.peers.iter().filter(is_due).map(|peer| peer.address.clone()).collect()
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

    pub(super) fn handle_connected(&mut self, connection: ConnectionId) {
        for peer in self.peers.iter_mut().filter(|peer| peer.has(connection)) {
            peer.failures = 0;
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
        let mut bootstrap = Bootstrap::new(vec![address.clone()], now);
        for pause in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert_eq!(bootstrap.due(now), std::slice::from_ref(&address));
            let connection = ConnectionId::new_unchecked(pause);
            bootstrap.handle_dialled(&address, connection);
            assert_eq!((bootstrap.due(now), bootstrap.next_wake()), (Vec::new(), None));
            bootstrap.handle_ended(connection, now);
            now += Duration::from_secs(pause as u64);
            assert_eq!(bootstrap.next_wake(), Some(now));
        }
        let connection = ConnectionId::new_unchecked(100);
        bootstrap.handle_dialled(&address, connection);
        bootstrap.handle_connected(connection);
        bootstrap.handle_ended(connection, now);
        assert_eq!(bootstrap.next_wake(), Some(now + Duration::from_secs(1)));
    }
}
