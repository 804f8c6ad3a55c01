//! Taking connections in, or turning them away at the door.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::io::Errno;

use super::Shard;
use crate::parcel::{Moved, Parcel, Taker};
use crate::tenant::Tenant;
use crate::tls::TlsDoor;
use crate::wire;

/// Connections accepted at one door in one turn.
const ACCEPTS_PER_TURN: usize = 64;

/// How often a connection is offered to other processes. Each that is full has told so, but what
/// was heard of the others can be old when many come at once.
const OFFERS_MAX: u8 = 16;

/// What a connection over `sockets_max` is told.
const CROWDED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\
    retry-after: 5\r\ncontent-type: text/plain\r\ncontent-length: 21\r\n\r\ntoo many connections\n";

/// The shard's listeners.
pub(super) struct Doors {
    doors: Vec<Door>,
    tls: Option<TlsDoor>,
    /// Given up for a moment when no descriptor is left, so that a connection can be accepted and
    /// closed instead of hanging in the backlog.
    spare: Option<OwnedFd>,
}

struct Door {
    listener: OwnedFd,
    state: DoorState,
}

#[derive(Clone, Copy, PartialEq)]
enum DoorState {
    /// Nobody is there.
    Quiet,
    /// Somebody may be there.
    Knocked,
    /// The system lacks something; tried again at the next tick.
    Blocked,
}

enum Accepted {
    Connection(OwnedFd, Option<SocketAddr>),
    Nobody,
    NoDescriptor,
    TryLater,
}

impl Doors {
    pub(super) fn open(
        listeners: Vec<OwnedFd>,
        registry: &Registry,
        tls: Option<TlsDoor>,
    ) -> io::Result<Self> {
        let mut doors = Vec::with_capacity(listeners.len());
        for (index, listener) in listeners.into_iter().enumerate() {
            let raw = listener.as_raw_fd();
            registry.register(&mut SourceFd(&raw), token_of(index), Interest::READABLE)?;
            doors.push(Door { listener, state: DoorState::Knocked });
        }
        Ok(Doors { doors, tls, spare: spare() })
    }

    /// Note an event; false when it is not of a door.
    pub(super) fn knock(&mut self, token: Token) -> bool {
        let Some(door) = self.doors.get_mut(usize::MAX - token.0) else { return false };
        door.state = DoorState::Knocked;
        true
    }

    /// Try the doors that were blocked.
    pub(super) fn retry(&mut self) {
        for door in &mut self.doors {
            if door.state == DoorState::Blocked {
                door.state = DoorState::Knocked;
            }
        }
    }

    /// Stop listening.
    pub(super) fn shut(&mut self, registry: &Registry) {
        for door in self.doors.drain(..) {
            // Closing an inherited listener alone would leave it in the epoll: others have copies.
            let _ = registry.deregister(&mut SourceFd(&door.listener.as_raw_fd()));
        }
    }

    fn accept(&mut self, index: usize) -> Accepted {
        let door = &mut self.doors[index];
        let accepted = door.accept();
        door.state = match accepted {
            Accepted::Connection(..) | Accepted::NoDescriptor => DoorState::Knocked,
            Accepted::Nobody => DoorState::Quiet,
            Accepted::TryLater => DoorState::Blocked,
        };
        accepted
    }

    /// Accept and close, with the descriptor that was kept for it; false when that failed too.
    fn turn_away(&mut self, index: usize) -> bool {
        if self.spare.take().is_none() {
            self.doors[index].state = DoorState::Blocked;
            return false;
        }
        let turned_away = matches!(self.accept(index), Accepted::Connection(..));
        self.spare = spare();
        turned_away
    }
}

impl Door {
    fn accept(&self) -> Accepted {
        loop {
            return match wire::accept(&self.listener) {
                Ok((connection, peer)) => Accepted::Connection(connection, peer),
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => Accepted::Nobody,
                Err(Errno::MFILE | Errno::NFILE) => Accepted::NoDescriptor,
                Err(_) => Accepted::TryLater,
            };
        }
    }
}

impl<T: Tenant> Shard<T> {
    /// Accept at each door that was knocked at; true when somebody may be left.
    pub(super) fn accept(&mut self) -> bool {
        let mut has_more = false;
        for index in 0..self.doors.doors.len() {
            if self.doors.doors[index].state == DoorState::Knocked {
                self.accept_at(index);
                has_more |= self.doors.doors[index].state == DoorState::Knocked;
            }
        }
        has_more
    }

