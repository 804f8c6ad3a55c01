//! The columns of the history: which figures the operator's page shows over time, and from which
//! metrics they are computed.

/// One figure over time.
pub(in crate::operator) struct Column {
    pub name: &'static str,
    pub kind: Kind,
}

/// How a figure is computed from the metrics of all processes of the machine.
#[derive(Clone, Copy)]
pub(in crate::operator) enum Kind {
    /// The sum of gauges.
    Sum(Series),
    /// The largest of gauges.
    Largest(Series),
    /// The growth of counters, for each second.
    Rate(Series),
    /// A quantile of the values that a histogram got since the last sample.
    Quantile(&'static str, f64),
    /// The busiest event loop: its share of time in which it did not wait.
    Busiest,
    /// A value of the system that is in no metric.
    System(System),
}

/// A metric, and the label that a series of it must have.
#[derive(Clone, Copy)]
pub(in crate::operator) struct Series {
    pub metric: &'static str,
    pub label: Option<&'static str>,
}

/// A value of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::operator) enum System {
    /// Connections a second that the kernel dropped because a queue of new connections was full.
    BacklogOverflows,
    MemoryAvailable,
    DiskAvailable,
}

const fn sum(name: &'static str, metric: &'static str) -> Column {
    Column { name, kind: Kind::Sum(Series { metric, label: None }) }
}

const fn sum_of(name: &'static str, metric: &'static str, label: &'static str) -> Column {
    Column { name, kind: Kind::Sum(Series { metric, label: Some(label) }) }
}

const fn largest(name: &'static str, metric: &'static str) -> Column {
    Column { name, kind: Kind::Largest(Series { metric, label: None }) }
}

const fn rate(name: &'static str, metric: &'static str) -> Column {
    Column { name, kind: Kind::Rate(Series { metric, label: None }) }
}

const fn rate_of(name: &'static str, metric: &'static str, label: &'static str) -> Column {
    Column { name, kind: Kind::Rate(Series { metric, label: Some(label) }) }
}

const fn quantile(name: &'static str, metric: &'static str, q: f64) -> Column {
    Column { name, kind: Kind::Quantile(metric, q) }
}

const fn system(name: &'static str, value: System) -> Column {
    Column { name, kind: Kind::System(value) }
}

/// The name of the busy time of event loops.
pub(in crate::operator) const BUSY: &str = "watchfire_sockets_shard_busy_seconds_total";

