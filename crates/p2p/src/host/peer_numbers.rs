//! The numbers that identify peers in the exchange.

use std::collections::BTreeMap;

use libp2p::PeerId;

/// A peer in the exchange. A number is never used for two peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PeerNumber(pub(super) u64);

/// The number of each libp2p peer that is connected, or that a search found.
#[derive(Debug, Default)]
pub(super) struct PeerNumbers {
    peers: BTreeMap<PeerId, NumberedPeer>,
    ids: BTreeMap<PeerNumber, PeerId>,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct NumberedPeer {
    number: PeerNumber,
    is_connected: bool,
}

/// When the map has this many entries, the next new peer removes all that are not connected.
const PEERS_MAX: usize = 1024;

impl PeerNumbers {
    /// Returns the number of a peer that may not be connected. A new peer gets a new number.
    pub(super) fn number_of(&mut self, id: PeerId) -> PeerNumber {
        if let Some(peer) = self.peers.get(&id) {
            return peer.number;
        }
        if self.peers.len() >= PEERS_MAX {
            self.peers.retain(|_, peer| peer.is_connected);
            let peers = &self.peers;
            self.ids.retain(|_, id| peers.contains_key(id));
        }
        let number = self.next_number();
        self.peers.insert(id, NumberedPeer { number, is_connected: false });
        self.ids.insert(number, id);
        number
    }

    /// Returns a number for a peer that is not on libp2p.
    pub(super) fn next_number(&mut self) -> PeerNumber {
        let number = PeerNumber(self.next);
        self.next += 1;
        number
    }

    /// Marks a peer as connected and returns its number.
    pub(super) fn connect(&mut self, id: PeerId) -> PeerNumber {
        let number = self.number_of(id);
        self.peers.insert(id, NumberedPeer { number, is_connected: true });
        number
    }

    /// Returns the number of a peer if it is connected.
    pub(super) fn connected(&self, id: &PeerId) -> Option<PeerNumber> {
        self.peers.get(id).filter(|peer| peer.is_connected).map(|peer| peer.number)
    }

    /// Returns the id of a libp2p peer; `None` for other peers.
    pub(super) fn id_of(&self, number: PeerNumber) -> Option<PeerId> {
        self.ids.get(&number).copied()
    }

    /// Removes a peer and returns its number; `None` if it was not connected.
    pub(super) fn disconnect(&mut self, id: &PeerId) -> Option<PeerNumber> {
        let number = self.connected(id)?;
        self.remove(number);
        Some(number)
    }

    pub(super) fn remove(&mut self, number: PeerNumber) -> Option<PeerId> {
        let id = self.ids.remove(&number)?;
        self.peers.remove(&id);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_keeps_its_number_while_connected_and_gets_a_new_one_afterwards() {
        let mut numbers = PeerNumbers::default();
        let id = PeerId::random();
        let number = numbers.number_of(id);
        assert_eq!((numbers.connected(&id), numbers.disconnect(&id)), (None, None));
        assert_eq!(numbers.connect(id), number);
        assert_eq!((numbers.connected(&id), numbers.id_of(number)), (Some(number), Some(id)));
        assert_eq!(numbers.disconnect(&id), Some(number));
        assert_ne!(numbers.connect(id), number);
    }

    #[test]
    fn disconnected_peers_are_removed_when_there_are_too_many() {
        let mut numbers = PeerNumbers::default();
        let connected = PeerId::random();
        let number = numbers.connect(connected);
        for _ in 0..PEERS_MAX {
            numbers.number_of(PeerId::random());
        }
        assert_eq!((numbers.peers.len(), numbers.ids.len()), (2, 2));
        assert_eq!(numbers.connected(&connected), Some(number));
    }
}
