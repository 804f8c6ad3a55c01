use std::collections::BTreeMap;

use libp2p::PeerId;

/// A peer as the exchange knows it: a small number, never used for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Peer(pub(super) u64);

/// The peers that have a number: those that are connected, and those that were found.
#[derive(Debug, Default)]
pub(super) struct Peers {
    named: BTreeMap<PeerId, Named>,
    ids: BTreeMap<Peer, PeerId>,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Named {
    peer: Peer,
    is_connected: bool,
}

/// Peers that were found and are not connected, beyond which they are forgotten: a few searches'.
const FOUND_MAX: usize = 1024;

impl Peers {
    /// The number of a peer that was found.
    pub(super) fn name(&mut self, id: PeerId) -> Peer {
        if let Some(named) = self.named.get(&id) {
            return named.peer;
        }
        if self.named.len() >= FOUND_MAX {
            self.named.retain(|_, named| named.is_connected);
            let named = &self.named;
            self.ids.retain(|_, id| named.contains_key(id));
        }
        let peer = self.number();
        self.named.insert(id, Named { peer, is_connected: false });
        self.ids.insert(peer, id);
        peer
    }

    /// A number for somebody who is not libp2p's.
    pub(super) fn number(&mut self) -> Peer {
        let peer = Peer(self.next);
        self.next += 1;
        peer
    }

    /// The number of a peer that is connected from now on.
    pub(super) fn connect(&mut self, id: PeerId) -> Peer {
        let peer = self.name(id);
        self.named.insert(id, Named { peer, is_connected: true });
        peer
    }

    /// The number of a peer, if it is connected.
    pub(super) fn connected(&self, id: &PeerId) -> Option<Peer> {
        self.named.get(id).filter(|named| named.is_connected).map(|named| named.peer)
    }

    /// Whose number this is.
    pub(super) fn id_of(&self, peer: Peer) -> Option<PeerId> {
        self.ids.get(&peer).copied()
    }

    /// A peer is gone, and its number with it; `None` when it was not connected.
    pub(super) fn disconnect(&mut self, id: &PeerId) -> Option<Peer> {
        let peer = self.connected(id)?;
        self.forget(peer);
        Some(peer)
    }

    /// Forgets a number, and tells whose it was.
    pub(super) fn forget(&mut self, peer: Peer) -> Option<PeerId> {
        let id = self.ids.remove(&peer)?;
        self.named.remove(&id);
        Some(id)
    }
}
