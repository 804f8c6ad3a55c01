//! Executes the session of a user: one operation after another, until one must wait. Each step is
//! measured from the time it was due, which avoids coordinated omission.
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
//! Each user has two times in its record, and each step is recorded twice (`Engine::measure`):
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
//!
//! # The bounds
//!
//! A user executes at most 100 operations in one turn, so that a user in a fast loop does not make
//! others late.

use std::time::Duration;

use watchfire_types::Instant;

use super::user::{Connection, NEVER, User, Waiting};
use super::{Engine, micros, micros_since, millis};
use crate::failure::Failure;
use crate::sampling::exponential;
use crate::scenario::{Connect, Http, Op, Send, StepId, ThinkTime, Wanted, whole_url};

/// The most operations of one user in one turn.
const OPS_PER_TURN: usize = 100;
/// The longest think time that a variable can ask for.
const THINK_TIME_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// Time limit for a server to close its side of a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of an operation.
pub(super) enum Turn {
    Next,
    Wait,
}

impl<'a> Engine<'a> {
    /// Continues the session until an operation must wait, or until its end.
    pub(super) fn advance(&mut self, index: usize) {
        let number = self.users[index].number;
        for _ in 0..OPS_PER_TURN {
            match self.begin(index) {
                // An operation can end the user, and a new user may have the slot already.
                Turn::Next if self.has_user(index, number) => {}
                Turn::Next | Turn::Wait => return,
            }
        }
        // A loop without waits would delay all other users, so the user continues in a later turn.
        self.wake_at(index, self.clock.now());
    }

