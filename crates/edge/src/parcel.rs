//! Connections on their way to another shard, of this process or of another.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;
use vocab::NodeId;

/// A connection with all that was read of it and not answered yet.
#[derive(Debug)]
pub struct Parcel {
    /// The connection.
    pub fd: OwnedFd,
    /// What was read of it.
    pub bytes: Vec<u8>,
    /// Who is at the other end, when the socket cannot tell it: it is one end of a pair, and at
    /// the other end is a TLS client's task, in the process that accepted the client.
    pub pair_peer: Option<SocketAddr>,
    /// How often it was moved for its request, or offered. The edge bounds it.
    pub hops: u8,
    /// The processes that had no room for it, a bit for each, as the tenant keeps them: the edge
    /// carries it along.
    pub declined: u64,
}

/// Who may have a connection that is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Taker {
    /// The process that owns what it asks for.
    Owner(NodeId),
    /// Any that clearly has more room: this one is nearly full.
    Roomier,
    /// Any that has room at all: this one is full.
    Anyone,
}

/// A parcel on its way to a shard.
pub(crate) struct Moved {
    pub(crate) parcel: Parcel,
    /// Whether another process sent it, so that it is one connection more in this one.
    pub(crate) is_adopted: bool,
}

/// Takes connections in that another process hands over; see [`crate::Tenant::hand_over`].
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
    /// passed over; when all have, or have ended, the parcel comes back.
    ///
    /// What the edge then finds too much, by `sockets_max`, it offers on when nothing was read of
    /// it, and else answers 503.
    pub fn adopt(&self, parcel: Parcel) -> Result<(), Parcel> {
        // One that blocks would stop its whole shard. What is no connection ends there by itself.
        let _ = rustix::io::ioctl_fionbio(&parcel.fd, true);
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.movers.len();
        let (before, from) = self.movers.split_at(first);
        let mut moved = Moved { parcel, is_adopted: true };
        for mover in from.iter().chain(before) {
            match mover.try_send(moved) {
                Ok(()) => return Ok(()),
                Err(refused) => moved = refused.into_inner(),
            }
        }
        Err(moved.parcel)
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

    fn parcel(hops: u8) -> Parcel {
        let fd = std::fs::File::open("/dev/null").unwrap().into();
        Parcel { fd, bytes: Vec::new(), pair_peer: None, hops, declined: 0 }
    }

    fn hops(shard: &mut mpsc::Receiver<Moved>) -> Vec<u8> {
        std::iter::from_fn(|| shard.try_recv().ok()).map(|moved| moved.parcel.hops).collect()
    }

    #[test]
    fn shards_take_turns_and_one_without_room_is_passed_over() {
        let (to_first, mut first) = mpsc::channel(1);
        let (to_second, mut second) = mpsc::channel(3);
        let adopter = Adopter::new(vec![to_first, to_second]);
        for number in 0..4 {
            assert!(adopter.adopt(parcel(number)).is_ok());
        }
        assert_eq!(adopter.clone().adopt(parcel(4)).unwrap_err().hops, 4);
        assert_eq!((hops(&mut first), hops(&mut second)), (vec![0], vec![1, 2, 3]));

        drop(first);
        assert!(adopter.adopt(parcel(5)).is_ok());
        assert_eq!(hops(&mut second), [5]);
        drop(second);
        assert_eq!(adopter.adopt(parcel(6)).unwrap_err().hops, 6);
    }
}
