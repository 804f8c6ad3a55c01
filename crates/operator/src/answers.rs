//! The answers of the operator's calls, as JSON: the server writes them, and `watchfire top`, `watchfire doctor` and
//! the page read them.
//!
//! A reader may be older or newer than the server, such as `top` on an operator's own machine. So it skips a field
//! that it does not know, and one that is missing has its default.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
pub use watchfire::internal::{
    Direction, FoundConnection, FoundConnections, FoundTopic, FoundTopics, TcpFigures,
    WatchedMessage, WatchedMessages,
};

/// `/admin/state`: one machine in the last second.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    pub version: String,
    /// Unix time in milliseconds, as all times.
    pub now_ms: u64,
    pub started_ms: u64,
    pub machine: String,
    /// All machines of the server.
    pub machines: Vec<String>,
    pub processes: Vec<Process>,
    pub missing_processes: Vec<u16>,
    pub limits: Vec<LimitUse>,
    /// Those of every server, the most urgent first, and then those of features.
    pub troubles: Vec<Trouble>,
    /// The last figures, by the names of columns. `None`: before the first sample.
    pub latest: Option<BTreeMap<String, Option<f64>>>,
    /// The tables that every server has.
    pub own_tables: Vec<Table>,
    /// Those of features that have rows.
    pub tables: Vec<Table>,
    /// `None`: the program has a log of its own.
    pub log_level: Option<String>,
}

/// The figures of one process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Its number on its machine, from 0.
    pub process: u16,
    pub uptime_seconds: f64,
    pub clients: f64,
    pub channels: f64,
    pub topics: f64,
    pub connections: f64,
    pub queued_bytes: f64,
    pub resident_bytes: f64,
    /// Cores in use.
    pub cpu: f64,
    /// The share of time in which each event loop did not wait.
    pub busy: Vec<f64>,
    pub open_fds: f64,
    pub max_fds: f64,
}

/// A limit that the server may reach.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitUse {
    pub name: String,
    pub used: f64,
    pub max: f64,
    /// `"bytes"`, `"share"`, or empty for a count.
    pub unit: String,
    /// The setting that changes it; empty for none.
    pub setting: String,
}

impl LimitUse {
    /// The used part, from 0 to 1.
    pub fn share(&self) -> f64 {
        let share = self.used / self.max;
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// A trouble that lasts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trouble {
    pub kind: String,
    pub since_ms: u64,
    /// The fault as it is now, in one sentence.
    pub summary: String,
    /// The remedy, in one sentence.
    pub fix: String,
    /// The address of the page about it.
    pub page: String,
}

/// A table of the server or of a feature.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Table {
    pub title: String,
    pub columns: Vec<TableColumn>,
    /// Each has a text or a number for each column, or null. The first is the name of the row.
    pub rows: Vec<Vec<Value>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableColumn {
    pub title: String,
    /// `"text"`, `"bytes"`, `"seconds"`, or empty for a count.
    pub unit: String,
}

/// `/admin/history`: figures over time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct History {
    pub columns: Vec<String>,
    /// Each has a time, and a value for each column.
    pub rows: Vec<Vec<Option<f64>>>,
}

/// `/admin/events`: what happened, the oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Events {
    pub events: Vec<Event>,
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    pub time_ms: u64,
    pub kind: String,
    pub text: String,
    /// The kind of the trouble that begins or ends; empty for other events.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trouble: String,
}

/// `/admin/profile?functions=true`: the functions that used the CPU, those with the most samples of their own first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfiledFunctions {
    pub samples: u64,
    /// Each has a name, its own samples, and the samples with those of the functions that it called.
    pub functions: Vec<(String, u64, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_a_limit_is_always_from_0_to_1() {
        let share = |used, max| LimitUse { used, max, ..LimitUse::default() }.share();
        assert_eq!([share(1.0, 4.0), share(5.0, 4.0), share(0.0, 0.0)], [0.25, 1.0, 0.0]);
        assert_eq!([share(1.0, 0.0), share(-1.0, 1.0)], [0.0, 0.0]);
    }
}
