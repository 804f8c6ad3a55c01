//! The metrics of connections and sockets.

use std::fmt;
use std::sync::{Arc, OnceLock};

use watchfire_sockets::SocketCounters;

use super::writer::{MetricSource, MetricWriter};

/// The counters of the socket server; empty until it runs.
#[derive(Clone, Default)]
pub(crate) struct SocketMetrics(pub Arc<OnceLock<Arc<SocketCounters>>>);

impl MetricSource for SocketMetrics {
    fn write_metrics(&self, writer: &mut MetricWriter<'_>) -> fmt::Result {
        let Some(totals) = self.0.get().map(|counters| counters.totals()) else { return Ok(()) };
        for (name, help, value) in [
            ("connections", "Open connections of any kind", totals.connections_now),
            ("websockets", "Open WebSockets", totals.websockets_now),
            ("parked_polls", "Parked long polls", totals.parked_now),
            ("http_requests_running", "HTTP requests that have no response yet", totals.http_now),
            ("queued_bytes", "Bytes queued for slow readers", totals.queued_bytes_now),
            ("partial_bytes", "Bytes of half-received messages", totals.partial_bytes_now),
        ] {
            writer.gauge(&format!("sockets_{name}"), help, value)?;
        }
        for (name, help, value) in [
            ("accepts", "Connections accepted", totals.accepts),
            ("accept_refusals", "Connections closed because of a limit", totals.accept_refusals),
            (
                "proxy_untrusted",
                "Connections with a PROXY header closed because their address is not trusted",
                totals.proxy_untrusted,
            ),
            (
                "proxy_header_errors",
                "Connections closed because of an invalid or late PROXY header",
                totals.proxy_header_errors,
            ),
            ("tls_failures", "TLS handshakes that failed", totals.tls_failures),
            ("http_requests", "HTTP requests given to the router", totals.http_requests),
            ("moves", "Connections moved to another shard", totals.moves),
            ("head_errors", "Request heads that could not be parsed", totals.head_errors),
            ("websockets_opened", "WebSockets opened", totals.websockets),
            ("polls_parked", "Long polls parked", totals.parked),
            ("received_bytes", "Bytes read from clients' sockets", totals.bytes_in),
            ("sent_bytes", "Bytes written to clients' sockets", totals.bytes_out),
            ("messages", "Whole WebSocket messages received", totals.messages),
            ("frames", "Frames accepted for sending", totals.deliveries),
            ("queued_frames", "Frames that waited in a queue", totals.queued_frames),
            (
                "shard_queue_drops",
                "Messages to a shard that its full queue dropped",
                totals.shard_queue_drops,
            ),
            ("partial_refusals", "Sockets closed at partial_bytes_max", totals.partial_refusals),
            ("closes_by_peer", "Sockets closed by their client", totals.closes_by_peer),
            ("closes_by_us", "Sockets closed by the server", totals.closes_by_us),
            ("closes_protocol", "Sockets closed for a protocol error", totals.closes_protocol),
            ("closes_too_big", "Sockets closed at frame_bytes_max", totals.closes_too_big),
            ("closes_idle", "Sockets closed as idle", totals.closes_idle),
            ("closes_slow", "Sockets closed as too slow", totals.closes_slow),
            ("closes_drained", "Sockets closed by a drain", totals.closes_drained),
        ] {
            writer.counter(&format!("sockets_{name}"), help, value)?;
        }
        Ok(())
    }
}
