//! Handing a client's connection to another worker.

use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::workers::packet::{self, Packet, Wait};
use tokio::io::Interest;

use crate::workers::message_socket::MessageSocket;

/// Maximum bytes that are sent with a connection: the 16 KiB of a head that was not whole, the 64 KiB of
/// the read that made it whole, and room for a label.
pub const HANDOFF_BYTES_MAX: usize = 96 * 1024;

/// First byte of every message, so that no message is empty: an empty one is the end of the stream.
const MARK: u8 = b'h';

thread_local! {
    /// A thread's receive buffer, shared by its sockets: there is one for each other worker.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; HANDOFF_BYTES_MAX].into());
}

/// One end of the socket over which two workers hand connections to each other.
///
/// Its queue is the kernel's socket buffer, for about two hundred small messages. When it is full,
/// [`HandoffSocket::send`] fails and the connection stays with the caller. If the other worker
/// dies, the kernel closes queued connections.
#[derive(Debug)]
pub struct HandoffSocket {
    socket: MessageSocket,
    sent: AtomicU64,
    received: AtomicU64,
    dropped: AtomicU64,
}

/// Counters of a [`HandoffSocket`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandoffCounts {
    pub sent: u64,
    pub received: u64,
    /// Messages that arrived damaged, or without a connection because this process had no free
    /// descriptor. Their connections are closed.
    pub dropped: u64,
}

impl HandoffSocket {
    pub(crate) fn new(socket: OwnedFd) -> HandoffSocket {
        HandoffSocket {
            socket: MessageSocket::new(socket),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Two connected ends, for tests and for programs that start workers in another way.
    pub fn pair() -> io::Result<(HandoffSocket, HandoffSocket)> {
        let (one, other) = packet::pair()?;
        Ok((HandoffSocket::new(one), HandoffSocket::new(other)))
    }

    /// Sends a connection with the bytes that were read from it. Never blocks.
    ///
    /// The caller's descriptor stays open: close it on success, or keep serving it on failure.
    /// [`io::ErrorKind::WouldBlock`] means that the other worker's queue is full, and
    /// [`io::ErrorKind::InvalidInput`] that there are more than [`HANDOFF_BYTES_MAX`] bytes. After
    /// any other error, the link is broken.
    pub fn send(&self, connection: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > HANDOFF_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "cannot hand over a connection with {} bytes: at most {HANDOFF_BYTES_MAX}",
                    bytes.len()
                ),
            ));
        }
        let parts = [IoSlice::new(&[MARK]), IoSlice::new(bytes)];
        match self.socket.with(|socket| packet::send(socket, &parts, &[connection])) {
            Ok(()) => {
                self.sent.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(error) if packet::is_crowded(&error) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => Err(error),
        }
    }

    /// The next connection and its bytes; `None` when the other worker has ended.
    ///
    /// Call it from one task, on one runtime. It is cancel-safe.
    pub async fn recv(&self) -> io::Result<Option<(OwnedFd, Vec<u8>)>> {
        loop {
            let (packet, bytes) = match self.socket.when(Interest::READABLE, receive).await {
                Ok(received) => received,
                // The other end closed with unread messages.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            };
            if packet.is_end() {
                return Ok(None);
            }
            match whole(packet, bytes) {
                Some(received) => {
                    self.received.fetch_add(1, Ordering::Relaxed);
                    return Ok(Some(received));
                }
                None => {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    pub fn counts(&self) -> HandoffCounts {
        HandoffCounts {
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }
}

fn receive(socket: BorrowedFd<'_>) -> io::Result<(Packet, Option<Vec<u8>>)> {
    BUFFER.with_borrow_mut(|buffer| {
        let mut mark = [0];
        let mut parts = [IoSliceMut::new(&mut mark), IoSliceMut::new(buffer)];
        let packet = packet::recv(socket, &mut parts, Wait::No)?;
        let is_ours = packet.len > 0 && mark == [MARK];
        let bytes = is_ours.then(|| buffer[..packet.len - 1].to_vec());
        Ok((packet, bytes))
    })
}

/// A connection with all its bytes. Descriptors of damaged messages are closed.
fn whole(mut packet: Packet, bytes: Option<Vec<u8>>) -> Option<(OwnedFd, Vec<u8>)> {
    let is_damaged = packet.is_cut || packet.lost_descriptors || packet.descriptors.len() != 1;
    (!is_damaged).then_some(())?;
    Some((packet.descriptors.pop()?, bytes?))
}

#[cfg(test)]
mod tests;