    fn accept_at(&mut self, index: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            match self.doors.accept(index) {
                Accepted::Connection(connection, peer) => self.let_in(connection, peer),
                Accepted::NoDescriptor => {
                    self.sockets.count().accept_refusals.add(1);
                    if !self.doors.turn_away(index) {
                        return;
                    }
                }
                Accepted::Nobody | Accepted::TryLater => return,
            }
        }
    }

    fn let_in(&mut self, connection: OwnedFd, peer: Option<SocketAddr>) {
        self.sockets.count().accepts.add(1);
        let Some(connection) = self.offer_if_crowded(connection) else { return };
        let place = self.sockets.place();
        match &self.doors.tls {
            Some(tls) => {
                if let Some(peer) = peer {
                    tls.receive(connection, peer, place);
                }
            }
            None => match self.sockets.adopt(connection, None, false, place) {
                Ok(id) => self.sockets.remember(id, peer),
                Err(error) => tracing::warn!(%error, "a connection was not taken in"),
            },
        }
    }

    /// While the shard is nearly full, offer who just came to another process.
    fn offer_if_crowded(&mut self, connection: OwnedFd) -> Option<OwnedFd> {
        if self.sockets.count_connections() < self.crowded_from && !self.is_full() {
            return Some(connection);
        }
        let bytes = Vec::new();
        let parcel = Parcel { fd: connection, bytes, pair_peer: None, hops: 0, declined: 0 };
        if self.is_full() {
            self.pass_on(parcel);
            return None;
        }
        self.offer(Taker::Roomier, parcel).err().map(|parcel| parcel.fd)
    }

    /// Find another process for who said nothing yet and has no place here, or turn it away.
    fn pass_on(&mut self, parcel: Parcel) {
        let offered = match parcel.hops {
            0..OFFERS_MAX => self.offer(Taker::Anyone, parcel),
            _ => Err(parcel),
        };
        if let Err(parcel) = offered {
            self.turn_away(parcel.fd, self.doors.tls.is_some());
        }
    }

    fn offer(&mut self, to: Taker, parcel: Parcel) -> Result<(), Parcel> {
        let hops = parcel.hops.saturating_add(1);
        self.tenant.hand_over(to, Parcel { hops, ..parcel })?;
        self.sockets.count().hand_overs.add(1);
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.sockets.connections() >= self.threads.limits.sockets_max as u64
    }

    /// Say that the house is full, to a client that does not expect TLS first, and close.
    fn turn_away(&self, connection: OwnedFd, awaits_tls: bool) {
        self.sockets.count().accept_refusals.add(1);
        if !awaits_tls {
            refuse(&connection);
        }
    }

    /// Take in a connection that another shard sent here, and look at its request again.
    pub(super) fn adopt_moved(&mut self, moved: Moved) {
        let Moved { parcel, is_adopted } = moved;
        // One that goes to nobody in particular.
        let is_newcomer = parcel.bytes.is_empty() && parcel.pair_peer.is_none();
        if is_adopted {
            self.sockets.count().adoptions.add(1);
            if self.is_full() {
                return match is_newcomer {
                    true => self.pass_on(parcel),
                    false => self.turn_away(parcel.fd, false),
                };
            }
        }
        let Parcel { fd, mut bytes, pair_peer, hops, .. } = parcel;
        // Behind a TLS door all connections are pairs, but those that another process found itself
        // too crowded for: they have said nothing yet.
        let awaiting_tls = self.doors.tls.as_ref().filter(|_| is_newcomer);
        let place = self.sockets.place();
        if let Some(tls) = awaiting_tls {
            if let Ok(peer) = wire::peer(&fd) {
                tls.receive(fd, peer, place);
            }
            return;
        }
        // A request was under way, or a connection that has said nothing waits for its first.
        match self.sockets.adopt(fd, pair_peer, !bytes.is_empty(), place) {
            Ok(id) => {
                self.hops = hops;
                self.feed(id, &mut bytes);
                self.hops = 0;
                self.settle();
            }
            Err(error) => tracing::warn!(%error, "a moved connection was not taken in"),
        }
    }
}

/// From how many connections on a shard counts as crowded: 97 % of its share.
pub(super) fn crowded_from(sockets_max: usize, shards: usize) -> u64 {
    let share = (sockets_max / shards).max(1) as u64;
    share - share * 3 / 100
}

/// Say that the house is full. What the client has sent already is read first: unread bytes would
/// turn our close into a reset, which can destroy the answer.
fn refuse(connection: &OwnedFd) {
    let mut bytes = [0; 4096];
    let _ = wire::read(connection, &mut bytes);
    let _ = wire::write(connection, CROWDED);
    wire::end_writing(connection);
}

fn token_of(door: usize) -> Token {
    Token(usize::MAX - door)
}

fn spare() -> Option<OwnedFd> {
    File::open("/dev/null").ok().map(OwnedFd::from)
}
