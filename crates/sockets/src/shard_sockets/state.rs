//! The state of a shard's sockets, and its accounting.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use mio::Registry;
use watchfire_types::{Instant, ShardId, SocketId, heap_bytes};

use super::recent_peers::RecentPeers;
use super::transmit::Writer;
use crate::counters::{CloseCause, ShardCounters, SocketCounters};
use crate::handoff::ClientAddress;
use crate::limits::SocketLimits;
use crate::outbound_queue::Pace;
use crate::record::{Held, Record, Slab};

/// The clock that all shards of a socket server share.
#[derive(Clone, Copy)]
pub(crate) struct Clock(std::time::Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Clock(std::time::Instant::now())
    }

    pub(crate) fn now(self) -> Instant {
        Instant::ZERO + self.0.elapsed()
    }
}

/// The sockets of one shard.
///
/// Frames are written directly to the kernel. Only the part that it does not accept is queued, up
/// to `queued_bytes_max` per socket. A full queue that does not move closes the socket immediately.
pub struct Sockets {
    pub(super) shard: ShardId,
    pub(crate) limits: Arc<SocketLimits>,
    pub(super) counters: Arc<SocketCounters>,
    pub(super) registry: Registry,
    pub(crate) slab: Slab,
    clock: Clock,
    pub(super) now: Instant,
    /// Tenths of a second since the clock's start; stored in records instead of an instant.
    pub(crate) tick: u32,
    /// Open WebSockets and event streams.
    pub(super) open: usize,
    pub(super) parked: usize,
    pub(super) partial_bytes: usize,
    /// Clients' addresses by slot, for connections that are not from the address of their client.
    pub(crate) clients: HashMap<u32, ClientAddress>,
    pub(super) recent_peers: RecentPeers,
    /// Closed sockets for which `handle_close` was not called yet.
    pub(super) pending_closes: VecDeque<(SocketId, CloseCause)>,
    /// Slots to free after `handle_close` was called.
    pub(super) dead: Vec<SocketId>,
    /// Connections whose last request was answered, and which may hold another; WebSockets that are
    /// read again.
    pub(super) resumed: Vec<SocketId>,
    /// Parked requests that became WebSockets, with the bytes that arrived meanwhile.
    pub(super) opened: Vec<(SocketId, Option<Box<Held>>)>,
    /// Sockets that are not read until [`Sockets::resume`].
    paused: HashSet<SocketId>,
    /// Sockets that were not read because their own queue exceeds its limit.
    unread: HashSet<SocketId>,
    /// Whether a queue shrank to a quarter of its limit, or to its limit, since the flag was taken.
    pub(super) is_relieved: bool,
    crowded_ticks: u32,
    pub(crate) is_draining: bool,
}

impl Sockets {
    pub(crate) fn new(
        shard: ShardId,
        limits: Arc<SocketLimits>,
        counters: Arc<SocketCounters>,
        registry: Registry,
        clock: Clock,
    ) -> Self {
        let crowded_ticks = limits.crowded_timeout.as_nanos().div_ceil(u128::from(TICK_NANOS));
        Sockets {
            shard,
            crowded_ticks: crowded_ticks.try_into().unwrap_or(u32::MAX),
            limits,
            counters,
            registry,
            slab: Slab::default(),
            clock,
            now: Instant::ZERO,
            tick: 0,
            open: 0,
            parked: 0,
            partial_bytes: 0,
            clients: HashMap::new(),
            recent_peers: RecentPeers::default(),
            pending_closes: VecDeque::new(),
            dead: Vec::new(),
            resumed: Vec::new(),
            opened: Vec::new(),
            paused: HashSet::new(),
            unread: HashSet::new(),
            is_relieved: false,
            is_draining: false,
        }
    }

    /// The time at the start of this turn of the loop. All shards of a server share one clock.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The time since an earlier [`Sockets::now`] of any shard. Reads the clock.
    pub fn elapsed(&self, since: Instant) -> Duration {
        self.clock.now().since(since)
    }

    /// The memory of the records of all connections, without queues and partial messages.
    pub fn memory_bytes(&self) -> usize {
        let client = size_of::<(u32, ClientAddress)>() + 1;
        self.slab.memory_bytes() + heap_bytes(self.clients.capacity() * client)
    }

    /// The shard that owns these sockets.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// The number of open WebSockets and event streams.
    pub fn len(&self) -> usize {
        self.open
    }

    pub fn is_empty(&self) -> bool {
        self.open == 0
    }

