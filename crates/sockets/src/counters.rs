//! Counters of the shards, for metrics.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::RuntimeMetrics;
use watchfire_types::ShardId;

use crate::close_cause::CloseCause;
use crate::histogram::{Histogram, HistogramTotals};
use crate::outbound::Outbound;

/// Bounds of [`SocketHistograms::http_times`], in nanoseconds: from 0.5 ms to 10 s.
const HTTP_TIMES: &[u64] = &[
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// Bounds of [`SocketHistograms::queue_ages`], in tenths of a second.
const QUEUE_AGES: &[u64] = &[1, 2, 5, 10, 20, 50, 100, 200, 300, 600];

/// A counter, or a gauge.
///
/// Any thread may read it. Only its shard's thread writes it, so a plain store is enough. A locked
/// addition would cost as much as twenty other instructions.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Add `n`.
    pub fn add(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }

    /// Subtract `n`.
    pub fn sub(&self, n: u64) {
        self.0.store(self.get().wrapping_sub(n), Ordering::Relaxed);
    }

    /// Replace the value.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Add 1 from any thread. A count that uses this must not use `add` or `sub`.
    pub(crate) fn add_one_from_anywhere(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One shard's counts. Aligned, so that shards do not share a cache line.
        #[derive(Default)]
        #[repr(align(128))]
        pub(crate) struct ShardCounters {
            $(pub(crate) $name: Count,)*
            /// Bytes in the largest queue of a socket, at the last sweep.
            pub(crate) queued_bytes_largest: Count,
            pub(crate) histograms: ShardHistograms,
        }

        /// The sums of all shards' counts. Names ending in `_now` are gauges, the others are
        /// counters.
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
    /// Periodic ticks of the event loops, ten a second each while they run.
    ticks,
    /// Event loops that ended by a panic: one or none of each shard.
    loop_panics,
    /// Connections in any state: WebSockets, parked, lent to hyper, awaiting a request, closing.
    connections_now,
    /// Open WebSockets.
    websockets_now,
    /// WebSockets opened.
    websockets,
    /// Parked GETs.
    parked_now,
    /// GETs that were parked.
    parked,
    /// Requests that hyper is answering.
    http_now,
    /// Requests given to hyper.
    http_requests,
    /// Connections accepted.
    accepts,
    /// Connections closed right after accept: `sockets_max`, or no descriptor left.
    accept_refusals,
    /// Connections closed because they came from an untrusted address, without a trusted proxy.
    proxy_untrusted,
    /// Connections closed because of an invalid or late header of the PROXY protocol.
    proxy_header_errors,
    /// TLS handshakes that failed or timed out.
    tls_failures,
    /// Requests moved to another shard.
    moves,
    /// Connections handed over to other processes.
    handoffs,
    /// Connections received from other processes.
    adoptions,
    /// Requests that the handler refused, or whose upgrade or parking was invalid.
    refusals,
    /// Request heads that were not HTTP, too large or too slow.
    head_errors,
    /// Bytes read from clients, by the shard and by hyper.
    bytes_in,
    /// Bytes written to clients, by the shard and by hyper.
    bytes_out,
    /// Complete messages received.
    messages,
    /// Frames written or queued.
    deliveries,
    /// Bytes in sockets' queues.
    queued_bytes_now,
    /// Frames that were queued because the kernel's buffer was full.
    queued_frames,
    /// Bytes of partly received heads and messages.
    partial_bytes_now,
    /// Sockets closed because of `partial_bytes_max`.
    partial_refusals,
    /// Messages dropped because a shard's queue was full or the shard had ended.
    shard_queue_drops,
    /// WebSockets and parked GETs that their client ended.
    closes_by_peer,
    /// WebSockets that the handler closed, or that were closed because of `partial_bytes_max`.
    closes_by_us,
    /// WebSockets closed for a violation of RFC 6455 or invalid UTF-8.
    closes_protocol,
    /// WebSockets closed for a message over `message_bytes_max`.
    closes_too_big,
    /// WebSockets closed after `idle_timeout`.
    closes_idle,
    /// WebSockets closed because their client did not read.
    closes_slow,
    /// WebSockets closed by a drain.
    closes_drained,
}

/// One shard's histograms.
pub(crate) struct ShardHistograms {
    pub(crate) http_times: Histogram,
    queue_ages: Histogram,
}

impl Default for ShardHistograms {
    fn default() -> Self {
        ShardHistograms {
            http_times: Histogram::new(HTTP_TIMES),
            queue_ages: Histogram::new(QUEUE_AGES),
        }
    }
}

/// The sums of all shards' histograms.
#[derive(Clone, Debug)]
pub struct SocketHistograms {
    /// From the head of a request to that of the router's response, in nanoseconds.
    pub http_times: HistogramTotals,
    /// From the first byte that the kernel did not take to the end of a socket's queue, in tenths
    /// of a second.
    pub queue_ages: HistogramTotals,
}

impl ShardCounters {
    /// Count the end of a socket's queue.
    pub(crate) fn queue_ended(&self, queue: &Outbound, tick: u32) {
        self.histograms.queue_ages.observe(u64::from(tick.wrapping_sub(queue.began())));
    }

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
    /// Measured by tokio.
    runtimes: Box<[OnceLock<RuntimeMetrics>]>,
}

impl SocketCounters {
    pub(crate) fn new(shards: usize) -> Self {
        SocketCounters {
            shards: (0..shards).map(|_| ShardCounters::default()).collect(),
            runtimes: (0..shards).map(|_| OnceLock::new()).collect(),
        }
    }

    pub(crate) fn shard(&self, shard: ShardId) -> &ShardCounters {
        &self.shards[usize::from(shard.0)]
    }

    pub(crate) fn set_runtime(&self, shard: ShardId, runtime: RuntimeMetrics) {
        self.runtimes[usize::from(shard.0)].set(runtime).ok();
    }

    /// How long each shard's event loop has worked, and not waited for events.
    pub fn busy_times(&self) -> impl Iterator<Item = Duration> {
        let busy = |runtime: &RuntimeMetrics| runtime.worker_total_busy_duration(0);
        self.runtimes.iter().map(move |runtime| runtime.get().map_or(Duration::ZERO, busy))
    }

    /// Bytes in the largest queue of a socket, at the last sweep over all sockets. It takes a second.
    pub fn queued_bytes_largest(&self) -> u64 {
        self.shards.iter().map(|shard| shard.queued_bytes_largest.get()).max().unwrap_or(0)
    }

    /// Add up the histograms of all shards.
    pub fn histograms(&self) -> SocketHistograms {
        let histograms = || self.shards.iter().map(|shard| &shard.histograms);
        SocketHistograms {
            http_times: HistogramTotals::of(HTTP_TIMES, histograms().map(|h| &h.http_times)),
            queue_ages: HistogramTotals::of(QUEUE_AGES, histograms().map(|h| &h.queue_ages)),
        }
    }

    /// Connections of all shards.
    pub(crate) fn connections(&self) -> u64 {
        self.shards.iter().map(|shard| shard.connections_now.get()).sum()
    }

    /// The ticks of each shard's event loop.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = u64> {
        self.shards.iter().map(|shard| shard.ticks.get())
    }

    /// The shards whose event loop ended by a panic.
    pub fn panicked(&self) -> impl Iterator<Item = ShardId> {
        let shards = self.shards.iter().zip(0..);
        shards.filter(|(shard, _)| shard.loop_panics.get() > 0).map(|(_, id)| ShardId(id))
    }

    /// The number of shards.
    pub fn shards(&self) -> usize {
        self.shards.len()
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
