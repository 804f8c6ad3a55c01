//! Counters of the shards, for metrics, and what they count: connections, and why sockets end.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::RuntimeMetrics;
use watchfire_types::ShardId;

use crate::count::{Count, Histogram, HistogramTotals};
use crate::outbound_queue::Outbound;

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

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One shard's counts. Aligned, so that shards do not share a cache line.
        #[derive(Default)]
        #[repr(align(128))]
        pub(crate) struct ShardCounters {
            $(pub(crate) $name: Count,)*
            /// Bytes in the largest queue of a socket, at the last sweep.
            pub(crate) queued_bytes_largest: Count,
            /// When the oldest message in the shard's queue was sent, in nanoseconds since the start. It is that of
            /// the last message that was taken, or of the first one in an empty queue.
            pub(crate) shard_queue_since: Count,
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
    /// Connections in any state: WebSockets, event streams, parked, lent to hyper, awaiting a request, closing.
    connections_now,
    /// Open WebSockets.
    websockets_now,
    /// WebSockets opened.
    websockets,
    /// Open event streams.
    streams_now,
    /// Event streams opened.
    streams,
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
    /// Clients whose TLS this process terminates.
    tls_now,
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
    /// Messages given to a shard's queue.
    shard_queue_sent,
    /// Messages taken from it.
    shard_queue_taken,
    /// Messages dropped because a shard's queue was full or the shard had ended.
    shard_queue_drops,
    /// WebSockets, event streams and parked GETs that their client ended.
    closes_by_peer,
    /// WebSockets and event streams that the handler closed, or WebSockets that were closed because of `partial_bytes_max`.
    closes_by_us,
    /// WebSockets closed for a violation of RFC 6455 or invalid UTF-8.
    closes_protocol,
    /// WebSockets closed for a message over `message_bytes_max`.
    closes_too_big,
    /// WebSockets closed after `idle_timeout`.
    closes_idle,
    /// WebSockets and event streams closed because their client did not read.
    closes_slow,
    /// WebSockets and event streams closed by a drain.
    closes_drained,
    /// Connections that ended because no whole head of a request arrived within `head_timeout`.
    closes_late,
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
    /// From the head of a request to the head of the router's response, in nanoseconds.
    pub http_times: HistogramTotals,
    /// From the first byte that the kernel did not take to the end of a socket's queue, in tenths
    /// of a second.
    pub queue_ages: HistogramTotals,
}

/// The queue of messages from other threads to a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardQueue {
    pub messages: u64,
    /// The age of the oldest one. `None`: there is none.
    pub oldest: Option<Duration>,
    /// Messages that were dropped.
    pub drops: u64,
}

/// The reason why a socket ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseCause {
    /// The client closed the socket, or its connection ended.
    ByPeer,
    /// The server closed the socket with this code, by [`crate::Sockets::close`] or because of
    /// `partial_bytes_max`.
    ByUs(u16),
    /// The client violated RFC 6455 or sent invalid UTF-8.
    Protocol,
    /// A message was larger than `message_bytes_max`.
    TooBig,
    /// The client sent nothing for `idle_timeout`.
    Idle,
    /// The client did not read: its queue was full, or made no progress for `slow_timeout`.
    Slow,
    Drained,
}

impl ShardCounters {
    /// Counts the end of a socket's queue.
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
    started_at: Instant,
    /// Measured by tokio.
    runtimes: Box<[OnceLock<RuntimeMetrics>]>,
}

impl SocketCounters {
    pub(crate) fn new(shards: usize) -> Self {
        SocketCounters {
            shards: (0..shards).map(|_| ShardCounters::default()).collect(),
            started_at: Instant::now(),
            runtimes: (0..shards).map(|_| OnceLock::new()).collect(),
        }
    }

    pub(crate) fn shard(&self, shard: ShardId) -> &ShardCounters {
        &self.shards[usize::from(shard.0)]
    }

    pub(crate) fn set_runtime(&self, shard: ShardId, runtime: RuntimeMetrics) {
        self.runtimes[usize::from(shard.0)].set(runtime).ok();
    }

    /// The time since the start, in nanoseconds.
    pub(crate) fn nanos(&self) -> u64 {
        u64::try_from(self.started_at.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The queue of each shard.
    pub fn shard_queues(&self) -> impl Iterator<Item = ShardQueue> {
        self.shards.iter().map(|shard| {
            // A message may be taken before it is counted as sent.
            let taken = shard.shard_queue_taken.get();
            let messages = shard.shard_queue_sent.get().saturating_sub(taken);
            let age = self.nanos().saturating_sub(shard.shard_queue_since.get());
            let oldest = (messages > 0).then(|| Duration::from_nanos(age));
            ShardQueue { messages, oldest, drops: shard.shard_queue_drops.get() }
        })
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

    /// Adds up the histograms of all shards.
    pub fn histograms(&self) -> SocketHistograms {
        let histograms = || self.shards.iter().map(|shard| &shard.histograms);
        SocketHistograms {
            http_times: HistogramTotals::of(HTTP_TIMES, histograms().map(|h| &h.http_times)),
            queue_ages: HistogramTotals::of(QUEUE_AGES, histograms().map(|h| &h.queue_ages)),
        }
    }

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

    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Adds up all shards.
    pub fn totals(&self) -> SocketTotals {
        let mut totals = SocketTotals::default();
        for shard in &self.shards {
            totals.add(shard);
        }
        totals
    }
}

/// A connection that counts in `connections_now` while it is outside the slab: in a TLS handshake,
/// or lent to hyper. Dropping it ends the count.
pub(crate) struct CountedConnection {
    counters: Arc<SocketCounters>,
    shard: ShardId,
    is_in_slab: bool,
}

impl CountedConnection {
    pub(crate) fn new(counters: Arc<SocketCounters>, shard: ShardId) -> Self {
        counters.shard(shard).connections_now.add(1);
        CountedConnection { counters, shard, is_in_slab: false }
    }

    /// For a connection that leaves the slab, where it was already counted.
    pub(crate) fn already_counted(counters: Arc<SocketCounters>, shard: ShardId) -> Self {
        CountedConnection { counters, shard, is_in_slab: false }
    }

    /// The slab counts the connection from now on.
    pub(crate) fn pass_to_slab(mut self) {
        self.is_in_slab = true;
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        if !self.is_in_slab {
            self.counters.shard(self.shard).connections_now.sub(1);
        }
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
