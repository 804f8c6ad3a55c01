//! The writing half of a link: a socket that any thread can write to, one at a time.
//!
//! The bus's thread writes what callers have queued. To wake it for one message costs a switch of threads
//! and three system calls, of which one writes. So a caller writes a message itself if nothing else is
//! queued for the node and the thread sleeps. A message that the caller cannot write stays queued for the
//! thread, because another thread writes, or the socket's buffer is full.
//!
//! The thread still collects: a message that follows another one within [`GATHER_PERIOD`] is left to it.
//! Under load the thread is awake, and writes everything that was queued meanwhile in one system call.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Notify;
use watchfire_types::NodeId;

use crate::bus::outbox::{Outbox, Writer};
use crate::bus::shared::{SendingHalf, Shared, State, Status};

/// Maximum system calls in a row, before other links get their turn.
const WRITES_IN_A_ROW: usize = 8;
/// A message that follows another one to the same node within this time is not written by its caller.
pub(crate) const GATHER_PERIOD: Duration = Duration::from_micros(50);

pub(crate) struct WritingHalf {
    node: NodeId,
    socket: OwnedWriteHalf,
    /// The thread that holds it takes entries from the queue, and writes them in order.
    writer: Mutex<Writer>,
    /// Notified when the socket's buffer is full.
    stalled: Notify,
}

/// The result of writing a queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    All,
    /// More is queued, but other links get their turn first.
    Part,
    /// More is queued, but the socket's buffer is full. The link's task waits for space.
    Stalled,
    /// The socket cannot be written. Frames that the node sent before are still read.
    Broken,
    /// The queue was full.
    Cut,
}

impl WritingHalf {
    pub fn new(node: NodeId, socket: OwnedWriteHalf) -> Self {
        WritingHalf { node, socket, writer: Mutex::default(), stalled: Notify::new() }
    }

    /// Waits for space after a stall, and lets the thread write again. Returns when the socket fails.
    pub async fn wait_for_room(&self, shared: &Shared) -> io::Error {
        loop {
            self.stalled.notified().await;
            if let Err(error) = self.socket.writable().await {
                return error;
            }
            let mut state = shared.lock();
            if let Some(link) = self.own_link(&mut state) {
                link.is_stalled = false;
            }
            state.due.insert(self.node);
            shared.wake(state);
        }
    }

    /// The link of this socket, unless another one has replaced it.
    fn own_link<'a>(&self, state: &'a mut State) -> Option<&'a mut SendingHalf> {
        state.link(self.node).filter(|link| link.is_written_by(self))
    }

    /// Writes the queue, on the bus's thread.
    pub fn flush(&self, shared: &Shared) -> Flushed {
        self.write(shared, &mut self.writer.lock(), WRITES_IN_A_ROW)
    }

    /// Writes the queue with one system call, on the thread of a caller. The bus's thread writes the
    /// rest.
    pub fn write_now(&self, shared: &Shared) {
        let flushed = match self.writer.try_lock() {
            Some(mut writer) => self.write(shared, &mut writer, 1),
            // The other thread may have taken the queue before the caller's message.
            None => Flushed::Part,
        };
        match flushed {
            Flushed::All | Flushed::Stalled | Flushed::Broken => {}
            Flushed::Part | Flushed::Cut => {
                let mut state = shared.lock();
                state.due.insert(self.node);
                shared.wake(state);
            }
        }
    }

    fn write(&self, shared: &Shared, writer: &mut Writer, calls_max: usize) -> Flushed {
        for call in 0..=calls_max {
            {
                let mut state = shared.lock();
                let Some(link) = self.own_link(&mut state) else { return Flushed::Broken };
                match link.status {
                    Status::Open => writer.take(&mut link.outbox),
                    Status::Broken => return Flushed::Broken,
                    Status::Cut => return Flushed::Cut,
                }
            }
            if writer.is_empty() {
                return Flushed::All;
            }
            if call == calls_max {
                break;
            }
            match writer.write(|slices| self.socket.try_write_vectored(slices)) {
                Ok(written) => {
                    let mut state = shared.lock();
                    state.counted.bytes_out += written.bytes as u64;
                    state.counted.messages_out += written.messages;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return self.stall(shared);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.read_remaining(shared, writer),
            }
        }
        Flushed::Part
    }

    fn stall(&self, shared: &Shared) -> Flushed {
        if let Some(link) = self.own_link(&mut shared.lock()) {
            link.is_stalled = true;
        }
        self.stalled.notify_one();
        Flushed::Stalled
    }

    /// The other end is closed. Frames that it sent before may still be in the socket.
    fn read_remaining(&self, shared: &Shared, writer: &mut Writer) -> Flushed {
        *writer = Writer::default();
        if let Some(link) = self.own_link(&mut shared.lock()) {
            link.status = Status::Broken;
            link.outbox = Outbox::default();
        }
        // Reading now ends after those frames. An error means that the socket is shut down already.
        let _ = rustix::net::shutdown(self.socket.as_ref().as_fd(), rustix::net::Shutdown::Both);
        Flushed::Broken
    }
}
