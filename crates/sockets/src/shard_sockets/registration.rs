//! Connections that enter and leave the slab.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use watchfire_types::SocketId;

use super::state::Sockets;
use crate::counted_connection::CountedConnection;
use crate::record::State;
use crate::wire;

/// A connection that left the slab.
pub(crate) struct Released {
    pub(crate) fd: OwnedFd,
    /// The client's address, when the socket does not know it.
    pub(crate) pair_peer: Option<SocketAddr>,
    pub(crate) place: CountedConnection,
}

impl Sockets {
    /// Take a connection in. `peer` is given when the socket does not know it.
    pub(crate) fn adopt(
        &mut self,
        fd: OwnedFd,
        peer: Option<SocketAddr>,
        is_reused: bool,
        place: CountedConnection,
    ) -> io::Result<SocketId> {
        let raw = fd.as_raw_fd();
        let id = self.slab.insert(fd, self.tick, State::Head { held: None, is_reused });
        // Whether it can be written is asked when something waits to be: most never have to wait.
        let interest = Interest::READABLE;
        if let Err(error) = self.registry.register(&mut SourceFd(&raw), token(id), interest) {
            self.slab.remove(id);
            return Err(error);
        }
        if let Some(peer) = peer {
            self.pairs.insert(id.index, peer);
        }
        place.pass_to_slab();
        Ok(id)
    }

    /// Wait for an event when the kernel has room again for a socket whose queue has just begun.
    pub(super) fn await_writable(&self, id: SocketId) {
        let Some(fd) = self.slab.get(id).and_then(|record| record.fd.as_ref()) else { return };
        let interest = Interest::READABLE | Interest::WRITABLE;
        // Should it fail, the queue makes no progress, and the socket ends as a slow one does.
        let _ = self.registry.reregister(&mut SourceFd(&fd.as_raw_fd()), token(id), interest);
    }

    /// Give a connection away: to hyper, or to another shard.
    pub(crate) fn release(&mut self, id: SocketId) -> Option<Released> {
        let held = self.slab.get(id)?.held_bytes();
        self.update_partial_bytes(held, 0);
        let fd = self.slab.remove(id)?;
        // Failing is harmless: no event of an id that is no more finds a socket.
        let _ = self.registry.deregister(&mut SourceFd(&fd.as_raw_fd()));
        let pair_peer = self.forget_pair(id);
        Some(Released {
            fd,
            pair_peer,
            place: CountedConnection::of_slab(self.counters.clone(), self.shard),
        })
    }

    /// Forget the client's address of a pair. Most shards have no pairs.
    pub(super) fn forget_pair(&mut self, id: SocketId) -> Option<SocketAddr> {
        if self.pairs.is_empty() {
            return None;
        }
        self.pairs.remove(&id.index)
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Count a connection that is about to be taken in.
    pub(crate) fn place(&self) -> CountedConnection {
        CountedConnection::take(self.counters.clone(), self.shard)
    }

    /// Connections of all shards, of any kind.
    pub fn connections(&self) -> u64 {
        self.counters.connections()
    }

    /// Keep the client's address for the first request, which saves a system call.
    pub(crate) fn remember(&mut self, id: SocketId, peer: Option<SocketAddr>) {
        if let Some(peer) = peer {
            self.recent_peers.remember(id, peer);
        }
    }

    /// The client's address.
    pub(crate) fn peer(&mut self, id: SocketId) -> Option<SocketAddr> {
        if let Some(peer) = self.recent_peers.take(id) {
            return Some(peer);
        }
        if let Some(peer) = self.pairs.get(&id.index) {
            return Some(*peer);
        }
        wire::peer(self.slab.get(id)?.fd.as_ref()?).ok()
    }

    /// Connections of this shard, those included that are lent.
    pub(crate) fn count_connections(&self) -> u64 {
        self.count().connections_now.get()
    }
}

/// A socket's id, as the epoll carries it.
pub(crate) fn token(id: SocketId) -> Token {
    Token((id.generation as usize) << 32 | id.index as usize)
}

/// The id in a token.
pub(crate) fn socket_of(Token(token): Token) -> SocketId {
    SocketId { index: token as u32, generation: (token >> 32) as u32 }
}
