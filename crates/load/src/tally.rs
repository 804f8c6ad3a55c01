//! The figures that a worker reports once a second.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchfire_report::Snapshot;

use crate::broadcast::{Receipts, Sent};

/// The results of one worker in one second.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Delta {
    /// Seconds since the load began.
    pub(crate) second: u32,
    /// Whether this is the last report of the worker.
    pub(crate) is_last: bool,
    /// The most users, and the most open websockets.
    pub(crate) users: u64,
    pub(crate) connected: u64,
    pub(crate) counts: Counts,
    /// How late the generator started users.
    pub(crate) lateness: Snapshot,
    /// The delays of messages with `${now}`.
    pub(crate) delivery: Snapshot,
    /// The smallest size of each audience.
    pub(crate) audiences: Vec<u64>,
    pub(crate) sent: Vec<Sent>,
    pub(crate) receipts: Receipts,
    pub(crate) steps: Vec<StepDelta>,
    pub(crate) stages: Stages<Snapshot>,
    /// Responses by their HTTP status.
    pub(crate) statuses: BTreeMap<u16, u64>,
    /// Step, kind and count.
    pub(crate) errors: Vec<(String, String, u64)>,
    /// Events of sessions, by their names in Tsung's statistics.
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) matches: Vec<Match>,
    /// Whether a session has ended the load.
    pub(crate) is_aborted: bool,
    /// Whether the worker asks to leave.
    pub(crate) is_leaving: bool,
    /// Processor time used since the load began, and memory held now.
    pub(crate) cpu: Duration,
    pub(crate) resident_bytes: u64,
    /// Memory held before the first user.
    pub(crate) resident_first_bytes: u64,
}

/// The most answers that are noted one by one, in the whole load.
pub(crate) const MATCHES_MAX: usize = 1_000;

/// An answer that a session asked to be noted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Match {
    /// The name of the check.
    pub name: String,
    pub user: u32,
    /// The index of its session.
    pub session: u16,
    pub step: String,
    /// The begin of the answer, if the session asked for it.
    pub text: Option<String>,
}

/// Counters that can be added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    pub due: u64,
    pub started: u64,
    /// Users that reached the end of their session.
    pub finished: u64,
    /// Users that an error ended.
    pub failed: u64,
    /// Users that were due when `users_max` users were active.
    pub turned_away: u64,
    /// Users whose session was cut off at the end of the load, or when their agent left it.
    pub cut_off: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Messages that are not replies: broadcasts and pushes.
    pub deliveries: u64,
    pub delivery_bytes: u64,
    /// Messages that exactly one user should receive.
    pub deliveries_due: u64,
    /// Received messages with `${now}` that are not broadcasts.
    pub deliveries_timed: u64,
    /// Broadcasts that are not reported one by one, because there were too many.
    pub broadcasts_unreported: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        self.due += other.due;
        self.started += other.started;
        self.finished += other.finished;
        self.failed += other.failed;
        self.turned_away += other.turned_away;
        self.cut_off += other.cut_off;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.deliveries += other.deliveries;
        self.delivery_bytes += other.delivery_bytes;
        self.deliveries_due += other.deliveries_due;
        self.deliveries_timed += other.deliveries_timed;
        self.broadcasts_unreported += other.broadcasts_unreported;
    }
}

/// The times of one step: since it was due, and since it began.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct StepDelta {
    pub(crate) step: u16,
    pub(crate) due: Snapshot,
    pub(crate) begun: Snapshot,
    /// How many of these times are of steps that were never answered.
    pub(crate) unanswered: u64,
    /// When it was last done, since the load began.
    pub(crate) last_done_at: Duration,
}

/// Times of the stages of all users, whatever their steps are.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stages<T> {
    /// Opening a TCP connection.
    pub connect: T,
    /// The steps between two think times, since the first one was due.
    pub page: T,
    /// A session that reached its end, since its user was due.
    pub session: T,
}
