//! A socket that is registered with the runtime of the task that first waits for it.

use parking_lot::Mutex;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net;
use std::sync::OnceLock;

use tokio::io::Interest;
use tokio::net::UnixDatagram;

/// A socket to which any thread may write, and for which one task waits.
///
/// A worker joins its supervisor before it has a runtime, so the first wait registers the socket.
/// Registering a duplicate instead would need another descriptor for every other worker.
#[derive(Debug)]
pub(crate) struct MessageSocket {
    /// The socket, until the first task waits.
    bare: Mutex<Option<OwnedFd>>,
    /// For tokio, a SEQPACKET socket is a datagram socket; this one is also connected.
    registered: OnceLock<UnixDatagram>,
}

impl MessageSocket {
    pub fn new(socket: OwnedFd) -> MessageSocket {
        MessageSocket { bare: Mutex::new(Some(socket)), registered: OnceLock::new() }
    }

    /// Runs `attempt` with the socket. It must not block.
    pub fn with<T>(&self, attempt: impl Fn(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T> {
        if let Some(socket) = self.registered.get() {
            return attempt(socket.as_fd());
        }
        let bare = self.bare.lock();
        match (&*bare, self.registered.get()) {
            (Some(socket), _) => attempt(socket.as_fd()),
            (None, Some(socket)) => attempt(socket.as_fd()),
            (None, None) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Retries until the socket does not return `WouldBlock`. `attempt` must not block.
    pub async fn when<T>(
        &self,
        interest: Interest,
        attempt: impl Fn(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let socket = self.registered()?;
        socket.async_io(interest, || attempt(socket.as_fd())).await
    }

    fn registered(&self) -> io::Result<&UnixDatagram> {
        if let Some(socket) = self.registered.get() {
            return Ok(socket);
        }
        let mut bare = self.bare.lock();
        if let Some(socket) = bare.take() {
            rustix::io::ioctl_fionbio(&socket, true)?;
            let socket = UnixDatagram::from_std(net::UnixDatagram::from(socket))?;
            self.registered.set(socket).expect("only the holder of the bare socket registers it");
        }
        // Under the lock, a caller that finds no bare socket finds the registered one.
        self.registered.get().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}
