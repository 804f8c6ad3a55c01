use vocab::Instant;

use crate::Protocol;

/// What carries our messages to a peer.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub protocol: Protocol,
    /// Bytes that it has room for.
    pub room: usize,
    /// Until then, only what is urgent is said.
    pub quiet_until: Instant,
    /// Blocks that went into it.
    pub blocks_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
}

impl Pipe {
    pub(crate) const fn new(now: Instant, protocol: Protocol) -> Self {
        Pipe { protocol, room: 0, quiet_until: now, blocks_out: 0, bytes_out: 0 }
    }
}
