//! The record of a machine, and the answers that are made of it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;
use watchfire::feature::Figure;

use super::record::{Column, Columns, Event, History, ProcessFigures, Row, Step, SystemFigures};
use super::troubles::Watch;

/// The record of a machine. Empty in a process that does not record.
pub(super) struct Recorded {
    pub history: History,
    pub watch: Watch,
    pub processes: BTreeMap<u16, ProcessFigures>,
    pub missing: Vec<u16>,
    pub system: SystemFigures,
}

/// The figures of one process, as the page shows them.
#[derive(Serialize)]
pub(super) struct ProcessView<'a> {
    process: u16,
    uptime_seconds: f64,
    #[serde(flatten)]
    figures: &'a ProcessFigures,
}

#[derive(Serialize)]
pub(super) struct LimitView {
    name: &'static str,
    used: f64,
    max: f64,
    unit: &'static str,
    setting: &'static str,
}

impl Recorded {
    /// A record without figures yet, with columns for those of features.
    pub fn new(figures: &[Figure], watch: Watch) -> Self {
        Recorded {
            history: History::new(Columns::with(figures)),
            watch,
            processes: BTreeMap::new(),
            missing: Vec::new(),
            system: SystemFigures::default(),
        }
    }

    /// The figures of each process. `first` is the node of the first one.
    pub fn processes(&self, first: u16, now_ms: u64) -> Vec<ProcessView<'_>> {
        let views = self.processes.iter().map(|(process, figures)| ProcessView {
            process: process - first.min(*process),
            uptime_seconds: (now_ms as f64 / 1_000.0 - figures.started_at).max(0.0),
            figures,
        });
        views.collect()
    }

    /// The last row, by the names of columns.
    pub fn latest(&self) -> Option<BTreeMap<&'static str, Option<f64>>> {
        let row = self.history.latest()?;
        let names = self.history.columns().names().enumerate();
        Some(names.map(|(place, name)| (name, row.at(place))).collect())
    }

    /// The limits that the server may reach. The settings give the limits of a queue and of histories.
    pub fn limits(&self, queued_bytes_max: f64, history_bytes_max: f64) -> Vec<LimitView> {
        let latest = self.history.latest();
        let of = |column| latest.and_then(|row: &Row| row.get(column));
        let limit = |name, used: Option<f64>, max: Option<f64>, unit, setting| {
            let (used, max) = used.zip(max).filter(|(_, max)| *max > 0.0)?;
            Some(LimitView { name, used, max, unit, setting })
        };
        // The limit is for each process: in the sum of all, a full one would not show.
        let fullest = self.processes.values().max_by(|one, other| {
            let share = |figures: &ProcessFigures| figures.open_fds / figures.max_fds.max(1.0);
            share(one).total_cmp(&share(other))
        });
        let system = &self.system;
        let used = |max: Option<u64>, available: Option<u64>| {
            max.zip(available).map(|(max, available)| max.saturating_sub(available) as f64)
        };
        let of_system = |value: Option<u64>| value.map(|value| value as f64);
        let limits = [
            limit(
                "connections",
                of(Column::Connections),
                of(Column::ConnectionsMax),
                "",
                "limits.sockets_max",
            ),
            limit(
                "open files of a process",
                fullest.map(|figures| figures.open_fds),
                fullest.map(|figures| figures.max_fds),
                "",
                "",
            ),
            limit(
                "memory",
                used(system.memory_max_bytes, system.memory_available_bytes),
                of_system(system.memory_max_bytes),
                "bytes",
                "",
            ),
            limit("busiest event loop", of(Column::BusyMax), Some(1.0), "share", "server.shards"),
            limit(
                "queue of a client",
                of(Column::QueuedBytesMax),
                Some(queued_bytes_max),
                "bytes",
                "limits.queued_bytes_max",
            ),
            limit(
                "kept messages",
                of(Column::HistoryBytes),
                Some(history_bytes_max),
                "bytes",
                "channels.history_bytes_max",
            ),
            limit(
                "disk",
                used(system.disk_max_bytes, system.disk_available_bytes),
                of_system(system.disk_max_bytes),
                "bytes",
                "",
            ),
        ];
        limits.into_iter().flatten().collect()
    }

    pub fn events_json(&self, after_ms: u64) -> String {
        let events: Vec<&Event> = self.history.events_after(after_ms).collect();
        json!({ "events": events }).to_string()
    }

    pub fn history_json(&self, step: Step, after_ms: u64) -> String {
        use std::fmt::Write;

        let columns: Vec<&str> = self.history.columns().names().collect();
        let mut text =
            format!("{{\"step_ms\":{},\"columns\":{},\"rows\":[", step.millis(), json!(columns));
        for (index, row) in self.history.rows_after(step, after_ms).enumerate() {
            if index > 0 {
                text.push(',');
            }
            write!(text, "[{}", row.time_ms).expect("writing into a String cannot fail");
            for value in &row.values {
                let is_known = value.is_finite();
                if is_known { write!(text, ",{value}") } else { write!(text, ",null") }
                    .expect("writing into a String cannot fail");
            }
            text.push(']');
        }
        text.push_str("]}");
        text
    }
}
