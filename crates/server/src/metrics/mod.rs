//! Counts of the whole server.
//!
//! [`Metrics`] has the counts of each shard, which only that shard's thread writes. They are added
//! up when `/metrics` is requested. A part counts for itself and reports through
//! [`MetricSource`].

mod shard;
mod sockets;

use std::sync::Arc;

use parking_lot::RwLock;
use watchfire_metrics::{NANOS_PER_SECOND, Queue, TIMES};
use watchfire_sockets::{Count, HistogramTotals};

pub use shard::ShardMetrics;
use shard::{BROADCAST_TIMES, FAN_OUT_SIZES, FAN_OUTS, JOIN_TIMES, Pick};
pub use sockets::SocketMetrics;
pub use watchfire_metrics::{Counter, CountersBy, MetricSource, MetricWriter, Times};

/// Counts of the whole server.
#[derive(Debug)]
pub struct Metrics {
    /// In the order of their start.
    shards: RwLock<Vec<Arc<ShardMetrics>>>,
    /// The counters of the socket server.
    pub(crate) sockets: SocketMetrics,
    /// Broadcasts that other threads than those of shards published.
    pub broadcasts: Counter,
    /// Calls of the API that had to wait, because a topic had no room.
    pub publishers_waited: Counter,
    /// Channels that an application's panic or error ended.
    pub(crate) crashes: Counter,
    /// Clients that are programs and not people, such as terminals.
    pub programs_now: Count,
    refusals: CountersBy<1>,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            shards: RwLock::default(),
            sockets: SocketMetrics::default(),
            broadcasts: Counter::default(),
            publishers_waited: Counter::default(),
            crashes: Counter::default(),
            programs_now: Count::default(),
            refusals: CountersBy::new(["reason"]),
        }
    }
}

impl Metrics {
    /// The counts of a new shard.
    pub(crate) fn add_shard(&self) -> Arc<ShardMetrics> {
        let shard = Arc::<ShardMetrics>::default();
        self.shards.write().push(shard.clone());
        shard
    }

    fn sum(&self, count: impl Fn(&ShardMetrics) -> &Count) -> u64 {
        self.shards.read().iter().map(|shard| count(shard).get()).sum()
    }

    /// WebSockets and long-poll sessions that are open now.
    pub fn clients(&self) -> u64 {
        let shards = self.shards.read();
        let clients = |shard: &Arc<ShardMetrics>| {
            shard.websockets_now.get() + shard.longpolls_now.get() + shard.streams_now.get()
        };
        shards.iter().map(clients).sum()
    }

    /// The clients among them that are guests.
    pub fn guests(&self) -> u64 {
        self.sum(|shard| &shard.guests_now)
    }

    /// The clients that are people here. A guest counts at the server that loaded its tab.
    pub fn people(&self) -> u64 {
        self.clients().saturating_sub(self.guests() + self.programs_now.get())
    }

    /// Joined channels, for the model of the server.
    #[cfg(test)]
    pub(crate) fn joined(&self) -> u64 {
        self.sum(|shard| &shard.channels_now)
    }

    /// Topics that have a subscriber now. A topic on several shards counts once for each.
    pub fn topics(&self) -> u64 {
        self.sum(|shard| &shard.topics_now)
    }

    /// Counts a refusal or a drop. `reason` is one of a closed set.
    pub fn refused(&self, reason: &'static str) {
        self.refusals.inc([reason]);
    }

    fn write_histogram(
        &self,
        writer: &mut MetricWriter,
        name: &str,
        help: &str,
        (bounds, pick, divisor): (&'static [u64], Pick, f64),
    ) {
        let shards = self.shards.read();
        let totals = HistogramTotals::of(bounds, shards.iter().map(|shard| pick(shard)));
        writer.histogram(name, help, &totals, divisor);
    }
}

#[doc(hidden)]
impl MetricSource for Metrics {
    fn write_metrics(&self, writer: &mut MetricWriter) {
        writer.gauges(
            "channels_clients",
            "Open WebSockets, long-poll sessions and event streams",
            "transport",
            &[
                ("websocket", self.sum(|shard| &shard.websockets_now)),
                ("longpoll", self.sum(|shard| &shard.longpolls_now)),
                ("events", self.sum(|shard| &shard.streams_now)),
            ],
        );
        let help = "Open WebSockets of guests, which other sites loaded";
        writer.gauge("channels_guests", help, self.guests());
        let joined = self.sum(|shard| &shard.channels_now);
        writer.gauge("channels_joined", "Joined channels", joined);
        let help = "Topics with a subscriber, once for each shard";
        writer.gauge("hub_topics", help, self.topics());
        writer.counters_by(
            "channels_joins",
            "Joins that a channel decided about",
            "outcome",
            &[
                ("accepted", self.sum(|shard| &shard.joins_accepted)),
                ("refused", self.sum(|shard| &shard.joins_refused)),
                ("crashed", self.sum(|shard| &shard.joins_crashed)),
            ],
        );
        let broadcasts = self.sum(|shard| &shard.broadcasts) + self.broadcasts.get();
        let waited = self.sum(|shard| &shard.publishers_waited) + self.publishers_waited.get();
        let delivered = "Broadcast messages given to a subscriber";
        for (name, help, value) in [
            ("channels_messages", "Messages from clients", self.sum(|shard| &shard.messages)),
            ("channels_crashes", "Channels that crashed", self.crashes.get()),
            ("hub_broadcasts", "Broadcasts published", broadcasts),
            ("hub_publishers_waited", "Publishers that waited for readers", waited),
            ("hub_deliveries", delivered, self.sum(|shard| &shard.deliveries)),
        ] {
            writer.counter(name, help, value);
        }
        for (name, help, histogram) in [
            (
                "channels_join_seconds",
                "Time from a join to its reply",
                (TIMES, JOIN_TIMES, NANOS_PER_SECOND),
            ),
            (
                "hub_broadcast_seconds",
                "Time from a broadcast to the last write of a shard",
                (TIMES, BROADCAST_TIMES, NANOS_PER_SECOND),
            ),
            (
                "hub_fan_out_subscribers",
                "Subscribers of a broadcast on a shard",
                (FAN_OUTS, FAN_OUT_SIZES, 1.0),
            ),
        ] {
            self.write_histogram(writer, name, help, histogram);
        }
        let mut refusals = self.sockets.refusals();
        refusals
            .extend(self.refusals.counts().iter().map(|([(_, reason)], count)| (*reason, *count)));
        writer.counters_by("refusals", "Refusals and drops by reason", "reason", &refusals);
        self.sockets.write(writer);
        writer.memory("sockets", self.sum(|shard| &shard.socket_bytes) as usize);
        writer.memory("topics", self.sum(|shard| &shard.topic_bytes) as usize);
        writer.queues(&[Queue {
            name: "broadcasts".to_owned(),
            messages: self.sum(|shard| &shard.broadcasts_now),
            oldest: None,
            drops: self.sum(|shard| &shard.broadcasts_dropped),
        }]);
    }
}
