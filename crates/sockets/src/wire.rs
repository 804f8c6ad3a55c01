//! System calls on a socket.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrAny, SocketFlags,
};

pub(crate) enum Read {
    /// The number of bytes read, at least 1.
    Bytes(usize),
    /// No bytes are available now.
    Nothing,
    /// The peer closed its side, or the connection broke.
    End,
}

pub(crate) fn read(socket: &OwnedFd, buffer: &mut [u8]) -> Read {
    receive(socket, buffer, RecvFlags::empty())
}

fn receive(socket: &OwnedFd, buffer: &mut [u8], flags: RecvFlags) -> Read {
    loop {
        return match rustix::net::recv(socket, &mut *buffer, flags) {
            Ok((0, _)) => Read::End,
            Ok((len, _)) => Read::Bytes(len),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Read::Nothing,
            Err(_) => Read::End,
        };
    }
}

/// Reads bytes that stay available to the next read.
pub(crate) fn peek(socket: &OwnedFd, buffer: &mut [u8]) -> Read {
    receive(socket, buffer, RecvFlags::PEEK)
}

/// Whether no bytes of the client are unread. With unread bytes, a close would be a reset, which can
/// destroy the response.
pub(crate) fn is_all_read(socket: &OwnedFd) -> bool {
    !matches!(peek(socket, &mut [0]), Read::Bytes(_))
}

/// Writes without blocking. Returns the bytes that the kernel accepted: 0 if its buffer is full.
pub(crate) fn write(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Broken> {
    loop {
        return match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(len) => Ok(len),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Ok(0),
            Err(_) => Err(Broken),
        };
    }
}

/// Like [`write()`], for several slices.
pub(crate) fn write_all_of(socket: &OwnedFd, slices: &[IoSlice<'_>]) -> Result<usize, Broken> {
    if let [only] = slices {
        return write(socket, only);
    }
    let mut control = SendAncillaryBuffer::default();
    loop {
        return match rustix::net::sendmsg(socket, slices, &mut control, SendFlags::NOSIGNAL) {
            Ok(len) => Ok(len),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Ok(0),
            Err(_) => Err(Broken),
        };
    }
}

/// The connection is broken, so nothing more can be written.
#[derive(Debug)]
pub(crate) struct Broken;

/// Shuts down the sending side of the connection.
pub(crate) fn end_writing(socket: &OwnedFd) {
    // It fails only when the connection is already gone.
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
}

/// The client's address. An IPv4-mapped IPv6 address is returned as IPv4.
pub(crate) fn peer(socket: impl AsFd) -> io::Result<SocketAddr> {
    let address = rustix::net::getpeername(socket)?.ok_or(io::ErrorKind::NotConnected)?;
    Ok(canonical(address).ok_or(io::ErrorKind::Unsupported)?)
}

/// Accepts a connection. Also returns the client's address, in the form of [`peer`].
pub(crate) fn accept(listener: &OwnedFd) -> Result<(OwnedFd, Option<SocketAddr>), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (connection, address) = rustix::net::acceptfrom_with(listener, flags)?;
    Ok((connection, address.and_then(canonical)))
}

fn canonical(address: SocketAddrAny) -> Option<SocketAddr> {
    let address = SocketAddr::try_from(address).ok()?;
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}
