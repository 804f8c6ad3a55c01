//! Accepts connections, or rejects them when the server is full.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::io::Errno;

use super::EventLoop;
use crate::handler::SocketHandler;
use crate::handoff::{ClientAddress, HandoffConnection, HandoffTarget, Moved};
use crate::tls::TlsTerminator;
use crate::wire;

/// Connections accepted from one listener in one turn.
const ACCEPTS_PER_TURN: usize = 64;

/// Offers of one connection to other processes. A full process announces that it is full, but the
/// announcement can be late when many connections arrive together.
const OFFERS_MAX: u8 = 16;

/// The response to a connection over `sockets_max`.
const TOO_MANY_CONNECTIONS: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\
    retry-after: 5\r\ncontent-type: text/plain\r\ncontent-length: 21\r\n\r\ntoo many connections\n";

/// The shard's listeners.
pub(super) struct Acceptors {
    acceptors: Vec<Acceptor>,
    pub(super) tls: Option<TlsTerminator>,
    /// A reserved descriptor. When no other is left, it is used to accept and close a connection,
    /// which would otherwise hang in the backlog.
    spare: Option<OwnedFd>,
}

struct Acceptor {
    listener: OwnedFd,
    state: AcceptorState,
    /// Whether each connection begins with a header of the PROXY protocol.
    is_proxied: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum AcceptorState {
    /// No connection waits.
    Idle,
    /// A connection may wait.
    Ready,
    /// A resource of the system is missing; accepting is retried at the next tick.
    Blocked,
}

enum Accepted {
    Connection(OwnedFd, Option<SocketAddr>),
    NoConnection,
    NoDescriptor,
    TryLater,
}

impl Acceptors {
    pub(super) fn open(
        listeners: Vec<OwnedFd>,
        registry: &Registry,
        tls: Option<TlsTerminator>,
        proxied: &[usize],
    ) -> io::Result<Self> {
        let mut acceptors = Vec::with_capacity(listeners.len());
        for (index, listener) in listeners.into_iter().enumerate() {
            let raw = listener.as_raw_fd();
            registry.register(&mut SourceFd(&raw), token_of(index), Interest::READABLE)?;
            let is_proxied = proxied.contains(&index);
            acceptors.push(Acceptor { listener, state: AcceptorState::Ready, is_proxied });
        }
        Ok(Acceptors { acceptors, tls, spare: spare() })
    }

    /// Notes an event; false if its token is not a listener's.
    pub(super) fn note_ready(&mut self, token: Token) -> bool {
        let Some(acceptor) = self.acceptors.get_mut(usize::MAX - token.0) else { return false };
        acceptor.state = AcceptorState::Ready;
        true
    }

    pub(super) fn retry(&mut self) {
        for acceptor in &mut self.acceptors {
            if acceptor.state == AcceptorState::Blocked {
                acceptor.state = AcceptorState::Ready;
            }
        }
    }

    /// Looks into every listener at the next accept, with or without an event.
    pub(super) fn note_all_ready(&mut self) {
        for acceptor in &mut self.acceptors {
            acceptor.state = AcceptorState::Ready;
        }
    }

    pub(super) fn close_all(&mut self, registry: &Registry) {
        for acceptor in self.acceptors.drain(..) {
            // Closing an inherited listener does not remove it from the epoll: copies may exist.
            let _ = registry.deregister(&mut SourceFd(&acceptor.listener.as_raw_fd()));
        }
    }

    fn accept(&mut self, index: usize) -> Accepted {
        let acceptor = &mut self.acceptors[index];
        let accepted = acceptor.accept();
        acceptor.state = match accepted {
            Accepted::Connection(..) | Accepted::NoDescriptor => AcceptorState::Ready,
            Accepted::NoConnection => AcceptorState::Idle,
            Accepted::TryLater => AcceptorState::Blocked,
        };
        accepted
    }

