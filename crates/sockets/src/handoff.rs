//! Connections on their way to another shard, of this process or of another.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;
use watchfire_types::NodeId;

/// A connection with all that was read of it and not answered yet.
#[derive(Debug)]
pub struct HandoffConnection {
    /// The connection.
    pub fd: OwnedFd,
    /// The bytes that were read from it.
    pub bytes: Vec<u8>,
    /// The client's address, when the socket does not know it. Such a socket is one end of a pair;
    /// the other end belongs to the TLS task of the process that accepted the client.
    pub pair_peer: Option<SocketAddr>,
    /// How often it was moved for its request, or offered. The socket server bounds it.
    pub hops: u8,
    /// The processes that had no room for it, a bit for each, as the handler keeps them: the socket server
    /// carries it along.
    pub declined: u64,
}

/// The process that should get a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandoffTarget {
    /// The process that owns the requested resource.
    Owner(NodeId),
    /// Any process that clearly has more room; this one is nearly full.
    LessLoaded,
    /// Any process that has room at all; this one is full.
    AnyWithRoom,
}

/// A connection on its way to a shard.
pub(crate) struct Moved {
    pub(crate) handoff: HandoffConnection,
    /// Whether another process sent it, so that it is one connection more in this one.
    pub(crate) is_adopted: bool,
}

/// Takes connections in that another process hands over; see [`crate::SocketHandler::hand_off`].
#[derive(Clone)]
pub struct Adopter {
    movers: Arc<[mpsc::Sender<Moved>]>,
    next: Arc<AtomicUsize>,
}

impl Adopter {
    pub(crate) fn new(movers: Vec<mpsc::Sender<Moved>>) -> Self {
        Adopter { movers: movers.into(), next: Arc::default() }
    }

    /// Give a connection to a shard, to each in turn. A shard that has too many on their way is
    /// passed over; when all have, or have ended, the connection comes back.
    ///
    /// What the socket server then finds too much, by `sockets_max`, it offers on when nothing was read of
    /// it, and else answers 503.
    pub fn adopt(&self, handoff: HandoffConnection) -> Result<(), HandoffConnection> {
        // A blocking socket would stop its whole shard. The shard closes what is not a connection.
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
        HandoffConnection { fd, bytes: Vec::new(), pair_peer: None, hops, declined: 0 }
    }

    fn hops(shard: &mut mpsc::Receiver<Moved>) -> Vec<u8> {
        std::iter::from_fn(|| shard.try_recv().ok()).map(|moved| moved.handoff.hops).collect()
    }

    #[test]
    fn shards_take_turns_and_one_without_room_is_passed_over() {
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
