//! The measurements of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::load_over_time::LoadOverTime;
use super::trace::RunTrace;

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
    /// The network between the processes, if they had one of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireFigures>,
    /// Other figures of the run, such as the times of a load. Less is better, except for the names in
    /// `figure::more_is_better`.
    pub measures: BTreeMap<String, f64>,
    /// The users of a load and the use of its server, over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadOverTime>,
    /// Conditions of the experiment that this machine did not meet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The share of the machine's CPU time that other programs used. `None` in the simulator, which does not depend on it,
    /// and if the lab did not start the nodes itself on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// Rules that were broken, and parts of the run that failed. Empty in a healthy run.
    pub problems: Vec<String>,
    /// When what happened, for viewers of traces.
    #[serde(skip)]
    pub trace: RunTrace,
}

/// The share of the machine's CPU time for other programs above which figures of a run are doubtful.
pub const NOISE_MAX: f64 = 0.1;

/// A node of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeResult {
    pub name: String,
    pub group: String,
    pub is_seeder: bool,
    pub is_awaited: bool,
    pub arrived_at: f64,
    /// When it was prepared, from and to: times before the clock started are negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared: Option<[f64; 2]>,
    pub first_byte_at: Option<f64>,
    pub finished_at: Option<f64>,
    /// When it had also unpacked its images, if it does that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpacked_at: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_at: Option<f64>,
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

/// A network between processes, from the start of the clock to its end: what went where, and how well this machine kept
/// up with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireFigures {
    /// IP packets that reached a node, by sender and receiver.
    pub transfers: Vec<Transfer>,
    /// Packets that the network dropped, by cause.
    pub drops: BTreeMap<String, u64>,
    /// How late packets were, beyond the time that the links give. These two are since the network started.
    pub lateness_mean_seconds: f64,
    pub lateness_max_seconds: f64,
    /// CPU time of the thread that carries packets.
    pub cpu_seconds: f64,
    /// Packets that the kernel dropped because this thread did not read them in time.
    pub overruns: u64,
}

impl RunResult {
    pub fn awaited(&self) -> impl Iterator<Item = &NodeResult> {
        self.nodes.iter().filter(|node| node.is_awaited)
    }

    /// The number of awaited nodes that never had all their objects.
    pub fn unfinished(&self) -> usize {
        self.awaited().filter(|node| node.finished_at.is_none()).count()
    }

    /// Whether other programs used so much of the machine that the figures are doubtful.
    pub fn is_noisy(&self) -> bool {
        self.noise.is_some_and(|noise| noise > NOISE_MAX)
    }

    /// Whether all awaited nodes finished, and no rule was broken.
    pub fn is_healthy(&self) -> bool {
        self.unfinished() == 0 && self.problems.is_empty()
    }
}
