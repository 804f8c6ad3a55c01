//! The number of people and connections of each process, and when to report it.
//!
//! All processes report to the first one that is up, and the first reports to all. With fifty
//! processes, reports from each to each would be thousands of messages a second.

use serde::{Deserialize, Serialize};
use watchfire_types::NodeId;

/// A change of more connections than this is reported to the first process immediately, because the
/// first process balances new connections by it.
const CHANGE_REPORTED_AT_ONCE: u64 = 256;
/// The same for a change that exceeds one part in this number of the connections that a process may have.
const SHARE_REPORTED_AT_ONCE: u64 = 16;
/// Any other change is reported this often, in ticks.
const CHANGED_TICKS: u32 = 5;
/// An unchanged load is reported this often, in ticks, because an earlier report may be lost.
const UNCHANGED_TICKS: u32 = 100;

/// How many people and connections a process has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLoad {
    /// Its clients, without guests and programs.
    pub people: u64,
    /// Open connections of any kind, which is what a process has limited room for.
    pub connections: u64,
}

/// The last report of this process.
#[derive(Default)]
pub(super) struct LoadReports {
    sent: Vec<(NodeId, ProcessLoad)>,
    ticks: u32,
}

impl LoadReports {
    /// Whether to report these loads now. Called once a tick; a `true` notes them as reported.
    pub fn is_due(&mut self, loads: &[(NodeId, ProcessLoad)], connections_max: u64) -> bool {
        let change = CHANGE_REPORTED_AT_ONCE.min(connections_max / SHARE_REPORTED_AT_ONCE);
        self.ticks += 1;
        let is_due = match (loads, &self.sent[..]) {
            _ if self.ticks >= UNCHANGED_TICKS => true,
            ([(_, now)], [(_, sent)]) if now.connections.abs_diff(sent.connections) > change => {
                true
            }
            (loads, sent) => self.ticks >= CHANGED_TICKS && loads != sent,
        };
        if is_due {
            *self = LoadReports { sent: loads.to_vec(), ticks: 0 };
        }
        is_due
    }
}
