//! Addresses of recent connections, kept from `accept` to the first request.

use std::net::SocketAddr;

use watchfire_types::SocketId;

/// How many addresses are kept; a power of two.
const LEN: usize = 512;

/// The addresses of the newest connections. A later one takes an earlier one's place. The
/// kernel knows the addresses that are missing here, at the cost of a system call.
pub(super) struct RecentPeers(Box<[Option<(SocketId, SocketAddr)>]>);

impl Default for RecentPeers {
    fn default() -> Self {
        RecentPeers(vec![None; LEN].into_boxed_slice())
    }
}

impl RecentPeers {
    pub(super) fn remember(&mut self, socket: SocketId, address: SocketAddr) {
        *self.place(socket) = Some((socket, address));
    }

    /// The address of a connection. It is removed.
    pub(super) fn take(&mut self, socket: SocketId) -> Option<SocketAddr> {
        let (_, address) = self.place(socket).take_if(|(id, _)| *id == socket)?;
        Some(address)
    }

    fn place(&mut self, socket: SocketId) -> &mut Option<(SocketId, SocketAddr)> {
        // Slots are given out one after the other, so that neighbours do not collide.
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
        let heir = SocketId { index: 7, generation: 1 };
        recent_peers.remember(first, address(1));
        assert_eq!(recent_peers.take(heir), None);
        assert_eq!(recent_peers.take(first), Some(address(1)));
        assert_eq!(recent_peers.take(first), None);

        let later = SocketId { index: 7 + LEN as u32, generation: 0 };
        recent_peers.remember(first, address(1));
        recent_peers.remember(later, address(2));
        assert_eq!(recent_peers.take(first), None);
        assert_eq!(recent_peers.take(later), Some(address(2)));
    }
}
