//! Addresses of recent connections, kept from `accept` to the first request.

use std::net::SocketAddr;

use watchfire_types::SocketId;

/// Addresses that are kept; a power of two.
const LEN: usize = 512;

/// The addresses of the newest connections. A new entry replaces the old entry of its slot. An
/// address that is missing here costs a system call.
pub(super) struct RecentPeers(Box<[Option<(SocketId, SocketAddr)>]>);

impl Default for RecentPeers {
    fn default() -> Self {
        RecentPeers(vec![None; LEN].into_boxed_slice())
    }
}

impl RecentPeers {
    pub(super) fn remember(&mut self, socket: SocketId, address: SocketAddr) {
        *self.slot(socket) = Some((socket, address));
    }

    /// Removes and returns the address of a connection.
    pub(super) fn take(&mut self, socket: SocketId) -> Option<SocketAddr> {
        let (_, address) = self.slot(socket).take_if(|(id, _)| *id == socket)?;
        Some(address)
    }

    fn slot(&mut self, socket: SocketId) -> &mut Option<(SocketId, SocketAddr)> {
        // Slab slots are used in order, so consecutive connections do not collide.
        &mut self.0[socket.index as usize % LEN]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn an_address_is_returned_once_and_never_for_another_socket() {
        let mut recent_peers = RecentPeers::default();
        let first = SocketId { index: 7, generation: 0 };
        let successor = SocketId { index: 7, generation: 1 };
        recent_peers.remember(first, address(1));
        assert_eq!(recent_peers.take(successor), None);
        assert_eq!(recent_peers.take(first), Some(address(1)));
        assert_eq!(recent_peers.take(first), None);

        let later = SocketId { index: 7 + LEN as u32, generation: 0 };
        recent_peers.remember(first, address(1));
        recent_peers.remember(later, address(2));
        assert_eq!(recent_peers.take(first), None);
        assert_eq!(recent_peers.take(later), Some(address(2)));
    }
}
