//! Messages with descriptors, over a pair of connected sockets.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// Maximum descriptors in one message. The kernel's own limit is 253.
pub(crate) const DESCRIPTORS_MAX: usize = 200;

/// A received message, except its bytes.
pub(crate) struct Packet {
    pub len: usize,
    pub descriptors: Vec<OwnedFd>,
    /// Whether bytes were truncated.
    pub is_cut: bool,
    /// Whether descriptors were lost because this process has no free ones.
    pub lost_descriptors: bool,
}

impl Packet {
    /// Whether this is the end of the stream. Messages always have at least one byte.
    pub fn is_end(&self) -> bool {
        self.len == 0 && self.descriptors.is_empty() && !self.lost_descriptors
    }
}

/// Two connected sockets that preserve message boundaries and order, without loss.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Sends one message without waiting.
pub(crate) fn send(
    socket: impl AsFd,
    parts: &[IoSlice<'_>],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    assert!(descriptors.len() <= DESCRIPTORS_MAX, "too many descriptors in one message");
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        let has_room = control.push(SendAncillaryMessage::ScmRights(descriptors));
        assert!(has_room, "the buffer has space for all descriptors");
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        match rustix::net::sendmsg(&socket, parts, &mut control, flags) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a send failed because too many descriptors of this user are in flight. This passes as
/// they are received; no event reports it.
pub(crate) fn is_crowded(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::TOOMANYREFS.raw_os_error())
}

/// Whether a receive blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Yes,
    No,
}

pub(crate) fn recv(
    socket: impl AsFd,
    parts: &mut [IoSliceMut<'_>],
    wait: Wait,
) -> io::Result<Packet> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut flags = RecvFlags::CMSG_CLOEXEC;
    if wait == Wait::No {
        flags |= RecvFlags::DONTWAIT;
    }
    let message = loop {
        match rustix::net::recvmsg(&socket, parts, &mut control, flags) {
            Ok(message) => break message,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    let mut descriptors = Vec::new();
    for ancillary in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = ancillary {
            descriptors.extend(rights);
        }
    }
    Ok(Packet {
        len: message.bytes,
        descriptors,
        is_cut: message.flags.contains(ReturnFlags::TRUNC),
        lost_descriptors: message.flags.contains(ReturnFlags::CTRUNC),
    })
}
