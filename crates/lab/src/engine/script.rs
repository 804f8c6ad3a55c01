//! A user goes through its session: one operation after another, until one must wait.

use std::time::Duration;

use vocab::Instant;

use super::user::{Connection, NEVER, User, Waiting};
use super::{Engine, millis};
use crate::failure::Failure;
use crate::scenario::{Op, StepId, ThinkTime, Wanted};

/// Operations of one user before others have their turn.
const OPS_A_TURN: usize = 100;
/// How long a server may take to end a connection that we closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How an operation went.
enum Turn {
    Next,
    Wait,
}

impl<'a> Engine<'a> {
    /// Go on with the session until something has to be waited for, or it is over.
    pub(super) fn advance(&mut self, index: usize) {
        let number = self.users[index].number;
        for _ in 0..OPS_A_TURN {
            match self.begin(index) {
                Turn::Next if self.is_there(index, number) => {}
                Turn::Next | Turn::Wait => return,
            }
        }
        self.wake_at(index, self.clock.now());
    }

    pub(super) fn op(&self, user: &User) -> Option<&'a Op> {
        let session = &self.scenario.sessions[usize::from(user.session)];
        session.ops.get(usize::from(user.place))
    }

    fn begin(&mut self, index: usize) -> Turn {
        let Some(op) = self.op(&self.users[index]) else {
            self.tally.counts.finished += 1;
            self.remove(index);
            return Turn::Wait;
        };
        match op {
            Op::Think(think) => {
                let time = self.draw(think.time);
                if think.is_after_answer {
                    self.users[index].anchor = self.clock.now();
                }
                self.pause(index, time)
            }
            Op::Stay(Some(period)) => self.pause(index, *period),
            Op::Stay(None) if self.is_over() => self.pass(index),
            Op::Stay(None) => self.wait(index, Waiting::Over),
            Op::LoopBegin { depth } => {
                self.users[index].counters[*depth] = 0;
                self.pass(index)
            }
            Op::LoopEnd { depth, begin, times } => self.turn_back(index, *depth, *begin, *times),
            Op::Expect { .. } => {
                self.users[index].begun = self.clock.now();
                self.arm(index, self.scenario.step_timeout);
                self.wait(index, Waiting::Message)
            }
            Op::Connect(connect) => {
                let user = &mut self.users[index];
                user.serializer = connect.serializer;
                user.heartbeat_seconds = connect
                    .heartbeat
                    .map_or(0, |period| u16::try_from(period.as_secs().max(1)).unwrap_or(u16::MAX));
                self.begin_exchange(index, Waiting::Open, self.scenario.step_timeout)
            }
            Op::Http(http) => {
                let timeout = http.timeout.unwrap_or(self.scenario.step_timeout);
                self.begin_exchange(index, Waiting::Answer, timeout)
            }
            Op::Poll(poll) => {
                let timeout = self.poll_timeout(&self.users[index], poll);
                self.begin_exchange(index, Waiting::Answer, timeout)
            }
            Op::Send(send) => {
                self.users[index].begun = self.clock.now();
                if !self.say(index, send) {
                    return Turn::Wait;
                }
                if matches!(send.wanted, Wanted::Nothing) {
                    self.measure(index, send.step);
                    return self.pass(index);
                }
                self.arm(index, self.scenario.step_timeout);
                self.wait(index, Waiting::Message)
            }
            Op::Disconnect { .. } => {
                self.users[index].begun = self.clock.now();
                self.say_close(index);
                Turn::Wait
            }
        }
    }

    /// Open a connection if there is none, and ask. What waits is told by the answer.
    fn begin_exchange(&mut self, index: usize, waiting: Waiting, timeout: Duration) -> Turn {
        self.users[index].begun = self.clock.now();
        self.users[index].waiting = waiting;
        self.arm(index, timeout);
        self.ask(index);
        Turn::Wait
    }

    fn draw(&mut self, time: ThinkTime) -> Duration {
        match time {
            ThinkTime::Fixed(time) => time,
            ThinkTime::Uniform(min, max) => min + (max - min).mul_f64(self.dice.unit()),
            ThinkTime::Exponential(mean) => mean.mul_f64(self.dice.exponential()),
        }
    }

    /// Think times follow one another from the user's arrival on: a slow answer does not make the
    /// next step later due.
    fn pause(&mut self, index: usize, time: Duration) -> Turn {
        let user = &mut self.users[index];
        user.anchor += time;
        user.due = user.anchor;
        user.place += 1;
        if user.anchor <= self.clock.now() {
            return Turn::Next;
        }
        let at = user.anchor;
        self.wake_at(index, at);
        Turn::Wait
    }

    fn turn_back(&mut self, index: usize, depth: usize, begin: usize, times: Option<u32>) -> Turn {
        let is_over = self.is_over();
        let user = &mut self.users[index];
        user.counters[depth] = user.counters[depth].saturating_add(1);
        let is_done = times.map_or(is_over, |times| user.counters[depth] >= times);
        user.place = if is_done { user.place + 1 } else { begin as u16 };
        Turn::Next
    }

    fn pass(&mut self, index: usize) -> Turn {
        self.users[index].place += 1;
        Turn::Next
    }

    fn wait(&mut self, index: usize, waiting: Waiting) -> Turn {
        self.users[index].waiting = waiting;
        Turn::Wait
    }

    /// The current step must be done by then.
    pub(super) fn arm(&mut self, index: usize, timeout: Duration) {
        self.users[index].times_out_at = millis(self.clock.now() + timeout);
    }

    /// Tell both clocks' times of a step that is done now.
    fn measure(&mut self, index: usize, step: StepId) -> Instant {
        let now = self.clock.now();
        let user = &mut self.users[index];
        self.tally.step(step, now.since(user.due), now.since(user.begun));
        user.due = now;
        now
    }

    /// The current step got what it waited for.
    pub(super) fn complete(&mut self, index: usize) {
        if let Some(step) = self.step(index) {
            self.measure(index, step);
        }
        self.go_on(index);
    }

    /// The current step got an answer, and it is the wrong one. The user goes on.
    pub(super) fn complete_wrongly(&mut self, index: usize, failure: Failure) {
        self.tally.error(self.step(index), failure);
        self.users[index].due = self.clock.now();
        self.go_on(index);
    }

    fn go_on(&mut self, index: usize) {
        let user = &mut self.users[index];
        user.waiting = Waiting::Nothing;
        user.times_out_at = NEVER;
        user.place += 1;
        self.advance(index);
    }

    /// The name under which the current step is measured.
    pub(super) fn step(&self, index: usize) -> Option<StepId> {
        match self.op(&self.users[index])? {
            Op::Connect(connect) => Some(connect.step),
            Op::Send(send) => Some(send.step),
            Op::Expect { step, .. } => Some(*step),
            Op::Http(http) => Some(http.step),
            Op::Poll(poll) => Some(poll.request.step),
            Op::Disconnect { step } => *step,
            Op::Think(_) | Op::Stay(_) | Op::LoopBegin { .. } | Op::LoopEnd { .. } => None,
        }
    }

    /// Something ended the user before its session was over.
    pub(super) fn fail(&mut self, index: usize, failure: Failure) {
        let step = match self.users[index].waiting {
            Waiting::Time | Waiting::Over => None,
            _ => self.step(index),
        };
        self.tally.error(step, failure);
        self.tally.counts.failed += 1;
        self.remove(index);
    }

    fn remove(&mut self, index: usize) {
        self.drop_socket(index);
        self.users.remove(index);
    }

    /// Close the socket without a word; what came over it and was not understood is forgotten.
    pub(super) fn drop_socket(&mut self, index: usize) {
        let user = &mut self.users[index];
        if matches!(user.connection, Connection::Open | Connection::Closing) {
            self.connected -= 1;
        }
        user.socket = None;
        if user.audiences != 0 {
            (0..self.audiences.len()).for_each(|place| self.leave_audience(index, place as u8));
        }
        let user = &mut self.users[index];
        user.socket_serial = user.socket_serial.wrapping_add(1);
        user.connection = Connection::None;
        user.inbox = None;
        user.outbox = None;
        user.heartbeat_at = NEVER;
        user.is_heartbeat_unanswered = false;
        user.is_watched = false;
        user.is_write_watched = false;
    }

    /// The close frame is on its way; the server ends the connection, so that its ports wait and
    /// not ours.
    pub(super) fn await_close(&mut self, index: usize) {
        self.users[index].connection = Connection::Closing;
        self.users[index].waiting = Waiting::Closed;
        self.users[index].heartbeat_at = NEVER;
        self.arm(index, CLOSE_TIMEOUT);
    }

    /// The connection that we closed is closed.
    pub(super) fn hung_up(&mut self, index: usize) {
        self.drop_socket(index);
        self.complete(index);
    }
}
