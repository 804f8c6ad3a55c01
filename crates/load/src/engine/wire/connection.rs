//! The connection of one user: its socket, the bytes that wait on both sides, and how far it is.

use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::SendFlags;
use watchfire_types::Instant;

use super::addresses::Tried;
use super::{Incoming, micros, micros_since};
use crate::clock::Clock;
use crate::failure::Failure;
use crate::frame::{Frame, MESSAGE_BYTES_MAX, Opcode};
use crate::tls::TlsConnection;

/// Most unsent bytes of one user. A user whose server does not read ends with an error.
const OUTBOX_BYTES_MAX: usize = 1 << 20;
/// More than the header of a frame.
const FRAME_HEAD_BYTES_MAX: usize = 16;

pub(in crate::engine) struct Connection {
    /// Incomplete received data; `None` while idle.
    inbox: Option<Box<Inbox>>,
    /// Bytes that the kernel has not accepted yet.
    outbox: Option<Box<Outbox>>,
    /// The state of TLS, if the server uses it.
    tls: Option<Box<TlsConnection>>,
    socket: Option<OwnedFd>,
    /// When it began, in [`micros`].
    begun: u32,
    /// The addresses of the server that were tried for it.
    tried: Tried,
    /// The index of the server.
    target: u16,
    state: State,
    /// Changes with each new socket, so that bytes of the old one are not mixed in.
    serial: u8,
    /// The index of the address of the server.
    address: u8,
    /// The socket is not connected yet, as far as is known.
    is_connecting: bool,
    /// The first answer is awaited.
    is_opening: bool,
    /// Whether the socket is registered in epoll for reading, and for writing.
    is_watched: bool,
    is_write_watched: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    None,
    /// The upgrade request was sent, or waits until the socket is connected.
    Upgrading,
    Open,
    /// The close frame was sent.
    Closing,
    Http,
}

struct Outbox(Vec<u8>);

/// Bytes of incomplete frames or of an incomplete response.
#[derive(Default)]
struct Inbox {
    unread: Vec<u8>,
    /// The frames of a fragmented message so far.
    fragments: Vec<u8>,
    fragments_opcode: Option<Opcode>,
}

impl Connection {
    /// A connection to this server that was not begun.
    pub(in crate::engine) fn new(target: u16) -> Connection {
        Connection {
            inbox: None,
            outbox: None,
            tls: None,
            socket: None,
            begun: 0,
            tried: Tried::default(),
            target,
            state: State::None,
            serial: 0,
            address: 0,
            is_connecting: false,
            is_opening: false,
            is_watched: false,
            is_write_watched: false,
        }
    }

    pub(in crate::engine) fn target(&self) -> u16 {
        self.target
    }

    /// Changes the server of the next socket.
    pub(in crate::engine) fn set_target(&mut self, target: u16) {
        self.target = target;
    }

    pub(in crate::engine) fn serial(&self) -> u8 {
        self.serial
    }

    pub(in crate::engine) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    pub(in crate::engine) fn is_closing(&self) -> bool {
        self.state == State::Closing
    }

    /// Whether it carries HTTP requests. It may have been used for some already.
    pub(in crate::engine) fn accepts_requests(&self) -> bool {
        self.state == State::Http
    }

    /// Whether HTTP responses are received: until a websocket is open.
    pub(in crate::engine) fn is_http(&self) -> bool {
        matches!(self.state, State::Upgrading | State::Http)
    }

    pub(super) fn is_websocket(&self) -> bool {
        matches!(self.state, State::Open | State::Closing)
    }

    /// Forgets which addresses were tried, before a first one is.
    pub(in crate::engine) fn forget_tried(&mut self) {
        self.tried = Tried::default();
    }

    pub(super) fn tried(&self) -> Tried {
        self.tried
    }

    pub(super) fn address(&self) -> u8 {
        self.address
    }

    pub(super) fn is_connecting(&self) -> bool {
        self.is_connecting
    }

    pub(super) fn begin(&mut self, address: usize, now: Instant) {
        self.tried.add(address);
        self.address = address as u8;
        self.is_connecting = true;
        self.is_opening = true;
        self.begun = micros(now);
    }

    pub(super) fn set_socket(&mut self, socket: OwnedFd, tls: Option<TlsConnection>) {
        self.socket = Some(socket);
        self.tls = tls.map(Box::new);
    }

    pub(super) fn socket(&self) -> Option<&OwnedFd> {
        self.socket.as_ref()
    }

    pub(super) fn tls(&mut self) -> Option<&mut TlsConnection> {
        self.tls.as_deref_mut()
    }

    /// Returns the time to connect, once.
    pub(super) fn end_connecting(&mut self, clock: Clock) -> Option<Duration> {
        std::mem::take(&mut self.is_connecting).then(|| micros_since(self.begun, clock.now()))
    }

    /// Returns whether the first answer was awaited.
    pub(super) fn end_opening(&mut self) -> bool {
        std::mem::take(&mut self.is_opening)
    }

    /// A request follows, or the handshake of a websocket.
    pub(in crate::engine) fn expect_response(&mut self, is_upgrade: bool) {
        self.state = if is_upgrade { State::Upgrading } else { State::Http };
    }

    pub(super) fn upgrade(&mut self) {
        self.state = State::Open;
    }

