//! What a run measured, the figures of it, and the verdict about two sides.

mod csv;
mod figure;
mod html;
mod table;
mod verdict;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use csv::csv;
pub use figure::Figure;
pub use html::{comparison_html, html};
pub use table::{comparison_table, results_table};
pub(crate) use table::{results_rows, short, spread};
pub use verdict::{Comparison, FigureVerdict, Verdict, compare};

/// One run of a trial. Times are seconds since its clock started, sizes are bytes. `None` means that
/// the driver cannot measure it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    pub trial: String,
    pub driver: String,
    pub seed: u64,
    /// The bytes of the objects that nodes fetch, each once.
    pub object_bytes: u64,
    /// The least time in which the links could carry all copies.
    pub bound_seconds: Option<f64>,
    pub took_seconds: f64,
    pub nodes: Vec<NodeResult>,
    /// Content that went from one node to another.
    pub transfers: Vec<Transfer>,
    /// Other figures of the run, such as the times of a load. Of each, less is better.
    pub measures: BTreeMap<String, f64>,
    /// Rules that were broken, and parts of the run that failed. Empty in a healthy run.
    pub problems: Vec<String>,
}

/// A node of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeResult {
    pub name: String,
    pub group: String,
    pub is_seeder: bool,
    pub is_awaited: bool,
    pub arrived_at: f64,
    pub first_byte_at: Option<f64>,
    pub finished_at: Option<f64>,
    /// Times, and the share of its objects that the node had then.
    pub progress: Vec<(f64, f64)>,
    /// Bytes of content that it sent to other nodes.
    pub content_sent_bytes: Option<u64>,
    /// All bytes that it sent.
    pub sent_bytes: Option<u64>,
    /// All bytes that it received.
    pub received_bytes: Option<u64>,
    /// Content that it received more than once.
    pub duplicate_bytes: Option<u64>,
    /// Messages of the exchange that it received.
    pub messages: Option<u64>,
    pub cpu_seconds: Option<f64>,
    pub peak_memory_bytes: Option<u64>,
    /// Why the node failed.
    pub failure: Option<String>,
}

/// Content that went from one node to another, as indices of [`RunResult::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    pub from: usize,
    pub to: usize,
    pub bytes: u64,
}

impl RunResult {
    pub fn awaited(&self) -> impl Iterator<Item = &NodeResult> {
        self.nodes.iter().filter(|node| node.is_awaited)
    }

    /// The number of awaited nodes that never had all their objects.
    pub fn unfinished(&self) -> usize {
        self.awaited().filter(|node| node.finished_at.is_none()).count()
    }

    /// Whether all awaited nodes finished, and no rule was broken.
    pub fn is_healthy(&self) -> bool {
        self.unfinished() == 0 && self.problems.is_empty()
    }
}
