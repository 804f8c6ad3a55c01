//! Counts of the whole server, and reports of the counts of its parts.
//!
//! [`Metrics`] holds what the shards count. A feature counts for itself and reports through
//! [`MetricSource`] when `/metrics` is requested.

mod sockets;
mod writer;

use std::sync::atomic::{AtomicI64, AtomicU64};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

pub(crate) use sockets::SocketMetrics;
pub(crate) use writer::{Exporter, MetricSource, MetricWriter};

/// The reason for a refusal or a drop, from a closed set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// Counts of the whole server. Updates take no lock, except for those with a label.
#[derive(Debug, Default)]
pub struct Metrics {
    websockets: Gauge<i64, AtomicI64>,
    longpolls: Gauge<i64, AtomicI64>,
    /// Accepted joins.
    pub(crate) joins: Counter<u64, AtomicU64>,
    /// Messages from clients.
    pub(crate) messages: Counter<u64, AtomicU64>,
    /// Broadcasts published by this process, whatever the number of subscribers.
    pub(crate) broadcasts: Counter<u64, AtomicU64>,
    /// Broadcast messages given to a socket or session.
    pub(crate) deliveries: Counter<u64, AtomicU64>,
    /// Relayed segments that the queue of their destination took.
    pub(crate) relayed_frames: Counter<u64, AtomicU64>,
    /// The bytes of those segments.
    pub(crate) relayed_bytes: Counter<u64, AtomicU64>,
    /// Relayed signals that the queue of their destination took.
    pub(crate) signals: Counter<u64, AtomicU64>,
    /// Channels that an application's panic or error ended.
    pub(crate) crashes: Counter<u64, AtomicU64>,
    /// Channels that are joined now.
    pub(crate) channels: Gauge<i64, AtomicI64>,
    /// Topics that have a subscriber now. A topic on several shards counts once for each.
    pub(crate) topics: Gauge<i64, AtomicI64>,
    refusals: Family<Reason, Counter>,
}

impl Metrics {
    /// WebSockets and long-poll sessions that are open now.
    pub fn clients(&self) -> u64 {
        let clients = self.websockets.get() + self.longpolls.get();
        u64::try_from(clients).unwrap_or(0)
    }

    pub(crate) fn opened(&self, is_websocket: bool) {
        if is_websocket { &self.websockets } else { &self.longpolls }.inc();
    }

    pub(crate) fn closed(&self, is_websocket: bool) {
        if is_websocket { &self.websockets } else { &self.longpolls }.dec();
    }

    /// Counts a refusal or a drop. `reason` is one of a closed set.
    pub(crate) fn refused(&self, reason: &'static str) {
        self.refusals.get_or_create(&Reason { reason }).inc();
    }

    /// Registers everything that is counted here.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("channels_websockets", "Open WebSockets", self.websockets.clone());
        registry.register("channels_longpolls", "Open long-poll sessions", self.longpolls.clone());
        registry.register("refusals", "Refusals and drops by reason", self.refusals.clone());
        registry.register("channels_joined", "Joined channels", self.channels.clone());
        registry.register(
            "hub_topics",
            "Topics with a subscriber, once for each shard",
            self.topics.clone(),
        );
        for (name, help, counter) in [
            ("channels_joins", "Accepted joins", &self.joins),
            ("channels_messages", "Messages from clients", &self.messages),
            ("channels_crashes", "Channels that crashed", &self.crashes),
            ("hub_broadcasts", "Broadcasts published", &self.broadcasts),
            ("hub_deliveries", "Broadcast messages given to a subscriber", &self.deliveries),
            ("pages_relayed_frames", "Frames relayed between peers", &self.relayed_frames),
            ("pages_relayed_bytes", "Bytes relayed between peers", &self.relayed_bytes),
            ("pages_signals", "Signals relayed between peers", &self.signals),
        ] {
            registry.register(name, help, counter.clone());
        }
    }
}
