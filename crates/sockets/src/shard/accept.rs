//! Accepting connections, or refusing them when the server is full.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::io::Errno;

use super::Shard;
use crate::handler::SocketHandler;
use crate::handoff::{HandoffConnection, HandoffTarget, Moved};
use crate::tls::TlsTerminator;
use crate::wire;

/// Connections accepted from one listener in one turn.
const ACCEPTS_PER_TURN: usize = 64;

/// How often a connection is offered to other processes. Full processes announce it, but the
/// announcement can be late when many connections come at once.
const OFFERS_MAX: u8 = 16;

/// The response to a connection over `sockets_max`.
const TOO_MANY_CONNECTIONS: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\
    retry-after: 5\r\ncontent-type: text/plain\r\ncontent-length: 21\r\n\r\ntoo many connections\n";

/// The shard's listeners.
pub(super) struct Acceptors {
    acceptors: Vec<Acceptor>,
    tls: Option<TlsTerminator>,
    /// Given up for a moment when no descriptor is left, so that a connection can be accepted and
    /// closed instead of hanging in the backlog.
    spare: Option<OwnedFd>,
}

struct Acceptor {
    listener: OwnedFd,
    state: AcceptorState,
}

#[derive(Clone, Copy, PartialEq)]
enum AcceptorState {
    /// No connection waits.
    Idle,
    /// A connection may wait.
    Ready,
    /// The system lacks something; tried again at the next tick.
    Blocked,
}

enum Accepted {
    Connection(OwnedFd, Option<SocketAddr>),
    Nobody,
    NoDescriptor,
    TryLater,
}

impl Acceptors {
    pub(super) fn open(
        listeners: Vec<OwnedFd>,
        registry: &Registry,
        tls: Option<TlsTerminator>,
    ) -> io::Result<Self> {
        let mut acceptors = Vec::with_capacity(listeners.len());
        for (index, listener) in listeners.into_iter().enumerate() {
            let raw = listener.as_raw_fd();
            registry.register(&mut SourceFd(&raw), token_of(index), Interest::READABLE)?;
            acceptors.push(Acceptor { listener, state: AcceptorState::Ready });
        }
        Ok(Acceptors { acceptors, tls, spare: spare() })
    }

    /// Note an event; false when it does not belong to a listener.
    pub(super) fn note_ready(&mut self, token: Token) -> bool {
        let Some(acceptor) = self.acceptors.get_mut(usize::MAX - token.0) else { return false };
        acceptor.state = AcceptorState::Ready;
        true
    }

    /// Try the listeners that were blocked.
    pub(super) fn retry(&mut self) {
        for acceptor in &mut self.acceptors {
            if acceptor.state == AcceptorState::Blocked {
                acceptor.state = AcceptorState::Ready;
            }
        }
    }

    /// Stop listening.
    pub(super) fn close_all(&mut self, registry: &Registry) {
        for acceptor in self.acceptors.drain(..) {
            // Closing an inherited listener alone would leave it in the epoll: others have copies.
            let _ = registry.deregister(&mut SourceFd(&acceptor.listener.as_raw_fd()));
        }
    }

    fn accept(&mut self, index: usize) -> Accepted {
        let acceptor = &mut self.acceptors[index];
        let accepted = acceptor.accept();
        acceptor.state = match accepted {
            Accepted::Connection(..) | Accepted::NoDescriptor => AcceptorState::Ready,
            Accepted::Nobody => AcceptorState::Idle,
            Accepted::TryLater => AcceptorState::Blocked,
        };
        accepted
    }

    /// Accept and close, with the descriptor that was kept for it; false when that failed too.
    fn turn_away(&mut self, index: usize) -> bool {
        if self.spare.take().is_none() {
            self.acceptors[index].state = AcceptorState::Blocked;
            return false;
        }
        let turned_away = matches!(self.accept(index), Accepted::Connection(..));
        self.spare = spare();
        turned_away
    }
}

