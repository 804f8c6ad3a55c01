//! The results of all workers together.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use watchfire_report::{Histogram, Snapshot};

use crate::broadcast::{BROADCASTS_MAX, Broadcast, Receipts, Sent};
use crate::scenario::Scenario;
use crate::tally::{Counts, Delta, MATCHES_MAX, Match, Stages};

/// Seconds whose counts are kept one by one, about 0.5 kB for each; a longer load keeps only its totals.
const SECONDS_MAX: usize = 7 * 24 * 3600;
/// Intervals whose times are kept apart, often 20 kB for each. When there are more, intervals become twice as long.
const INTERVALS_MAX: usize = 3_600;

/// Most kinds of errors that seconds tell apart.
const ERROR_KINDS_MAX: usize = 1_000;

/// The results of a load, also while it runs.
#[derive(Clone, Debug)]
pub struct Results {
    pub name: String,
    pub duration: Duration,
    /// The number of worker processes; one worker is a thread.
    pub workers: usize,
    /// Each worker, in the order in which they began.
    pub by_worker: Vec<WorkerResults>,
    /// The schedule, and how it was changed while the load ran.
    pub schedule: Schedule,
    /// How long the controller took for each event, during which a further one waited.
    pub controller_lateness: Histogram,
    /// Workers and changes of the schedule, the oldest first; at most a thousand.
    pub events: Vec<LoadEvent>,
    pub counts: Counts,
    /// The most users at the same time, and the most open websockets.
    pub users_max: u64,
    /// See `users_max`.
    pub connected_max: u64,
    /// How late the generator started users.
    pub lateness: Histogram,
    /// The delays of messages with `${now}`.
    pub delivery: Histogram,
    /// The steps, in the order of the scenario.
    pub steps: Vec<Step>,
    /// Connections, pages and sessions of all users.
    pub stages: Stages<Histogram>,
    /// Responses by their HTTP status.
    pub statuses: BTreeMap<u16, u64>,
    /// Error counts by step and kind.
    pub errors: BTreeMap<(String, String), u64>,
    /// The kinds of errors, as [`Second::errors_by_kind`] counts them.
    pub error_kinds: Vec<String>,
    /// Events of sessions, by their names in Tsung's statistics.
    pub counters: BTreeMap<String, u64>,
    /// The answers that sessions asked to be noted, at most a thousand.
    pub matches: Vec<Match>,
    /// Whether a session has ended the load.
    pub is_aborted: bool,
    /// Why the server's figures, on its operator's page, have no mark of this load, if they should have one.
    pub without_mark: Option<String>,
    /// Each second since the load began.
    pub seconds: Vec<Second>,
    /// Times in each interval since the load began, which lasts [`Results::interval`].
    pub times: Vec<Times>,
    /// The length of an interval in seconds: 1 in the first hour.
    pub interval: usize,
    /// Processor time of all workers.
    pub cpu: Duration,
    /// Memory of all workers: at the start, and the maximum.
    pub resident_bytes: (u64, u64),
    pub failed_workers: Vec<String>,
    /// The time at which the load was stopped, if before its end.
    pub stopped_after: Option<Duration>,
    sent: Vec<Sent>,
    receipts: Receipts,
}

/// Where the schedule is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// The present phase, its number from 1, and the number of phases; `None` before the first and after the last one.
    pub phase: Option<(String, usize, usize)>,
    /// The factor of all rates.
    pub scale: f64,
    pub is_paused: bool,
    /// How long it has paused.
    pub paused: Duration,
}

/// Something that happened to a load while it ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadEvent {
    /// Seconds since the load began.
    pub at: f64,
    pub kind: &'static str,
    pub text: String,
}

/// Most events that are kept; further ones are dropped.
const EVENTS_MAX: usize = 1_000;

/// One worker, as its last report shows it.
#[derive(Clone, Debug, Default)]
pub struct WorkerResults {
    pub name: String,
    pub state: WorkerState,
    /// The most users and the most open websockets in its last second.
    pub users: u64,
    /// See `users`.
    pub connected: u64,
    /// Users that it has started.
    pub started: u64,
    /// Cores in use in its last second.
    pub cores: f64,
    pub resident_bytes: u64,
    /// The p99 of how late it started users in its last second.
    pub late: Duration,
    seconds: usize,
    cpu: Duration,
    resident_first: u64,
    resident_max: u64,
}

impl WorkerResults {
    /// The time of the load until which it has reported.
    pub(crate) fn reported(&self) -> Duration {
        Duration::from_secs(self.seconds as u64)
    }
}

/// The state of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    #[default]
    Running,
    /// It has asked to leave, and its users are given to others.
    Leaving,
    /// It has left before the end of the load.
    Left,
    /// Its connection broke.
    Lost,
    /// It has reached the end of the load.
    Ended,
}

