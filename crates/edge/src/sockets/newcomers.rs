//! Who just came: addresses that `accept` told, until the first request is judged.

use std::net::SocketAddr;

use vocab::SocketId;

/// How many newcomers are remembered; a power of two.
const LEN: usize = 512;

/// The addresses of the newest connections. A later one takes an earlier one's place; whoever is
/// not found here, the kernel can still tell, for the price of a call.
pub(super) struct Newcomers(Box<[Option<(SocketId, SocketAddr)>]>);

impl Default for Newcomers {
    fn default() -> Self {
        Newcomers(vec![None; LEN].into_boxed_slice())
    }
}

impl Newcomers {
    pub(super) fn remember(&mut self, socket: SocketId, address: SocketAddr) {
        *self.place(socket) = Some((socket, address));
    }

    /// The address of a connection, told once.
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
    fn an_address_is_told_once_and_never_for_another_socket() {
        let mut newcomers = Newcomers::default();
        let first = SocketId { index: 7, generation: 0 };
        let heir = SocketId { index: 7, generation: 1 };
        newcomers.remember(first, address(1));
        assert_eq!(newcomers.take(heir), None);
        assert_eq!(newcomers.take(first), Some(address(1)));
        assert_eq!(newcomers.take(first), None);

        let later = SocketId { index: 7 + LEN as u32, generation: 0 };
        newcomers.remember(first, address(1));
        newcomers.remember(later, address(2));
        assert_eq!(newcomers.take(first), None);
        assert_eq!(newcomers.take(later), Some(address(2)));
    }
}
