//! One simulated user, small enough for a hundred thousand of them.

use std::os::fd::OwnedFd;

use watchfire_types::Instant;

use super::addresses::Tried;
use super::files::PageFiles;
use super::flow::Bucket;
use super::millis;
use super::page::Visit;
use super::reconnect::Break;
use crate::cookies::CookieJar;
use crate::frame::Opcode;
use crate::order::Order;
use crate::scenario::{LOOPS_NESTED_MAX, Serializer, Value};
use crate::tls::TlsConnection;

/// Refs below this belong to joins.
pub(super) const FIRST_REFERENCE: u32 = 100_000;
/// A time in milliseconds that is never reached.
pub(super) const NEVER: u32 = u32::MAX;

pub(super) struct User {
    /// The time at which the last think time would have ended with immediate replies.
    pub(super) anchor: Instant,
    /// The times at which the current step was due, and at which it began.
    pub(super) due: Instant,
    pub(super) begun: Instant,
    /// Incomplete received data; `None` while idle.
    pub(super) inbox: Option<Box<Inbox>>,
    /// Bytes that the kernel has not accepted yet.
    pub(super) outbox: Option<Box<Outbox>>,
    /// The parts that only some users need, so that the others stay small.
    pub(super) memory: Option<Box<Memory>>,
    /// The state of TLS, if the server of the current connection uses it.
    pub(super) tls: Option<Box<TlsConnection>>,
    pub(super) socket: Option<OwnedFd>,
    /// The number of the user in the whole load. It also distinguishes users of the same slot.
    pub(super) number: u32,
    pub(super) counters: [u32; LOOPS_NESTED_MAX],
    pub(super) next_reference: u32,
    pub(super) awaited: u32,
    /// When the user was due, in milliseconds since the load began.
    pub(super) arrived_at: u32,
    /// When the first step since the last think time was due, and when the current connection began:
    /// in microseconds since the load began, without the upper bits.
    pub(super) page_due: u32,
    pub(super) connect_begun: u32,
    /// In milliseconds since the load began.
    pub(super) times_out_at: u32,
    pub(super) heartbeat_at: u32,
    pub(super) heartbeat_seconds: u16,
    /// The addresses of the server that were tried for the current connection.
    pub(super) tried: Tried,
    pub(super) session: u16,
    pub(super) position: u16,
    pub(super) target: u16,
    pub(super) connection: Connection,
    pub(super) serializer: Serializer,
    pub(super) waiting: Waiting,
    /// Changes with each new socket, so that bytes of the old one are not mixed in.
    pub(super) socket_serial: u8,
    /// One bit for each audience of the scenario; set while the user belongs to it.
    pub(super) audiences: u8,
    pub(super) is_heartbeat_unanswered: bool,
    /// Whether a step was done since the last think time.
    pub(super) has_page: bool,
    /// The index of the address of the current connection.
    pub(super) address: u8,
    /// The socket is not connected yet, as far as is known.
    pub(super) is_connecting: bool,
    /// The first answer over the connection is awaited.
    pub(super) is_opening: bool,
    /// Whether the socket is registered in epoll for reading, and for writing.
    pub(super) is_watched: bool,
    pub(super) is_write_watched: bool,
}

impl User {
    pub(super) fn new(number: u32, at: Instant, session: u16, target: u16) -> User {
        User {
            anchor: at,
            due: at,
            begun: at,
            inbox: None,
            outbox: None,
            memory: None,
            tls: None,
            socket: None,
            number,
            counters: Default::default(),
            next_reference: FIRST_REFERENCE,
            awaited: 0,
            arrived_at: millis(at),
            page_due: 0,
            connect_begun: 0,
            times_out_at: NEVER,
            heartbeat_at: NEVER,
            heartbeat_seconds: 0,
            tried: Tried::default(),
            session,
            position: 0,
            target,
            connection: Connection::None,
            serializer: Serializer::Raw,
            waiting: Waiting::Nothing,
            socket_serial: 0,
            audiences: 0,
            is_heartbeat_unanswered: false,
            has_page: false,
            address: 0,
            is_connecting: false,
            is_opening: false,
            is_watched: false,
            is_write_watched: false,
        }
    }
}

/// The variables, cookies and counters of a user.
pub(super) struct Memory {
    /// The values of the variables of its session.
    pub(super) values: Box<[Value]>,
    pub(super) cookies: CookieJar,
    /// How many times it has drawn random values.
    pub(super) draws: u32,
    /// How many times an answer has made it repeat a step, and begin again.
    pub(super) repeats: u32,
    pub(super) restarts: u32,
    /// When the open groups of steps were due, and when they began.
    pub(super) groups: Vec<(Instant, Instant)>,
    /// The connection that is kept for each protocol.
    pub(super) kept: [Option<Kept>; 2],
    /// The other record, if the user polls beside its steps.
    pub(super) beside: Option<Beside>,
    /// The page that it loads or serves, and the files of a web page that it loads.
    pub(super) visit: Option<Box<Visit>>,
    pub(super) files: Option<Box<PageFiles>>,
    /// The limit of the bytes that it receives.
    pub(super) bucket: Option<Bucket>,
    /// The break after which it connects again.
    pub(super) broken: Option<Break>,
    /// The last number that it gave to a message, and the order of those that it received.
    pub(super) numbered: u32,
    pub(super) order: Order,
    /// When its websocket was opened.
    pub(super) opened_at: Instant,
}

impl Memory {
    pub(super) fn new(values: usize) -> Memory {
        Memory {
            values: vec![Value::Undefined; values].into(),
            cookies: CookieJar::default(),
            draws: 0,
            repeats: 0,
            restarts: 0,
            groups: Vec::new(),
            kept: [None, None],
            beside: None,
            visit: None,
            files: None,
            bucket: None,
            broken: None,
            numbered: 0,
            order: Order::default(),
            opened_at: Instant::ZERO,
        }
    }
}

/// The records of a user that polls beside its steps name each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// The slot of the poll, in the record of the user.
    Poll(u32),
    /// The slot of the user, in the record of its poll.
    User(u32),
}

/// A connection that is not in use while the user speaks another protocol.
pub(super) struct Kept {
    pub(super) socket: OwnedFd,
    pub(super) tls: Option<Box<TlsConnection>>,
    pub(super) connection: Connection,
    pub(super) inbox: Option<Box<Inbox>>,
    pub(super) outbox: Option<Box<Outbox>>,
    pub(super) target: u16,
}

/// Bytes that the kernel has not accepted yet.
pub(super) struct Outbox(pub(super) Vec<u8>);

/// Bytes of incomplete frames or of an incomplete response.
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
    /// The upgrade request was sent, or waits until the socket is connected.
    Upgrading,
    Open,
    /// The close frame was sent.
    Closing,
    Http,
}

/// The event that the current step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    Nothing,
    /// The websocket to be open.
    Open,
    Message,
    Response,
    /// A think time to be over.
    Time,
    /// Other users to come.
    Others,
    /// The load to be over.
    Over,
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::timer::Wake;

    #[test]
    fn an_idle_user_needs_at_most_400_bytes_even_while_its_slab_grows() {
        // A slab entry adds nothing or one word to the record.
        let entry = size_of::<User>() + 8;
        assert!(size_of::<User>() <= 168, "{}", size_of::<User>());
        assert!(entry * 2 + size_of::<Wake>() * 2 <= 400, "doubling included");
    }
}
