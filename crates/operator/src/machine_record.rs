//! The record of a machine, and the answers that are made of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;
use watchfire::feature::{Figure, Table};
use watchfire_metrics::Snapshot;
use watchfire_types::NodeId;

use super::answers::{self, LimitUse, Process};
use super::figures::{Column, Columns, History, Row, Step, SystemFigures, filled, own_tables};
use super::troubles::Watch;

/// The record of a machine. Empty in a process that does not record.
pub(super) struct MachineRecord {
    pub history: History,
    pub watch: Watch,
    /// By their nodes.
    pub processes: BTreeMap<u16, Process>,
    pub missing: Vec<u16>,
    pub system: SystemFigures,
    /// The tables that every server has.
    pub own_tables: Vec<answers::Table>,
    pub tables: Vec<answers::Table>,
    of_features: Vec<Table>,
}

impl MachineRecord {
    /// A record without figures yet, with columns and tables for those of features.
    pub fn new(figures: &[Figure], tables: &[Table], watch: Watch) -> Self {
        MachineRecord {
            history: History::new(Columns::with(figures)),
            watch,
            processes: BTreeMap::new(),
            missing: Vec::new(),
            system: SystemFigures::default(),
            own_tables: Vec::new(),
            tables: Vec::new(),
            of_features: tables.to_vec(),
        }
    }

    /// Fills the tables from the metrics of all processes.
    pub fn fill_tables(&mut self, snapshots: &[(NodeId, Snapshot)]) {
        self.own_tables = own_tables(snapshots);
        let filled = self.of_features.iter().map(|table| filled(table, snapshots));
        self.tables = filled.filter(|table| !table.rows.is_empty()).collect();
    }

    /// The figures of each process. `first` is the node of the first one.
    pub fn processes(&self, first: u16) -> Vec<Process> {
        let numbered = self
            .processes
            .iter()
            .map(|(node, figures)| Process { process: node - first.min(*node), ..figures.clone() });
        numbered.collect()
    }

    /// The last row, by the names of columns.
    pub fn latest(&self) -> Option<BTreeMap<String, Option<f64>>> {
        let row = self.history.latest()?;
        let names = self.history.columns().names().enumerate();
        Some(names.map(|(place, name)| (name.into(), row.at(place))).collect())
    }

    /// The limits that the server may reach. The settings give the limits of a queue and of histories.
    pub fn limits(&self, queued_bytes_max: f64, history_bytes_max: f64) -> Vec<LimitUse> {
        let latest = self.history.latest();
        let of = |column| latest.and_then(|row: &Row| row.get(column));
        // The limit is for each process: in the sum of all, a full one would not show.
        let fullest = self.processes.values().max_by(|one, other| {
            let share = |process: &Process| process.open_fds / process.max_fds.max(1.0);
            share(one).total_cmp(&share(other))
        });
        let files =
            fullest.map_or((None, None), |process| (Some(process.open_fds), Some(process.max_fds)));
        let of_system = |max: Option<u64>, available: Option<u64>| {
            let used = max.zip(available).map(|(max, available)| max.saturating_sub(available));
            (used.map(|used| used as f64), max.map(|max| max as f64))
        };
        let system = &self.system;
        let memory = of_system(system.memory_max_bytes, system.memory_available_bytes);
        let disk = of_system(system.disk_max_bytes, system.disk_available_bytes);
        let connections = (of(Column::Connections), of(Column::ConnectionsMax));
        let queue = (of(Column::QueuedBytesMax), Some(queued_bytes_max));
        let kept = (of(Column::HistoryBytes), Some(history_bytes_max));
        let limits = [
            ("connections", connections, "", "limits.sockets_max"),
            ("open files of a process", files, "", ""),
            ("memory", memory, "bytes", ""),
            ("busiest event loop", (of(Column::BusyMax), Some(1.0)), "share", "server.shards"),
            ("queue of a client", queue, "bytes", "limits.queued_bytes_max"),
            ("kept messages", kept, "bytes", "channels.history_bytes_max"),
            ("disk", disk, "bytes", ""),
        ];
        let known = limits.into_iter().filter_map(|(name, (used, max), unit, setting)| {
            let (name, unit, setting) = (name.to_owned(), unit.to_owned(), setting.to_owned());
            let max = max.filter(|max| *max > 0.0)?;
            Some(LimitUse { name, used: used?, max, unit, setting })
        });
        known.collect()
    }

    /// The rows between two times, as JSON. They are written by hand, because a figure is an `f32`: as the `f64` that a
    /// JSON value holds, 0.97 would be 0.9700000286102295, and the answer twice as long.
    pub fn history_json(&self, step: Step, after_ms: u64, until_ms: u64) -> String {
        let columns: Vec<&str> = self.history.columns().names().collect();
        let mut text =
            format!("{{\"step_ms\":{},\"columns\":{},\"rows\":[", step.millis(), json!(columns));
        let rows = self.history.rows_between(step, after_ms, until_ms);
        for (index, row) in rows.iter().enumerate() {
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