impl Acceptor {
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

impl<T: SocketHandler> Shard<T> {
    /// Accept from each listener that had an event; true when more connections may wait.
    pub(super) fn accept(&mut self) -> bool {
        let mut has_more = false;
        for index in 0..self.acceptors.acceptors.len() {
            if self.acceptors.acceptors[index].state == AcceptorState::Ready {
                self.accept_at(index);
                has_more |= self.acceptors.acceptors[index].state == AcceptorState::Ready;
            }
        }
        has_more
    }

    fn accept_at(&mut self, index: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            match self.acceptors.accept(index) {
                Accepted::Connection(connection, peer) => self.take_in(connection, peer),
                Accepted::NoDescriptor => {
                    self.sockets.count().accept_refusals.add(1);
                    if !self.acceptors.turn_away(index) {
                        return;
                    }
                }
                Accepted::Nobody | Accepted::TryLater => return,
            }
        }
    }

    fn take_in(&mut self, connection: OwnedFd, peer: Option<SocketAddr>) {
        self.sockets.count().accepts.add(1);
        let Some(connection) = self.offer_if_crowded(connection) else { return };
        let place = self.sockets.place();
        match &self.acceptors.tls {
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
        let handoff =
            HandoffConnection { fd: connection, bytes, pair_peer: None, hops: 0, declined: 0 };
        if self.is_full() {
            self.pass_on(handoff);
            return None;
        }
        self.offer(HandoffTarget::LessLoaded, handoff).err().map(|handoff| handoff.fd)
    }

    /// Find another process for who said nothing yet and has no place here, or turn it away.
    fn pass_on(&mut self, handoff: HandoffConnection) {
        let offered = match handoff.hops {
            0..OFFERS_MAX => self.offer(HandoffTarget::AnyWithRoom, handoff),
            _ => Err(handoff),
        };
        if let Err(handoff) = offered {
            self.turn_away(handoff.fd, self.acceptors.tls.is_some());
        }
    }

    fn offer(
        &mut self,
        to: HandoffTarget,
        handoff: HandoffConnection,
    ) -> Result<(), HandoffConnection> {
        let hops = handoff.hops.saturating_add(1);
        self.handler.hand_off(to, HandoffConnection { hops, ..handoff })?;
        self.sockets.count().handoffs.add(1);
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.sockets.connections() >= self.threads.limits.sockets_max as u64
    }

    /// Say that the server is full, to a client that does not expect TLS first, and close.
    fn turn_away(&self, connection: OwnedFd, awaits_tls: bool) {
        self.sockets.count().accept_refusals.add(1);
        if !awaits_tls {
            let written = refuse(&connection);
            self.sockets.count().bytes_out.add(written as u64);
        }
    }

    /// Take in a connection that another shard sent here, and look at its request again.
    pub(super) fn adopt_moved(&mut self, moved: Moved) {
        let Moved { handoff, is_adopted } = moved;
        // A connection that any process may serve.
        let is_unread = handoff.bytes.is_empty() && handoff.pair_peer.is_none();
        if is_adopted {
            self.sockets.count().adoptions.add(1);
            if self.is_full() {
                return match is_unread {
                    true => self.pass_on(handoff),
                    false => self.turn_away(handoff.fd, false),
                };
            }
        }
        let HandoffConnection { fd, mut bytes, pair_peer, hops, .. } = handoff;
        // With TLS all handed-over connections are pairs, except those that a full process passed
        // on before it read anything.
        let awaiting_tls = self.acceptors.tls.as_ref().filter(|_| is_unread);
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

/// Answer 503 and return the bytes written. The bytes that the client has sent are read first:
/// unread bytes would turn our close into a reset, which can destroy the response.
fn refuse(connection: &OwnedFd) -> usize {
    let mut bytes = [0; 4096];
    let _ = wire::read(connection, &mut bytes);
    let written = wire::write(connection, TOO_MANY_CONNECTIONS).unwrap_or(0);
    wire::end_writing(connection);
    written
}

fn token_of(acceptor: usize) -> Token {
    Token(usize::MAX - acceptor)
}

fn spare() -> Option<OwnedFd> {
    File::open("/dev/null").ok().map(OwnedFd::from)
}
