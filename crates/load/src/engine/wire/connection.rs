//! One connection without its socket: its state, and the bytes that wait in both directions.

use std::borrow::Cow;

use rustix::io::Errno;
use rustix::net::SendFlags;

use super::addresses::Tried;
use super::{Connection, Incoming, Outbox, State};
use crate::failure::Failure;
use crate::frame::{Frame, MESSAGE_BYTES_MAX, Opcode};

/// More than the header of a frame.
const FRAME_HEAD_BYTES_MAX: usize = 16;

impl Connection {
    /// A connection to this server that was not begun.
    pub(in crate::engine) fn new(target: u16) -> Connection {
        Connection { target, ..Connection::default() }
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

    /// Forgets which addresses were tried, before a first one is.
    pub(in crate::engine) fn forget_tried(&mut self) {
        self.tried = Tried::default();
    }

    /// A request follows, or the handshake of a websocket.
    pub(in crate::engine) fn expect_response(&mut self, is_upgrade: bool) {
        self.state = if is_upgrade { State::Upgrading } else { State::Http };
    }

    /// A close frame follows.
    pub(in crate::engine) fn begin_closing(&mut self) {
        self.state = State::Closing;
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

    /// The connection after this one, to the same server. The addresses that were tried stay.
    pub(super) fn next(&self) -> Connection {
        Connection {
            serial: self.serial.wrapping_add(1),
            tried: self.tried,
            address: self.address,
            ..Connection::new(self.target)
        }
    }

    /// Continues with a connection that was taken from a user. The caller has it watched.
    pub(in crate::engine) fn restore(&mut self, taken: Connection) {
        *self = Connection { serial: self.serial.wrapping_add(1), ..taken };
    }
}
