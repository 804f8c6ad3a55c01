//! Begins and ends the steps of users: one after another, until one must wait.
//!
//! A user executes at most 100 operations in one turn, so that a user in a fast loop does not make
//! others late.

use std::time::Duration;

use watchfire_types::Instant;

use super::pages::{self, Outgoing};
use super::progress::Waiting;
use super::reconnect::{Break, another_target};
use super::script::Next;
use super::wire::{Connection, Key, RateLimit};
use super::{Engine, millis};
use crate::failure::Failure;
use crate::frame::Opcode;
use crate::scenario::{
    Answer, ChangeProtocol, Connect, Content, Effect, Http, Mark, Message, Op, PageFiles,
    PageVisit, Poll, Rate, Send, StepId, Text, Wanted,
};

/// The most operations of one user in one turn.
const OPS_PER_TURN: usize = 100;
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
                Turn::Next if self.users.has(index, number) => {}
                Turn::Next | Turn::Wait => return,
            }
        }
        // A loop without waits would delay all other users, so the user continues in a later turn.
        self.users.wake_at(index, self.clock.now());
    }

    pub(super) fn op(&self, index: usize) -> Option<&'a Op> {
        self.users[index].progress.op(self.scenario)
    }

    /// The id of the current step for the results.
    pub(super) fn step(&self, index: usize) -> Option<StepId> {
        self.users[index].progress.step(self.scenario)
    }

    fn begin(&mut self, index: usize) -> Turn {
        let Some(op) = self.op(index) else {
            self.end_session(index);
            return Turn::Wait;
        };
        match op {
            Op::Think(think) => {
                self.note_returned(index);
                let user = &mut self.users[index];
                let time = self.script.think_time(user, think.time);
                if think.is_after_reply {
                    user.progress.count_think_time_from(self.clock.now());
                }
                self.pause(index, time)
            }
            Op::Stay(period) => {
                self.note_returned(index);
                match period {
                    Some(period) => self.pause(index, *period),
                    None if self.users.is_over() => self.next_op(index),
                    None => self.wait(index, Waiting::Over),
                }
            }
            Op::Expect { .. } => {
                self.users[index].progress.begin(self.clock.now());
                self.arm(index, self.scenario.step_timeout);
                self.wait(index, Waiting::Message)
            }
            Op::Listen => self.wait(index, Waiting::Message),
            Op::Meet => self.meet(index),
            Op::Connect(connect) => self.begin_connect(index, connect),
            Op::Http(http) => self.begin_http(index, http),
            Op::Poll(poll) => {
                let timeout = self.poll_timeout(index, poll);
                self.begin_exchange(index, Waiting::Response, timeout)
            }
            Op::BackgroundPoll(_) => self.begin_background_poll(index),
            Op::Files(files) => self.begin_files(index, files),
            Op::Page(visit) => self.begin_page(index, visit),
            Op::Send(send) => self.begin_send(index, send),
            Op::Disconnect { step, is_abrupt } => self.begin_disconnect(index, *step, *is_abrupt),
            Op::ChangeProtocol(change) => self.change_protocol(index, *change),
            Op::LimitRate(rate) => {
                self.limit_rate(index, *rate);
                self.next_op(index)
            }
            Op::Abort { is_whole_load } => {
                self.is_aborted |= is_whole_load;
                self.end_session(index);
                Turn::Wait
            }
            _ => {
                let (is_over, now) = (self.users.is_over(), self.clock.now());
                let user = &mut self.users[index];
                self.script.step(user, op, is_over, now, &mut self.reports);
                Turn::Next
            }
        }
    }

    fn next_op(&mut self, index: usize) -> Turn {
        self.users[index].progress.go_on();
        Turn::Next
    }

    fn wait(&mut self, index: usize, waiting: Waiting) -> Turn {
        self.users[index].progress.wait_for(waiting);
        Turn::Wait
    }

    /// Sets the deadline of the current step.
    pub(super) fn arm(&mut self, index: usize, timeout: Duration) {
        self.users[index].progress.arm(self.clock.now() + timeout);
    }

    fn pause(&mut self, index: usize, time: Duration) -> Turn {
        let at = self.users[index].progress.pause(time, &mut self.reports);
        if at <= self.clock.now() {
            return Turn::Next;
        }
        self.users.wake_at(index, at);
        Turn::Wait
    }

    fn meet(&mut self, index: usize) -> Turn {
        let user = &mut self.users[index];
        user.progress.end_page(&mut self.reports);
        user.progress.wait_for(Waiting::Others);
        if self.meeting.join(index, user.number, self.clock.now()) {
            self.end_meeting();
        }
        Turn::Wait
    }

    pub(super) fn end_meeting(&mut self) {
        let now = self.clock.now();
        for (index, number) in self.meeting.end() {
            // A user may have ended since it came, and another one may have its slot.
            if self.users.has(index, number)
                && self.users[index].progress.waiting() == Waiting::Others
            {
                let progress = &mut self.users[index].progress;
                progress.go_on();
                progress.count_from(now);
                self.users.wake_at(index, now);
            }
        }
    }

    pub(super) fn limit_rate(&mut self, index: usize, rate: Rate) {
        let limit = RateLimit::new(rate, self.clock.now());
        self.users[index].memory(self.scenario).rate_limit = Some(limit);
    }

    fn begin_connect(&mut self, index: usize, connect: &Connect) -> Turn {
        self.users[index].channel.prepare(connect.serializer, connect.heartbeat);
        self.begin_exchange(index, Waiting::Open, self.scenario.step_timeout)
    }

    fn begin_http(&mut self, index: usize, http: &Http) -> Turn {
        let user = &mut self.users[index];
        if http.files.is_some()
            && let Some(memory) = &mut user.memory
        {
            // An error may have left those of the page before.
            memory.files = None;
        }
        match self.script.server_of(user, http) {
            Err(()) => {
                user.progress.begin(self.clock.now());
                self.complete_with_error(index, Failure::UnknownServer);
                return Turn::Wait;
            }
            Ok(Some(target)) if target != user.connection.target() => {
                self.drop_socket(index);
                self.users[index].connection.set_target(target);
            }
            Ok(_) => {}
        }
        self.begin_exchange(index, Waiting::Response, self.timeout(http))
    }

    fn begin_files(&mut self, index: usize, files: &PageFiles) -> Turn {
        if self.next_file(index).is_some() {
            return self.begin_exchange(index, Waiting::Response, self.timeout(&files.request));
        }
        let user = &mut self.users[index];
        // A page with a wrong answer has no files to measure.
        if let Some(page) = user.memory.as_mut().and_then(|memory| memory.files.take()) {
            user.progress.begin(page.begun());
            user.progress.measure(files.request.step, self.clock.now(), &mut self.reports);
        }
        self.next_op(index)
    }

    /// The path of the next file of a web page.
    fn next_file(&self, index: usize) -> Option<Text> {
        let files = self.users[index].memory.as_ref()?.files.as_ref()?;
        files.next().map(|path| Text::literal(&path))
    }

    fn begin_page(&mut self, index: usize, visit: &PageVisit) -> Turn {
        let (begun, join) = self.pages.join(visit);
        let user = &mut self.users[index];
        user.progress.begin(self.clock.now());
        user.memory(self.scenario).visit = Some(Box::new(begun));
        user.progress.wait_for(Waiting::Message);
        self.arm(index, self.scenario.step_timeout);
        self.send_outgoing(index, &join);
        Turn::Wait
    }

    fn begin_send(&mut self, index: usize, send: &Send) -> Turn {
        self.users[index].progress.begin(self.clock.now());
        if !self.send_written(index, |engine, out| engine.write_message(index, send, out)) {
            return Turn::Wait;
        }
        if matches!(send.wanted, Wanted::Nothing) {
            let now = self.clock.now();
            self.users[index].progress.measure(send.step, now, &mut self.reports);
            return self.next_op(index);
        }
        self.arm(index, self.scenario.step_timeout);
        self.wait(index, Waiting::Message)
    }

    fn begin_disconnect(&mut self, index: usize, step: Option<StepId>, is_abrupt: bool) -> Turn {
        self.users[index].progress.begin(self.clock.now());
        if !is_abrupt {
            self.send_close(index);
            return Turn::Wait;
        }
        self.drop_socket(index);
        if let Some(step) = step {
            self.users[index].progress.measure(step, self.clock.now(), &mut self.reports);
        }
        self.next_op(index)
    }

    /// Continues with another protocol. Its connection may be one that was kept.
    fn change_protocol(&mut self, index: usize, change: ChangeProtocol) -> Turn {
        let number = self.users[index].number;
        let taken = match change.stores {
            true => self.wire.take(&mut self.users[index].connection),
            false => None,
        };
        self.drop_socket(index);
        let user = &mut self.users[index];
        user.connection.set_target(change.target);
        if let Some(taken) = taken {
            let kept = &mut user.memory(self.scenario).kept[usize::from(change.from)];
            let replaced = kept.replace(taken);
            self.close_kept(replaced);
        }
        let user = &mut self.users[index];
        if change.restores
            && let Some(kept) = user.memory(self.scenario).kept[usize::from(change.to)].take()
        {
            user.connection.restore(kept);
            // Data that the server has sent meanwhile is reported now.
            self.watch(index);
        }
        if self.users.has(index, number) { self.next_op(index) } else { Turn::Wait }
    }

    fn close_kept(&mut self, kept: Option<Connection>) {
        if let Some(mut kept) = kept {
            self.wire.close(&mut kept);
        }
    }

    /// Sends the request of the current step, over a new connection if there is none. The response
    /// completes the step.
    fn begin_exchange(&mut self, index: usize, waiting: Waiting, timeout: Duration) -> Turn {
        let now = self.clock.now();
        let progress = &mut self.users[index].progress;
        progress.begin(now);
        progress.wait_for(waiting);
        progress.arm(now + timeout);
        self.send_or_connect(index);
        Turn::Wait
    }

    /// The timeout for the response to a request.
    fn timeout(&self, request: &Http) -> Duration {
        request.timeout.unwrap_or(self.scenario.step_timeout)
    }

    /// The timeout for a response, at most until the end of polling.
    pub(super) fn poll_timeout(&self, index: usize, poll: &Poll) -> Duration {
        let timeout = self.timeout(&poll.request);
        let due = self.users[index].progress.due();
        let left = poll.period.map(|period| (due + period).since(self.clock.now()));
        timeout.min(left.unwrap_or(timeout))
    }

    /// Sends the request of the current step, over the existing connection or a new one.
    pub(super) fn send_or_connect(&mut self, index: usize) {
        let user = &mut self.users[index];
        if user.connection.accepts_requests() && user.progress.waiting() != Waiting::Open {
            return self.send_request(index);
        }
        user.connection.forget_tried();
        self.connect(index);
    }

    /// Sends the request of the current step over a new connection to the next address of the
    /// server.
    pub(super) fn connect(&mut self, index: usize) {
        self.drop_socket(index);
        let user = &mut self.users[index];
        let number = user.number;
        match self.wire.connect(&mut user.connection, number) {
            Ok(()) => {
                // On loopback the socket is connected immediately and accepts the bytes. Otherwise they
                // are queued.
                self.send_request(index);
                if self.users.has(index, number) {
                    self.watch(index);
                }
            }
            Err(failure) => self.handle_broken(index, failure),
        }
    }

    pub(super) fn watch(&mut self, index: usize) {
        let user = &mut self.users[index];
        if let Err(failure) = self.wire.watch(&mut user.connection, Key::new(user.number, index)) {
            self.fail(index, failure);
        }
    }

    /// Sends the request of the current step over the current connection.
    fn send_request(&mut self, index: usize) {
        let mut buffer = std::mem::take(&mut self.message_buffer);
        buffer.clear();
        let op = self.op(index).expect("a step has an operation");
        let user = &self.users[index];
        let is_upgrade = match op {
            Op::Connect(connect) => {
                self.script.write_upgrade(user, connect, &mut buffer);
                true
            }
            Op::Files(files) => {
                let path = self.next_file(index).expect("a file is requested only if there is one");
                self.script.write_request(user, &files.request, &path, &mut buffer);
                false
            }
            op => {
                let http = op.request().expect("no other operation needs a connection");
                self.script.write_request(user, http, &http.path, &mut buffer);
                false
            }
        };
        let user = &mut self.users[index];
        user.connection.expect_response(is_upgrade);
        let key = Key::new(user.number, index);
        let sent = self.wire.write(&mut user.connection, key, &buffer);
        self.message_buffer = buffer;
        self.is_sent(index, sent);
    }

    /// Writes a message, and returns its kind.
    fn write_message(&mut self, index: usize, send: &Send, out: &mut Vec<u8>) -> Opcode {
        let user = &mut self.users[index];
        let audience = match send.effect {
            Effect::Leaves(audience) => {
                // Before the message is sent: the server may stop deliveries when it reads it.
                self.reports.leave(&mut user.memberships, audience);
                None
            }
            Effect::Addresses(audience) => {
                Some(audience).filter(|_| self.reports.takes_broadcast())
            }
            Effect::Joins(_) | Effect::Nothing => None,
        };
        let mark = match audience {
            Some(_) => Mark::Broadcast(user.number),
            None if send.is_in_order => {
                Mark::Numbered(user.number, user.memory(self.scenario).order.next_number())
            }
            None => Mark::Nothing,
        };
        let now = self.script.time_of_messages();
        if let Some(audience) = audience {
            self.reports.sent((send.step, audience), user.number, now, self.clock.now());
        }
        match &send.message {
            Message::Raw { text, is_binary } => {
                text.write(&self.script.text_context_at(user, now, mark), out);
                if *is_binary { Opcode::Binary } else { Opcode::Text }
            }
            Message::Push { join_ref, is_join, topic, event, payload } => {
                let refs = [*join_ref, user.channel.next_reference(*join_ref, *is_join)];
                let context = self.script.text_context_at(user, now, mark);
                user.channel.write_push(refs, [topic, event, payload], &context, out);
                Opcode::Text
            }
        }
    }

    pub(super) fn send_outgoing(&mut self, index: usize, outgoing: &Outgoing<'_>) -> bool {
        self.send_written(index, |_, out| outgoing.write(out))
    }

    /// Sends the message that `write` puts into a buffer that all users share.
    fn send_written(
        &mut self,
        index: usize,
        write: impl FnOnce(&mut Self, &mut Vec<u8>) -> Opcode,
    ) -> bool {
        let mut buffer = std::mem::take(&mut self.message_buffer);
        buffer.clear();
        let opcode = write(self, &mut buffer);
        let is_sent = self.send_frame(index, opcode, &buffer);
        self.message_buffer = buffer;
        is_sent
    }

    /// Closes the websocket, if it is open; the step is done when the connection has ended. The server closes it, so
    /// that the TIME_WAIT state is on its side, not here.
    fn send_close(&mut self, index: usize) {
        let user = &mut self.users[index];
        if !user.connection.is_open() {
            return self.handle_closed(index);
        }
        user.connection.begin_closing();
        user.progress.wait_for(Waiting::Closed);
        user.channel.close();
        self.arm(index, CLOSE_TIMEOUT);
        self.send_frame(index, Opcode::Close, &1000_u16.to_be_bytes());
    }

    /// Sends one frame; `false` when that ended the user.
    pub(super) fn send_frame(&mut self, index: usize, opcode: Opcode, payload: &[u8]) -> bool {
        let user = &mut self.users[index];
        let key = Key::new(user.number, index);
        let sent = self.wire.send_frame(&mut user.connection, key, opcode, payload);
        self.is_sent(index, sent)
    }

    fn is_sent(&mut self, index: usize, sent: Result<(), Failure>) -> bool {
        sent.map_err(|failure| self.handle_broken(index, failure)).is_ok()
    }

    /// Completes the current step, and continues the session.
    pub(super) fn complete(&mut self, index: usize) {
        self.measure(index);
        self.continue_session(index);
    }

    fn measure(&mut self, index: usize) {
        if let Some(step) = self.step(index) {
            self.users[index].progress.measure(step, self.clock.now(), &mut self.reports);
        }
    }

    /// Completes the current step with an error. The user continues.
    pub(super) fn complete_with_error(&mut self, index: usize, failure: Failure) {
        self.reports.error(self.step(index), failure);
        self.users[index].progress.next_is_due(self.clock.now());
        self.continue_session(index);
    }

    /// Completes the current step with an answer.
    pub(super) fn complete_with(&mut self, index: usize, answer: &Answer, content: &Content<'_>) {
        if answer.is_unused() {
            return self.complete(index);
        }
        let (user, reports) = (&mut self.users[index], &mut self.reports);
        if let Err(failure) = self.script.save(user, answer, content, reports) {
            return self.complete_with_error(index, failure);
        }
        let next = self.script.check(user, answer, content, reports);
        self.measure(index);
        match next {
            Next::Step => self.continue_session(index),
            Next::At(position, pause) => self.continue_at(index, position, pause),
            Next::End => self.end_session(index),
            Next::EndOfLoad => {
                self.is_aborted = true;
                self.end_session(index);
            }
        }
    }

    fn continue_session(&mut self, index: usize) {
        let user = &mut self.users[index];
        self.wire.note_answered(&mut user.connection);
        user.progress.stop_waiting();
        user.progress.go_on();
        self.advance(index);
    }

    fn continue_at(&mut self, index: usize, position: usize, pause: Duration) {
        let progress = &mut self.users[index].progress;
        progress.stop_waiting();
        progress.go_to(position);
        if pause.is_zero() {
            return self.advance(index);
        }
        // The scenario asks for the pause, so it is no delay of the step that follows.
        let at = self.clock.now() + pause;
        progress.count_from(at);
        self.users.wake_at(index, at);
    }

    /// Ends the session of a user: it has reached its end, or one of its steps says so.
    fn end_session(&mut self, index: usize) {
        self.users[index].progress.end_session(self.clock.now(), &mut self.reports);
        self.remove(index);
    }

    /// At the end of the load, record the steps that wait for an answer since before the last phase
    /// ended, and the users that have not returned. Steps that began later have not had the whole time for an answer.
    pub(super) fn measure_unanswered(&mut self, over_at: Instant) {
        let now = self.clock.now();
        for user in self.users.iter() {
            let op = user.progress.op(self.scenario);
            let is_answer = matches!(
                (user.progress.waiting(), op),
                (Waiting::Open, _)
                    | (Waiting::Response, Some(Op::Http(_)))
                    | (Waiting::Message, Some(Op::Send(_) | Op::Page(_)))
            );
            if is_answer
                && user.progress.begun() < over_at
                && let Some(step) = user.progress.step(self.scenario)
            {
                user.progress.measure_in_vain(step, now, &mut self.reports);
            }
            let broken = user.memory.as_ref().and_then(|memory| memory.broken);
            let session = &self.scenario.sessions[user.progress.session()];
            if let (Some(broken), Some(reconnect)) = (broken, &session.reconnect) {
                self.reports.unanswered(reconnect.step, broken.at(), broken.at(), now);
            }
        }
    }

    /// Ends the user with an error, unless it connects again.
    pub(super) fn fail(&mut self, index: usize, failure: Failure) {
        let now = self.clock.now();
        let progress = &self.users[index].progress;
        let step = match progress.waiting() {
            Waiting::Time | Waiting::Over | Waiting::Others => None,
            _ => progress.step(self.scenario),
        };
        if let (Some(step), Failure::TimedOut) = (step, failure) {
            progress.measure_in_vain(step, now, &mut self.reports);
        }
        let user = self.user_of(index);
        self.script.measure_groups_in_vain(&mut self.users[user], now, &mut self.reports);
        if !self.connects_again(user, failure) {
            self.reports.failed(step, failure);
            self.remove(user);
        }
    }

    /// Lets the user connect again after a pause. `false` if its session does not ask for it, if a
    /// limit of this machine is the cause, or if the load is over.
    fn connects_again(&mut self, index: usize, failure: Failure) -> bool {
        let progress = &self.users[index].progress;
        let session = &self.scenario.sessions[progress.session()];
        let Some(reconnect) = &session.reconnect else { return false };
        if failure.limit().is_some() || self.users.is_over() {
            return false;
        }
        let done = &session.ops[..session.ops.len().min(progress.position() + 1)];
        let Some(connect) = done.iter().rposition(|op| matches!(op, Op::Connect(_))) else {
            return false;
        };
        self.drop_socket(index);
        self.reports.count("reconnect");
        let now = self.clock.now();
        let user = &mut self.users[index];
        let broken = user.memory(self.scenario).broken.get_or_insert(Break::new(now));
        let (attempt, pause) = broken.next_attempt(&reconnect.pauses);
        let target = user.connection.target();
        let target = another_target(&self.scenario.targets, target, user.number, attempt);
        user.connection.set_target(target);
        user.progress.go_to(connect);
        user.progress.count_from(now + pause);
        user.progress.stop_waiting();
        self.users.wake_at(index, now + pause);
        true
    }

    /// A user that has connected again does its next wait, so it has returned.
    fn note_returned(&mut self, index: usize) {
        let user = &mut self.users[index];
        let Some(broken) = user.memory.as_mut().and_then(|memory| memory.broken.take()) else {
            return;
        };
        let session = &self.scenario.sessions[user.progress.session()];
        if let Some(reconnect) = &session.reconnect {
            self.reports.step(reconnect.step, broken.at(), broken.at(), self.clock.now());
        }
    }

    fn remove(&mut self, index: usize) {
        self.drop_socket(index);
        let Some(memory) = self.users.remove(index).memory else { return };
        memory.kept.into_iter().for_each(|kept| self.close_kept(kept));
        self.end_background_poll(memory.companion);
    }

    /// Closes the socket without a close frame, and drops its unread bytes.
    pub(super) fn drop_socket(&mut self, index: usize) {
        let user = &mut self.users[index];
        self.wire.close(&mut user.connection);
        self.reports.leave_all(&mut user.memberships);
        user.channel.close();
        self.leave_page(index);
    }

    /// The user is on its page no more, if it was on one.
    pub(super) fn leave_page(&mut self, index: usize) {
        let memory = self.users[index].memory.as_mut();
        if let Some(visit) = memory.and_then(|memory| memory.visit.take()) {
            self.pages.leave(&visit);
        }
    }

    /// Completes the step after the server has closed the connection.
    pub(super) fn handle_closed(&mut self, index: usize) {
        self.drop_socket(index);
        self.complete(index);
    }

    pub(super) fn time_out(&mut self, index: usize) {
        let is_poll_over = self.is_poll_over(index);
        let user = &mut self.users[index];
        user.progress.disarm();
        if user.connection.is_closing() {
            // The server did not close the connection in time.
            self.handle_closed(index);
        } else if is_poll_over {
            self.drop_socket(index);
            self.complete(index);
        } else if !self.tries_next_peer(index) {
            self.wire.note_failed(&self.users[index].connection);
            self.fail(index, Failure::TimedOut);
        }
    }

    /// Whether the period of polling has ended without a response.
    fn is_poll_over(&self, index: usize) -> bool {
        let Some(Op::Poll(poll)) = self.op(index) else { return false };
        let progress = &self.users[index].progress;
        let is_over = |period| millis(self.clock.now()) >= millis(progress.due() + period);
        progress.waiting() == Waiting::Response && poll.period.is_some_and(is_over)
    }

    /// Asks another peer for the page after a timeout; `false` if the step has timed out as a
    /// whole.
    fn tries_next_peer(&mut self, index: usize) -> bool {
        let user = &mut self.users[index];
        let over_at = user.progress.begun() + self.scenario.step_timeout;
        if self.clock.now() >= over_at {
            return false;
        }
        let Some(visit) = user.visit() else { return false };
        let Some((outgoing, _)) = self.pages.retry(visit) else { return false };
        self.reports.count("page_retry");
        self.arm(index, pages::PEER_TIMEOUT);
        if let Some(outgoing) = outgoing {
            self.send_outgoing(index, &outgoing);
        }
        true
    }
}
