//! Converts a socket of the slab to a tokio stream, and back.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A client's connection, or one end of a pair with a TLS task.
pub(super) enum Stream {
    Tcp(TcpStream),
    Pair(UnixStream),
}

impl Stream {
    pub(super) fn new(fd: OwnedFd, is_pair: bool) -> io::Result<Self> {
        Ok(match is_pair {
            false => Stream::Tcp(TcpStream::from_std(fd.into())?),
            true => Stream::Pair(UnixStream::from_std(fd.into())?),
        })
    }

    pub(super) fn into_fd(self) -> io::Result<OwnedFd> {
        Ok(match self {
            Stream::Tcp(stream) => stream.into_std()?.into(),
            Stream::Pair(stream) => stream.into_std()?.into(),
        })
    }
}

macro_rules! pinned {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            Stream::Pair(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
        }
    };
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
        pinned!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        pinned!(self, stream => stream.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pinned!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pinned!(self, stream => stream.poll_shutdown(cx))
    }
}
