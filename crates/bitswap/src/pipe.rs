use std::collections::VecDeque;

use content::Cid;
use vocab::Instant;

use crate::Protocol;

/// Blocks in a pipe that are remembered. Beyond, the oldest may be sent twice to who asks twice.
const CARRIED_MAX: usize = 256;

/// What carries our messages to a peer.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub protocol: Protocol,
    /// Bytes that it has room for.
    pub room: usize,
    /// The most that it ever had.
    room_max: usize,
    /// Bytes of messages with blocks in it, as far as its room tells.
    held: usize,
    /// Those of them that are on their way to the peer: not what has stood still.
    pub moving: usize,
    /// Bytes of all messages with blocks that ever went into it.
    filled: u64,
    /// Blocks in it, the oldest first, and [`Pipe::filled`] with their message.
    carried: VecDeque<(Cid, u64)>,
    /// Until then, only what is urgent is said.
    pub quiet_until: Instant,
    /// When anything was said last.
    pub spoken_at: Instant,
    /// Blocks that went into it.
    pub blocks_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
}

impl Pipe {
    pub(crate) const fn new(now: Instant, protocol: Protocol) -> Self {
        Pipe {
            protocol,
            room: 0,
            room_max: 0,
            held: 0,
            moving: 0,
            filled: 0,
            carried: VecDeque::new(),
            quiet_until: now,
            spoken_at: now,
            blocks_out: 0,
            bytes_out: 0,
        }
    }

    /// How much room there is now. The bytes that left it, of those that moved.
    pub(crate) fn has_room(&mut self, bytes: usize) -> usize {
        self.room = bytes;
        self.room_max = self.room_max.max(bytes);
        if bytes == 0 {
            return 0;
        }
        self.held = self.held.min(self.room_max - bytes);
        let moving = self.moving.min(self.held);
        let left = std::mem::replace(&mut self.moving, moving) - moving;
        let emptied = self.filled - self.held as u64;
        while self.carried.pop_front_if(|(_, filled)| *filled <= emptied).is_some() {}
        left
    }

    /// A message with these blocks goes into it.
    pub(crate) fn fill(&mut self, message_bytes: usize, blocks: impl Iterator<Item = Cid>) {
        self.held += message_bytes;
        self.moving += message_bytes;
        self.filled += message_bytes as u64;
        self.carried.extend(blocks.map(|cid| (cid, self.filled)));
        self.carried.drain(..self.carried.len().saturating_sub(CARRIED_MAX));
    }

    /// Whether a block is on its way already. Who waits for a slow pipe asks again.
    pub(crate) fn carries(&self, cid: &Cid) -> bool {
        self.carried.iter().any(|(carried, _)| carried == cid)
    }
}
