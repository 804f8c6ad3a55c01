//! The counters of one worker, reported once a second.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchfire_report::{Histogram, Snapshot};
use watchfire_types::Instant;

use crate::broadcast::{BroadcastId, ReceiptRecorder, Receipts, SENT_MAX, Sent};
use crate::failure::Failure;
use crate::scenario::StepId;

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
    /// Users whose session was cut off at the end of the load.
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

/// The times of one step: since it was due, and since it began.
#[derive(Default)]
struct StepTimes {
    due: Histogram,
    begun: Histogram,
    unanswered: u64,
    last_done_at: Duration,
}

pub(crate) struct Tally {
    pub(crate) counts: Counts,
    pub(crate) lateness: Histogram,
    pub(crate) delivery: Histogram,
    pub(crate) receipts: ReceiptRecorder,
    sent: Vec<Sent>,
    sent_total: usize,
    steps: Vec<Option<Box<StepTimes>>>,
    pub(crate) stages: Stages<Histogram>,
    statuses: BTreeMap<u16, u64>,
    errors: BTreeMap<(Option<StepId>, Failure), u64>,
    counters: BTreeMap<&'static str, u64>,
    matches: Vec<Match>,
    matches_total: usize,
}

impl Tally {
    pub(crate) fn new(steps: usize) -> Tally {
        Tally {
            counts: Counts::default(),
            lateness: Histogram::new(),
            delivery: Histogram::new(),
            receipts: ReceiptRecorder::default(),
            sent: Vec::new(),
            sent_total: 0,
            steps: (0..steps).map(|_| None).collect(),
            stages: Stages::default(),
            statuses: BTreeMap::new(),
            errors: BTreeMap::new(),
            counters: BTreeMap::new(),
            matches: Vec::new(),
            matches_total: 0,
        }
    }

    /// Records a finished step: when it was due, when it began, and the present time.
    pub(crate) fn step(&mut self, step: StepId, due: Instant, begun: Instant, now: Instant) {
        self.record(step, now.since(due), now.since(begun)).last_done_at = now.since(Instant::ZERO);
    }

    fn record(
        &mut self,
        step: StepId,
        since_due: Duration,
        since_begun: Duration,
    ) -> &mut StepTimes {
        let times = self.steps[usize::from(step.0)].get_or_insert_default();
        times.due.record(since_due);
        times.begun.record(since_begun);
        times
    }

    /// Records a step that was not answered: how long it has waited. Its answer would have taken
    /// longer.
    pub(crate) fn unanswered(&mut self, step: StepId, since_due: Duration, since_begun: Duration) {
        self.record(step, since_due, since_begun).unanswered += 1;
    }

    /// Whether one more broadcast can be reported on its own.
    pub(crate) fn takes_broadcast(&self) -> bool {
        self.sent_total < SENT_MAX
    }

    pub(crate) fn sent(
        &mut self,
        step: StepId,
        audience: u8,
        user: u32,
        now: Duration,
        at: Duration,
    ) {
        self.sent_total += 1;
        let id = BroadcastId { sent_at: now.as_nanos() as u64, user };
        self.sent.push(Sent { id, step: step.0, audience, at });
    }

    pub(crate) fn error(&mut self, step: Option<StepId>, failure: Failure) {
        *self.errors.entry((step, failure)).or_default() += 1;
    }

    pub(crate) fn status(&mut self, status: u16) {
        *self.statuses.entry(status).or_default() += 1;
    }

    pub(crate) fn count(&mut self, event: &'static str) {
        self.count_many(event, 1);
    }

    pub(crate) fn count_many(&mut self, event: &'static str, count: u64) {
        *self.counters.entry(event).or_default() += count;
    }

    /// Notes an answer, unless there were many.
    pub(crate) fn note_match(&mut self, noted: Match) {
        if self.matches_total < MATCHES_MAX {
            self.matches_total += 1;
            self.matches.push(noted);
        }
    }

    /// The results since the last call.
    pub(crate) fn take(&mut self, names: &[String]) -> Delta {
        let steps = self.steps.iter_mut().enumerate().filter_map(|(step, recorders)| {
            let times = recorders.as_mut()?;
            let (due, begun) = (times.due.take(), times.begun.take());
            let unanswered = std::mem::take(&mut times.unanswered);
            let step = step as u16;
            let last_done_at = times.last_done_at;
            (!due.is_empty()).then_some(StepDelta { step, due, begun, unanswered, last_done_at })
        });
        let steps = steps.collect();
        let errors =
            std::mem::take(&mut self.errors).into_iter().map(|((step, failure), count)| {
                let step = step.map_or("between steps", |step| &names[usize::from(step.0)]);
                (step.to_owned(), failure.to_string(), count)
            });
        let counters = std::mem::take(&mut self.counters).into_iter();
        Delta {
            counts: std::mem::take(&mut self.counts),
            lateness: self.lateness.take(),
            delivery: self.delivery.take(),
            sent: std::mem::take(&mut self.sent),
            receipts: self.receipts.take(),
            steps,
            stages: Stages {
                connect: self.stages.connect.take(),
                page: self.stages.page.take(),
                session: self.stages.session.take(),
            },
            statuses: std::mem::take(&mut self.statuses),
            errors: errors.collect(),
            counters: counters.map(|(name, count)| (name.to_owned(), count)).collect(),
            matches: std::mem::take(&mut self.matches),
            ..Delta::default()
        }
    }
}
