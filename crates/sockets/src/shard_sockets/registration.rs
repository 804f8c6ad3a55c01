//! Connections that enter and leave the slab.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use watchfire_types::SocketId;

use super::state::Sockets;
use crate::counters::CountedConnection;
use crate::handoff::ClientAddress;
use crate::record::State;
use crate::wire;

/// A connection that left the slab.
pub(crate) struct Released {
    pub(crate) fd: OwnedFd,
    pub(crate) client: ClientAddress,
    pub(crate) counted: CountedConnection,
}

impl Sockets {
    /// Adds a connection to the slab.
    pub(crate) fn adopt(
        &mut self,
        fd: OwnedFd,
        client: ClientAddress,
        is_reused: bool,
        counted: CountedConnection,
    ) -> io::Result<SocketId> {
        let raw = fd.as_raw_fd();
        let state = match client {
            ClientAddress::InProxyHeader => State::ProxyHeader,
            _ => State::Head { held: None, is_reused },
        };
        let id = self.slab.insert(fd, self.tick, state);
        // Writability is watched only while a queue exists, which most sockets never have.
        let interest = Interest::READABLE;
        if let Err(error) = self.registry.register(&mut SourceFd(&raw), token(id), interest) {
            self.slab.remove(id);
            return Err(error);
        }
        if client.known().is_some() {
            self.clients.insert(id.index, client);
        }
        counted.pass_to_slab();
        Ok(id)
    }

    /// Watches for writability of a socket whose queue was just created.
    pub(super) fn await_writable(&self, id: SocketId) {
        let Some(fd) = self.slab.get(id).and_then(|record| record.fd.as_ref()) else { return };
        let interest = Interest::READABLE | Interest::WRITABLE;
        // If it fails, the queue makes no progress and `slow_timeout` closes the socket.
        let _ = self.registry.reregister(&mut SourceFd(&fd.as_raw_fd()), token(id), interest);
    }

    /// Removes a connection from the slab: for hyper, another shard or another process.
    pub(crate) fn release(&mut self, id: SocketId) -> Option<Released> {
        let held = self.slab.get(id)?.buffered_bytes();
        self.update_partial_bytes(held, 0);
        let fd = self.slab.remove(id)?;
        // Failing is harmless: events of a removed id are ignored.
        let _ = self.registry.deregister(&mut SourceFd(&fd.as_raw_fd()));
        let client = self.forget_client(id);
        Some(Released {
            fd,
            client,
            counted: CountedConnection::already_counted(self.counters.clone(), self.shard),
        })
    }

    /// Removes and returns the client's address. Most shards keep none.
    pub(crate) fn forget_client(&mut self, id: SocketId) -> ClientAddress {
        if self.clients.is_empty() {
            return ClientAddress::OfSocket;
        }
        self.clients.remove(&id.index).unwrap_or_default()
    }

    /// A header of the PROXY protocol was read: the first request follows.
    pub(crate) fn end_proxy_header(&mut self, id: SocketId, client: Option<SocketAddr>) {
        let Some(record) = self.slab.get_mut(id) else { return };
        record.seen = self.tick;
        record.state = State::Head { held: None, is_reused: false };
        if let Some(client) = client {
            self.clients.insert(id.index, ClientAddress::FromProxyHeader(client));
        }
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Counts a connection before it is added to the slab.
    pub(crate) fn count_connection(&self) -> CountedConnection {
        CountedConnection::new(self.counters.clone(), self.shard)
    }

    /// Connections of all shards, of any kind.
    pub fn connections(&self) -> u64 {
        self.counters.connections()
    }

    /// Keeps the client's address for the first request, which saves a system call.
    pub(crate) fn remember(&mut self, id: SocketId, peer: Option<SocketAddr>) {
        if let Some(peer) = peer {
            self.recent_peers.remember(id, peer);
        }
    }

    pub(crate) fn peer(&mut self, id: SocketId) -> Option<SocketAddr> {
        if let Some(peer) = self.recent_peers.take(id) {
            return Some(peer);
        }
        if let Some(client) = self.clients.get(&id.index) {
            return client.known();
        }
        wire::peer(self.slab.get(id)?.fd.as_ref()?).ok()
    }

    /// Connections of this shard, including lent ones.
    pub(crate) fn shard_connections(&self) -> u64 {
        self.count().connections_now.get()
    }
}

pub(crate) fn token(id: SocketId) -> Token {
    Token((id.generation as usize) << 32 | id.index as usize)
}

pub(crate) fn socket_of(Token(token): Token) -> SocketId {
    SocketId { index: token as u32, generation: (token >> 32) as u32 }
}
