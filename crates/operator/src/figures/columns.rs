//! The columns of the record: which figures the operator's page shows over time, and from which metrics they are
//! computed.

use std::sync::Arc;

use watchfire::feature::{Figure, FigureKind, Series};

/// How a figure is computed from the metrics of all processes of the machine.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Metric(FigureKind),
    /// The busiest event loop: its share of time in which it did not wait.
    Busiest,
    /// A value of the system that is in no metric.
    System(System),
}

impl From<FigureKind> for Kind {
    fn from(kind: FigureKind) -> Self {
        Kind::Metric(kind)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// Connections a second that the kernel dropped because a queue of new connections was full.
    BacklogOverflows,
    MemoryAvailable,
    DiskAvailable,
}

const fn all(metric: &'static str) -> Series {
    Series::all(metric)
}

const fn with(metric: &'static str, name: &'static str, value: &'static str) -> Series {
    Series::with(metric, name, value)
}

/// The busy time of event loops.
pub(super) const BUSY: &str = "watchfire_sockets_shard_busy_seconds";

/// Defines the columns: the variant, the name for programs, and how the figure is computed.
macro_rules! columns {
    ($($column:ident $name:literal = $kind:expr,)+) => {
        /// One figure over time that every server has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Column {
            $($column),+
        }

        impl Column {
            /// All columns, in their order in a row.
            pub const ALL: &[Column] = &[$(Column::$column),+];

            /// The name of the column in the operator's calls, and how its figure is computed.
            fn entry(self) -> (&'static str, Kind) {
                use FigureKind::{Largest, Quantile, Rate, Sum};
                use Kind::Busiest;
                [$(($name, Kind::from($kind))),+][self as usize]
            }
        }
    };
}

