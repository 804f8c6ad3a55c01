//! The record of a socket in the slab: the whole memory of an idle socket.
//!
//! # The reason
//!
//! A server of long-lived connections pays for each idle client, all the time. hyper holds about
//! 15 KB for a connection: a million idle clients would need 15 GB. As records of 40 bytes they need
//! 40 MB. The assertion below keeps this number true.
//!
//! # The reasons for its size
//!
//! - It has no buffer. All sockets of a shard are read into one buffer of 64 KiB, and a message that
//!   arrives in one piece is decoded there. Only the rest of a partial head or message is kept, in
//!   the state of the socket, and `partial_bytes_max` bounds all these rests of a shard together.
//! - It has no queue, except while the kernel's send buffer is full (`outbound_queue.rs`).
//! - It has no timer. `seen` is the time of the state's begin in tenths of a second, in four bytes,
//!   and `shard/timeouts.rs` looks at all records once a second.
//! - It does not know its client. The handler gives a key of four bytes, which it gets back with each
//!   message. The client's address is asked from the kernel when a request needs it.
//!
//! # Ids of sockets that are gone
//!
//! Slots are used again, the lowest vacant one first, so that the slab shrinks after a crowd has left.
//! An id must therefore not reach the next socket of its slot. Example: the backend decides about the
//! upgrade request in slot 9, which takes a second. Meanwhile the client leaves, and the next accepted
//! connection gets slot 9. By its slot alone, the decision would open a WebSocket for a stranger. So
//! each record gets a generation, which is also in the id and in the epoll's token. Lookups compare
//! it, and an old id finds nothing.
//!
//! A socket that ends becomes `Dead` first. Its slot is freed after the handler was told
//! (`EventLoop::settle`), so the handler never sees two sockets under one id. A generation comes again
//! after four billion connections of a shard: more than a year at a hundred per second.
//!
//! # The bound
//!
//! `limits.sockets_max` bounds the connections of all shards, and with them the records.

use std::os::fd::OwnedFd;

use watchfire_types::SocketId;

use crate::frame::Decoder;
use crate::outbound_queue::Outbound;

pub(crate) struct Record {
    /// `None` in a free slot.
    pub(crate) fd: Option<OwnedFd>,
    generation: u32,
    /// The tick at which the state's timeout began.
    pub(crate) seen: u32,
    pub(crate) key: u32,
    pub(crate) state: State,
    /// Bytes that the kernel has not accepted yet.
    pub(crate) outbound: Option<Box<Outbound>>,
}

const _: () = assert!(std::mem::size_of::<Record>() == 40);

#[derive(Debug)]
pub(crate) enum State {
    /// Waiting for a header of the PROXY protocol, which stays in the kernel until it is complete.
    ProxyHeader,
    /// Waiting for a complete request head.
    Head {
        /// Bytes of a partial head, or of a request that arrived before the last response was sent.
        held: Option<Box<Held>>,
        /// Whether an earlier request of this connection was answered.
        is_reused: bool,
    },
    /// A GET or an upgrade request waits for its answer.
    Parked {
        /// Bytes after the request.
        held: Option<Box<Held>>,
        /// Whether the connection may serve another request.
        keeps_alive: bool,
    },
    Open(Decoder),
    /// A response of server-sent events that goes on. Received bytes are dropped.
    Stream,
    /// A close frame was sent; the client's is awaited.
    Closing(Decoder),
    /// The last bytes were sent. Received bytes are dropped until the client closes its side.
    /// Closing immediately would reset the connection, which could destroy our last bytes in transit.
    Lingering,
    /// The connection ended. Its slot is freed after the handler was called.
    Dead,
}

/// Bytes of a request that waits for the rest of its head, or for the previous response.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) bytes: Vec<u8>,
}

/// The shard's sockets. Each gets a generation of its own, which tells it from an earlier one in the
/// same slot.
#[derive(Default)]
pub(crate) struct Slab {
    records: watchfire_types::Slab<Record>,
    /// It wraps after four billion connections. No id of a closed socket is kept until then.
    last_generation: u32,
}

impl Slab {
    /// A number above the index of every socket.
    pub(crate) fn slots(&self) -> usize {
        self.records.slots()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.records.memory_bytes()
    }

    pub(crate) fn insert(&mut self, fd: OwnedFd, seen: u32, state: State) -> SocketId {
        self.last_generation = self.last_generation.wrapping_add(1);
        let generation = self.last_generation;
        let record = Record { fd: Some(fd), generation, seen, key: 0, state, outbound: None };
        SocketId { index: self.records.insert(record), generation }
    }

    pub(crate) fn remove(&mut self, id: SocketId) -> Option<OwnedFd> {
        self.get(id)?;
        self.records.remove(id.index).fd
    }

    pub(crate) fn get_mut(&mut self, id: SocketId) -> Option<&mut Record> {
        self.records
            .get_mut(id.index)
            .filter(|record| record.generation == id.generation && record.fd.is_some())
    }

    pub(crate) fn get(&self, id: SocketId) -> Option<&Record> {
        self.records
            .get(id.index)
            .filter(|record| record.generation == id.generation && record.fd.is_some())
    }

    /// The socket in a slot; `None` if the slot is free.
    pub(crate) fn at(&self, index: usize) -> Option<(SocketId, &Record)> {
        let index = u32::try_from(index).ok()?;
        let record = self.records.get(index)?;
        record.fd.as_ref()?;
        Some((SocketId { index, generation: record.generation }, record))
    }
}

impl Default for Record {
    /// The content of a free slot.
    fn default() -> Self {
        Record { fd: None, generation: 0, seen: 0, key: 0, state: State::Dead, outbound: None }
    }
}

impl Record {
    /// Whether it is a WebSocket or an event stream, and its end was not begun.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_) | State::Stream)
    }

    /// Bytes of a partly received head or message.
    pub(crate) fn buffered_bytes(&self) -> usize {
        match &self.state {
            State::Head { held, .. } | State::Parked { held, .. } => {
                held.as_ref().map_or(0, |held| held.bytes.capacity())
            }
            State::Open(decoder) | State::Closing(decoder) => decoder.buffered_bytes(),
            State::ProxyHeader | State::Stream | State::Lingering | State::Dead => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn the_id_of_a_removed_socket_is_invalid() {
        let mut slab = Slab::default();
        let first = slab.insert(descriptor(), 0, State::Lingering);
        assert!(slab.remove(first).is_some());
        assert!(slab.remove(first).is_none());
        let second = slab.insert(descriptor(), 0, State::Lingering);
        assert_eq!(second.index, first.index);
        assert!(slab.get(first).is_none());
        assert!(slab.get(second).is_some());
    }

    #[test]
    fn a_free_slot_has_no_socket() {
        let mut slab = Slab::default();
        let id = slab.insert(descriptor(), 0, State::Lingering);
        assert_eq!(slab.at(0).map(|(id, _)| id), Some(id));
        slab.remove(id);
        assert!(slab.at(0).is_none());
        assert!(slab.at(1).is_none());
    }
}