    pub(super) fn op(&self, user: &User) -> Option<&'a Op> {
        let session = &self.scenario.sessions[usize::from(user.session)];
        session.ops.get(usize::from(user.position))
    }

    fn begin(&mut self, index: usize) -> Turn {
        let Some(op) = self.op(&self.users[index]) else {
            self.end_session(index);
            return Turn::Wait;
        };
        if matches!(op, Op::Think(_) | Op::Stay(_)) {
            self.note_returned(index);
        }
        match op {
            Op::Think(think) => {
                let time = self.think_time(index, think.time);
                if think.is_after_reply {
                    self.users[index].anchor = self.clock.now();
                }
                self.pause(index, time)
            }
            Op::Stay(Some(period)) => self.pause(index, *period),
            Op::Stay(None) if self.is_over() => self.next_op(index),
            Op::Stay(None) => self.wait(index, Waiting::Over),
            Op::LoopBegin { depth } => {
                self.users[index].counters[*depth] = 0;
                self.next_op(index)
            }
            Op::LoopEnd { depth, begin, times } => self.repeat_loop(index, *depth, *begin, *times),
            Op::Expect { .. } => {
                self.users[index].begun = self.clock.now();
                self.arm(index, self.scenario.step_timeout);
                self.wait(index, Waiting::Message)
            }
            Op::Connect(connect) => self.begin_connect(index, connect),
            Op::Http(http) => self.begin_http(index, http),
            Op::Poll(poll) => {
                let timeout = self.poll_timeout(&self.users[index], poll);
                self.begin_exchange(index, Waiting::Response, timeout)
            }
            Op::PollBeside(_) => self.begin_beside(index),
            Op::Files(files) => self.begin_files(index, files),
            Op::Page(visit) => self.begin_page(index, visit),
            Op::Send(send) => self.begin_send(index, send),
            Op::Disconnect { step, is_abrupt } => self.begin_disconnect(index, *step, *is_abrupt),
            _ => self.begin_flow(index, op),
        }
    }

    fn begin_connect(&mut self, index: usize, connect: &Connect) -> Turn {
        let user = &mut self.users[index];
        user.serializer = connect.serializer;
        user.heartbeat_seconds = connect
            .heartbeat
            .map_or(0, |period| u16::try_from(period.as_secs().max(1)).unwrap_or(u16::MAX));
        self.begin_exchange(index, Waiting::Open, self.scenario.step_timeout)
    }

    fn begin_http(&mut self, index: usize, http: &Http) -> Turn {
        if http.files.is_some() {
            self.forget_files(index);
        }
        if !self.choose_server(index, http) {
            self.users[index].begun = self.clock.now();
            self.complete_with_error(index, Failure::UnknownServer);
            return Turn::Wait;
        }
        self.begin_exchange(index, Waiting::Response, self.timeout(http))
    }

    fn begin_send(&mut self, index: usize, send: &Send) -> Turn {
        self.users[index].begun = self.clock.now();
        if !self.send_message(index, send) {
            return Turn::Wait;
        }
        if matches!(send.wanted, Wanted::Nothing) {
            self.measure(index, send.step);
            return self.next_op(index);
        }
        self.arm(index, self.scenario.step_timeout);
        self.wait(index, Waiting::Message)
    }

    fn begin_disconnect(&mut self, index: usize, step: Option<StepId>, is_abrupt: bool) -> Turn {
        self.users[index].begun = self.clock.now();
        if !is_abrupt {
            self.send_close(index);
            return Turn::Wait;
        }
        self.drop_socket(index);
        if let Some(step) = step {
            self.measure(index, step);
        }
        self.next_op(index)
    }

    /// Continues with the server that a request names, if it names one; `false` if it is unknown.
    fn choose_server(&mut self, index: usize, http: &Http) -> bool {
        let user = &self.users[index];
        let target = match http.target {
            Some(target) => Some(target),
            None if !http.path.begins_with_value() => return true,
            None => {
                let url = http.path.to_string(&self.text_context(user));
                let Some((server, _)) = whole_url(&url) else { return true };
                self.scenario.target_of(server)
            }
        };
        match target {
            Some(target) if target != user.target => {
                self.drop_socket(index);
                self.users[index].target = target;
            }
            Some(_) => {}
            None => return false,
        }
        true
    }

    /// Sends the request of the current step, over a new connection if there is none. The response
    /// completes the step.
    pub(super) fn begin_exchange(
        &mut self,
        index: usize,
        waiting: Waiting,
        timeout: Duration,
    ) -> Turn {
        self.users[index].begun = self.clock.now();
        self.users[index].waiting = waiting;
        self.arm(index, timeout);
        self.send_or_connect(index);
        Turn::Wait
    }

    fn think_time(&mut self, index: usize, time: ThinkTime) -> Duration {
        match time {
            ThinkTime::Variable(slot) => {
                let seconds =
                    self.value_text(index, slot).and_then(|text| text.trim().parse().ok());
                let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                time.unwrap_or_default().min(THINK_TIME_MAX)
            }
            ThinkTime::Fixed(time) => time,
            ThinkTime::Uniform(min, max) => min + (max - min).mul_f64(self.rng.fraction()),
            ThinkTime::Exponential(mean) => mean.mul_f64(exponential(&mut self.rng)),
        }
    }

    /// Think times count from the arrival of the user: a slow response does not delay when the next
    /// step is due.
    fn pause(&mut self, index: usize, time: Duration) -> Turn {
        if !time.is_zero() {
            self.end_page(index);
        }
        let user = &mut self.users[index];
        user.anchor += time;
        user.due = user.anchor;
        user.position += 1;
        if user.anchor <= self.clock.now() {
            return Turn::Next;
        }
        let at = user.anchor;
        self.wake_at(index, at);
        Turn::Wait
    }

    fn repeat_loop(
        &mut self,
        index: usize,
        depth: usize,
        begin: usize,
        times: Option<u32>,
    ) -> Turn {
        let is_over = self.is_over();
        let user = &mut self.users[index];
        user.counters[depth] = user.counters[depth].saturating_add(1);
        let is_done = times.map_or(is_over, |times| user.counters[depth] >= times);
        user.position = if is_done { user.position + 1 } else { begin as u16 };
        Turn::Next
    }

    pub(super) fn next_op(&mut self, index: usize) -> Turn {
        self.users[index].position += 1;
        Turn::Next
    }

    pub(super) fn wait(&mut self, index: usize, waiting: Waiting) -> Turn {
        self.users[index].waiting = waiting;
        Turn::Wait
    }

    /// Sets the deadline of the current step.
    pub(super) fn arm(&mut self, index: usize, timeout: Duration) {
        // Rounded up: a step that times out has waited for the whole time.
        self.users[index].times_out_at = millis(self.clock.now() + timeout) + 1;
    }

    /// Records the times of a finished step, since it was due and since it began.
    pub(super) fn measure(&mut self, index: usize, step: StepId) -> Instant {
        let now = self.clock.now();
        let user = &mut self.users[index];
        self.tally.step(step, user.due, user.begun, now);
        if !std::mem::replace(&mut user.has_page, true) {
            user.page_due = micros(user.due);
        }
        user.due = now;
        now
    }

    /// Records the steps since the last think time as a page, if there were any.
    pub(super) fn end_page(&mut self, index: usize) {
        let user = &mut self.users[index];
        if std::mem::take(&mut user.has_page) {
            self.tally.stages.page.record(micros_since(user.page_due, user.due));
        }
    }

    /// Records the time that a step has waited in vain. Without it, the slowest answers would be
    /// missing from the times of their step.
    fn measure_in_vain(&mut self, index: usize, step: StepId) {
        let now = self.clock.now();
        let user = &self.users[index];
        self.tally.unanswered(step, now.since(user.due), now.since(user.begun));
    }

    /// At the end of the load, record the steps that wait for an answer since before the last phase
    /// ended. Those that began later have not had the whole time for an answer.
    pub(super) fn measure_unanswered(&mut self, over_at: Instant) {
        let waiting = |(index, user): (usize, &User)| {
            let is_answer = matches!(
                (user.waiting, self.op(user)),
                (Waiting::Open, _)
                    | (Waiting::Response, Some(Op::Http(_)))
                    | (Waiting::Message, Some(Op::Send(_) | Op::Page(_)))
            );
            (is_answer && user.begun < over_at).then_some(index)
        };
        let waiting: Vec<usize> = self.users.iter().filter_map(waiting).collect();
        for index in waiting {
            if let Some(step) = self.step(index) {
                self.measure_in_vain(index, step);
            }
        }
        self.measure_unreturned();
    }

    /// Completes the current step, and continues the session.
    pub(super) fn complete(&mut self, index: usize) {
        if let Some(step) = self.step(index) {
            self.measure(index, step);
        }
        self.continue_session(index);
    }

    /// Completes the current step with an error. The user continues.
    pub(super) fn complete_with_error(&mut self, index: usize, failure: Failure) {
        self.tally.error(self.step(index), failure);
        self.users[index].due = self.clock.now();
        self.continue_session(index);
    }

    pub(super) fn continue_session(&mut self, index: usize) {
        self.note_opened(index);
        let user = &mut self.users[index];
        user.waiting = Waiting::Nothing;
        user.times_out_at = NEVER;
        user.position += 1;
        self.advance(index);
    }

    /// The id of the current step for the results.
    pub(super) fn step(&self, index: usize) -> Option<StepId> {
        match self.op(&self.users[index])? {
            Op::Connect(connect) => Some(connect.step),
            Op::Send(send) => Some(send.step),
            Op::Expect { step, .. } => Some(*step),
            Op::Page(visit) => Some(visit.step),
            Op::Disconnect { step, .. } => *step,
            op => op.request().map(|request| request.step),
        }
    }

    /// Ends the user with an error, unless it connects again.
    pub(super) fn fail(&mut self, index: usize, failure: Failure) {
        let step = match self.users[index].waiting {
            Waiting::Time | Waiting::Over | Waiting::Others => None,
            _ => self.step(index),
        };
        if let (Some(step), Failure::TimedOut) = (step, failure) {
            self.measure_in_vain(index, step);
        }
        let user = self.user_of(index);
        self.measure_groups_in_vain(user);
        if self.connects_again(user, failure) {
            return;
        }
        self.tally.error(step, failure);
        self.tally.counts.failed += 1;
        self.remove(user);
    }

    pub(super) fn remove(&mut self, index: usize) {
        self.drop_socket(index);
        let Some(memory) = self.users.remove(index).memory else { return };
        memory.kept.into_iter().for_each(|kept| self.note_dropped(kept));
        self.end_beside(memory.beside);
    }

    /// Closes the socket without a close frame, and drops its unread bytes.
    pub(super) fn drop_socket(&mut self, index: usize) {
        let user = &mut self.users[index];
        if matches!(user.connection, Connection::Open | Connection::Closing) {
            self.connected -= 1;
        }
        user.socket = None;
        user.tls = None;
        self.note_opened(index);
        self.end_visit(index);
        if self.users[index].audiences != 0 {
            (0..self.audiences.len())
                .for_each(|audience| self.leave_audience(index, audience as u8));
        }
        let user = &mut self.users[index];
        user.socket_serial = user.socket_serial.wrapping_add(1);
        user.connection = Connection::None;
        user.is_connecting = false;
        user.inbox = None;
        user.outbox = None;
        user.heartbeat_at = NEVER;
        user.is_heartbeat_unanswered = false;
        user.is_watched = false;
        user.is_write_watched = false;
    }

    /// After the close frame, wait until the server closes the connection. Then the TIME_WAIT state
    /// is on the side of the server, not here.
    pub(super) fn await_close(&mut self, index: usize) {
        self.users[index].connection = Connection::Closing;
        self.users[index].waiting = Waiting::Closed;
        self.users[index].heartbeat_at = NEVER;
        self.arm(index, CLOSE_TIMEOUT);
    }

    /// Completes the step after the server has closed the connection.
    pub(super) fn handle_closed(&mut self, index: usize) {
        self.drop_socket(index);
        self.complete(index);
    }
}
