//! The record of a socket in the slab: all that an idle socket costs.

use std::os::fd::OwnedFd;

use watchfire_types::SocketId;

use crate::frame::Decoder;
use crate::outbound::Outbound;

/// One socket.
pub(crate) struct Record {
    /// `None` in a free slot.
    pub(crate) fd: Option<OwnedFd>,
    generation: u32,
    /// The tick from which the state's timeout runs.
    pub(crate) seen: u32,
    /// The handler's key for it.
    pub(crate) key: u32,
    pub(crate) state: State,
    /// Bytes that the kernel did not take yet.
    pub(crate) outbound: Option<Box<Outbound>>,
}

const _: () = assert!(std::mem::size_of::<Record>() == 40);

/// The state of a socket.
#[derive(Debug)]
pub(crate) enum State {
    /// The request's head has not arrived whole.
    Head {
        /// Bytes of the head, or of a request that came before the last one's answer was sent.
        held: Option<Box<Held>>,
        /// Whether an earlier request of this connection was answered.
        is_reused: bool,
    },
    /// A GET awaits its answer.
    Parked {
        /// Bytes of the next request.
        held: Option<Box<Held>>,
        /// Whether the connection may serve another request.
        keeps_alive: bool,
    },
    /// An open websocket.
    Open(Decoder),
    /// We sent a close frame and await the client's.
    Closing(Decoder),
    /// All is said; what the client still sends is read and dropped until it ends its side. To
    /// close right away would reset the connection and could destroy our last bytes on their way.
    Lingering,
    /// Broken, or done with; its slot is freed as soon as the handler knows.
    Dead,
}

/// Bytes of a request that has to wait: for the rest of its head, or for the answer to the one
/// before it.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) bytes: Vec<u8>,
}

/// The shard's sockets. A slot is reused after its socket's end, under another generation.
#[derive(Default)]
pub(crate) struct Slab {
    records: Vec<Record>,
    free: Vec<u32>,
}

impl Slab {
    /// How many slots there are, free ones included.
    pub(crate) fn slots(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn insert(&mut self, fd: OwnedFd, seen: u32, state: State) -> SocketId {
        if let Some(index) = self.free.pop() {
            let record = &mut self.records[index as usize];
            (record.fd, record.seen, record.state) = (Some(fd), seen, state);
            return SocketId { index, generation: record.generation };
        }
        let index = u32::try_from(self.records.len()).expect("fewer than four billion sockets");
        let record = Record { fd: Some(fd), generation: 0, seen, key: 0, state, outbound: None };
        self.records.push(record);
        SocketId { index, generation: 0 }
    }

    /// Empty a slot.
    pub(crate) fn remove(&mut self, id: SocketId) -> Option<OwnedFd> {
        let record = self.get_mut(id)?;
        let fd = record.fd.take()?;
        record.state = State::Dead;
        record.outbound = None;
        record.generation = record.generation.wrapping_add(1);
        self.free.push(id.index);
        Some(fd)
    }

    pub(crate) fn get_mut(&mut self, id: SocketId) -> Option<&mut Record> {
        self.records
            .get_mut(id.index as usize)
            .filter(|record| record.generation == id.generation && record.fd.is_some())
    }

    pub(crate) fn get(&self, id: SocketId) -> Option<&Record> {
        self.records
            .get(id.index as usize)
            .filter(|record| record.generation == id.generation && record.fd.is_some())
    }

    /// The socket in a slot, if there is one.
    pub(crate) fn at(&self, index: usize) -> Option<(SocketId, &Record)> {
        let record = self.records.get(index)?;
        record.fd.as_ref()?;
        Some((SocketId { index: index as u32, generation: record.generation }, record))
    }
}

impl Record {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Bytes of a half-received head or message.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.state {
            State::Head { held, .. } | State::Parked { held, .. } => {
                held.as_ref().map_or(0, |held| held.bytes.capacity())
            }
            State::Open(decoder) | State::Closing(decoder) => decoder.held_bytes(),
            State::Lingering | State::Dead => 0,
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
    fn the_id_of_a_socket_that_ended_finds_no_socket() {
        let mut slab = Slab::default();
        let first = slab.insert(descriptor(), 0, State::Lingering);
        assert!(slab.remove(first).is_some());
        assert!(slab.remove(first).is_none());
        let second = slab.insert(descriptor(), 0, State::Lingering);
        assert_eq!(second.index, first.index);
        assert!(slab.get(first).is_none());
        assert!(slab.get(second).is_some());
        assert_eq!(slab.slots(), 1);
    }

    #[test]
    fn a_free_slot_is_passed_over() {
        let mut slab = Slab::default();
        let id = slab.insert(descriptor(), 0, State::Lingering);
        assert_eq!(slab.at(0).map(|(id, _)| id), Some(id));
        slab.remove(id);
        assert!(slab.at(0).is_none());
        assert!(slab.at(1).is_none());
    }
}
