//! The figures of all users of one engine, which are reported once a second.

use std::collections::BTreeMap;
use std::time::Duration;

use watchfire_report::Histogram;
use watchfire_types::Instant;

use crate::broadcast::{BroadcastId, ReceiptRecorder, SENT_MAX, Sent};
use crate::clock::cpu_time;
use crate::failure::Failure;
use crate::order;
use crate::scenario::{Scenario, StepId};
use crate::tally::{Counts, Delta, MATCHES_MAX, Match, StepDelta};

/// A number, and the largest one since the last report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gauge {
    now: u64,
    most: u64,
}

impl Gauge {
    pub(super) fn add(&mut self) {
        self.now += 1;
        self.most = self.most.max(self.now);
    }

    pub(super) fn remove(&mut self) {
        self.now -= 1;
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn take_most(&mut self) -> u64 {
        std::mem::replace(&mut self.most, self.now)
    }
}

/// Number of users that a broadcast should reach.
#[derive(Clone, Copy, Default)]
struct Audience {
    now: u64,
    /// The smallest number in this second.
    fewest: u64,
}

/// The audiences of one user: a bit for each audience of the scenario.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memberships(u8);

/// The times of one step: since it was due, and since it began.
#[derive(Default)]
struct StepTimes {
    due: Histogram,
    begun: Histogram,
    unanswered: u64,
    last_done_at: Duration,
}

#[derive(Default)]
pub(super) struct Reports<'a> {
    step_names: &'a [String],
    counts: Counts,
    lateness: Histogram,
    delivery: Histogram,
    receipts: ReceiptRecorder,
    sent: Vec<Sent>,
    sent_total: usize,
    steps: Vec<Option<Box<StepTimes>>>,
    page_times: Histogram,
    session_times: Histogram,
    statuses: BTreeMap<u16, u64>,
    errors: BTreeMap<(Option<StepId>, Failure), u64>,
    counters: BTreeMap<&'static str, u64>,
    matches: Vec<Match>,
    matches_total: usize,
    audiences: Vec<Audience>,
    resident_first_bytes: u64,
}

