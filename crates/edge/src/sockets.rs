//! A shard's sockets, as its tenant sees them.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use vocab::{Instant, ShardId, SocketId};

use crate::counters::{EdgeCounters, ShardCounters};
use crate::frame::{Decoder, close_frame};
use crate::outbound::Outbound;
use crate::place::Place;
use crate::record::{Record, Slab, State};
use crate::settings::EdgeLimits;
use crate::tenant::CloseCause;
use crate::wire;

/// The sockets of one shard.
///
/// What is sent goes straight to the kernel. Only what it does not take at once is queued, within
/// `queued_bytes_max` a socket.
pub struct Sockets {
    shard: ShardId,
    pub(crate) limits: Arc<EdgeLimits>,
    counters: Arc<EdgeCounters>,
    registry: Registry,
    pub(crate) slab: Slab,
    now: Instant,
    /// Tenths of a second since the shard began: what records note instead of an instant.
    pub(crate) tick: u32,
    websockets: usize,
    parked: usize,
    partial_bytes: usize,
    /// Peers of sockets that are one end of a pair, whose other end is a TLS task.
    pairs: HashMap<u32, SocketAddr>,
    /// Sockets whose tenant has to be told that they are gone.
    farewells: VecDeque<(SocketId, CloseCause)>,
    /// Slots to be freed once the tenant knows.
    dead: Vec<SocketId>,
    /// Connections that may hold another request, now that the last one is answered.
    resumed: Vec<SocketId>,
    pub(crate) is_draining: bool,
}

/// Why a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The socket is gone, or closing.
    #[error("the socket is gone")]
    Gone,
    /// Its queue was full; it has been closed with 1013 and counted.
    #[error("the socket's queue was full, it has been closed")]
    Overflow,
}

/// Why an offered frame was not taken. Nothing of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// The socket is gone, or closing.
    #[error("the socket is gone")]
    Gone,
    /// More is queued already than the offer tolerates.
    #[error("the socket's queue is full")]
    Full,
}

impl Sockets {
    pub(crate) fn new(
        shard: ShardId,
        limits: Arc<EdgeLimits>,
        counters: Arc<EdgeCounters>,
        registry: Registry,
    ) -> Self {
        Sockets {
            shard,
            limits,
            counters,
            registry,
            slab: Slab::default(),
            now: Instant::ZERO,
            tick: 0,
            websockets: 0,
            parked: 0,
            partial_bytes: 0,
            pairs: HashMap::new(),
            farewells: VecDeque::new(),
            dead: Vec::new(),
            resumed: Vec::new(),
            is_draining: false,
        }
    }

    /// The time, as of this turn of the loop. All shards of an edge share one clock.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Whose sockets these are.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// How many websockets are open.
    pub fn len(&self) -> usize {
        self.websockets
    }

    /// Whether no websocket is open.
    pub fn is_empty(&self) -> bool {
        self.websockets == 0
    }

    /// How many GETs are parked.
    pub fn parked(&self) -> usize {
        self.parked
    }

    /// Bytes that wait in a socket's queue, with the bookkeeping of each frame; 0 when it is gone.
    pub fn queued_bytes(&self, socket: SocketId) -> usize {
        let record = self.slab.get(socket);
        record.and_then(|record| record.outbound.as_ref()).map_or(0, |queue| queue.bytes())
    }

    /// Send one or more whole frames, header and all, to an open websocket.
    ///
    /// A socket whose queue would pass `queued_bytes_max` is closed with 1013: it does not read.
    /// [`crate::Tenant::close`] follows with [`CloseCause::Slow`].
    pub fn send(&mut self, socket: SocketId, frame: &Bytes) -> Result<(), SendError> {
        let record = match self.slab.get_mut(socket) {
            Some(record) if record.is_open() => record,
            _ => return Err(SendError::Gone),
        };
        let sent = transmit(
            record,
            frame,
            self.limits.queued_bytes_max,
            self.tick,
            self.counters.shard(self.shard),
        );
        match sent {
            Ok(()) => Ok(()),
            Err(Untaken::Full) => {
                self.close_for(socket, CloseCause::Slow, 1013, "slow consumer");
                Err(SendError::Overflow)
            }
            Err(Untaken::Broken) => {
                self.hang_up(socket);
                Err(SendError::Gone)
            }
        }
    }

    /// Send like [`Sockets::send`], but refuse when more than `queued_bytes_max` bytes wait in
    /// the socket's queue already; then nothing is written and the socket lives on.
    pub fn offer(
        &mut self,
        socket: SocketId,
        frame: &Bytes,
        queued_bytes_max: usize,
    ) -> Result<(), OfferError> {
        let record = match self.slab.get(socket) {
            Some(record) if record.is_open() => record,
            _ => return Err(OfferError::Gone),
        };
        if let Some(queue) = &record.outbound
            && (queue.bytes() > queued_bytes_max
                || !queue.has_room(frame, self.limits.queued_bytes_max))
        {
            return Err(OfferError::Full);
        }
        self.send(socket, frame).map_err(|_| OfferError::Gone)
    }

