use std::time::Duration;

use libp2p::multiaddr::Protocol as Part;
use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, PeerId};
use tokio::time::Instant;

/// Pause before a peer is dialled again, at first; doubled each time.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const AGAIN_DOUBLINGS_MAX: u32 = 6;

/// Peers to stay connected to.
#[derive(Debug)]
pub(super) struct Bootstrap {
    peers: Vec<Kept>,
}

#[derive(Debug)]
struct Kept {
    address: Multiaddr,
    state: State,
    /// Dials that failed, or connections that ended soon, one after the other.
    failed: u32,
}

#[derive(Debug)]
enum State {
    DialAt(Instant),
    Connection(ConnectionId),
}

impl Bootstrap {
    pub(super) fn new(addresses: Vec<Multiaddr>, now: Instant) -> Self {
        let kept = |address| Kept { address, state: State::DialAt(now), failed: 0 };
        Bootstrap { peers: addresses.into_iter().map(kept).collect() }
    }

    /// Whether it is one of these, as far as their addresses say who they are.
    pub(super) fn is_kept(&self, peer: &PeerId) -> bool {
        let is_it = |part: Part<'_>| matches!(part, Part::P2p(id) if id == *peer);
        self.peers.iter().any(|kept| kept.address.iter().any(is_it))
    }

    /// When somebody is to be dialled.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let due = |kept: &Kept| match kept.state {
            State::DialAt(at) => Some(at),
            State::Connection(_) => None,
        };
        self.peers.iter().filter_map(due).min()
    }

    /// Whom to dial now. Each is to be told to [`Bootstrap::dialled`] or [`Bootstrap::failed`].
    pub(super) fn due(&self, now: Instant) -> Vec<Multiaddr> {
        let is_due = |kept: &&Kept| matches!(kept.state, State::DialAt(at) if at <= now);
        self.peers.iter().filter(is_due).map(|kept| kept.address.clone()).collect()
    }

    /// A dial is under way as this connection.
    pub(super) fn dialled(&mut self, address: &Multiaddr, connection: ConnectionId) {
        for kept in self.peers.iter_mut().filter(|kept| kept.address == *address) {
            kept.state = State::Connection(connection);
        }
    }

    /// A dial could not even begin.
    pub(super) fn failed(&mut self, address: &Multiaddr, now: Instant) {
        for kept in self.peers.iter_mut().filter(|kept| kept.address == *address) {
            kept.again(now);
        }
    }

    /// A dial succeeded.
    pub(super) fn connected(&mut self, connection: ConnectionId) {
        for kept in self.peers.iter_mut().filter(|kept| kept.is(connection)) {
            kept.failed = 0;
        }
    }

    /// A dial failed, or a connection ended.
    pub(super) fn ended(&mut self, connection: ConnectionId, now: Instant) {
        for kept in self.peers.iter_mut().filter(|kept| kept.is(connection)) {
            kept.again(now);
        }
    }
}

impl Kept {
    fn is(&self, connection: ConnectionId) -> bool {
        matches!(self.state, State::Connection(one) if one == connection)
    }

    fn again(&mut self, now: Instant) {
        let pause = AGAIN_AFTER * 2u32.pow(self.failed.min(AGAIN_DOUBLINGS_MAX));
        self.failed += 1;
        self.state = State::DialAt(now + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_dialled_at_once_and_then_ever_later_until_it_answers() {
        let address: Multiaddr = "/ip4/127.0.0.1/tcp/1".parse().unwrap();
        let mut now = Instant::now();
        let mut bootstrap = Bootstrap::new(vec![address.clone()], now);
        for pause in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert_eq!(bootstrap.due(now), std::slice::from_ref(&address));
            let connection = ConnectionId::new_unchecked(pause);
            bootstrap.dialled(&address, connection);
            assert_eq!((bootstrap.due(now), bootstrap.next_wake()), (Vec::new(), None));
            bootstrap.ended(connection, now);
            now += Duration::from_secs(pause as u64);
            assert_eq!(bootstrap.next_wake(), Some(now));
        }
        let connection = ConnectionId::new_unchecked(100);
        bootstrap.dialled(&address, connection);
        bootstrap.connected(connection);
        bootstrap.ended(connection, now);
        assert_eq!(bootstrap.next_wake(), Some(now + Duration::from_secs(1)));
    }
}
