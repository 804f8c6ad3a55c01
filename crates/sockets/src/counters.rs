//! Counters of the shards, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use watchfire_types::ShardId;

use crate::close_cause::CloseCause;

/// One number that only grows, or a level that goes both handoff_routes.
///
/// Any thread may read it. Only its shard's thread writes it, so a plain store is enough. A locked
/// addition would cost as much as twenty other instructions.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }

    pub(crate) fn sub(&self, n: u64) {
        self.0.store(self.get().wrapping_sub(n), Ordering::Relaxed);
    }

    /// Add one, from any thread. Such a count may not be written otherwise.
    pub(crate) fn add_one_from_anywhere(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One shard's counts. Aligned, so that shards do not share a cache line.
        #[derive(Default)]
        #[repr(align(128))]
        pub(crate) struct ShardCounters { $(pub(crate) $name: Count,)* }

        /// All shards' counts, added up at one moment. Names ending in `_now` are levels, the
        /// others only grow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct SocketTotals { $($(#[$doc])* pub $name: u64,)* }

        impl SocketTotals {
            fn add(&mut self, shard: &ShardCounters) {
                $(self.$name = self.$name.wrapping_add(shard.$name.get());)*
            }
        }
    };
}

counts! {
    /// Connections: websockets, parked, lent to hyper, awaiting a request, closing.
    connections_now,
    /// Open websockets.
    websockets_now,
    /// Websockets ever opened.
    websockets,
    /// Parked GETs.
    parked_now,
    /// GETs ever parked.
    parked,
    /// Requests that hyper is answering.
    http_now,
    /// Requests ever given to hyper.
    http_requests,
    /// Connections ever accepted.
    accepts,
    /// Connections closed right after accept: `sockets_max`, or no descriptor left.
    accept_refusals,
    /// TLS handshakes that failed or took too long.
    tls_failures,
    /// Requests moved to another shard.
    moves,
    /// Connections handed over to other processes.
    handoffs,
    /// Connections taken in from other processes.
    adoptions,
    /// Requests the handler refused.
    refusals,
    /// Heads that were not HTTP, too large or too slow.
    head_errors,
    /// Bytes read from clients, by the shard and by hyper.
    bytes_in,
    /// Bytes written to clients, by the shard and by hyper.
    bytes_out,
    /// Whole messages received.
    messages,
    /// Frames taken for sending.
    deliveries,
    /// Bytes that wait in sockets' queues.
    queued_bytes_now,
    /// Frames that had to be queued, because the kernel's buffer was full.
    queued_frames,
    /// Bytes of half-received heads and messages.
    partial_bytes_now,
    /// Sockets closed because of `partial_bytes_max`.
    partial_refusals,
    /// Messages that a full shard queue did not take.
    shard_queue_drops,
    /// Websockets and parked GETs that ended by their client.
    closes_by_peer,
    /// Websockets that we closed for the handler.
    closes_by_us,
    /// Websockets closed for breaking RFC 6455 or bad UTF-8.
    closes_protocol,
    /// Websockets closed for a message over `message_bytes_max`.
    closes_too_big,
    /// Websockets closed after `idle_timeout`.
    closes_idle,
    /// Websockets closed for not reading.
    closes_slow,
    /// Websockets closed by the drain.
    closes_drained,
}

impl ShardCounters {
    pub(crate) fn closed(&self, cause: CloseCause) {
        let count = match cause {
            CloseCause::ByPeer => &self.closes_by_peer,
            CloseCause::ByUs(_) => &self.closes_by_us,
            CloseCause::Protocol => &self.closes_protocol,
            CloseCause::TooBig => &self.closes_too_big,
            CloseCause::Idle => &self.closes_idle,
            CloseCause::Slow => &self.closes_slow,
            CloseCause::Drained => &self.closes_drained,
        };
        count.add(1);
    }
}

/// The counts of all shards; read them with [`SocketCounters::totals`].
pub struct SocketCounters {
    shards: Box<[ShardCounters]>,
}

impl SocketCounters {
    pub(crate) fn new(shards: usize) -> Self {
        SocketCounters { shards: (0..shards).map(|_| ShardCounters::default()).collect() }
    }

    pub(crate) fn shard(&self, shard: ShardId) -> &ShardCounters {
        &self.shards[usize::from(shard.0)]
    }

    /// Connections of all shards.
    pub(crate) fn connections(&self) -> u64 {
        self.shards.iter().map(|shard| shard.connections_now.get()).sum()
    }

    /// Add up all shards.
    pub fn totals(&self) -> SocketTotals {
        let mut totals = SocketTotals::default();
        for shard in &self.shards {
            totals.add(shard);
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_up_the_shards() {
        let counters = SocketCounters::new(2);
        counters.shard(ShardId(0)).websockets_now.add(3);
        counters.shard(ShardId(1)).websockets_now.add(4);
        counters.shard(ShardId(1)).websockets_now.sub(2);
        counters.shard(ShardId(1)).closed(CloseCause::Slow);
        let totals = counters.totals();
        assert_eq!((totals.websockets_now, totals.closes_slow), (5, 1));
    }
}
