use vocab::Instant;

use crate::Protocol;

/// What carries our messages to a peer.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub protocol: Protocol,
    /// Bytes that it has room for.
    pub room: usize,
    /// The most that it ever had.
    room_max: usize,
    /// Bytes of messages with blocks in it, as far as its room tells.
    pub held: usize,
    /// Until then, only what is urgent is said.
    pub quiet_until: Instant,
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
            quiet_until: now,
            blocks_out: 0,
            bytes_out: 0,
        }
    }

    /// How much room there is now. The bytes that left it.
    pub(crate) fn has_room(&mut self, bytes: usize) -> usize {
        self.room = bytes;
        self.room_max = self.room_max.max(bytes);
        if bytes == 0 {
            return 0;
        }
        let held = self.held.min(self.room_max - bytes);
        std::mem::replace(&mut self.held, held) - held
    }
}
