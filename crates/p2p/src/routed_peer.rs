//! A peer that content routing found.

use libp2p::{Multiaddr, PeerId};

/// A peer that content routing found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedPeer {
    /// Its id.
    pub peer: PeerId,
    /// Its known addresses, without its id.
    pub addresses: Vec<Multiaddr>,
}