impl WorkerState {
    /// Whether more reports are expected.
    pub fn is_active(self) -> bool {
        matches!(self, WorkerState::Running | WorkerState::Leaving)
    }

    pub fn name(self) -> &'static str {
        match self {
            WorkerState::Running => "running",
            WorkerState::Leaving => "leaving",
            WorkerState::Left => "left",
            WorkerState::Lost => "lost",
            WorkerState::Ended => "ended",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Step {
    pub name: String,
    /// Whether it is a group of other steps, which Tsung calls a transaction.
    pub is_group: bool,
    /// Since it was due: the time that a user would wait.
    pub due: Histogram,
    /// Since it began: the time that the server took.
    pub begun: Histogram,
    /// How many of these times are of steps that were never answered: they timed out, or still waited
    /// at the end of the load. Each counts with the time that it has waited.
    pub unanswered: u64,
    /// When it was last done, since the load began.
    pub last_done_at: Duration,
}

impl Step {
    /// How many times the step was done.
    pub fn done(&self) -> u64 {
        self.due.len().saturating_sub(self.unanswered)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Second {
    /// The most users, and the most open websockets, in this second.
    pub users: u64,
    /// See `users`.
    pub connected: u64,
    /// The counters of this second.
    pub counts: Counts,
    /// Cores that workers used in this second.
    pub cores: f64,
    /// Errors in this second.
    pub errors: u64,
    /// Errors by the index of their kind.
    pub errors_by_kind: BTreeMap<u16, u64>,
    /// Responses by their HTTP status.
    pub statuses: BTreeMap<u16, u64>,
    /// The smallest size of each audience in this second.
    pub audiences: Vec<u64>,
}

/// The times in an interval.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Since steps were due, by the index of the step.
    pub steps: BTreeMap<u16, Snapshot>,
    pub stages: Stages<Snapshot>,
}

impl Times {
    fn merge(&mut self, other: &Times) {
        for (step, times) in &other.steps {
            self.steps.entry(*step).or_default().merge(times);
        }
        self.stages.connect.merge(&other.stages.connect);
        self.stages.page.merge(&other.stages.page);
        self.stages.session.merge(&other.stages.session);
    }
}

impl Results {
    pub(crate) fn new(name: &str, scenario: &Scenario, workers: usize) -> Results {
        let groups = scenario.groups();
        let step = |(index, name): (usize, &String)| Step {
            name: name.clone(),
            is_group: groups.contains(&index),
            ..Step::default()
        };
        Results {
            name: name.to_owned(),
            duration: scenario.duration(),
            workers,
            by_worker: vec![WorkerResults::default(); workers],
            schedule: Schedule { scale: 1.0, ..Schedule::default() },
            controller_lateness: Histogram::default(),
            events: Vec::new(),
            counts: Counts::default(),
            users_max: 0,
            connected_max: 0,
            lateness: Histogram::default(),
            delivery: Histogram::default(),
            steps: scenario.steps.iter().enumerate().map(step).collect(),
            stages: Stages::default(),
            statuses: BTreeMap::new(),
            errors: BTreeMap::new(),
            error_kinds: Vec::new(),
            counters: BTreeMap::new(),
            matches: Vec::new(),
            is_aborted: false,
            without_mark: None,
            seconds: Vec::new(),
            times: Vec::new(),
            interval: 1,
            cpu: Duration::ZERO,
            resident_bytes: (0, 0),
            failed_workers: Vec::new(),
            stopped_after: None,
            sent: Vec::new(),
            receipts: Receipts::default(),
        }
    }

    pub(crate) fn add(&mut self, worker: usize, delta: &Delta) {
        self.counts.add(&delta.counts);
        self.lateness.merge(&delta.lateness);
        self.delivery.merge(&delta.delivery);
        let room = BROADCASTS_MAX.saturating_sub(self.sent.len());
        self.sent.extend(delta.sent.iter().take(room));
        self.counts.broadcasts_unreported += delta.sent.len().saturating_sub(room) as u64;
        self.receipts.merge(&delta.receipts);
        for times in &delta.steps {
            if let Some(step) = self.steps.get_mut(usize::from(times.step)) {
                step.due.merge(&times.due);
                step.begun.merge(&times.begun);
                step.unanswered += times.unanswered;
                step.last_done_at = step.last_done_at.max(times.last_done_at);
            }
        }
        self.stages.connect.merge(&delta.stages.connect);
        self.stages.page.merge(&delta.stages.page);
        self.stages.session.merge(&delta.stages.session);
        add_counts(&mut self.statuses, &delta.statuses);
        for (step, kind, count) in &delta.errors {
            *self.errors.entry((step.clone(), kind.clone())).or_default() += count;
        }
        for (name, count) in &delta.counters {
            *self.counters.entry(name.clone()).or_default() += count;
        }
        let room = MATCHES_MAX.saturating_sub(self.matches.len());
        self.matches.extend(delta.matches.iter().take(room).cloned());
        self.is_aborted |= delta.is_aborted;
        self.add_second(worker, delta);
        let seen = &mut self.by_worker[worker];
        if delta.is_last {
            let has_left = seen.state == WorkerState::Leaving;
            seen.state = if has_left { WorkerState::Left } else { WorkerState::Ended };
        }
        (seen.users, seen.connected) = (delta.users, delta.connected);
        seen.cpu = delta.cpu;
        seen.started += delta.counts.started;
        seen.late = Histogram::from(&delta.lateness).quantile(0.99);
        seen.resident_bytes = delta.resident_bytes;
        seen.resident_first = delta.resident_first_bytes;
        seen.resident_max = seen.resident_max.max(delta.resident_bytes);
        let sum = |of: fn(&WorkerResults) -> u64| self.by_worker.iter().map(of).sum();
        self.resident_bytes = (sum(|seen| seen.resident_first), sum(|seen| seen.resident_max));
        self.cpu = self.by_worker.iter().map(|seen| seen.cpu).sum();
    }

    /// Adds a worker that begins in this second of the load.
    pub(crate) fn add_worker(&mut self, name: &str, second: usize) {
        let name = name.to_owned();
        self.by_worker.push(WorkerResults { name, seconds: second, ..WorkerResults::default() });
        self.workers = self.by_worker.len();
    }

    pub(crate) fn add_event(&mut self, at: Duration, kind: &'static str, text: String) {
        // Anybody can be refused. That must not keep out what happens to the load.
        let max = if kind == "agent_refused" { EVENTS_MAX / 2 } else { EVENTS_MAX };
        if self.events.len() < max {
            self.events.push(LoadEvent { at: at.as_secs_f64(), kind, text });
        }
    }

    pub(crate) fn add_broken(&mut self, worker: usize, cause: &str) {
        self.failed_workers.push(format!("worker {worker}: {cause}"));
        self.by_worker[worker].state = WorkerState::Lost;
    }

    /// Complete seconds since the load began that all workers have reported.
    pub fn seconds_whole(&self) -> usize {
        let active = self.by_worker.iter().filter(|seen| seen.state.is_active());
        // The last second is never complete.
        active.map(|seen| seen.seconds).min().unwrap_or(self.seconds.len().saturating_sub(1))
    }

    /// The seconds that a report shows: all of a load that has ended, and the complete ones of a load that goes on.
    pub(crate) fn seconds_shown(&self) -> &[Second] {
        match self.by_worker.iter().any(|seen| seen.state.is_active()) {
            false => &self.seconds,
            true => &self.seconds[..self.seconds_whole().min(self.seconds.len())],
        }
    }

    fn add_second(&mut self, worker: usize, delta: &Delta) {
        let at = delta.second as usize;
        if at >= SECONDS_MAX {
            return;
        }
        if self.seconds.len() <= at {
            self.seconds.resize_with(at + 1, Second::default);
            self.widen_intervals(at);
            self.times.resize_with(at / self.interval + 1, Times::default);
        }
        // A worker that skipped a second had the users of the next one in it.
        let seen = &mut self.by_worker[worker];
        let used = delta.cpu.saturating_sub(seen.cpu).as_secs_f64();
        seen.cores = used / (at + 1).saturating_sub(seen.seconds).max(1) as f64;
        for second in &mut self.seconds[seen.seconds.min(at)..=at] {
            second.cores += seen.cores;
            second.users += delta.users;
            second.connected += delta.connected;
            second.audiences.resize(delta.audiences.len(), 0);
            for (sum, part) in second.audiences.iter_mut().zip(&delta.audiences) {
                *sum += part;
            }
        }
        seen.seconds = at + 1;
        let kinds = delta.errors.iter().map(|(_, kind, count)| (self.error_kind(kind), *count));
        let kinds: Vec<_> = kinds.collect();
        let second = &mut self.seconds[at];
        second.counts.add(&delta.counts);
        for (kind, count) in kinds {
            second.errors += count;
            *second.errors_by_kind.entry(kind).or_default() += count;
        }
        add_counts(&mut second.statuses, &delta.statuses);
        let steps = delta.steps.iter().map(|times| (times.step, times.due.clone())).collect();
        let times = Times { steps, stages: delta.stages.clone() };
        self.times[at / self.interval].merge(&times);
        self.users_max = self.users_max.max(second.users);
        self.connected_max = self.connected_max.max(second.connected);
    }

    /// Makes room for the times of this second.
    fn widen_intervals(&mut self, second: usize) {
        while second / self.interval >= INTERVALS_MAX {
            self.interval *= 2;
            let mut before = std::mem::take(&mut self.times).into_iter();
            while let Some(mut first) = before.next() {
                before.next().inspect(|next| first.merge(next));
                self.times.push(first);
            }
        }
    }

    /// The times of the interval that begins with this second.
    pub(crate) fn times_from(&self, second: usize) -> Option<&Times> {
        let begins = second.is_multiple_of(self.interval);
        self.times.get(second / self.interval).filter(|_| begins)
    }

    /// The times between two seconds, as far as intervals begin there.
    pub(crate) fn times_between(&self, from: usize, to: usize) -> &[Times] {
        let [from, to] = [from, to].map(|at| at.div_ceil(self.interval).min(self.times.len()));
        &self.times[from..to]
    }

    /// The index of a kind of error. A worker that sends ever new kinds shares the last index.
    fn error_kind(&mut self, kind: &str) -> u16 {
        let known = self.error_kinds.iter().position(|known| known == kind);
        let index = known.unwrap_or(self.error_kinds.len());
        if index == ERROR_KINDS_MAX {
            return (ERROR_KINDS_MAX - 1) as u16;
        }
        if known.is_none() {
            self.error_kinds.push(kind.to_owned());
        }
        index as u16
    }

    /// All broadcasts in the order in which they were sent.
    pub fn broadcasts(&self) -> Vec<Broadcast> {
        let mut broadcasts: Vec<_> = self.sent.iter().map(|sent| self.broadcast(sent)).collect();
        broadcasts.sort_by_key(|broadcast| broadcast.at);
        broadcasts
    }

    fn broadcast(&self, sent: &Sent) -> Broadcast {
        let second = self.seconds.get(sent.at.as_secs() as usize);
        let audience = second.and_then(|second| second.audiences.get(usize::from(sent.audience)));
        let step = self.steps.get(usize::from(sent.step));
        let times = self.receipts.get(sent.id);
        let audience = audience.copied().unwrap_or(0);
        Broadcast {
            step: step.map_or(String::new(), |step| step.name.clone()),
            at: sent.at,
            audience,
            missing: audience.saturating_sub(times.len()),
            times,
        }
    }

    pub fn errors_total(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Messages for one user that nobody has received.
    pub fn lost(&self) -> u64 {
        self.counts.deliveries_due.saturating_sub(self.counts.deliveries_timed)
    }

    /// Users that were planned and did not start.
    pub fn missing_users(&self) -> u64 {
        self.counts.due - self.counts.started.min(self.counts.due)
    }

    /// The limits of this machine that caused errors.
    pub fn limits(&self) -> Vec<&str> {
        let kinds = self.errors.keys().map(|(_, kind)| kind.as_str());
        let mut limits: Vec<_> =
            kinds.filter_map(|kind| kind.strip_prefix(crate::failure::LIMIT_REACHED)).collect();
        limits.sort_unstable();
        limits.dedup();
        limits
    }
}

fn add_counts(all: &mut BTreeMap<u16, u64>, more: &BTreeMap<u16, u64>) {
    for (key, count) in more {
        *all.entry(*key).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::StepDelta;

    fn results(workers: usize) -> Results {
        Results::new("long", &crate::scenario::connecting(""), workers)
    }

    #[test]
    fn a_report_of_a_load_that_goes_on_has_the_seconds_of_all_workers() {
        let mut results = results(2);
        let mut shown = |worker, second, is_last| {
            results.add(worker, &Delta { second, is_last, ..Delta::default() });
            results.seconds_shown().len()
        };
        assert_eq!([shown(0, 0, false), shown(0, 1, false), shown(1, 0, false)], [0, 0, 1]);
        assert_eq!([shown(1, 2, true), shown(0, 2, true)], [2, 3]);
    }

    #[test]
    fn a_long_load_keeps_a_bounded_number_of_times_and_each_count() {
        let mut results = results(1);
        let seconds = 3 * INTERVALS_MAX as u32;
        for second in 0..seconds {
            let due = Snapshot::from(vec![(1_000_000, 2)]);
            let steps = vec![StepDelta { step: 0, due, ..StepDelta::default() }];
            let counts = Counts { started: 1, ..Counts::default() };
            results.add(0, &Delta { second, steps, counts, ..Delta::default() });
        }
        assert_eq!((results.interval, results.seconds.len()), (4, seconds as usize));
        assert_eq!(results.times.len(), 3 * INTERVALS_MAX / 4);
        assert!(results.times.iter().all(|times| times.steps[&0].len() == 8));
        assert!(results.seconds.iter().all(|second| second.counts.started == 1));
        assert_eq!(results.times_between(0, 10).len(), 3);
        assert!(results.times_from(8).is_some() && results.times_from(9).is_none());
    }
}
