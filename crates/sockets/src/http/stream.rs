//! Converts a socket of the slab to a tokio stream, and back.
//!
//! The bytes of most requests were read before hyper gets them, and most answers fit into the socket's
//! buffer. tokio has nothing to wait for then. So a socket is registered with tokio only when it must
//! wait: for bytes of a body, or for room. That saves two of the system calls of a short request.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::wire::{self, Broken};

/// A client's connection, or one end of a pair with a TLS task.
pub(super) struct Stream {
    is_pair: bool,
    socket: Socket,
}

enum Socket {
    Unregistered(OwnedFd),
    Tcp(TcpStream),
    Pair(UnixStream),
    /// It could not be registered.
    Failed,
}

impl Stream {
    pub(super) fn new(fd: OwnedFd, is_pair: bool) -> Self {
        Stream { is_pair, socket: Socket::Unregistered(fd) }
    }

    pub(super) fn into_fd(self) -> io::Result<OwnedFd> {
        match self.socket {
            Socket::Unregistered(fd) => Ok(fd),
            Socket::Tcp(stream) => Ok(stream.into_std()?.into()),
            Socket::Pair(stream) => Ok(stream.into_std()?.into()),
            Socket::Failed => Err(failed()),
        }
    }

    /// Lets tokio wait for the socket.
    fn register(&mut self) -> io::Result<()> {
        self.socket = match std::mem::replace(&mut self.socket, Socket::Failed) {
            Socket::Unregistered(fd) if self.is_pair => {
                Socket::Pair(UnixStream::from_std(fd.into())?)
            }
            Socket::Unregistered(fd) => Socket::Tcp(TcpStream::from_std(fd.into())?),
            registered => registered,
        };
        Ok(())
    }

    /// Writes without tokio. `None`: the socket is registered, or has no room.
    fn write_now(
        &self,
        write: impl FnOnce(&OwnedFd) -> Result<usize, Broken>,
    ) -> Option<io::Result<usize>> {
        let Socket::Unregistered(fd) = &self.socket else { return None };
        match write(fd) {
            Ok(0) => None,
            Ok(written) => Some(Ok(written)),
            Err(Broken) => Some(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }
}

fn failed() -> io::Error {
    io::Error::other("cannot register the socket: an earlier attempt failed")
}

macro_rules! pinned {
    ($self:ident, $stream:ident => $call:expr) => {{
        let this = $self.get_mut();
        if let Err(error) = this.register() {
            return Poll::Ready(Err(error));
        }
        match &mut this.socket {
            Socket::Tcp(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            Socket::Pair(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            Socket::Unregistered(_) | Socket::Failed => Poll::Ready(Err(failed())),
        }
    }};
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        pinned!(self, stream => stream.poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(written) = self.write_now(|fd| wire::write(fd, bytes)) {
            return Poll::Ready(written);
        }
        pinned!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(written) = self.write_now(|fd| wire::write_all_of(fd, slices)) {
            return Poll::Ready(written);
        }
        pinned!(self, stream => stream.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The kernel has all bytes that were written.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pinned!(self, stream => stream.poll_shutdown(cx))
    }
}