/// All columns. A history file with other columns is started anew, so add new ones in any place.
pub(in crate::operator) const COLUMNS: &[Column] = &[
    sum_of("clients_websocket", "watchfire_channels_clients", r#"transport="websocket""#),
    sum_of("clients_longpoll", "watchfire_channels_clients", r#"transport="longpoll""#),
    sum("connections", "watchfire_sockets_connections"),
    sum("connections_max", "watchfire_sockets_connections_max"),
    sum("channels", "watchfire_channels_joined"),
    sum("topics", "watchfire_hub_topics"),
    sum("presences", "watchfire_hub_presences"),
    rate("joins", "watchfire_channels_joins_total"),
    rate_of("joins_refused", "watchfire_channels_joins_total", r#"outcome="refused""#),
    rate("crashes", "watchfire_channels_crashes_total"),
    rate("messages", "watchfire_channels_messages_total"),
    rate("broadcasts", "watchfire_hub_broadcasts_total"),
    rate("deliveries", "watchfire_hub_deliveries_total"),
    rate("received_bytes", "watchfire_sockets_received_bytes_total"),
    rate("sent_bytes", "watchfire_sockets_sent_bytes_total"),
    sum("queued_bytes", "watchfire_sockets_queued_bytes"),
    largest("queued_bytes_max", "watchfire_sockets_queued_bytes_max"),
    rate("closes", "watchfire_sockets_closes_total"),
    rate_of("closes_slow", "watchfire_sockets_closes_total", r#"reason="slow""#),
    rate_of("closes_idle", "watchfire_sockets_closes_total", r#"reason="idle""#),
    rate("refusals", "watchfire_refusals_total"),
    rate_of("refusals_origin", "watchfire_refusals_total", r#"reason="connect_origin""#),
    rate_of("refusals_relay_quota", "watchfire_refusals_total", r#"reason="relay_quota""#),
    rate_of("refusals_sockets_max", "watchfire_refusals_total", r#"reason="sockets_max""#),
    rate_of("refusals_shard_queue", "watchfire_refusals_total", r#"reason="shard_queue""#),
    rate_of(
        "refusals_broadcast_backlog",
        "watchfire_refusals_total",
        r#"reason="broadcast_backlog""#,
    ),
    rate_of("refusals_admin", "watchfire_refusals_total", r#"reason="admin""#),
    rate("accepts", "watchfire_sockets_accepts_total"),
    rate("http_requests", "watchfire_sockets_http_requests_total"),
    sum("pages_open", "watchfire_pages_open"),
    sum("pages_available", "watchfire_pages_available"),
    rate("relayed_bytes", "watchfire_pages_relayed_bytes_total"),
    rate("signals", "watchfire_pages_signals_total"),
    sum("signals_outside", "watchfire_pages_signals_outside_total"),
    sum("stun_answers_outside", "watchfire_stun_answers_outside_total"),
    sum("sprites", "watchfire_sprites_peers"),
    rate("cpu", "process_cpu_seconds_total"),
    sum("resident_bytes", "process_resident_memory_bytes"),
    sum("open_fds", "process_open_fds"),
    sum("max_fds", "process_max_fds"),
    sum("threads", "process_threads"),
    sum("processes", "watchfire_processes"),
    Column { name: "busy_max", kind: Kind::Busiest },
    quantile("broadcast_p50", "watchfire_hub_broadcast_seconds", 0.5),
    quantile("broadcast_p99", "watchfire_hub_broadcast_seconds", 0.99),
    quantile("join_p50", "watchfire_channels_join_seconds", 0.5),
    quantile("join_p99", "watchfire_channels_join_seconds", 0.99),
    quantile("http_p50", "watchfire_sockets_http_seconds", 0.5),
    quantile("http_p99", "watchfire_sockets_http_seconds", 0.99),
    quantile("relay_p99", "watchfire_pages_relay_seconds", 0.99),
    sum("bus_queued_bytes", "watchfire_bus_queued_bytes"),
    rate("bus_drops", "watchfire_bus_drops_total"),
    sum("cluster_links", "watchfire_cluster_links"),
    sum("nats_connected", "watchfire_nats_connected"),
    sum("hooks_breakers_open", "watchfire_hooks_breakers_open"),
    sum("p2p_connections", "watchfire_p2p_connections"),
    sum("p2p_peers", "watchfire_p2p_peers"),
    rate("p2p_received_bytes", "watchfire_p2p_received_bytes_total"),
    rate("p2p_sent_bytes", "watchfire_p2p_sent_bytes_total"),
    rate("p2p_duplicate_bytes", "watchfire_p2p_duplicate_block_bytes_total"),
    sum("history_bytes", "watchfire_history_bytes"),
    rate("certificate_loads", "watchfire_tls_certificate_loads_total"),
    largest("certificate_end", "watchfire_tls_certificate_end_timestamp_seconds"),
    system("backlog_overflows", System::BacklogOverflows),
    system("memory_available_bytes", System::MemoryAvailable),
    system("disk_available_bytes", System::DiskAvailable),
];

/// The position of a column.
pub(in crate::operator) fn position(name: &str) -> Option<usize> {
    COLUMNS.iter().position(|column| column.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_stands_once() {
        for (index, column) in COLUMNS.iter().enumerate() {
            assert_eq!(position(column.name), Some(index), "{}", column.name);
        }
    }
}
