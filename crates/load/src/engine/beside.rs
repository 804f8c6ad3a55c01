//! A poll that waits beside the steps of its user, as a page in a browser does.
//!
//! The poll has a record of its own in the slab, with its own connection and timeout. It has the
//! number of its user, and stays at the position of its step. Both records name each other, so that
//! both end together: the poll when the session ends, and the user when its poll fails.

use watchfire_types::Instant;

use super::Engine;
use super::script::Turn;
use super::user::{Beside, Connection, User, Waiting};
use crate::http::Response;
use crate::scenario::{Op, Poll};

impl Engine<'_> {
    /// Begins to poll. The poll takes over the connection of the user; a later request of the user
    /// opens another one.
    pub(super) fn begin_beside(&mut self, index: usize) -> Turn {
        let now = self.clock.now();
        let User { number, session, target, position, .. } = self.users[index];
        self.users[index].position += 1;
        let mut poll = User::new(number, now, session, target);
        poll.position = position;
        let at = self.users.insert(poll);
        self.polls_beside += 1;
        self.connected += 1;
        self.connected_peak = self.connected_peak.max(self.connected);
        let memory = self.memory(index);
        memory.beside = Some(Beside::Poll(at as u32));
        let (values, cookies) = (memory.values.clone(), memory.cookies.clone());
        let memory = self.memory(at);
        memory.beside = Some(Beside::User(index as u32));
        (memory.values, memory.cookies) = (values, cookies);
        self.take_over_connection(index, at);
        if self.users.contains(at) {
            self.poll_beside(at, now);
        }
        Turn::Next
    }

    fn take_over_connection(&mut self, index: usize, at: usize) {
        let user = &mut self.users[index];
        if user.connection != Connection::Http {
            return;
        }
        let Some(socket) = user.socket.take() else { return };
        // The socket gets the key of its new record.
        let _ = rustix::event::epoll::delete(&self.epoll, &socket);
        let (tls, address) = (user.tls.take(), user.address);
        self.drop_socket(index);
        let poll = &mut self.users[at];
        (poll.socket, poll.tls, poll.address) = (Some(socket), tls, address);
        poll.connection = Connection::Http;
        self.watch(at);
    }

    fn poll_beside(&mut self, at: usize, now: Instant) {
        let poll = &mut self.users[at];
        (poll.due, poll.begun) = (now, now);
        poll.waiting = Waiting::Response;
        if let Some(Op::PollBeside(op)) = self.op(&self.users[at]) {
            let timeout = self.poll_timeout(&self.users[at], op);
            self.arm(at, timeout);
        }
        self.send_or_connect(at);
    }

    /// Handles the answer to a poll: counts it, gives it to a step of the user that waits for it,
    /// and polls again.
    pub(super) fn handle_beside(&mut self, at: usize, poll: &Poll, response: &Response<'_>) {
        if let Some(failure) = self.check_response(at, &poll.request, response) {
            return self.fail(at, failure);
        }
        self.delivered(at, &response.body, !response.body.is_empty());
        self.measure(at, poll.request.step);
        let number = self.users[at].number;
        self.poll_beside(at, self.clock.now());
        if self.has_user(at, number) {
            let user = self.user_of(at);
            if self.is_wanted(user, &response.body) {
                self.complete_message(user, &response.body);
            }
        }
    }

    /// The slot of the user of this record.
    pub(super) fn user_of(&self, index: usize) -> usize {
        let memory = self.users[index].memory.as_ref();
        match memory.and_then(|memory| memory.beside) {
            Some(Beside::User(user)) => user as usize,
            Some(Beside::Poll(_)) | None => index,
        }
    }

    /// Ends the poll of a user that has ended.
    pub(super) fn end_beside(&mut self, beside: Option<Beside>) {
        if let Some(Beside::Poll(at)) = beside {
            let at = at as usize;
            self.drop_socket(at);
            self.users.remove(at);
            self.polls_beside -= 1;
            self.connected -= 1;
        }
    }
}