    /// Close a websocket: a close frame now, the end when the client has answered it or
    /// `close_timeout` has passed. [`crate::Tenant::close`] follows at once, with
    /// [`CloseCause::ByUs`].
    ///
    /// A code that may not be sent, and 1000, after which phoenix.js does not come back, become
    /// 1001.
    pub fn close(&mut self, socket: SocketId, code: u16, reason: &str) {
        let code =
            if crate::frame::close_code_is_valid(code) && code != 1000 { code } else { 1001 };
        self.close_for(socket, CloseCause::ByUs(code), code, reason);
    }

    /// Answer a parked GET with a whole HTTP response, head and body. The connection then awaits
    /// its next request; its id stays the same until something else becomes of it, but belongs to
    /// the tenant no more.
    pub fn answer(&mut self, socket: SocketId, response: &[Bytes]) {
        let Some(record) = self.slab.get_mut(socket) else { return };
        let State::Parked { held, keeps_alive } = &mut record.state else { return };
        let (held, keeps_alive) = (held.take(), *keeps_alive && !self.is_draining);
        record.state = State::Head { held, is_reused: true };
        record.seen = self.tick;
        self.parked -= 1;
        self.count().parked_now.sub(1);
        if self.write_response(socket, response) {
            match keeps_alive {
                true => self.resumed.push(socket),
                false => self.linger(socket),
            }
        }
    }
}

