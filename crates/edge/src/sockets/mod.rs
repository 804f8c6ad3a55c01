//! A shard's sockets, as its tenant sees them.

mod adopting;
mod closing;
mod newcomers;
mod transmit;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use mio::Registry;
use vocab::{Instant, ShardId, SocketId};

pub(crate) use self::adopting::socket_of;
use self::newcomers::Newcomers;
use self::transmit::{Taken, Untaken, transmit, transmit_bytes, transmit_response};
use crate::counters::{EdgeCounters, ShardCounters};
use crate::record::{Slab, State};
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
    newcomers: Newcomers,
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
            newcomers: Newcomers::default(),
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
            Ok(Taken::AsEver) => Ok(()),
            Ok(Taken::Waiting) => {
                self.await_room(socket);
                Ok(())
            }
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

    /// Write all of a response, queueing what the kernel does not take; false when the connection
    /// broke over it.
    pub(crate) fn write_response(&mut self, id: SocketId, response: &[Bytes]) -> bool {
        let Some(record) = self.slab.get_mut(id) else { return false };
        let counters = self.counters.shard(self.shard);
        let taken = transmit_response(record, response, self.tick, counters);
        self.see_to(id, taken)
    }

    /// Write the answer to a websocket's handshake; false when the connection broke over it.
    pub(crate) fn write_handshake(&mut self, id: SocketId, answer: &[u8]) -> bool {
        let Some(record) = self.slab.get_mut(id) else { return false };
        let counters = self.counters.shard(self.shard);
        let taken = transmit_bytes(record, answer, self.tick, counters);
        self.see_to(id, taken)
    }

    fn see_to(&mut self, id: SocketId, taken: Result<Taken, wire::Broken>) -> bool {
        match taken {
            Ok(Taken::AsEver) => {}
            Ok(Taken::Waiting) => self.await_room(id),
            Err(wire::Broken) => self.hang_up(id),
        }
        taken.is_ok()
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

    pub(crate) fn next_resumed(&mut self) -> Option<SocketId> {
        self.resumed.pop()
    }
}

/// Tenths of a second until `now`. They wrap after 13 years, as does every difference of two.
pub(crate) fn ticks(now: Instant) -> u32 {
    (now.as_nanos() / 100_000_000) as u32
}