impl<'a> Reports<'a> {
    pub(super) fn new(scenario: &'a Scenario) -> Reports<'a> {
        // Results have these also when they are 0.
        let counters = order::COUNTERS.iter().filter(|_| scenario.recovered.is_some());
        Reports {
            step_names: &scenario.steps,
            steps: scenario.steps.iter().map(|_| None).collect(),
            counters: counters.map(|name| (*name, 0)).collect(),
            audiences: vec![Audience::default(); scenario.audiences.count],
            resident_first_bytes: resident_bytes(),
            ..Reports::default()
        }
    }

    /// All counters. A caller changes only those that no method of `Reports` changes.
    pub(super) fn counts(&mut self) -> &mut Counts {
        &mut self.counts
    }

    /// Records that a user was due, and how late that is.
    pub(super) fn due(&mut self, late: Duration) {
        self.counts.due += 1;
        self.lateness.record(late);
    }

    /// Records a user that reached the end of its session.
    pub(super) fn finished(&mut self, lasted: Duration) {
        self.counts.finished += 1;
        self.session_times.record(lasted);
    }

    /// Records a user that an error has ended.
    pub(super) fn failed(&mut self, step: Option<StepId>, failure: Failure) {
        self.error(step, failure);
        self.counts.failed += 1;
    }

    /// Records a finished step: when it was due, when it began, and the present time.
    pub(super) fn step(&mut self, step: StepId, due: Instant, begun: Instant, now: Instant) {
        self.record(step, due, begun, now).last_done_at = now.since(Instant::ZERO);
    }

    /// Records a step that was not answered until now. Its answer would have taken longer.
    pub(super) fn unanswered(&mut self, step: StepId, due: Instant, begun: Instant, now: Instant) {
        self.record(step, due, begun, now).unanswered += 1;
    }

    fn record(
        &mut self,
        step: StepId,
        due: Instant,
        begun: Instant,
        now: Instant,
    ) -> &mut StepTimes {
        let times = self.steps[usize::from(step.0)].get_or_insert_default();
        times.due.record(now.since(due));
        times.begun.record(now.since(begun));
        times
    }

    /// Records the steps between two think times.
    pub(super) fn page(&mut self, time: Duration) {
        self.page_times.record(time);
    }

    pub(super) fn error(&mut self, step: Option<StepId>, failure: Failure) {
        *self.errors.entry((step, failure)).or_default() += 1;
    }

    pub(super) fn status(&mut self, status: u16) {
        *self.statuses.entry(status).or_default() += 1;
    }

    pub(super) fn count(&mut self, event: &'static str) {
        self.count_many(event, 1);
    }

    pub(super) fn count_many(&mut self, event: &'static str, count: u64) {
        *self.counters.entry(event).or_default() += count;
    }

    /// Counts a message that is not a reply.
    pub(super) fn delivery(&mut self, bytes: usize) {
        self.counts.deliveries += 1;
        self.counts.delivery_bytes += bytes as u64;
    }

    /// Records the delay of a message for one user, or of a numbered one.
    pub(super) fn delivered(&mut self, time: Duration, is_numbered: bool) {
        self.delivery.record(time);
        self.counts.deliveries_timed += u64::from(!is_numbered);
    }

    /// Records that a broadcast was received, `time` after it was sent.
    pub(super) fn received(&mut self, sent_at: Duration, user: u32, time: Duration) {
        self.delivery.record(time);
        self.receipts.record(BroadcastId { sent_at: sent_at.as_nanos() as u64, user }, time);
    }

    /// Whether one more broadcast is reported on its own. Counts one that is not.
    pub(super) fn takes_broadcast(&mut self) -> bool {
        let is_taken = self.sent_total < SENT_MAX;
        self.counts.broadcasts_unreported += u64::from(!is_taken);
        is_taken
    }

    /// Records a broadcast of a user, at a time of the monotonic clock and of the load.
    pub(super) fn sent(
        &mut self,
        (step, audience): (StepId, u8),
        user: u32,
        sent_at: Duration,
        at: Instant,
    ) {
        self.sent_total += 1;
        let id = BroadcastId { sent_at: sent_at.as_nanos() as u64, user };
        self.sent.push(Sent { id, step: step.0, audience, at: at.since(Instant::ZERO) });
    }

    /// Notes an answer, unless there were many.
    pub(super) fn note_match(&mut self, noted: Match) {
        if self.matches_total < MATCHES_MAX {
            self.matches_total += 1;
            self.matches.push(noted);
        }
    }

    pub(super) fn join(&mut self, user: &mut Memberships, audience: u8) {
        if user.0 & (1 << audience) == 0 {
            user.0 |= 1 << audience;
            self.audiences[usize::from(audience)].now += 1;
        }
    }

    pub(super) fn leave(&mut self, user: &mut Memberships, audience: u8) {
        if user.0 & (1 << audience) != 0 {
            user.0 &= !(1 << audience);
            let audience = &mut self.audiences[usize::from(audience)];
            audience.now -= 1;
            audience.fewest = audience.fewest.min(audience.now);
        }
    }

    pub(super) fn leave_all(&mut self, user: &mut Memberships) {
        while user.0 != 0 {
            self.leave(user, user.0.trailing_zeros() as u8);
        }
    }

    /// The results since the last call.
    pub(super) fn take(&mut self) -> Delta {
        let steps = self.steps.iter_mut().enumerate().filter_map(|(step, recorders)| {
            let times = recorders.as_mut()?;
            let (due, begun) = (times.due.take(), times.begun.take());
            let unanswered = std::mem::take(&mut times.unanswered);
            let step = step as u16;
            let last_done_at = times.last_done_at;
            (!due.is_empty()).then_some(StepDelta { step, due, begun, unanswered, last_done_at })
        });
        let errors =
            std::mem::take(&mut self.errors).into_iter().map(|((step, failure), count)| {
                let step =
                    step.map_or("between steps", |step| &self.step_names[usize::from(step.0)]);
                (step.to_owned(), failure.to_string(), count)
            });
        let counters = std::mem::take(&mut self.counters).into_iter();
        let mut delta = Delta {
            counts: std::mem::take(&mut self.counts),
            lateness: self.lateness.take(),
            delivery: self.delivery.take(),
            audiences: self.audiences.iter().map(|audience| audience.fewest).collect(),
            sent: std::mem::take(&mut self.sent),
            receipts: self.receipts.take(),
            steps: steps.collect(),
            statuses: std::mem::take(&mut self.statuses),
            errors: errors.collect(),
            counters: counters.map(|(name, count)| (name.to_owned(), count)).collect(),
            matches: std::mem::take(&mut self.matches),
            cpu: cpu_time(),
            resident_bytes: resident_bytes(),
            resident_first_bytes: self.resident_first_bytes,
            ..Delta::default()
        };
        delta.stages.page = self.page_times.take();
        delta.stages.session = self.session_times.take();
        self.audiences.iter_mut().for_each(|audience| audience.fewest = audience.now);
        delta
    }
}

/// Resident memory of this process; 0 if it cannot be read.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::connecting;

    #[test]
    fn a_gauge_reports_the_largest_number_since_the_last_report() {
        let mut gauge = Gauge::default();
        (0..3).for_each(|_| gauge.add());
        gauge.remove();
        assert_eq!((gauge.take_most(), gauge.take_most(), gauge.now()), (3, 2, 2));
    }

    #[test]
    fn an_audience_is_reported_with_its_smallest_size_in_a_second() {
        let scenario = connecting("");
        let mut reports = Reports::new(&scenario);
        reports.audiences = vec![Audience::default(); 2];
        let mut users = [Memberships::default(); 3];
        users.iter_mut().for_each(|user| reports.join(user, 1));
        reports.join(&mut users[0], 1);
        reports.join(&mut users[0], 0);
        assert_eq!(reports.take().audiences, [0, 0]);
        reports.leave_all(&mut users[0]);
        reports.leave(&mut users[0], 1);
        reports.join(&mut users[0], 1);
        assert_eq!(reports.take().audiences, [0, 2]);
        assert_eq!(reports.take().audiences, [0, 3]);
    }
}
