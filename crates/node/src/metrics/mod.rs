//! What the operator sees at `/metrics`.

mod merge;

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, OnceLock};

use bus::BusTotals;
use edge::{EdgeCounters, EdgeTotals};
use p2p::HostStats;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use stun::{StunCounters, StunTotals};
use vocab::NodeId;

use crate::cluster::{Cluster, Question};
use crate::page_board::PageBoard;
use crate::planes::Planes;
use crate::presence::PresenceBoard;
use crate::worlds::Encounters;

/// Why something was refused or dropped, from a closed set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// Counts of the whole server. Reading and moving them takes no lock, but for the labelled ones.
#[derive(Debug, Default)]
pub struct Metrics {
    websockets: Gauge<i64, AtomicI64>,
    longpolls: Gauge<i64, AtomicI64>,
    /// Channels that clients joined.
    pub(crate) joins: Counter<u64, AtomicU64>,
    /// Messages from clients.
    pub(crate) messages: Counter<u64, AtomicU64>,
    /// Broadcasts published here, however many got them.
    pub(crate) broadcasts: Counter<u64, AtomicU64>,
    /// Messages of broadcasts given to a socket or session.
    pub(crate) deliveries: Counter<u64, AtomicU64>,
    /// Segments passed on between peers.
    pub(crate) relayed_frames: Counter<u64, AtomicU64>,
    /// Their bytes.
    pub(crate) relayed_bytes: Counter<u64, AtomicU64>,
    /// Signals passed on between peers.
    pub(crate) signals: Counter<u64, AtomicU64>,
    /// Sprites thrown, whether a neighbour had them or they came back.
    pub(crate) throws: Counter<u64, AtomicU64>,
    /// Channels that an application's panic or error ended.
    pub(crate) crashes: Counter<u64, AtomicU64>,
    /// Joined channels, now.
    pub(crate) channels: Gauge<i64, AtomicI64>,
    /// Topics with a subscriber, each shard's counted by itself.
    pub(crate) topics: Gauge<i64, AtomicI64>,
    refusals: Family<Reason, Counter>,
}

impl Metrics {
    /// Websockets and long-poll sessions, now.
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

    /// Something was refused; `reason` is one of a closed set.
    pub(crate) fn refused(&self, reason: &'static str) {
        self.refusals.get_or_create(&Reason { reason }).inc();
    }
}

/// Everything `/metrics` shows, gathered when it is asked for.
pub(crate) struct Exposition {
    registry: Registry,
}

/// What is known only once the server runs.
#[derive(Clone)]
pub(crate) struct Sources {
    pub pages: Arc<PageBoard>,
    pub presence: Arc<PresenceBoard>,
    pub planes: Option<Arc<Planes>>,
    pub cluster: Arc<Cluster>,
    pub edge: Arc<OnceLock<Arc<EdgeCounters>>>,
    /// Empty where STUN is not answered.
    pub stun: Arc<OnceLock<Arc<StunCounters>>>,
    /// `None` where no other worlds are met.
    pub encounters: Option<Encounters>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sources")
    }
}

impl Exposition {
    pub fn new(metrics: &Metrics, sources: Sources) -> Self {
        let mut registry = Registry::with_prefix("watchfire");
        registry.register("channels_websockets", "Open websockets", metrics.websockets.clone());
        registry.register(
            "channels_longpolls",
            "Living long-poll sessions",
            metrics.longpolls.clone(),
        );
        registry.register("channels_joins", "Joins let in", metrics.joins.clone());
        registry.register("channels_messages", "Messages from clients", metrics.messages.clone());
        registry.register("channels_crashes", "Channels that crashed", metrics.crashes.clone());
        registry.register("channels_joined", "Joined channels", metrics.channels.clone());
        registry.register("hub_topics", "Topics, each shard's by itself", metrics.topics.clone());
        registry.register("hub_broadcasts", "Broadcasts published", metrics.broadcasts.clone());
        registry.register(
            "hub_deliveries",
            "Broadcast messages given to a subscriber",
            metrics.deliveries.clone(),
        );
        registry.register(
            "pages_relayed_frames",
            "Frames passed on between peers",
            metrics.relayed_frames.clone(),
        );
        registry.register(
            "pages_relayed_bytes",
            "Bytes passed on between peers",
            metrics.relayed_bytes.clone(),
        );
        registry.register(
            "pages_signals",
            "Signals passed on between peers",
            metrics.signals.clone(),
        );
        let throws = metrics.throws.clone();
        registry.register("sprites_throws", "Sprites thrown", throws);
        registry.register("refusals", "Refusals and drops by reason", metrics.refusals.clone());
        registry.register_collector(Box::new(sources));
        Exposition { registry }
    }