// A history file with other columns is started anew, so add new ones in any place.
columns! {
    ClientsWebsocket "clients_websocket" = Sum(with("watchfire_channels_clients", "transport", "websocket")),
    ClientsLongpoll "clients_longpoll" = Sum(with("watchfire_channels_clients", "transport", "longpoll")),
    ClientsEvents "clients_events" = Sum(with("watchfire_channels_clients", "transport", "events")),
    Connections "connections" = Sum(all("watchfire_sockets_connections")),
    ConnectionsMax "connections_max" = Sum(all("watchfire_sockets_connections_max")),
    Channels "channels" = Sum(all("watchfire_channels_joined")),
    Topics "topics" = Sum(all("watchfire_hub_topics")),
    Presences "presences" = Sum(all("watchfire_hub_presences")),
    Joins "joins" = Rate(all("watchfire_channels_joins")),
    JoinsRefused "joins_refused" = Rate(with("watchfire_channels_joins", "outcome", "refused")),
    Crashes "crashes" = Rate(all("watchfire_channels_crashes")),
    Messages "messages" = Rate(all("watchfire_channels_messages")),
    Broadcasts "broadcasts" = Rate(all("watchfire_hub_broadcasts")),
    Deliveries "deliveries" = Rate(all("watchfire_hub_deliveries")),
    ReceivedBytes "received_bytes" = Rate(all("watchfire_sockets_received_bytes")),
    SentBytes "sent_bytes" = Rate(all("watchfire_sockets_sent_bytes")),
    QueuedBytes "queued_bytes" = Sum(all("watchfire_sockets_queued_bytes")),
    QueuedBytesMax "queued_bytes_max" = Largest(all("watchfire_sockets_queued_bytes_max")),
    Closes "closes" = Rate(all("watchfire_sockets_closes")),
    ClosesSlow "closes_slow" = Rate(with("watchfire_sockets_closes", "reason", "slow")),
    ClosesIdle "closes_idle" = Rate(with("watchfire_sockets_closes", "reason", "idle")),
    Refusals "refusals" = Rate(all("watchfire_refusals")),
    RefusalsOrigin "refusals_origin" = Rate(with("watchfire_refusals", "reason", "connect_origin")),
    RefusalsSocketsMax "refusals_sockets_max" = Rate(with("watchfire_refusals", "reason", "sockets_max")),
    RefusalsShardQueue "refusals_shard_queue" = Rate(with("watchfire_refusals", "reason", "shard_queue")),
    RefusalsBroadcastBacklog "refusals_broadcast_backlog" = Rate(with("watchfire_refusals", "reason", "broadcast_backlog")),
    RefusalsAdmin "refusals_admin" = Rate(with("watchfire_refusals", "reason", "admin")),
    Accepts "accepts" = Rate(all("watchfire_sockets_accepts")),
    HttpRequests "http_requests" = Rate(all("watchfire_sockets_http_requests")),
    Cpu "cpu" = Rate(all("process_cpu_seconds")),
    ResidentBytes "resident_bytes" = Sum(all("process_resident_memory_bytes")),
    OpenFds "open_fds" = Sum(all("process_open_fds")),
    MaxFds "max_fds" = Sum(all("process_max_fds")),
    Threads "threads" = Sum(all("process_threads")),
    Processes "processes" = Sum(all("watchfire_processes")),
    BusyMax "busy_max" = Busiest,
    BroadcastP50 "broadcast_p50" = Quantile("watchfire_hub_broadcast_seconds", 0.5),
    BroadcastP99 "broadcast_p99" = Quantile("watchfire_hub_broadcast_seconds", 0.99),
    JoinP50 "join_p50" = Quantile("watchfire_channels_join_seconds", 0.5),
    JoinP99 "join_p99" = Quantile("watchfire_channels_join_seconds", 0.99),
    HttpP50 "http_p50" = Quantile("watchfire_sockets_http_seconds", 0.5),
    HttpP99 "http_p99" = Quantile("watchfire_sockets_http_seconds", 0.99),
    BusQueuedBytes "bus_queued_bytes" = Sum(all("watchfire_bus_queued_bytes")),
    BusDrops "bus_drops" = Rate(all("watchfire_bus_drops")),
    ClusterLinks "cluster_links" = Sum(all("watchfire_cluster_links")),
    NatsConnected "nats_connected" = Sum(all("watchfire_nats_connected")),
    NatsRefusals "nats_refusals" = Rate(all("watchfire_nats_refusals")),
    HistoryStreamsAway "history_streams_away" = Sum(all("watchfire_history_streams_unavailable")),
    HooksBreakersOpen "hooks_breakers_open" = Sum(all("watchfire_hooks_breakers_open")),
    HistoryBytes "history_bytes" = Sum(all("watchfire_history_bytes")),
    CertificateLoads "certificate_loads" = Rate(all("watchfire_tls_certificate_loads")),
    CertificateEnd "certificate_end" = Largest(all("watchfire_tls_certificate_end_timestamp_seconds")),
    BacklogOverflows "backlog_overflows" = Kind::System(System::BacklogOverflows),
    MemoryAvailableBytes "memory_available_bytes" = Kind::System(System::MemoryAvailable),
    DiskAvailableBytes "disk_available_bytes" = Kind::System(System::DiskAvailable),
}

/// The columns of a row, by their places in it: those of [`Column`], then those of the features.
#[derive(Clone)]
pub(crate) struct Columns(Arc<[(&'static str, Kind)]>);

impl Default for Columns {
    fn default() -> Self {
        Columns::with(&[])
    }
}

impl Columns {
    pub fn with(figures: &[Figure]) -> Self {
        let of_features = figures.iter().map(|figure| (figure.name, figure.kind.into()));
        Columns(Column::ALL.iter().map(|column| column.entry()).chain(of_features).collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(name, _)| *name)
    }

    pub fn place_of(&self, name: &str) -> Option<usize> {
        self.names().position(|own| own == name)
    }

    pub(super) fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.0.iter().map(|(_, kind)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_name_stands_once() {
        let names: BTreeSet<&str> = Columns::default().names().collect();
        assert_eq!(names.len(), Column::ALL.len());
    }
}
