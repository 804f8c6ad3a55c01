//! The metrics of the libp2p host.

use std::sync::Arc;

use parking_lot::Mutex;
use watchfire::feature::MetricWriter;
use watchfire::internal::MetricSource;
use watchfire_p2p::HostStats;

/// The latest counts of the libp2p host.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostMetrics(Arc<Mutex<HostStats>>);

impl HostMetrics {
    pub fn set(&self, stats: HostStats) {
        *self.0.lock() = stats;
    }

    pub fn get(&self) -> HostStats {
        self.0.lock().clone()
    }
}

impl MetricSource for HostMetrics {
    fn write_metrics(&self, writer: &mut MetricWriter) {
        let stats = self.get();
        for (name, help, value) in [
            ("connections", "Open connections with libp2p peers", stats.connections),
            ("peers", "Peers to exchange blocks with, including open pages", stats.peers),
            ("fetches", "Running fetches from libp2p peers", stats.fetches),
        ] {
            writer.gauge(&format!("p2p_{name}"), help, value as u64);
        }
        for (name, help, value) in [
            ("received_bytes", "Bytes of Bitswap messages received", stats.received_bytes),
            ("sent_bytes", "Bytes of Bitswap messages sent", stats.sent_bytes),
            ("received_blocks", "Wanted blocks received", stats.received_blocks),
            ("sent_blocks", "Blocks sent", stats.sent_blocks),
            ("received_block_bytes", "Bytes of wanted blocks received", stats.received_block_bytes),
            ("sent_block_bytes", "Bytes of blocks sent", stats.sent_block_bytes),
            (
                "duplicate_block_bytes",
                "Bytes of duplicate blocks received",
                stats.duplicate_block_bytes,
            ),
            ("malformed_messages", "Messages that could not be decoded", stats.malformed_messages),
            (
                "dropped_peers",
                "Peers dropped for a protocol violation or silence",
                stats.dropped_peers,
            ),
            ("trimmed_peers", "Peers dropped to make room for others", stats.trimmed_peers),
        ] {
            writer.counter(&format!("p2p_{name}"), help, value);
        }
    }
}
