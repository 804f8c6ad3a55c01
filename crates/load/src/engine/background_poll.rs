//! A poll that runs in the background of the steps of its user, as a page in a browser does.
//!
//! The poll has a record of its own in the slab, with its own connection and timeout. It has the
//! number of its user, and stays at the position of its step. Both records name each other, so that
//! both end together: the poll when the session ends, and the user when its poll fails.

use watchfire_types::Instant;

use super::progress::Waiting;
use super::steps::Turn;
use super::{Engine, User};
use crate::http::Response;
use crate::scenario::{Op, Poll};

/// The other record of a user that polls in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Companion {
    /// The slot of the poll, in the record of the user.
    Poll(u32),
    /// The slot of the user, in the record of its poll.
    User(u32),
}

impl Engine<'_> {
    /// Begins to poll. The poll takes over the connection of the user; a later request of the user
    /// opens another one.
    pub(super) fn begin_background_poll(&mut self, index: usize) -> Turn {
        let now = self.clock.now();
        let user = &mut self.users[index];
        let number = user.number;
        let session = user.progress.session() as u16;
        let mut poll = User::new(number, session, user.connection.target(), now);
        poll.progress.go_to(user.progress.position());
        user.progress.go_on();
        let of_user = user.memory(self.scenario);
        let memory = poll.memory(self.scenario);
        (memory.values, memory.cookies) = (of_user.values.clone(), of_user.cookies.clone());
        memory.companion = Some(Companion::User(index as u32));
        let at = self.users.insert_background_poll(poll);
        self.users[index].memory(self.scenario).companion = Some(Companion::Poll(at as u32));
        self.wire.add_background_poll();
        self.take_over_connection(index, at);
        if self.users.has(at, number) {
            self.poll_in_background(at, now);
        }
        Turn::Next
    }

    fn take_over_connection(&mut self, index: usize, at: usize) {
        let user = &mut self.users[index];
        if !user.connection.accepts_requests() {
            return;
        }
        let Some(taken) = self.wire.take(&mut user.connection) else { return };
        self.drop_socket(index);
        self.users[at].connection.restore(taken);
        self.watch(at);
    }

    fn poll_in_background(&mut self, at: usize, now: Instant) {
        let progress = &mut self.users[at].progress;
        progress.begin_as_due(now);
        progress.wait_for(Waiting::Response);
        if let Some(Op::BackgroundPoll(op)) = self.op(at) {
            self.arm(at, self.poll_timeout(at, op));
        }
        self.send_or_connect(at);
    }

    /// Handles the answer to a poll: counts it, gives it to a step of the user that waits for it,
    /// and polls again.
    pub(super) fn handle_background_poll(
        &mut self,
        at: usize,
        poll: &Poll,
        response: &Response<'_>,
    ) {
        if let Some(failure) = self.check_response(at, &poll.request, response) {
            return self.fail(at, failure);
        }
        self.note_delivery(at, &response.body, !response.body.is_empty());
        let now = self.clock.now();
        self.users[at].progress.measure(poll.request.step, now, &mut self.reports);
        let number = self.users[at].number;
        self.poll_in_background(at, now);
        if self.users.has(at, number) {
            let user = self.user_of(at);
            if self.is_wanted(user, &response.body) {
                self.complete_message(user, &response.body);
            }
        }
    }

    /// The slot of the user of this record.
    pub(super) fn user_of(&self, index: usize) -> usize {
        let memory = self.users[index].memory.as_ref();
        match memory.and_then(|memory| memory.companion) {
            Some(Companion::User(user)) => user as usize,
            Some(Companion::Poll(_)) | None => index,
        }
    }

    /// Ends the poll of a user that has ended.
    pub(super) fn end_background_poll(&mut self, companion: Option<Companion>) {
        if let Some(Companion::Poll(at)) = companion {
            self.drop_socket(at as usize);
            self.users.remove_background_poll(at as usize);
            self.wire.remove_background_poll();
        }
    }
}