    /// The text of `/metrics`: what all processes count, added up. A process that does not answer
    /// in time is missing, which `watchfire_processes` shows.
    pub async fn render(&self, cluster: &Cluster) -> String {
        let others: Vec<NodeId> = cluster.others().map(|(node, _)| node).collect();
        if others.is_empty() {
            return self.render_here();
        }
        let mut texts = vec![self.render_here()];
        for node in others {
            texts.extend(cluster.ask(node, Question::Metrics).await);
        }
        merge::merge(&texts)
    }

    /// What this process counts.
    pub fn render_here(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("a String takes all that is written");
        text
    }
}

impl Collector for Sources {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut writer = Writer { encoder };
        writer.gauge("processes", "Processes that answered", 1)?;
        if let Some(totals) = self.cluster.totals() {
            writer.bus(&totals)?;
        }
        let (open, lit) = self.pages.len();
        writer.gauge("pages_open", "Pages with somebody on them", open as u64)?;
        writer.gauge("pages_lit", "Pages with a whole copy on them", lit as u64)?;
        writer.gauge("hub_presences", "Presences tracked", self.presence.len() as u64)?;
        if let Some((planes, peers)) = self.planes.as_ref().map(|planes| planes.len()) {
            writer.gauge("sprites_planes", "Planes with a place on them", planes as u64)?;
            writer.gauge("sprites_peers", "Places on planes, the vacant too", peers as u64)?;
        }
        if let Some(stun) = self.stun.get() {
            writer.stun(&stun.totals())?;
        }
        if let Some(encounters) = &self.encounters {
            writer.p2p(&encounters.last_told())?;
        }
        match self.edge.get() {
            Some(edge) => writer.edge(&edge.totals()),
            None => Ok(()),
        }
    }
}