    /// Accepts a connection with the spare descriptor, and closes it; false if that also failed.
    fn accept_and_close(&mut self, index: usize) -> bool {
        if self.spare.take().is_none() {
            self.acceptors[index].state = AcceptorState::Blocked;
            return false;
        }
        let is_closed = matches!(self.accept(index), Accepted::Connection(..));
        self.spare = spare();
        is_closed
    }
}

impl Acceptor {
    fn accept(&self) -> Accepted {
        loop {
            return match wire::accept(&self.listener) {
                Ok((connection, peer)) => Accepted::Connection(connection, peer),
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => Accepted::NoConnection,
                Err(Errno::MFILE | Errno::NFILE) => Accepted::NoDescriptor,
                Err(_) => Accepted::TryLater,
            };
        }
    }
}

impl<T: SocketHandler> EventLoop<T> {
    /// Accepts from each listener that had an event; true if more connections may wait.
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
                Accepted::Connection(connection, peer) => {
                    self.sockets.count().accepts.add(1);
                    match self.acceptors.acceptors[index].is_proxied {
                        true => self.adopt_proxied(connection, peer),
                        false => self.adopt_accepted(connection, peer),
                    }
                }
                Accepted::NoDescriptor => {
                    self.sockets.count().accept_refusals.add(1);
                    if !self.acceptors.accept_and_close(index) {
                        return;
                    }
                }
                Accepted::NoConnection | Accepted::TryLater => return,
            }
        }
    }

    fn adopt_accepted(&mut self, connection: OwnedFd, peer: Option<SocketAddr>) {
        let client = ClientAddress::OfSocket;
        let Some(connection) = self.offer_if_crowded(connection, client) else { return };
        let counted = self.sockets.count_connection();
        match &self.acceptors.tls {
            Some(tls) => {
                if let Some(peer) = peer {
                    tls.receive(connection, peer, counted);
                }
            }
            None => match self.sockets.adopt(connection, client, false, counted) {
                Ok(id) => self.sockets.remember(id, peer),
                Err(error) => tracing::warn!(%error, "cannot add a connection to the epoll"),
            },
        }
    }

    /// While the shard is nearly full, offer a new connection to another process. Returns the
    /// connection if this process keeps it.
    pub(super) fn offer_if_crowded(
        &mut self,
        connection: OwnedFd,
        client: ClientAddress,
    ) -> Option<OwnedFd> {
        if self.sockets.shard_connections() < self.crowded_from && !self.is_full() {
            return Some(connection);
        }
        let bytes = Vec::new();
        let handoff = HandoffConnection { fd: connection, bytes, client, hops: 0, declined: 0 };
        if self.is_full() {
            self.offer_elsewhere(handoff);
            return None;
        }
        self.offer(HandoffTarget::LessLoaded, handoff).err().map(|handoff| handoff.fd)
    }

    /// Offers a connection without a request to another process, or rejects it.
    fn offer_elsewhere(&mut self, handoff: HandoffConnection) {
        let offered = match handoff.hops {
            0..OFFERS_MAX => self.offer(HandoffTarget::AnyWithRoom, handoff),
            _ => Err(handoff),
        };
        if let Err(handoff) = offered {
            self.reject(handoff.fd, self.acceptors.tls.is_some());
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

    /// Closes a connection because the server is full. It is answered 503 unless it expects TLS.
    fn reject(&self, connection: OwnedFd, awaits_tls: bool) {
        self.sockets.count().accept_refusals.add(1);
        if !awaits_tls {
            let written = refuse(&connection);
            self.sockets.count().bytes_out.add(written as u64);
        }
    }

    /// Adopts a connection from another shard or process, and handles its bytes.
    pub(super) fn adopt_moved(&mut self, moved: Moved) {
        let Moved { handoff, is_adopted } = moved;
        // Any process may serve a connection without a request.
        let is_unread = handoff.bytes.is_empty() && handoff.client.known().is_none();
        if is_adopted {
            self.sockets.count().adoptions.add(1);
            if self.is_full() {
                return match is_unread {
                    true => self.offer_elsewhere(handoff),
                    false => self.reject(handoff.fd, false),
                };
            }
        }
        let HandoffConnection { fd, mut bytes, client, hops, .. } = handoff;
        // With TLS, a handed-over connection is a pair, unless it was handed over before its first
        // byte was read.
        let awaiting_tls = self.acceptors.tls.as_ref().filter(|_| is_unread);
        let awaiting_tls = awaiting_tls.filter(|_| client == ClientAddress::OfSocket);
        let counted = self.sockets.count_connection();
        if let Some(tls) = awaiting_tls {
            if let Ok(peer) = wire::peer(&fd) {
                tls.receive(fd, peer, counted);
            }
            return;
        }
        match self.sockets.adopt(fd, client, !bytes.is_empty(), counted) {
            Ok(id) => {
                self.hops = hops;
                self.feed(id, &mut bytes);
                self.hops = 0;
                self.settle();
            }
            Err(error) => tracing::warn!(%error, "cannot add a moved connection to the epoll"),
        }
    }
}

/// The number of connections from which a shard is nearly full: 97 % of its share.
pub(super) fn crowded_from(sockets_max: usize, shards: usize) -> u64 {
    let share = (sockets_max / shards).max(1) as u64;
    share - share * 3 / 100
}

/// Answers 503 and returns the bytes written. Received bytes are read first: with unread bytes, the
/// close would be a reset, which can destroy the response.
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
