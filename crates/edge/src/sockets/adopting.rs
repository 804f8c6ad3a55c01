//! Connections that enter and leave the slab.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use vocab::SocketId;

use super::Sockets;
use crate::place::Place;
use crate::record::State;
use crate::wire;

/// A connection that left the slab.
pub(crate) struct Released {
    pub(crate) fd: OwnedFd,
    /// Who is at the other end, when the socket cannot tell it.
    pub(crate) pair_peer: Option<SocketAddr>,
    pub(crate) place: Place,
}

impl Sockets {
    /// Take a connection in. `peer` is given when the socket cannot tell it.
    pub(crate) fn adopt(
        &mut self,
        fd: OwnedFd,
        peer: Option<SocketAddr>,
        is_reused: bool,
        place: Place,
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

    /// Hear when the kernel has room again for a socket whose queue has just begun.
    pub(super) fn await_room(&self, id: SocketId) {
        let Some(fd) = self.slab.get(id).and_then(|record| record.fd.as_ref()) else { return };
        let interest = Interest::READABLE | Interest::WRITABLE;
        // Should it fail, the queue makes no progress, and the socket ends as a slow one does.
        let _ = self.registry.reregister(&mut SourceFd(&fd.as_raw_fd()), token(id), interest);
    }

    /// Give a connection away: to hyper, or to another shard.
    pub(crate) fn release(&mut self, id: SocketId) -> Option<Released> {
        let held = self.slab.get(id)?.held_bytes();
        self.held(held, 0);
        let fd = self.slab.remove(id)?;
        // Failing is harmless: no event of an id that is no more finds a socket.
        let _ = self.registry.deregister(&mut SourceFd(&fd.as_raw_fd()));
        let pair_peer = self.forget_pair(id);
        Some(Released { fd, pair_peer, place: Place::of_slab(self.counters.clone(), self.shard) })
    }

    /// Forget who is at a pair's other end. Most shards have no pairs, and spare the look.
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
    pub(crate) fn place(&self) -> Place {
        Place::take(self.counters.clone(), self.shard)
    }

    /// Connections of all shards, of any kind.
    pub fn connections(&self) -> u64 {
        self.counters.connections()
    }

    /// Remember for a while who is at the other end, to spare the question.
    pub(crate) fn remember(&mut self, id: SocketId, peer: Option<SocketAddr>) {
        if let Some(peer) = peer {
            self.newcomers.remember(id, peer);
        }
    }

    /// Who is at the other end.
    pub(crate) fn peer(&mut self, id: SocketId) -> Option<SocketAddr> {
        if let Some(peer) = self.newcomers.take(id) {
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
