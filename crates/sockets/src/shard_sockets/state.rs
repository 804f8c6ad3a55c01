//! The state of a shard's sockets, and its accounting.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use mio::Registry;
use watchfire_types::{Instant, ShardId, SocketId};

use super::recent_peers::RecentPeers;
use crate::close_cause::CloseCause;
use crate::counters::{ShardCounters, SocketCounters};
use crate::limits::SocketLimits;
use crate::record::Slab;

/// The sockets of one shard.
///
/// Frames go straight to the kernel. Only the part that it does not take at once is queued, within
/// `queued_bytes_max` a socket. A full queue closes the socket at once.
pub struct Sockets {
    pub(super) shard: ShardId,
    pub(crate) limits: Arc<SocketLimits>,
    pub(super) counters: Arc<SocketCounters>,
    pub(super) registry: Registry,
    pub(crate) slab: Slab,
    pub(super) now: Instant,
    /// Tenths of a second since the shard began: what records note instead of an instant.
    pub(crate) tick: u32,
    pub(super) websockets: usize,
    pub(super) parked: usize,
    pub(super) partial_bytes: usize,
    /// Peers of sockets that are one end of a pair, whose other end is a TLS task.
    pub(super) pairs: HashMap<u32, SocketAddr>,
    pub(super) recent_peers: RecentPeers,
    /// Sockets that are gone, and whose handler has not been called yet.
    pub(super) pending_closes: VecDeque<(SocketId, CloseCause)>,
    /// Slots to be freed once the handler knows.
    pub(super) dead: Vec<SocketId>,
    /// Connections that may hold another request, now that the last one is answered.
    pub(super) resumed: Vec<SocketId>,
    pub(crate) is_draining: bool,
}

impl Sockets {
    pub(crate) fn new(
        shard: ShardId,
        limits: Arc<SocketLimits>,
        counters: Arc<SocketCounters>,
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
            recent_peers: RecentPeers::default(),
            pending_closes: VecDeque::new(),
            dead: Vec::new(),
            resumed: Vec::new(),
            is_draining: false,
        }
    }

    /// The time, as of this turn of the loop. All shards of a socket server share one clock.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The shard that owns these sockets.
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

    pub(crate) fn note_opened(&mut self) {
        self.websockets += 1;
        self.count().websockets.add(1);
        self.count().websockets_now.add(1);
    }

    pub(crate) fn note_parked(&mut self) {
        self.parked += 1;
        self.count().parked.add(1);
        self.count().parked_now.add(1);
    }

    /// Note how many bytes of half-received messages a socket held and holds; false when the
    /// shard has no room for more.
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
}

/// Tenths of a second until `now`. They wrap after 13 years, as does every difference of two.
pub(crate) fn ticks(now: Instant) -> u32 {
    (now.as_nanos() / 100_000_000) as u32
}
