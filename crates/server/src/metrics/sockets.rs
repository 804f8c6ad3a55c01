//! The metrics of connections and sockets.

use std::fmt;
use std::sync::{Arc, OnceLock};

use watchfire_metrics::{MetricWriter, NANOS_PER_SECOND, Queue};
use watchfire_sockets::{ShardQueue, SocketCounters};

/// The memory of a connection that hyper has, as `crates/sockets/src/http` measured it.
const HTTP_BYTES: usize = 15 << 10;
/// The memory of a client whose TLS is terminated: a task, two buffers of 4 KiB and a session of rustls. Measured
/// with 1,500 clients, of which each made 20.8 kB resident.
const TLS_BYTES: usize = 20 << 10;
/// The memory of a message in the queue of an event loop, without what it shares with others.
const MESSAGE_BYTES: usize = 96;

/// The counters of the socket server; empty until it runs.
#[derive(Clone, Default)]
pub struct SocketMetrics(Arc<OnceLock<Running>>);

/// The counters of a running socket server.
struct Running {
    /// The number of this process among those of the server.
    process: u16,
    counters: Arc<SocketCounters>,
    connections_max: u64,
}

impl fmt::Debug for SocketMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SocketMetrics of process {:?}", self.0.get().map(|running| running.process))
    }
}

impl SocketMetrics {
    /// Reports these counters from now on.
    pub fn set(&self, process: u16, counters: Arc<SocketCounters>, connections_max: u64) {
        self.0.set(Running { process, counters, connections_max }).ok();
    }

    /// The event loops of this process, and the numbers of those that ended by a panic.
    pub fn event_loops(&self) -> (usize, Vec<u16>) {
        let Some(Running { counters, .. }) = self.0.get() else { return Default::default() };
        (counters.shards(), counters.panicked().map(|shard| shard.0).collect())
    }

    /// Connections and messages that the socket server refused or dropped, by reason.
    pub(super) fn refusals(&self) -> Vec<(&'static str, u64)> {
        let Some(Running { counters, .. }) = self.0.get() else { return Vec::new() };
        let totals = counters.totals();
        vec![
            ("sockets_max", totals.accept_refusals),
            ("proxy_untrusted", totals.proxy_untrusted),
            ("proxy_header", totals.proxy_header_errors),
            ("tls_handshake", totals.tls_failures),
            ("request_head", totals.head_errors),
            ("partial_bytes", totals.partial_refusals),
            ("shard_queue", totals.shard_queue_drops),
        ]
    }

    pub(super) fn write(&self, writer: &mut MetricWriter) {
        let Some(Running { process, counters, connections_max }) = self.0.get() else {
            return;
        };
        let totals = counters.totals();
        let in_a_state =
            totals.websockets_now + totals.streams_now + totals.parked_now + totals.http_now;
        writer.gauges(
            "sockets_connections",
            "Open connections by what they do",
            "state",
            &[
                ("websocket", totals.websockets_now),
                ("stream", totals.streams_now),
                ("parked", totals.parked_now),
                ("http", totals.http_now),
                // The counts are read one after the other, so a sum may be ahead of its parts.
                ("other", totals.connections_now.saturating_sub(in_a_state)),
            ],
        );
        for (name, help, value) in [
            ("connections_max", "Limit of open connections", *connections_max),
            ("queued_bytes", "Bytes queued for slow readers", totals.queued_bytes_now),
        ] {
            writer.gauge(&format!("sockets_{name}"), help, value);
        }
        let help = "Bytes in the largest queue of a socket";
        writer.largest("sockets_queued_bytes_max", help, counters.queued_bytes_largest());
        let help = "Bytes of half-received messages";
        writer.gauge("sockets_partial_bytes", help, totals.partial_bytes_now);
        for (name, help, value) in [
            ("loop_panics", "Event loops that ended by a panic", totals.loop_panics),
            ("accepts", "Connections accepted", totals.accepts),
            ("http_requests", "HTTP requests given to the router", totals.http_requests),
            ("moves", "Connections moved to another shard", totals.moves),
            ("websockets_opened", "WebSockets opened", totals.websockets),
            ("streams_opened", "Event streams opened", totals.streams),
            ("polls_parked", "Long polls parked", totals.parked),
            ("received_bytes", "Bytes read from clients' sockets", totals.bytes_in),
            ("sent_bytes", "Bytes written to clients' sockets", totals.bytes_out),
            ("messages", "Whole WebSocket messages received", totals.messages),
            ("frames", "Frames accepted for sending", totals.deliveries),
            ("queued_frames", "Frames that waited in a queue", totals.queued_frames),
        ] {
            writer.counter(&format!("sockets_{name}"), help, value);
        }
        writer.counters_by(
            "sockets_closes",
            "Sockets that ended, by reason",
            "reason",
            &[
                ("client", totals.closes_by_peer),
                ("server", totals.closes_by_us),
                ("protocol", totals.closes_protocol),
                ("too_big", totals.closes_too_big),
                ("idle", totals.closes_idle),
                ("slow", totals.closes_slow),
                ("drained", totals.closes_drained),
                ("late", totals.closes_late),
            ],
        );
        let shards = counters.busy_times().enumerate();
        let busy: Vec<_> = shards
            .map(|(shard, busy)| {
                let labels = [("process", process.to_string()), ("shard", shard.to_string())];
                (labels.map(|(name, value)| (name.to_owned(), value)).into(), busy.as_secs_f64())
            })
            .collect();
        writer.seconds_by(
            "sockets_shard_busy_seconds",
            "Time in which an event loop did not wait",
            busy,
        );
        let queue = |(shard, ShardQueue { messages, oldest, drops })| Queue {
            name: format!("event loop {process}/{shard}"),
            messages,
            oldest,
            drops,
        };
        let queues: Vec<_> = counters.shard_queues().enumerate().map(queue).collect();
        writer.queues(&queues);
        let waiting: u64 = queues.iter().map(|queue| queue.messages).sum();
        let queued = totals.queued_bytes_now + totals.partial_bytes_now;
        writer.memory("queues", queued as usize + waiting as usize * MESSAGE_BYTES);
        writer.memory("http", totals.http_now as usize * HTTP_BYTES);
        writer.memory("tls", totals.tls_now as usize * TLS_BYTES);
        let histograms = counters.histograms();
        writer.histogram(
            "sockets_http_seconds",
            "Time from a request to the head of its response",
            &histograms.http_times,
            NANOS_PER_SECOND,
        );
        writer.histogram(
            "sockets_queue_seconds",
            "Time in which a socket had a queue",
            &histograms.queue_ages,
            10.0,
        );
    }
}