    pub fn parked(&self) -> usize {
        self.parked
    }

    /// Bytes in a socket's queue, including the overhead of each frame; 0 if the socket is gone.
    pub fn queued_bytes(&self, socket: SocketId) -> usize {
        let record = self.slab.get(socket);
        record.and_then(|record| record.outbound.as_ref()).map_or(0, |queue| queue.bytes())
    }

    /// Whether those who fill the queue of a socket should wait for its client: it was over a half of
    /// `queued_bytes_max`, not at a quarter since, and moves. A client is awaited for
    /// `crowded_timeout` at most.
    pub fn is_awaited(&self, socket: SocketId) -> bool {
        let record = self.slab.get(socket).filter(|record| record.is_open());
        let queue = record.and_then(|record| record.outbound.as_ref());
        queue.is_some_and(|queue| queue.is_awaited(self.pace()))
    }

    /// Reads nothing more from a socket until [`Sockets::resume`]. So the client can send no more
    /// than its connection holds. The handler may still get messages that were read already.
    /// Returns false if it is paused already, or not open.
    pub fn pause(&mut self, socket: SocketId) -> bool {
        let is_open = self.slab.get(socket).is_some_and(Record::is_open);
        is_open && self.paused.insert(socket)
    }

    /// Reads a socket again.
    pub fn resume(&mut self, socket: SocketId) {
        if self.paused.remove(&socket) {
            self.resumed.push(socket);
        }
    }
}

/// For the shard itself.
impl Sockets {
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
        self.tick = ticks(now);
    }

    pub(crate) fn count(&self) -> &ShardCounters {
        self.counters.shard(self.shard)
    }

    pub(super) fn pace(&self) -> Pace {
        Pace { tick: self.tick, crowded_ticks: self.crowded_ticks }
    }

    /// Whether any queue got shorter, so that [`Sockets::is_awaited`] may have become false, since the
    /// last call.
    pub(crate) fn take_relieved(&mut self) -> bool {
        std::mem::take(&mut self.is_relieved)
    }

    /// The sockets that were not read because of their own queue. Those whose queue still exceeds its
    /// limit are not read this time either.
    pub(crate) fn take_unread(&mut self) -> HashSet<SocketId> {
        std::mem::take(&mut self.unread)
    }

    pub(super) fn forget_pause(&mut self, id: SocketId) {
        if !self.paused.is_empty() {
            self.paused.remove(&id);
        }
    }

    /// Whether a socket must not be read now: the handler paused it, or its client has to read first.
    /// Its bytes stay in the kernel.
    pub(crate) fn holds_back(&mut self, id: SocketId) -> bool {
        let Some(record) = self.slab.get(id).filter(|record| record.is_open()) else {
            return false;
        };
        if !self.paused.is_empty() && self.paused.contains(&id) {
            return true;
        }
        let bytes_max = self.limits.queued_bytes_max;
        let Some(queue) = &record.outbound else { return false };
        let is_over = queue.is_over(bytes_max) && queue.is_awaited(self.pace());
        if is_over {
            self.unread.insert(id);
        }
        is_over
    }

    pub(super) fn writing(&mut self, id: SocketId) -> Option<(&mut Record, Writer<'_>)> {
        let writer = Writer {
            queued_bytes_max: self.limits.queued_bytes_max,
            pace: self.pace(),
            counters: self.counters.shard(self.shard),
        };
        Some((self.slab.get_mut(id)?, writer))
    }

    pub(crate) fn note_opened(&mut self) {
        self.open += 1;
        self.count().websockets.add(1);
        self.count().websockets_now.add(1);
    }

    pub(super) fn note_stream(&mut self) {
        self.open += 1;
        self.count().streams.add(1);
        self.count().streams_now.add(1);
    }

    pub(crate) fn note_parked(&mut self) {
        self.parked += 1;
        self.count().parked.add(1);
        self.count().parked_now.add(1);
    }

    /// Updates the count of partly received bytes after a socket's share changed. Returns false if
    /// the share grew and the shard is over `partial_bytes_max`.
    pub(crate) fn update_partial_bytes(&mut self, before: usize, after: usize) -> bool {
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

    pub(crate) fn next_opened(&mut self) -> Option<(SocketId, Option<Box<Held>>)> {
        self.opened.pop()
    }
}

const TICK_NANOS: u64 = 100_000_000;

/// `now` in tenths of a second. It wraps after 13 years.
pub(crate) fn ticks(now: Instant) -> u32 {
    (now.as_nanos() / TICK_NANOS) as u32
}
