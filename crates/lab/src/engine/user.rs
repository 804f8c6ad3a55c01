//! One simulated user, small enough for a hundred thousand of them.

use std::os::fd::OwnedFd;

use vocab::Instant;

use crate::frame::Opcode;
use crate::scenario::{LOOPS_NESTED_MAX, Serializer};

/// Refs below this are joins'.
pub(super) const FIRST_REFERENCE: u32 = 100_000;
/// A moment in milliseconds that does not come.
pub(super) const NEVER: u32 = u32::MAX;

/// What exists once for each user.
pub(super) struct User {
    /// When the last think time was over, had the server answered at once.
    pub(super) anchor: Instant,
    /// When the current step was due, and when it was begun.
    pub(super) due: Instant,
    pub(super) begun: Instant,
    /// What came and makes no whole yet; nothing while idle.
    pub(super) inbox: Option<Box<Inbox>>,
    /// What the kernel did not take yet.
    pub(super) outbox: Option<Box<Outbox>>,
    /// Values taken out of answers.
    pub(super) saved: Option<Box<[String]>>,
    pub(super) socket: Option<OwnedFd>,
    /// Which user of the whole load this is; also tells tenants of one slot apart.
    pub(super) number: u32,
    pub(super) counters: [u32; LOOPS_NESTED_MAX],
    pub(super) next_reference: u32,
    /// The ref whose reply is waited for.
    pub(super) awaited: u32,
    /// In milliseconds since the load began.
    pub(super) times_out_at: u32,
    pub(super) heartbeat_at: u32,
    pub(super) heartbeat_seconds: u16,
    pub(super) session: u16,
    pub(super) place: u16,
    pub(super) target: u16,
    pub(super) connection: Connection,
    pub(super) serializer: Serializer,
    pub(super) waiting: Waiting,
    /// Changes with each new socket, so that old bytes are not taken for the new one's.
    pub(super) socket_serial: u8,
    /// One bit for each of the scenario's audiences that the user is of.
    pub(super) audiences: u8,
    pub(super) is_heartbeat_unanswered: bool,
    /// The kernel was asked to tell what happens at the socket, and when it takes bytes again.
    pub(super) is_watched: bool,
    pub(super) is_write_watched: bool,
}

/// Bytes that the kernel did not take yet.
pub(super) struct Outbox(pub(super) Vec<u8>);

/// Bytes of frames, or of an answer, that are not all there.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) unread: Vec<u8>,
    /// The frames of a fragmented message so far.
    pub(super) fragments: Vec<u8>,
    pub(super) fragments_opcode: Option<Opcode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    None,
    /// The request for a websocket was made, or waits for the kernel to be connected.
    Upgrading,
    Open,
    /// The close frame was sent.
    Closing,
    Http,
}

/// What the user's current step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    Nothing,
    /// The websocket to be open.
    Open,
    Message,
    Answer,
    /// A think time to be over.
    Time,
    /// The load to be over.
    Over,
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::wakes::Wake;

    #[test]
    fn an_idle_user_takes_less_than_400_bytes_even_while_its_slab_grows() {
        // What a slab entry adds to its record: nothing, or a word.
        let entry = size_of::<User>() + 8;
        assert!(size_of::<User>() <= 136, "{}", size_of::<User>());
        assert!(entry * 2 + size_of::<Wake>() * 2 <= 400, "doubling included");
    }
}