    /// A close frame follows.
    pub(in crate::engine) fn begin_closing(&mut self) {
        self.state = State::Closing;
    }

    /// The socket that should be registered, and whether for writing too.
    pub(super) fn watch(&mut self) -> Option<(&OwnedFd, bool)> {
        let socket = self.socket.as_ref().filter(|_| !self.is_watched)?;
        self.is_watched = true;
        self.is_write_watched = self.outbox.is_some();
        Some((socket, self.is_write_watched))
    }

    /// The socket that should be registered again; `None` if it never was.
    pub(super) fn watch_again(&mut self) -> Option<(&OwnedFd, bool)> {
        let socket = self.socket.as_ref().filter(|_| self.is_watched)?;
        self.is_write_watched |= self.outbox.is_some();
        Some((socket, self.is_write_watched))
    }

    /// Queues bytes if others wait already; `false` if none do.
    pub(super) fn queue_after_others(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        let Some(Outbox(outbox)) = self.outbox.as_deref_mut() else { return Ok(false) };
        if outbox.len() + bytes.len() > OUTBOX_BYTES_MAX {
            return Err(Failure::NotReading);
        }
        outbox.extend_from_slice(bytes);
        Ok(true)
    }

    pub(super) fn queue(&mut self, bytes: &[u8]) {
        self.outbox = Some(Box::new(Outbox(bytes.to_vec())));
    }

    /// Writes queued bytes until the socket is full, because epoll is edge-triggered. Returns how many were written.
    pub(super) fn flush(&mut self) -> (u64, Result<(), Errno>) {
        let (Some(Outbox(outbox)), Some(socket)) = (self.outbox.as_deref_mut(), &self.socket)
        else {
            return (0, Ok(()));
        };
        let mut written_all = 0;
        while !outbox.is_empty() {
            match rustix::net::send(socket, outbox, SendFlags::NOSIGNAL) {
                Ok(written) => {
                    written_all += written as u64;
                    outbox.drain(..written);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return (written_all, Ok(())),
                Err(errno) => return (written_all, Err(errno)),
            }
        }
        self.outbox = None;
        (written_all, Ok(()))
    }

    /// The bytes of an incomplete frame or response, which the next read continues.
    pub(in crate::engine) fn take_unread(&mut self) -> Vec<u8> {
        self.inbox.as_mut().map_or(Vec::new(), |inbox| std::mem::take(&mut inbox.unread))
    }

    /// Keeps bytes until the next read.
    pub(in crate::engine) fn keep_unread(&mut self, unread: Vec<u8>) -> Result<(), Failure> {
        if unread.len() > MESSAGE_BYTES_MAX + FRAME_HEAD_BYTES_MAX {
            return Err(Failure::TooLong);
        }
        if !unread.is_empty() {
            self.inbox.get_or_insert_default().unread = unread;
        } else if self.inbox.as_ref().is_some_and(|inbox| inbox.fragments_opcode.is_none()) {
            self.inbox = None;
        }
        Ok(())
    }

    /// The message that this frame completes.
    pub(super) fn assemble<'b>(&mut self, frame: &Frame<'b>) -> Result<Incoming<'b>, Failure> {
        let pending = self.inbox.as_ref().and_then(|inbox| inbox.fragments_opcode);
        let (opcode, payload) = match (frame.opcode, pending) {
            (Opcode::Continuation, None) | (Opcode::Text | Opcode::Binary, Some(_)) => {
                return Err(Failure::InvalidFrame);
            }
            (opcode, None) if frame.is_final => (opcode, Cow::Borrowed(frame.payload)),
            (opcode, pending) => {
                let inbox = self.inbox.get_or_insert_default();
                let opcode = pending.unwrap_or(opcode);
                inbox.fragments.extend_from_slice(frame.payload);
                inbox.fragments_opcode = Some(opcode);
                if inbox.fragments.len() > MESSAGE_BYTES_MAX {
                    return Err(Failure::TooLong);
                }
                if !frame.is_final {
                    return Ok(Incoming::Nothing);
                }
                let inbox = self.inbox.take().expect("the inbox was just filled");
                (opcode, Cow::Owned(inbox.fragments))
            }
        };
        let is_text = opcode == Opcode::Text;
        if is_text && str::from_utf8(&payload).is_err() {
            return Err(Failure::InvalidText);
        }
        Ok(Incoming::Message { is_text, payload })
    }

    /// Closes the socket. The server and the addresses that were tried stay.
    pub(super) fn reset(&mut self) {
        *self = Connection {
            serial: self.serial.wrapping_add(1),
            tried: self.tried,
            address: self.address,
            begun: self.begun,
            ..Connection::new(self.target)
        };
    }

    pub(super) fn take(&mut self) -> Option<Connection> {
        self.socket.as_ref()?;
        let next = Connection {
            serial: self.serial.wrapping_add(1),
            tried: self.tried,
            ..Connection::new(self.target)
        };
        let taken = std::mem::replace(self, next);
        Some(Connection { is_connecting: false, is_watched: false, ..taken })
    }

    /// Continues with a connection that was taken from a user. The caller has it watched.
    pub(in crate::engine) fn restore(&mut self, taken: Connection) {
        *self = Connection { serial: self.serial.wrapping_add(1), ..taken };
    }
}
