//! The state of a connection, for an operator who looks at it.

use std::net::SocketAddr;
use std::time::Duration;

use watchfire_types::SocketId;

use crate::record::{Record, State};
use crate::shard_sockets::Sockets;
use crate::tcp_info::TcpInfo;
use crate::wire;

/// The state of one connection: see [`Sockets::connection_at`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionView {
    pub socket: SocketId,
    pub state: ConnectionState,
    /// Bytes in its queue, including the overhead of each frame.
    pub queued_bytes: usize,
    /// How long it has had a queue, in steps of 0.1 s; zero without one.
    pub queue_age: Duration,
    /// How long its client has sent nothing, in steps of 0.1 s.
    pub idle: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// It has sent no complete request, or waits for its next one.
    Http,
    /// Its request waits for the answer.
    Parked {
        key: u32,
    },
    WebSocket {
        key: u32,
    },
    /// Its response of server-sent events goes on.
    Stream {
        key: u32,
    },
    /// Its end was begun.
    Closing,
}

/// For looking at the connections of a shard, one slot after the other. A slot costs a few
/// nanoseconds, so look at some thousands and let the shard do other work between them.
impl Sockets {
    /// A number above the slot of every connection.
    pub fn slots(&self) -> usize {
        self.slab.slots()
    }

    /// The connection in a slot. `None`: the slot is free, or an HTTP response is being written, during
    /// which the connection has no slot.
    pub fn connection_at(&self, slot: usize) -> Option<ConnectionView> {
        let (socket, record) = self.slab.at(slot)?;
        self.view(socket, record)
    }

    /// One connection; `None` when it is gone.
    pub fn connection(&self, socket: SocketId) -> Option<ConnectionView> {
        self.view(socket, self.slab.get(socket)?)
    }

    /// The address of a connection's client, as the kernel or a header of the PROXY protocol names it.
    /// May cost a system call.
    pub fn address_of(&self, socket: SocketId) -> Option<SocketAddr> {
        let fd = self.slab.get(socket)?.fd.as_ref()?;
        let named = self.clients.get(&socket.index).and_then(|client| client.known());
        named.or_else(|| wire::peer(fd).ok())
    }

    /// The kernel's figures of a connection. Costs a system call. `None`: the connection is gone, or
    /// has TLS, whose TCP connection is not the shard's.
    pub fn tcp_info(&self, socket: SocketId) -> Option<TcpInfo> {
        TcpInfo::of(self.slab.get(socket)?.fd.as_ref()?)
    }

    /// Ends a connection of any state immediately. A WebSocket gets a close frame with 1001 first, and a stream its
    /// last event.
    pub fn end(&mut self, socket: SocketId) {
        let is_open = self.slab.get(socket).is_some_and(Record::is_open);
        if is_open {
            self.close(socket, 1001, "closed by the operator");
        } else {
            self.disconnect(socket);
        }
    }

    fn view(&self, socket: SocketId, record: &Record) -> Option<ConnectionView> {
        let key = record.key;
        let state = match &record.state {
            State::ProxyHeader | State::Head { .. } => ConnectionState::Http,
            State::Parked { .. } => ConnectionState::Parked { key },
            State::Open(_) => ConnectionState::WebSocket { key },
            State::Stream => ConnectionState::Stream { key },
            State::Closing(_) | State::Lingering => ConnectionState::Closing,
            State::Dead => return None,
        };
        let queue = record.outbound.as_ref();
        let since = |tick: u32| Duration::from_millis(100) * self.tick.wrapping_sub(tick);
        Some(ConnectionView {
            socket,
            state,
            queued_bytes: queue.map_or(0, |queue| queue.bytes()),
            queue_age: queue.map_or(Duration::ZERO, |queue| since(queue.began())),
            idle: since(record.seen),
        })
    }
}
