//! Connections in transit to another shard of this process or of another process, and their adoption.
//!
//! # The reason
//!
//! Several processes listen on one port, and the kernel chooses one for each connection, without
//! knowing what the client wants. Two things go wrong:
//!
//! - **The request belongs elsewhere.** A long-poll session lives in one process. Each of its polls is
//!   a new request. With four processes, three of four polls on new connections would reach a process
//!   that does not know the session.
//! - **One process is full.** The kernel's hash is uneven. With 2 processes of 10,000 connections, one
//!   is full while the other still has hundreds of free places, and its clients would get 503.
//!
//! A redirect or a proxy would cost the client a round trip, or the server a second connection. The
//! kernel can pass an open descriptor to another process, so the connection itself moves.
//!
//! # The connections that move
//!
//! A connection moves only before its request was answered. The descriptor travels with the bytes that
//! were read and not answered, because they are no longer in the kernel. A PROXY header that was not
//! read is still in the kernel and travels with the descriptor. The address of a client behind a
//! proxy or behind TLS is not in the kernel, so it is sent along ([`ClientAddress`]).
//!
//! # The way of a connection
//!
//! 1. The handler names another process ([`HandoffTarget::Owner`]), or the shard is at 97 % of its share
//!    ([`HandoffTarget::LessLoaded`]), or the process is full ([`HandoffTarget::AnyWithRoom`]).
//! 2. The shard removes the socket from its slab and its epoll, and the handler sends it.
//! 3. In the other process, [`Adopter::adopt`] gives it to the shards in turn.
//! 4. The shard (`shard/accept.rs`) adds it to its slab and handles the bytes as if it had read them.
//!    With TLS, a connection without any byte read begins with its handshake there; any other one is
//!    the end of a pair, already decrypted.
//!
//! # The bounds
//!
//! Without one, two processes that disagree could send a connection to and fro for ever. A request
//! moves at most 4 times (`HOPS_MAX`), then it is answered 500. A connection without a request is
//! offered at most 16 times (`OFFERS_MAX`): announcements that a process is full can be late. Then it
//! is answered 503. Each shard has a queue of 1,024 connections (`MOVES_LEN_MAX`); if all queues are
//! full, the connection returns to its sender. A process over `sockets_max` offers an adopted
//! connection elsewhere, or answers 503.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;
use watchfire_types::NodeId;

/// A connection with the bytes that were read from it and not answered yet.
#[derive(Debug)]
pub struct HandoffConnection {
    /// The connection's descriptor.
    pub fd: OwnedFd,
    /// The bytes that were read from the connection.
    pub bytes: Vec<u8>,
    /// How the client's address is known.
    pub client: ClientAddress,
    /// The number of moves for the current request, or of offers. The socket server bounds it.
    pub hops: u8,
    /// The processes that had no room, as a bit set. Only the handler reads and writes it.
    pub declined: u64,
}

/// How the address of a connection's client is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAddress {
    /// The connection comes from it.
    #[default]
    OfSocket,
    /// The connection begins with a header of the PROXY protocol, which was not read yet.
    InProxyHeader,
    /// A header of the PROXY protocol named it.
    FromProxyHeader(SocketAddr),
    /// The socket is one end of a pair. The other end belongs to the TLS task of the process that
    /// accepted the client.
    OfPair(SocketAddr),
}

impl ClientAddress {
    /// The address, if the socket itself does not have it.
    pub(crate) fn known(self) -> Option<SocketAddr> {
        match self {
            ClientAddress::OfSocket | ClientAddress::InProxyHeader => None,
            ClientAddress::FromProxyHeader(address) | ClientAddress::OfPair(address) => {
                Some(address)
            }
        }
    }

    pub(crate) fn is_pair(self) -> bool {
        matches!(self, ClientAddress::OfPair(_))
    }
}

/// The process that should receive a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandoffTarget {
    /// The process that owns the requested resource.
    Owner(NodeId),
    /// Any process with clearly more room, because this one is nearly full.
    LessLoaded,
    /// Any process with room, because this one is full.
    AnyWithRoom,
}

/// A connection in transit to a shard.
pub(crate) struct Moved {
    pub(crate) handoff: HandoffConnection,
    /// Whether another process sent it, so that it adds to the connections of this process.
    pub(crate) is_adopted: bool,
}

/// Receives connections that other processes hand over; see [`crate::SocketHandler::hand_off`].
#[derive(Clone)]
pub struct Adopter {
    movers: Arc<[mpsc::Sender<Moved>]>,
    next: Arc<AtomicUsize>,
}

impl Adopter {
    pub(crate) fn new(movers: Vec<mpsc::Sender<Moved>>) -> Self {
        Adopter { movers: movers.into(), next: Arc::default() }
    }

    /// Gives a connection to the shards in turn. A shard whose queue is full is skipped. The
    /// connection is returned if every shard's queue is full, or every shard has ended.
    ///
    /// If `sockets_max` is reached, the shard offers a connection without a request to another
    /// process, and answers any other 503.
    pub fn adopt(&self, handoff: HandoffConnection) -> Result<(), HandoffConnection> {
        // A blocking socket would block its shard. The shard closes any other kind of descriptor.
        let _ = rustix::io::ioctl_fionbio(&handoff.fd, true);
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.movers.len();
        let (before, from) = self.movers.split_at(first);
        let mut moved = Moved { handoff, is_adopted: true };
        for mover in from.iter().chain(before) {
            match mover.try_send(moved) {
                Ok(()) => return Ok(()),
                Err(refused) => moved = refused.into_inner(),
            }
        }
        Err(moved.handoff)
    }
}

impl fmt::Debug for Adopter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "adopter for {} shards", self.movers.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handoff(hops: u8) -> HandoffConnection {
        let fd = std::fs::File::open("/dev/null").unwrap().into();
        let client = ClientAddress::OfSocket;
        HandoffConnection { fd, bytes: Vec::new(), client, hops, declined: 0 }
    }

    fn hops(shard: &mut mpsc::Receiver<Moved>) -> Vec<u8> {
        std::iter::from_fn(|| shard.try_recv().ok()).map(|moved| moved.handoff.hops).collect()
    }

    #[test]
    fn shards_take_turns_and_a_full_one_is_skipped() {
        let (to_first, mut first) = mpsc::channel(1);
        let (to_second, mut second) = mpsc::channel(3);
        let adopter = Adopter::new(vec![to_first, to_second]);
        for number in 0..4 {
            assert!(adopter.adopt(handoff(number)).is_ok());
        }
        assert_eq!(adopter.clone().adopt(handoff(4)).unwrap_err().hops, 4);
        assert_eq!((hops(&mut first), hops(&mut second)), (vec![0], vec![1, 2, 3]));

        drop(first);
        assert!(adopter.adopt(handoff(5)).is_ok());
        assert_eq!(hops(&mut second), [5]);
        drop(second);
        assert_eq!(adopter.adopt(handoff(6)).unwrap_err().hops, 6);
    }
}
