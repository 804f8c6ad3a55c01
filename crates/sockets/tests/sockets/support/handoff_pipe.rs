use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use watchfire_sockets::{Adopter, ClientAddress, HandoffConnection};

/// Sends connections over a pair of sockets, as between two processes, so that the receiver gets a
/// different descriptor.
pub struct HandoffPipe(OwnedFd);

impl HandoffPipe {
    pub fn to(adopter: Adopter) -> Self {
        let pair =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (ours, theirs) = pair.unwrap();
        thread::spawn(move || {
            while let Some(handoff) = receive(&theirs) {
                adopter.adopt(handoff).expect("the other server is open");
            }
        });
        HandoffPipe(ours)
    }

    pub fn send(&self, handoff: HandoffConnection) -> Result<(), HandoffConnection> {
        let (kind, peer) = match handoff.client {
            ClientAddress::OfSocket => (0, String::new()),
            ClientAddress::InProxyHeader => (1, String::new()),
            ClientAddress::FromProxyHeader(peer) => (2, peer.to_string()),
            ClientAddress::OfPair(peer) => (3, peer.to_string()),
        };
        let head = [handoff.hops, kind, peer.len() as u8];
        let label = [&head, peer.as_bytes(), &handoff.bytes].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [handoff.fd.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        let sent = sendmsg(&self.0, &[IoSlice::new(&label)], &mut control, SendFlags::NOSIGNAL);
        assert_eq!(sent, Ok(label.len()));
        Ok(())
    }
}

/// The next connection; `None` if the sender has closed.
fn receive(from: &OwnedFd) -> Option<HandoffConnection> {
    let mut label = vec![0; 65536];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut label)];
    let len = recvmsg(from, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?.bytes;
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    })?;
    let (hops, kind, peer_len) = (label[0], label[1], usize::from(label[2]));
    let peer = std::str::from_utf8(&label[3..3 + peer_len]).unwrap();
    let client = match kind {
        0 => ClientAddress::OfSocket,
        1 => ClientAddress::InProxyHeader,
        2 => ClientAddress::FromProxyHeader(peer.parse().unwrap()),
        _ => ClientAddress::OfPair(peer.parse().unwrap()),
    };
    Some(HandoffConnection {
        fd,
        bytes: label[3 + peer_len..len].to_vec(),
        client,
        hops,
        declined: 0,
    })
}
