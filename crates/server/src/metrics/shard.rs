//! The counts of one shard.

use std::time::Duration;

use watchfire_metrics::TIMES;
use watchfire_sockets::{Count, Histogram};

/// Bounds of the histogram of fan-outs, in subscribers.
pub(super) const FAN_OUTS: &[u64] = &[1, 3, 10, 30, 100, 1_000, 10_000, 100_000];

/// The counts of one shard. Only the shard's thread writes them, so an update is a plain store.
/// Aligned, so that shards do not share a cache line.
#[derive(Debug)]
#[repr(align(128))]
pub struct ShardMetrics {
    pub websockets_now: Count,
    /// Open long-poll sessions.
    pub longpolls_now: Count,
    /// Open event streams, and requests for one whose join waits.
    pub streams_now: Count,
    /// Open WebSockets of guests.
    pub guests_now: Count,
    /// Joined channels.
    pub channels_now: Count,
    /// Topics with a subscriber.
    pub topics_now: Count,
    /// The memory of connections and clients, and of topics and channels.
    pub socket_bytes: Count,
    pub topic_bytes: Count,
    pub joins_accepted: Count,
    /// Joins that a channel refused.
    pub joins_refused: Count,
    pub joins_crashed: Count,
    /// Messages from clients.
    pub messages: Count,
    /// Broadcasts that a client of the shard or the shard itself published.
    pub broadcasts: Count,
    /// Messages of clients after which their sender had to wait, because their topic had no room.
    pub publishers_waited: Count,
    /// Broadcast messages given to a socket or session.
    pub deliveries: Count,
    /// Broadcasts that wait until all their subscribers have them.
    pub broadcasts_now: Count,
    /// Broadcasts that found the queue of their topic, or of the shard, full.
    pub broadcasts_dropped: Count,
    join_times: Histogram,
    broadcast_times: Histogram,
    fan_outs: Histogram,
}

impl Default for ShardMetrics {
    fn default() -> Self {
        ShardMetrics {
            websockets_now: Count::default(),
            longpolls_now: Count::default(),
            streams_now: Count::default(),
            guests_now: Count::default(),
            channels_now: Count::default(),
            topics_now: Count::default(),
            socket_bytes: Count::default(),
            topic_bytes: Count::default(),
            joins_accepted: Count::default(),
            joins_refused: Count::default(),
            joins_crashed: Count::default(),
            messages: Count::default(),
            broadcasts: Count::default(),
            publishers_waited: Count::default(),
            deliveries: Count::default(),
            broadcasts_now: Count::default(),
            broadcasts_dropped: Count::default(),
            join_times: Histogram::new(TIMES),
            broadcast_times: Histogram::new(TIMES),
            fan_outs: Histogram::new(FAN_OUTS),
        }
    }
}

impl ShardMetrics {
    /// A join got its reply, this long after it arrived.
    pub fn join_took(&self, time: Duration) {
        self.join_times.observe(nanos(time));
    }

    /// The last subscriber of the shard got a broadcast, this long after it was published.
    pub fn broadcast_took(&self, time: Duration, subscribers: u32) {
        self.broadcast_times.observe(nanos(time));
        self.fan_outs.observe(subscribers.into());
    }
}

/// A histogram of a shard, with its bounds.
pub(super) type Pick = fn(&ShardMetrics) -> &Histogram;

pub(super) const JOIN_TIMES: Pick = |shard| &shard.join_times;
pub(super) const BROADCAST_TIMES: Pick = |shard| &shard.broadcast_times;
pub(super) const FAN_OUT_SIZES: Pick = |shard| &shard.fan_outs;

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