/// What the shard itself does with its sockets.
impl Sockets {
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
        self.tick = ticks(now);
    }

    pub(crate) fn count(&self) -> &ShardCounters {
        self.counters.shard(self.shard)
    }

    /// Take a connection in. `peer` is given when the socket cannot tell it.
    pub(crate) fn adopt(
        &mut self,
        fd: OwnedFd,
        peer: Option<SocketAddr>,
        is_reused: bool,
        place: Place,
    ) -> io::Result<SocketId> {
        let raw = fd.as_raw_fd();
        let id = self.slab.insert(fd, self.tick, State::Head { held: None, is_reused });
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.registry.register(&mut SourceFd(&raw), token(id), interest) {
            self.slab.remove(id);
            return Err(error);
        }
        if let Some(peer) = peer {
            self.pairs.insert(id.index, peer);
        }
        place.pass_to_slab();
        Ok(id)
    }

    /// Give a connection away: to hyper, or to another shard.
    pub(crate) fn release(&mut self, id: SocketId) -> Option<Released> {
        let held = self.slab.get(id)?.held_bytes();
        self.held(held, 0);
        let fd = self.slab.remove(id)?;
        // Failing is harmless: no event of an id that is no more finds a socket.
        let _ = self.registry.deregister(&mut SourceFd(&fd.as_raw_fd()));
        let pair_peer = self.pairs.remove(&id.index);
        Some(Released { fd, pair_peer, place: Place::of_slab(self.counters.clone(), self.shard) })
    }

    /// Count a connection that is about to be taken in.
    pub(crate) fn place(&self) -> Place {
        Place::take(self.counters.clone(), self.shard)
    }

    /// Connections of all shards.
    pub(crate) fn connections(&self) -> u64 {
        self.counters.connections()
    }

    /// Who is at the other end.
    pub(crate) fn peer(&self, id: SocketId) -> Option<SocketAddr> {
        if let Some(peer) = self.pairs.get(&id.index) {
            return Some(*peer);
        }
        wire::peer(self.slab.get(id)?.fd.as_ref()?).ok()
    }

    /// Connections of this shard, those included that are lent.
    pub(crate) fn count_connections(&self) -> u64 {
        self.count().connections_now.get()
    }

    pub(crate) fn opened(&mut self) {
        self.websockets += 1;
        self.count().websockets.add(1);
        self.count().websockets_now.add(1);
    }

    pub(crate) fn was_parked(&mut self) {
        self.parked += 1;
        self.count().parked.add(1);
        self.count().parked_now.add(1);
    }

    /// Close an open websocket, or give up a parked GET, for `cause`.
    pub(crate) fn close_for(&mut self, id: SocketId, cause: CloseCause, code: u16, reason: &str) {
        let Some(decoder) = self.leave(id, cause) else { return };
        if let Some(record) = self.slab.get_mut(id) {
            record.state = State::Closing(decoder);
        }
        if cause == CloseCause::Slow {
            self.drop_queue(id);
        }
        self.write_last(id, &close_frame(Some(code), reason));
    }

    /// Close a websocket whose bytes can be read no further, or whose client said its last.
    pub(crate) fn close_unread(&mut self, id: SocketId, cause: CloseCause, last: &Bytes) {
        if let Some(decoder) = self.leave(id, cause) {
            self.held(decoder.held_bytes(), 0);
            self.write_last(id, last);
            self.linger(id);
        }
    }

    /// The connection is gone.
    pub(crate) fn hang_up(&mut self, id: SocketId) {
        let Some(record) = self.slab.get(id) else { return };
        match record.state {
            State::Dead => return,
            State::Open(_) => {
                let held = self.leave(id, CloseCause::ByPeer).map_or(0, |d| d.held_bytes());
                self.held(held, 0);
            }
            State::Parked { .. } => {
                self.parked -= 1;
                self.count().parked_now.sub(1);
                self.count().closed(CloseCause::ByPeer);
                self.farewells.push_back((id, CloseCause::ByPeer));
            }
            _ => {}
        }
        self.bury(id);
    }

    /// Write the last response of a connection and end it.
    pub(crate) fn answer_and_end(&mut self, id: SocketId, response: &[Bytes]) {
        if self.write_response(id, response) {
            self.linger(id);
        }
    }

    /// Write all of a response, queueing what the kernel does not take; false when the connection
    /// broke over it.
    pub(crate) fn write_response(&mut self, id: SocketId, response: &[Bytes]) -> bool {
        let Some(record) = self.slab.get_mut(id) else { return false };
        let counters = self.counters.shard(self.shard);
        if transmit_response(record, response, self.tick, counters).is_err() {
            self.hang_up(id);
            return false;
        }
        true
    }

    /// Await the client's end, once our last bytes are out.
    pub(crate) fn linger(&mut self, id: SocketId) {
        let Some(record) = self.slab.get_mut(id) else { return };
        if matches!(record.state, State::Dead) {
            return;
        }
        let held = record.held_bytes();
        record.seen = self.tick;
        record.state = State::Lingering;
        if record.outbound.is_none()
            && let Some(fd) = &record.fd
        {
            wire::end_writing(fd);
        }
        self.held(held, 0);
    }

    /// The kernel has room again.
    pub(crate) fn flush(&mut self, id: SocketId) {
        let counters = self.counters.shard(self.shard);
        let Some(record) = self.slab.get_mut(id) else { return };
        let (Some(queue), Some(fd)) = (&mut record.outbound, &record.fd) else { return };
        let before = queue.bytes();
        let flushed = queue.flush(fd, self.tick);
        counters.queued_bytes_now.sub((before - queue.bytes()) as u64);
        let Ok(written) = flushed else { return self.hang_up(id) };
        counters.bytes_out.add(written as u64);
        if queue.is_empty() {
            record.outbound = None;
            match record.state {
                State::Lingering => wire::end_writing(fd),
                State::Head { .. } => self.resumed.push(id),
                _ => {}
            }
        }
    }

    /// Note how many bytes of half-received messages a socket held and holds; false when the
    /// shard has no room for more.
    pub(crate) fn held(&mut self, before: usize, after: usize) -> bool {
        self.partial_bytes = self.partial_bytes + after - before;
        if after > before {
            self.count().partial_bytes_now.add((after - before) as u64);
        } else {
            self.count().partial_bytes_now.sub((before - after) as u64);
        }
        after <= before || self.partial_bytes <= self.limits.partial_bytes_max
    }

    pub(crate) fn next_farewell(&mut self) -> Option<(SocketId, u32, CloseCause)> {
        let (id, cause) = self.farewells.pop_front()?;
        let record = self.slab.get(id).expect("a slot lives until its farewell");
        Some((id, record.key, cause))
    }

    pub(crate) fn next_resumed(&mut self) -> Option<SocketId> {
        self.resumed.pop()
    }

    /// Free the slots of the dead. All farewells must have been said.
    pub(crate) fn free_dead(&mut self) {
        debug_assert!(self.farewells.is_empty());
        while let Some(id) = self.dead.pop() {
            self.pairs.remove(&id.index);
            // Closing the descriptor takes it out of the epoll as well.
            if self.slab.remove(id).is_some() {
                self.count().connections_now.sub(1);
            }
        }
    }

    /// Take an open websocket from its tenant.
    fn leave(&mut self, id: SocketId, cause: CloseCause) -> Option<Decoder> {
        let record = self.slab.get_mut(id)?;
        let State::Open(decoder) = &mut record.state else { return None };
        let decoder = mem::take(decoder);
        record.seen = self.tick;
        record.state = State::Closing(Decoder::default());
        self.websockets -= 1;
        self.count().websockets_now.sub(1);
        self.count().closed(cause);
        self.farewells.push_back((id, cause));
        Some(decoder)
    }

    /// Drop what waits for a socket that does not read.
    fn drop_queue(&mut self, id: SocketId) {
        let Some(record) = self.slab.get_mut(id) else { return };
        let Some(queue) = &mut record.outbound else { return };
        let before = queue.bytes();
        queue.keep_started();
        let dropped = before - queue.bytes();
        if queue.is_empty() {
            record.outbound = None;
        }
        self.count().queued_bytes_now.sub(dropped as u64);
    }

    /// Write a last frame, behind all that waits.
    fn write_last(&mut self, id: SocketId, last: &Bytes) {
        let counters = self.counters.shard(self.shard);
        let Some(record) = self.slab.get_mut(id) else { return };
        if transmit(record, last, usize::MAX, self.tick, counters).is_err() {
            self.bury(id);
        }
    }

    fn bury(&mut self, id: SocketId) {
        let Some(record) = self.slab.get_mut(id) else { return };
        let held = record.held_bytes();
        let queued = record.outbound.take().map_or(0, |queue| queue.bytes());
        record.state = State::Dead;
        self.held(held, 0);
        self.count().queued_bytes_now.sub(queued as u64);
        self.dead.push(id);
    }
}