struct Writer<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Writer<'_> {
    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        let kind = gauge.metric_type();
        gauge.encode(self.encoder.encode_descriptor(name, help, None, kind)?)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let counter = ConstCounter::new(value);
        let kind = counter.metric_type();
        counter.encode(self.encoder.encode_descriptor(name, help, None, kind)?)
    }

    fn bus(&mut self, totals: &BusTotals) -> fmt::Result {
        self.gauge(
            "bus_queued_bytes",
            "Bytes that wait for other processes",
            totals.queued_bytes as u64,
        )?;
        self.gauge("bus_topics", "Topics each process hears of", totals.topics_here as u64)?;
        for (name, help, value) in [
            ("messages", "Messages to other processes", totals.messages_out),
            ("bytes", "Bytes written to other processes", totals.bytes_out),
            ("drops", "Messages that a full queue dropped", totals.dropped),
            ("cuts", "Links that were cut", totals.cuts),
            ("late", "Joins that went on without another process's answer", totals.late),
        ] {
            self.counter(&format!("bus_{name}"), help, value)?;
        }
        Ok(())
    }

    fn stun(&mut self, totals: &StunTotals) -> fmt::Result {
        for (name, help, value) in [
            ("answers", "STUN requests answered", totals.answers),
            ("unreadable", "Datagrams that were no STUN request", totals.unreadable),
            ("over_rate", "STUN requests over the rate", totals.over_rate),
            ("unsent", "STUN answers that the system did not take", totals.unsent),
        ] {
            self.counter(&format!("stun_{name}"), help, value)?;
        }
        Ok(())
    }

    fn p2p(&mut self, stats: &HostStats) -> fmt::Result {
        for (name, help, value) in [
            ("connections", "Open connections with peers of libp2p", stats.connections),
            ("peers", "Who blocks can be exchanged with, pages of ours among them", stats.peers),
            ("fetches", "Fetches from peers of libp2p that are running", stats.fetches),
        ] {
            self.gauge(&format!("p2p_{name}"), help, value as u64)?;
        }
        for (name, help, value) in [
            ("received_bytes", "Bytes of Bitswap messages that came", stats.received_bytes),
            ("sent_bytes", "Bytes of Bitswap messages that were sent", stats.sent_bytes),
            ("received_blocks", "Blocks that came and were wanted", stats.received_blocks),
            ("sent_blocks", "Blocks that were sent", stats.sent_blocks),
            ("received_block_bytes", "Bytes of wanted blocks", stats.received_block_bytes),
            ("sent_block_bytes", "Bytes of blocks that were sent", stats.sent_block_bytes),
            (
                "duplicate_block_bytes",
                "Bytes of blocks that came and were not wanted any more",
                stats.duplicate_block_bytes,
            ),
            ("malformed_messages", "Messages that could not be read", stats.malformed_messages),
            ("dropped_peers", "Peers dropped for what they sent or did not", stats.dropped_peers),
            ("trimmed_peers", "Peers that made room for others", stats.trimmed_peers),
        ] {
            self.counter(&format!("p2p_{name}"), help, value)?;
        }
        Ok(())
    }

    fn edge(&mut self, totals: &EdgeTotals) -> fmt::Result {
        for (name, help, value) in [
            ("connections", "Open connections of any kind", totals.connections_now),
            ("websockets", "Open websockets", totals.websockets_now),
            ("parked_polls", "Parked long polls", totals.parked_now),
            ("http_requests_running", "Requests being answered", totals.http_now),
            ("queued_bytes", "Bytes that wait for a slow reader", totals.queued_bytes_now),
            ("partial_bytes", "Bytes of half-received messages", totals.partial_bytes_now),
        ] {
            self.gauge(&format!("edge_{name}"), help, value)?;
        }
        for (name, help, value) in [
            ("accepts", "Connections accepted", totals.accepts),
            ("accept_refusals", "Connections closed at the door", totals.accept_refusals),
            ("tls_failures", "TLS handshakes that failed", totals.tls_failures),
            ("http_requests", "Requests given to the router", totals.http_requests),
            ("moves", "Connections moved to another shard", totals.moves),
            ("head_errors", "Request heads that were unreadable", totals.head_errors),
            ("websockets_opened", "Websockets opened", totals.websockets),
            ("polls_parked", "Long polls parked", totals.parked),
            ("received_bytes", "Bytes read from clients' sockets", totals.bytes_in),
            ("sent_bytes", "Bytes written to clients' sockets", totals.bytes_out),
            ("messages", "Whole websocket messages received", totals.messages),
            ("frames", "Frames taken for sending", totals.deliveries),
            ("queued_frames", "Frames that had to wait in a queue", totals.queued_frames),
            ("mailbox_drops", "Mail that a full mailbox gave back", totals.mailbox_drops),
            ("partial_refusals", "Sockets over partial_bytes_max", totals.partial_refusals),
            ("closes_by_peer", "Sockets that their client ended", totals.closes_by_peer),
            ("closes_by_us", "Sockets that we closed", totals.closes_by_us),
            ("closes_protocol", "Sockets that broke the protocol", totals.closes_protocol),
            ("closes_too_big", "Sockets over frame_bytes_max", totals.closes_too_big),
            ("closes_idle", "Sockets closed as idle", totals.closes_idle),
            ("closes_slow", "Sockets closed as too slow", totals.closes_slow),
            ("closes_drained", "Sockets closed by a drain", totals.closes_drained),
        ] {
            self.counter(&format!("edge_{name}"), help, value)?;
        }
        Ok(())
    }
}
