//! HTTP responses: whether they are as expected, their cookies, and the answers to a poll and to the
//! handshake of a websocket.

use std::time::Duration;

use memchr::memmem;

use super::receive::Consumed;
use super::user::{Connection, User, Waiting};
use super::{Engine, millis};
use crate::cookies::wall_clock;
use crate::failure::Failure;
use crate::frame;
use crate::http::{self, Exchange, Response};
use crate::scenario::{Content, Http, Op, Poll};

impl<'a> Engine<'a> {
    pub(super) fn handle_response(
        &mut self,
        index: usize,
        bytes: &[u8],
        is_ended: bool,
    ) -> Consumed {
        let is_head = self.request(&self.users[index]).is_some_and(|http| http.method == "HEAD");
        let response = match http::decode(bytes, Exchange { is_head, is_ended }) {
            Ok(Some(response)) => response,
            Ok(None) => return Consumed::Incomplete,
            Err(error) => {
                self.fail(index, error.into());
                return Consumed::Gone;
            }
        };
        let len = response.len;
        self.tally.status(response.status);
        self.keep_cookies(index, &response);
        let user = &self.users[index];
        // Only a handshake asks for another protocol.
        let is_answer = self.request(user).is_some() && response.status != 101;
        match self.op(user) {
            Some(Op::Connect(_)) => self.handle_upgrade(index, &response),
            Some(op) if is_answer => {
                self.release(index, &response);
                match op {
                    Op::Http(http) => self.handle_http(index, http, &response),
                    Op::Poll(poll) => self.handle_poll(index, poll, &response),
                    Op::PollBeside(poll) => self.handle_beside(index, poll, &response),
                    Op::Files(files) => self.handle_file(index, files, &response),
                    _ => unreachable!("only these operations send requests"),
                }
            }
            // A server that gives up an idle connection may say so (RFC 9110, section 15.5.9).
            _ if response.status == 408 && user.connection == Connection::Http => {
                self.drop_socket(index);
            }
            _ => self.fail(index, Failure::InvalidResponse),
        }
        Consumed::Bytes(len)
    }

    /// The request that the current step waits for, unless it is a handshake.
    fn request(&self, user: &User) -> Option<&Http> {
        self.op(user)?.request().filter(|_| user.waiting == Waiting::Response)
    }

    /// Stores the cookies of a response, if the session keeps cookies.
    fn keep_cookies(&mut self, index: usize, response: &Response<'_>) {
        let user = &self.users[index];
        let session = &self.scenario.sessions[usize::from(user.session)];
        let path = match self.op(user) {
            Some(Op::Connect(connect)) => &connect.path,
            Some(Op::Http(http)) => &http.path,
            Some(Op::Poll(poll) | Op::PollBeside(poll)) => &poll.request.path,
            _ => return,
        };
        if response.cookies.is_empty() || !session.keeps_cookies {
            return;
        }
        let path = self.full_path(user, path);
        let host = self.scenario.targets[usize::from(user.target)].host();
        let jar = &mut self.memory(index).cookies;
        let now = wall_clock();
        response.cookies.iter().for_each(|cookie| jar.set(cookie, host, &path, now));
    }

    fn handle_upgrade(&mut self, index: usize, response: &Response<'_>) {
        let expected = frame::accept(&frame::key(self.nonce(&self.users[index])));
        if response.status != 101 {
            self.fail(index, Failure::NotUpgraded(response.status));
        } else if response.websocket_accept != expected {
            self.fail(index, Failure::WrongAccept);
        } else {
            self.opened(index);
            let content = Content::new(response.head, b"");
            match self.answer(index) {
                Some(answer) => self.complete_with(index, answer, &content),
                None => self.complete(index),
            }
        }
    }

    /// Drops a connection that accepts no further request.
    fn release(&mut self, index: usize, response: &Response<'_>) {
        if !response.is_kept_alive {
            self.drop_socket(index);
        }
    }

    fn handle_http(&mut self, index: usize, http: &'a Http, response: &Response<'_>) {
        match self.check_response(index, http, response) {
            Some(failure) => self.complete_with_error(index, failure),
            None => {
                self.tally.counts.deliveries_due += u64::from(http.is_delivered);
                if let Some(files) = &http.files {
                    self.note_page(index, files, response);
                }
                if http.answer.is_unused() {
                    return self.complete(index);
                }
                let content = Content::new(response.head, &response.body);
                self.complete_with(index, &http.answer, &content);
            }
        }
    }

    pub(super) fn check_response(
        &self,
        index: usize,
        http: &Http,
        response: &Response<'_>,
    ) -> Option<Failure> {
        let is_expected = http.accepts_any_status
            || http.status.map_or(response.status < 400, |status| status == response.status);
        if !is_expected {
            return Some(Failure::WrongStatus(response.status));
        }
        let text = http.contains.as_ref()?.to_string(&self.text_context(&self.users[index]));
        memmem::find(&response.body, text.as_bytes()).is_none().then_some(Failure::TextMissing)
    }

    fn handle_poll(&mut self, index: usize, poll: &Poll, response: &Response<'_>) {
        if let Some(failure) = self.check_response(index, &poll.request, response) {
            return self.complete_with_error(index, failure);
        }
        self.delivered(index, &response.body, !response.body.is_empty());
        if self.is_polled(&self.users[index], poll, &response.body) {
            return self.complete(index);
        }
        let timeout = self.poll_timeout(&self.users[index], poll);
        self.arm(index, timeout);
        self.send_or_connect(index);
    }

    /// The timeout for the response to a request.
    pub(super) fn timeout(&self, request: &Http) -> Duration {
        request.timeout.unwrap_or(self.scenario.step_timeout)
    }

    /// The timeout for a response, at most until the end of polling.
    pub(super) fn poll_timeout(&self, user: &User, poll: &Poll) -> Duration {
        let timeout = self.timeout(&poll.request);
        let left = poll.period.map(|period| (user.due + period).since(self.clock.now()));
        timeout.min(left.unwrap_or(timeout))
    }

    /// Whether the period of polling has ended without a response.
    pub(super) fn is_poll_over(&self, user: &User) -> bool {
        let Some(Op::Poll(poll)) = self.op(user) else { return false };
        let is_over = |period| millis(self.clock.now()) >= millis(user.due + period);
        user.waiting == Waiting::Response && poll.period.is_some_and(is_over)
    }

    /// Whether this response ends polling.
    fn is_polled(&self, user: &User, poll: &Poll, body: &[u8]) -> bool {
        let is_received = poll.until.as_ref().is_some_and(|text| {
            memmem::find(body, text.to_string(&self.text_context(user)).as_bytes()).is_some()
        });
        let is_late = poll.period.is_some_and(|period| self.clock.now() >= user.due + period);
        let is_single = poll.until.is_none() && poll.period.is_none();
        is_received || is_late || is_single
    }
}
