use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use edge::{Adopter, Parcel};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// Carries connections over a pair of sockets, as between two processes: what arrives is another
/// descriptor than what was sent.
pub struct Courier(OwnedFd);

impl Courier {
    pub fn to(adopter: Adopter) -> Self {
        let pair =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (ours, theirs) = pair.unwrap();
        thread::spawn(move || {
            while let Some(parcel) = receive(&theirs) {
                adopter.adopt(parcel).expect("the other house is open");
            }
        });
        Courier(ours)
    }

    pub fn send(&self, parcel: Parcel) -> Result<(), Parcel> {
        let peer = parcel.pair_peer.map_or(String::new(), |peer| peer.to_string());
        let label = [&[parcel.hops, peer.len() as u8], peer.as_bytes(), &parcel.bytes].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [parcel.fd.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        let sent = sendmsg(&self.0, &[IoSlice::new(&label)], &mut control, SendFlags::NOSIGNAL);
        assert_eq!(sent, Ok(label.len()));
        Ok(())
    }
}

/// The next parcel; `None` when the sender is gone.
fn receive(from: &OwnedFd) -> Option<Parcel> {
    let mut label = vec![0; 65536];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut label)];
    let len = recvmsg(from, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?.bytes;
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    })?;
    let (hops, peer_len) = (label[0], usize::from(label[1]));
    let peer = std::str::from_utf8(&label[2..2 + peer_len]).unwrap();
    let pair_peer = (!peer.is_empty()).then(|| peer.parse().unwrap());
    Some(Parcel { fd, bytes: label[2 + peer_len..len].to_vec(), pair_peer, hops, declined: 0 })
}
