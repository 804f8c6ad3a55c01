//! Where a user is in its session. Each step is measured from the time it was due, which avoids coordinated
//! omission.
//!
//! # The problem
//!
//! A generator that measures from the moment of sending leaves out the waits that the server caused
//! before. Example: each of 89 users sends a message every 100 ms, and the server stands still for 3 s.
//! A user that waits for its answer sends nothing meanwhile, so only 89 messages are slow. The other
//! 29 that each user should have sent are sent afterwards, and are answered fast. In 200 s that are 89
//! slow ones among 178,000: the 99.9th percentile is still fast. Yet each user had 30 messages that
//! were late by 0 to 3 s, which is 2,670 messages, or 1.5 % of all.
//!
//! # The measurement
//!
//! Each user has two times in its record, and each step is recorded twice (`Progress::measure`):
//!
//! - `due`: when the step should have begun. Think times count from `anchor`, which begins with the
//!   user's arrival and moves by think times alone. A late answer therefore does not move the
//!   following steps: they are due in the past, and begin without a wait, one after the other.
//! - `begun`: when the step did begin. The difference between both figures in the report is the wait
//!   that a closed loop would hide.
//!
//! In the example, the message that was sent when the stall began took 3.0 s since it was due, the next
//! one 2.9 s, and so on. Steps without a think time between them are due when the one before was
//! complete. A scenario may ask for `think = { from = "answer" }`; then the user waits for its answer
//! like a person who reads it, and `anchor` moves to that time.
//!
//! # Answers that never come
//!
//! The slowest answers are those that do not arrive. A step that times out is recorded with the time
//! that it has waited, and so is one that still waits at the end, if it began before the last phase
//! ended. Their number is reported beside the percentiles.

use std::time::Duration;

use watchfire_types::Instant;

use super::reports::Reports;
use super::wire::{micros, micros_since};
use super::{NEVER, millis};
use crate::scenario::{LOOPS_NESTED_MAX, Op, Scenario, StepId};

/// The event that the current step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    Nothing,
    /// The websocket to be open.
    Open,
    Message,
    Response,
    /// A think time to be over.
    Time,
    /// Other users to come.
    Others,
    /// The load to be over.
    Over,
    Closed,
}

pub(super) struct Progress {
    /// The time at which the last think time would have ended with immediate replies.
    anchor: Instant,
    /// The times at which the current step was due, and at which it began.
    due: Instant,
    begun: Instant,
    counters: [u32; LOOPS_NESTED_MAX],
    /// When the user was due, in milliseconds since the load began.
    arrived_at: u32,
    /// When the first step since the last think time was due, in [`micros`].
    page_due: u32,
    /// In milliseconds since the load began.
    times_out_at: u32,
    session: u16,
    position: u16,
    waiting: Waiting,
    /// Whether a step was done since the last think time.
    has_page: bool,
}

impl Progress {
    /// The progress of a user that was due at this time.
    pub(super) fn new(session: u16, at: Instant) -> Progress {
        Progress {
            anchor: at,
            due: at,
            begun: at,
            counters: Default::default(),
            arrived_at: millis(at),
            page_due: 0,
            times_out_at: NEVER,
            session,
            position: 0,
            waiting: Waiting::Nothing,
            has_page: false,
        }
    }

    pub(super) fn session(&self) -> usize {
        usize::from(self.session)
    }

    pub(super) fn position(&self) -> usize {
        usize::from(self.position)
    }