impl Record {
    /// Bytes of a half-received head or message.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.state {
            State::Head { held, .. } | State::Parked { held, .. } => {
                held.as_ref().map_or(0, |held| held.bytes.capacity())
            }
            State::Open(decoder) | State::Closing(decoder) => decoder.held_bytes(),
            State::Lingering | State::Dead => 0,
        }
    }
}

/// A connection that left the slab.
pub(crate) struct Released {
    pub(crate) fd: OwnedFd,
    /// Who is at the other end, when the socket cannot tell it.
    pub(crate) pair_peer: Option<SocketAddr>,
    pub(crate) place: Place,
}

enum Untaken {
    Full,
    Broken,
}

/// Write a frame, or queue what the kernel does not take of it.
fn transmit(
    record: &mut Record,
    frame: &Bytes,
    queued_bytes_max: usize,
    tick: u32,
    counters: &ShardCounters,
) -> Result<(), Untaken> {
    if let Some(queue) = &mut record.outbound {
        if !queue.has_room(frame, queued_bytes_max) {
            return Err(Untaken::Full);
        }
        let before = queue.bytes();
        queue.push(frame.clone());
        counters.queued_bytes_now.add((queue.bytes() - before) as u64);
        counters.queued_frames.add(1);
        counters.deliveries.add(1);
        return Ok(());
    }
    let fd = record.fd.as_ref().expect("a socket in use has a descriptor");
    let written = wire::write(fd, frame).map_err(|_| Untaken::Broken)?;
    counters.bytes_out.add(written as u64);
    counters.deliveries.add(1);
    if written < frame.len() {
        let queue = Outbound::begin(frame.clone(), written, tick);
        counters.queued_bytes_now.add(queue.bytes() as u64);
        counters.queued_frames.add(1);
        record.outbound = Some(Box::new(queue));
    }
    Ok(())
}

/// Write an HTTP response, or queue what the kernel does not take of it.
fn transmit_response(
    record: &mut Record,
    response: &[Bytes],
    tick: u32,
    counters: &ShardCounters,
) -> Result<(), wire::Broken> {
    let mut slices = [IoSlice::new(&[]); 8];
    if response.len() > slices.len() {
        return transmit_response(record, &[response.concat().into()], tick, counters);
    }
    let mut written = 0;
    if record.outbound.is_none() {
        let fd = record.fd.as_ref().expect("a socket in use has a descriptor");
        for (slice, part) in slices.iter_mut().zip(response) {
            *slice = IoSlice::new(part);
        }
        written = wire::write_all_of(fd, &slices[..response.len()])?;
        counters.bytes_out.add(written as u64);
    }
    for part in response {
        if written >= part.len() {
            written -= part.len();
            continue;
        }
        match &mut record.outbound {
            Some(queue) => {
                let before = queue.bytes();
                queue.push(part.slice(written..));
                counters.queued_bytes_now.add((queue.bytes() - before) as u64);
            }
            None => {
                let queue = Outbound::begin(part.clone(), written, tick);
                counters.queued_bytes_now.add(queue.bytes() as u64);
                record.outbound = Some(Box::new(queue));
            }
        }
        written = 0;
    }
    Ok(())
}

/// Tenths of a second until `now`. They wrap after 13 years, as does every difference of two.
pub(crate) fn ticks(now: Instant) -> u32 {
    (now.as_nanos() / 100_000_000) as u32
}

/// A socket's id, as the epoll carries it.
pub(crate) fn token(id: SocketId) -> Token {
    Token((id.generation as usize) << 32 | id.index as usize)
}

/// The id in a token.
pub(crate) fn socket_of(Token(token): Token) -> SocketId {
    SocketId { index: token as u32, generation: (token >> 32) as u32 }
}