    pub(super) fn op<'a>(&self, scenario: &'a Scenario) -> Option<&'a Op> {
        scenario.sessions[self.session()].ops.get(self.position())
    }

    /// The id of the current step for the results.
    pub(super) fn step(&self, scenario: &Scenario) -> Option<StepId> {
        match self.op(scenario)? {
            Op::Connect(connect) => Some(connect.step),
            Op::Send(send) => Some(send.step),
            Op::Expect { step, .. } => Some(*step),
            Op::Page(visit) => Some(visit.step),
            Op::Disconnect { step, .. } => *step,
            op => op.request().map(|request| request.step),
        }
    }

    /// The current step begins.
    pub(super) fn begin(&mut self, now: Instant) {
        self.begun = now;
    }

    /// The current step was due and begins at this time.
    pub(super) fn begin_as_due(&mut self, now: Instant) {
        (self.due, self.begun) = (now, now);
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }

    pub(super) fn begun(&self) -> Instant {
        self.begun
    }

    pub(super) fn waiting(&self) -> Waiting {
        self.waiting
    }

    /// Whether an answer over the connection is awaited.
    pub(super) fn awaits_answer(&self) -> bool {
        matches!(self.waiting, Waiting::Open | Waiting::Response)
    }

    pub(super) fn wait_for(&mut self, waiting: Waiting) {
        self.waiting = waiting;
    }

    /// The wait of the current step is over.
    pub(super) fn stop_waiting(&mut self) {
        self.waiting = Waiting::Nothing;
        self.times_out_at = NEVER;
    }

    /// Sets the deadline of the current step.
    pub(super) fn arm(&mut self, deadline: Instant) {
        // Rounded up: a step that times out has waited for the whole time.
        self.times_out_at = millis(deadline) + 1;
    }

    pub(super) fn disarm(&mut self) {
        self.times_out_at = NEVER;
    }

    /// Whether the current step has timed out, at a time in milliseconds since the load began.
    pub(super) fn is_timed_out(&self, now: u32) -> bool {
        self.times_out_at <= now
    }

    pub(super) fn go_to(&mut self, position: usize) {
        self.position = position as u16;
    }

    pub(super) fn go_on(&mut self) {
        self.position += 1;
    }

    /// Think times and steps count from here: the delay until then belongs to no step.
    pub(super) fn count_from(&mut self, at: Instant) {
        (self.anchor, self.due) = (at, at);
    }

    /// Think times count from the answer to the step before.
    pub(super) fn count_think_time_from(&mut self, at: Instant) {
        self.anchor = at;
    }

    /// The current step is an error; the next one is due now.
    pub(super) fn next_is_due(&mut self, now: Instant) {
        self.due = now;
    }

    /// Continues after a pause. Think times count from the arrival of the user: a slow response does not delay when
    /// the next step is due. Returns when that is.
    pub(super) fn pause(&mut self, time: Duration, reports: &mut Reports<'_>) -> Instant {
        if !time.is_zero() {
            self.end_page(reports);
        }
        self.anchor += time;
        self.due = self.anchor;
        self.position += 1;
        self.due
    }

    pub(super) fn begin_loop(&mut self, depth: usize) {
        self.counters[depth] = 0;
        self.position += 1;
    }

    /// Goes back to `begin` until the loop was done `times` times; `None` repeats until the load is over.
    pub(super) fn end_loop(
        &mut self,
        depth: usize,
        begin: usize,
        times: Option<u32>,
        is_over: bool,
    ) {
        self.counters[depth] = self.counters[depth].saturating_add(1);
        let is_done = times.map_or(is_over, |times| self.counters[depth] >= times);
        self.position = if is_done { self.position + 1 } else { begin as u16 };
    }

    /// Records the times of a finished step, since it was due and since it began.
    pub(super) fn measure(&mut self, step: StepId, now: Instant, reports: &mut Reports<'_>) {
        reports.step(step, self.due, self.begun, now);
        if !std::mem::replace(&mut self.has_page, true) {
            self.page_due = micros(self.due);
        }
        self.due = now;
    }

    /// Records the time that a step has waited in vain. Without it, the slowest answers would be
    /// missing from the times of their step.
    pub(super) fn measure_in_vain(&self, step: StepId, now: Instant, reports: &mut Reports<'_>) {
        reports.unanswered(step, self.due, self.begun, now);
    }

    /// Records the steps since the last think time as a page, if there were any.
    pub(super) fn end_page(&mut self, reports: &mut Reports<'_>) {
        if std::mem::take(&mut self.has_page) {
            reports.page(micros_since(self.page_due, self.due));
        }
    }

    /// Records a session that has reached its end.
    pub(super) fn end_session(&mut self, now: Instant, reports: &mut Reports<'_>) {
        self.end_page(reports);
        let lasted = millis(now).saturating_sub(self.arrived_at);
        reports.finished(Duration::from_millis(lasted.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::connecting;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_late_answer_does_not_move_when_the_next_step_is_due() {
        let scenario = connecting("");
        let mut reports = Reports::new(&scenario);
        let mut progress = Progress::new(0, at(0));
        let think = Duration::from_millis(100);
        assert_eq!(progress.pause(think, &mut reports), at(100));
        progress.begin(at(100));
        progress.measure(StepId(0), at(3_100), &mut reports);
        assert_eq!(progress.pause(think, &mut reports), at(200), "it is due in the past");
        progress.begin(at(3_100));
        progress.measure(StepId(0), at(3_110), &mut reports);
        progress.count_think_time_from(at(3_110));
        assert_eq!(progress.pause(think, &mut reports), at(3_210));
        let delta = reports.take();
        let [due, begun] = [&delta.steps[0].due, &delta.steps[0].begun]
            .map(|times| watchfire_report::Histogram::from(times).quantile(0.5).as_millis());
        assert!((2_890..=2_940).contains(&due) && (9..=11).contains(&begun), "{due} {begun}");
        assert_eq!(delta.stages.page.len(), 2);
    }

    #[test]
    fn a_loop_ends_after_its_times_or_with_the_load() {
        let mut progress = Progress::new(0, at(0));
        progress.begin_loop(0);
        progress.end_loop(0, 1, Some(2), false);
        assert_eq!(progress.position(), 1);
        progress.end_loop(0, 1, Some(2), false);
        assert_eq!(progress.position(), 2);
        progress.end_loop(0, 1, None, false);
        assert_eq!(progress.position(), 1);
        progress.end_loop(0, 1, None, true);
        assert_eq!(progress.position(), 2);
    }
}
