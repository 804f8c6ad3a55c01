//! Handles what arrives for users: bytes, messages, responses, and the ends of connections.

use std::time::Duration;

use memchr::memmem;
use rustix::event::epoll::EventFlags;
use watchfire_types::Instant;

use super::channel::{Received, response_of};
use super::pages::{Effect as PageEffect, PEER_TIMEOUT};
use super::progress::Waiting;
use super::web_files::WebFiles;
use super::wire::{Incoming, Key, Read};
use super::{Engine, User};
use crate::clock::monotonic;
use crate::cookies::wall_clock;
use crate::failure::Failure;
use crate::frame::Opcode;
use crate::http::{Exchange, Response};
use crate::order::{self, Step};
use crate::scenario::{
    Answer, Content, Effect, Http, Mark, Message, Op, PageFiles, Poll, SentAt, Serializer, Wanted,
    sent_at,
};

/// Full buffers read from one socket in one turn.
const READS_PER_TURN: usize = 16;
/// The events at the end of a connection.
const END: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

/// The number of a user and the serial of its connection: both are the same while what arrives is for it.
type Recipient = (u32, u8);

impl<'a> Engine<'a> {
    pub(super) fn handle_event(&mut self, index: usize, flags: EventFlags) {
        let recipient = self.recipient(index);
        if flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR)
            && let Err(failure) = self.wire.flush(&mut self.users[index].connection)
        {
            self.handle_broken(index, failure);
        }
        if flags.intersects(EventFlags::IN | END) && self.is_current(index, recipient) {
            self.read(index, flags);
        }
    }

    fn recipient(&self, index: usize) -> Recipient {
        let user = &self.users[index];
        (user.number, user.connection.serial())
    }

    /// Whether neither the user nor its socket has ended.
    fn is_current(&self, index: usize, recipient: Recipient) -> bool {
        self.users.has(index, recipient.0) && self.users[index].connection.serial() == recipient.1
    }

    /// Reads until the socket is empty, because epoll is edge-triggered. A socket with very much
    /// data continues in a later turn.
    fn read(&mut self, index: usize, flags: EventFlags) {
        let mut buffer = std::mem::take(&mut self.read_buffer);
        let is_drained = (0..READS_PER_TURN).any(|_| {
            let allowed = self.allowed_bytes(index, buffer.len());
            allowed == 0 || self.read_once(index, flags, &mut buffer[..allowed])
        });
        self.read_buffer = buffer;
        if !is_drained {
            self.watch_again(index);
        }
    }

    fn watch_again(&mut self, index: usize) {
        let user = &mut self.users[index];
        let key = Key::new(user.number, index);
        if let Err(failure) = self.wire.watch_again(&mut user.connection, key) {
            self.fail(index, failure);
        }
    }

    /// How many bytes the user may receive now. Without any, it pauses until all users are checked.
    fn allowed_bytes(&mut self, index: usize, max: usize) -> usize {
        // An ended user has nothing to receive.
        match self.users.get_mut(index).and_then(User::rate_limit) {
            Some(limit) => usize::try_from(limit.allowed(self.clock.now())).unwrap_or(max).min(max),
            None => max,
        }
    }

    /// Watches the socket of a paused user again once the user may receive bytes. Returns whether it did.
    pub(super) fn resumes_reading(&mut self, index: usize, now: Instant) -> bool {
        let resumes = self.users[index].rate_limit().is_some_and(|limit| limit.resumes(now));
        if resumes {
            // The kernel reports bytes that have waited.
            self.watch_again(index);
        }
        resumes
    }

    /// Reads once; returns whether the socket is empty.
    fn read_once(&mut self, index: usize, flags: EventFlags, buffer: &mut [u8]) -> bool {
        let recipient = self.recipient(index);
        match self.wire.read(&self.users[index].connection, buffer) {
            Ok(Read::Bytes(len)) => {
                if let Some(limit) = self.users[index].rate_limit() {
                    limit.take(len as u64);
                }
                self.receive(index, &buffer[..len]);
                // The end of the connection arrives as a read of 0 bytes.
                let is_more_likely = len == buffer.len() || flags.intersects(END);
                !is_more_likely || !self.is_current(index, recipient)
            }
            Ok(Read::Interrupted) => false,
            Ok(Read::Drained) => true,
            Ok(Read::Ended) => {
                self.handle_ended(index);
                true
            }
            Err(failure) => {
                self.handle_broken(index, failure);
                true
            }
        }
    }

    /// Handles bytes of the socket, which are decrypted first if the connection uses TLS.
    fn receive(&mut self, index: usize, bytes: &[u8]) {
        let recipient = self.recipient(index);
        let key = Key::new(recipient.0, index);
        match self.wire.decrypt(&mut self.users[index].connection, key, bytes) {
            Ok(None) => self.receive_plain(index, bytes),
            Ok(Some((received, is_ended))) => {
                if !received.is_empty() {
                    self.receive_plain(index, &received);
                }
                if is_ended && self.is_current(index, recipient) {
                    self.handle_ended(index);
                }
            }
            Err(failure) => self.handle_broken(index, failure),
        }
    }

    /// Handles complete frames and responses, and keeps the rest.
    fn receive_plain(&mut self, index: usize, bytes: &[u8]) {
        let mut unread = self.users[index].connection.take_unread();
        // Most reads end with a complete frame: then no byte is copied.
        let rest = if unread.is_empty() {
            self.consume(index, bytes).map(|consumed| bytes[consumed..].to_vec())
        } else {
            unread.extend_from_slice(bytes);
            self.consume(index, &unread).map(|consumed| {
                unread.drain(..consumed);
                unread
            })
        };
        let Some(rest) = rest else { return };
        if let Err(failure) = self.users[index].connection.keep_unread(rest) {
            self.fail(index, failure);
        }
    }

    /// Returns the number of consumed bytes; `None` if the user or its socket has ended. Then the rest is dropped.
    fn consume(&mut self, index: usize, bytes: &[u8]) -> Option<usize> {
        let recipient = self.recipient(index);
        let mut at = 0;
        while at < bytes.len()
            && let Some(len) = self.consume_one(index, &bytes[at..], false)
        {
            if !self.is_current(index, recipient) {
                return None;
            }
            at += len;
        }
        self.is_current(index, recipient).then_some(at)
    }

    /// Handles one frame or response, and returns its length. `None`: it is incomplete, or it has failed the user.
    fn consume_one(&mut self, index: usize, bytes: &[u8], is_ended: bool) -> Option<usize> {
        let is_http = self.users[index].connection.is_http();
        // The answer to the request for an event stream is done with its head; events follow.
        let is_head = is_http
            && (self.opens_stream(index)
                || self.request(index).is_some_and(|http| http.method == "HEAD"));
        let user = &mut self.users[index];
        let key = Key::new(user.number, index);
        let exchange = Exchange { is_head, is_ended };
        match self.wire.decode(&mut user.connection, key, bytes, exchange) {
            Ok(None) => None,
            Ok(Some((incoming, len))) => {
                match incoming {
                    Incoming::Nothing => {}
                    Incoming::Response(response) => self.handle_response(index, &response),
                    Incoming::Message { is_text, payload } => {
                        self.handle_message(index, is_text, &payload);
                    }
                    Incoming::Closed(code) => self.fail(index, Failure::Closed(code)),
                }
                Some(len)
            }
            Err(failure) => {
                self.fail(index, failure);
                None
            }
        }
    }

    /// Whether the current step opens an event stream.
    fn opens_stream(&self, index: usize) -> bool {
        matches!(self.op(index), Some(Op::Connect(connect)) if connect.serializer == Serializer::Events)
    }

    /// Handles the end of the connection by the server.
    fn handle_ended(&mut self, index: usize) {
        let user = &mut self.users[index];
        if user.connection.is_closing() {
            self.handle_closed(index);
        } else if user.connection.is_http() && user.progress.awaits_answer() {
            let recipient = self.recipient(index);
            let unread = self.users[index].connection.take_unread();
            let answered =
                if unread.is_empty() { None } else { self.consume_one(index, &unread, true) };
            if answered.is_none() && self.is_current(index, recipient) {
                self.fail(index, Failure::Ended);
            }
        } else if user.connection.accepts_requests() {
            // A server may close an idle connection; the next request opens a new one.
            self.drop_socket(index);
        } else {
            self.fail(index, Failure::Ended);
        }
    }

    /// Handles a connection of which no more use can be made.
    pub(super) fn handle_broken(&mut self, index: usize, failure: Failure) {
        let user = &self.users[index];
        let is_idle = user.connection.accepts_requests() && !user.progress.awaits_answer();
        // Bytes that break TLS, and a server that does not read, are errors also if no user waits for an answer.
        let is_wrong = matches!(failure, Failure::Tls(_) | Failure::NotReading);
        if user.connection.is_closing() && !is_wrong {
            self.handle_closed(index);
        } else if is_idle && !is_wrong {
            // A server may also end an idle connection with a reset.
            self.drop_socket(index);
        } else if self.wire.has_next_address(&user.connection, user.number, failure) {
            self.connect(index);
        } else {
            self.fail(index, failure);
        }
    }

    fn handle_message(&mut self, index: usize, is_text: bool, message: &[u8]) {
        if self.echoes {
            let opcode = if is_text { Opcode::Text } else { Opcode::Binary };
            self.send_frame(index, opcode, message);
            return;
        }
        if self.handle_page_message(index, is_text, message) {
            return;
        }
        let user = &mut self.users[index];
        self.script.keep_values(user, message);
        let serializer = user.channel.serializer(is_text);
        match user.channel.read(is_text, message) {
            Received::Reply { reference, is_ok } => {
                let is_awaited = user.channel.awaits(reference)
                    && matches!(self.wanted(index), Some(Wanted::Reply));
                match is_ok {
                    true if is_awaited => self.handle_reply(index, serializer, message),
                    false if is_awaited => self.complete_with_error(index, Failure::RefusedReply),
                    // The refs of a message that the scenario wrote whole are its own.
                    _ if self.awaits_raw(index) && self.is_wanted(index, message) => {
                        self.complete_message(index, message);
                    }
                    _ => {}
                }
            }
            Received::Heartbeat | Received::ChannelClose => {}
            Received::ChannelError => self.reports.error(self.step(index), Failure::ChannelError),
            Received::Other => {
                let is_wanted = self.is_wanted(index, message);
                self.note_delivery(index, message, !is_wanted || serializer != Serializer::Raw);
                if is_wanted {
                    self.complete_message(index, message);
                }
            }
        }
    }

    /// Handles the reply that the current step waits for.
    fn handle_reply(&mut self, index: usize, serializer: Serializer, message: &[u8]) {
        if let Some(Op::Send(send)) = self.op(index) {
            self.reports.counts().deliveries_due += u64::from(send.is_delivered);
            if let Effect::Joins(audience) = send.effect {
                self.reports.join(&mut self.users[index].memberships, audience);
            }
        }
        let response = match self.answer(index) {
            Some(answer) if !answer.is_unused() => response_of(serializer, message),
            _ => None,
        };
        self.complete_message(index, response.unwrap_or_default().as_bytes());
    }

    /// Handles a message about the page of a user; returns whether it was one.
    fn handle_page_message(&mut self, index: usize, is_text: bool, message: &[u8]) -> bool {
        let Some(visit) = self.users[index].visit() else { return false };
        let Some((outgoing, effect)) = self.pages.receive(visit, is_text, message) else {
            return false;
        };
        if !is_text {
            self.reports.delivery(message.len());
        }
        if effect == PageEffect::WrongBlock {
            self.reports.error(self.step(index), Failure::WrongBlock);
        }
        if matches!(effect, PageEffect::Requested | PageEffect::WrongBlock) {
            self.arm(index, PEER_TIMEOUT);
        }
        if outgoing.is_some_and(|outgoing| !self.send_outgoing(index, &outgoing)) {
            return true;
        }
        match effect {
            PageEffect::Done => self.complete(index),
            PageEffect::Duplicate => self.reports.count("page_duplicate"),
            PageEffect::Refused => {
                // Its socket stays.
                self.leave_page(index);
                self.complete_with_error(index, Failure::RefusedReply);
            }
            PageEffect::None | PageEffect::Requested | PageEffect::WrongBlock => {}
        }
        true
    }

    /// Whether the current step has sent a whole message of the scenario.
    fn awaits_raw(&self, index: usize) -> bool {
        matches!(self.op(index), Some(Op::Send(send)) if matches!(send.message, Message::Raw { .. }))
    }

    /// Completes the step that waited for this message.
    pub(super) fn complete_message(&mut self, index: usize, message: &[u8]) {
        if let Some(Op::Listen) = self.op(index) {
            self.users[index].progress.count_from(self.clock.now());
        }
        match self.answer(index) {
            Some(answer) => self.complete_with(index, answer, &Content::new(b"", message)),
            None => self.complete(index),
        }
    }

    /// The use of the answer to the current step.
    fn answer(&self, index: usize) -> Option<&'a Answer> {
        match self.op(index)? {
            Op::Connect(connect) => Some(&connect.answer),
            Op::Send(send) => Some(&send.answer),
            Op::Expect { answer, .. } => Some(answer),
            Op::Http(http) => Some(&http.answer),
            _ => None,
        }
    }

    /// Whether the current step waits for this message, which is not a reply.
    pub(super) fn is_wanted(&self, index: usize, message: &[u8]) -> bool {
        match self.wanted(index) {
            Some(Wanted::Any) => true,
            Some(Wanted::Containing(text)) => {
                let wanted = self.script.text(&self.users[index], text);
                memmem::find(message, wanted.as_bytes()).is_some()
            }
            Some(Wanted::Reply | Wanted::Nothing) | None => false,
        }
    }

    /// The message that the current step waits for, if any.
    fn wanted(&self, index: usize) -> Option<&'a Wanted> {
        static ANY: Wanted = Wanted::Any;
        if self.users[index].progress.waiting() != Waiting::Message {
            return None;
        }
        match self.op(index)? {
            Op::Send(send) => Some(&send.wanted),
            Op::Expect { wanted, .. } => Some(wanted),
            Op::Listen => Some(&ANY),
            _ => None,
        }
    }

    /// Counts a message; `is_delivery` when it is not a reply.
    pub(super) fn note_delivery(&mut self, index: usize, message: &[u8], is_delivery: bool) {
        if is_delivery {
            self.reports.delivery(message.len());
        }
        // A poll, or an answer that recovers a topic, may have several messages.
        let mut rest = message;
        while self.scenario.is_timed
            && let Some((sent, after)) = sent_at(rest)
        {
            self.note_received(index, sent);
            rest = after;
        }
    }

    fn note_received(&mut self, index: usize, SentAt { at, mark }: SentAt) {
        let time = monotonic().saturating_sub(at);
        match mark {
            Mark::Broadcast(user) => self.reports.received(at, user, time),
            Mark::Nothing => self.reports.delivered(time, false),
            Mark::Numbered(sender, number) => {
                if !self.note_order(index, at, sender, number) {
                    self.reports.delivered(time, true);
                }
            }
        }
    }

    /// Checks the order of a message. Returns whether it was sent before the websocket was opened. Then it is
    /// recovered, and its time counts from there.
    fn note_order(&mut self, index: usize, sent_at: Duration, sender: u32, number: u32) -> bool {
        let Some(recovered) = self.scenario.recovered else { return true };
        let order = &mut self.users[index].memory(self.scenario).order;
        self.reports.count(order::RECEIVED);
        match order.note(sender, number) {
            Step::Next { missing: 0 } => {}
            Step::Next { missing } => self.reports.count_many(order::MISSING, missing.into()),
            Step::Repeated => self.reports.count(order::REPEATED),
        }
        let opened_at = order.opened_at();
        let is_recovered = self.clock.monotonic_at(opened_at) > sent_at;
        if is_recovered {
            self.reports.step(recovered, opened_at, opened_at, self.clock.now());
        }
        is_recovered
    }

    fn handle_response(&mut self, index: usize, response: &Response<'_>) {
        self.reports.status(response.status);
        self.keep_cookies(index, response);
        // Only a handshake asks for another protocol.
        let request = self.request(index).filter(|_| response.status != 101);
        let closes = request.is_some_and(|request| request.headers.closes);
        match self.op(index) {
            Some(Op::Connect(_)) if self.opens_stream(index) => self.handle_stream(index, response),
            Some(Op::Connect(_)) => self.handle_upgrade(index, response),
            Some(op) if request.is_some() => {
                // Such a connection accepts no further request.
                if closes || !response.is_kept_alive {
                    self.drop_socket(index);
                }
                match op {
                    Op::Http(http) => self.handle_http(index, http, response),
                    Op::Poll(poll) => self.handle_poll(index, poll, response),
                    Op::BackgroundPoll(poll) => self.handle_background_poll(index, poll, response),
                    Op::Files(files) => self.handle_file(index, files, response),
                    _ => unreachable!("only these operations send requests"),
                }
            }
            // A server that gives up an idle connection may say so (RFC 9110, section 15.5.9).
            _ if response.status == 408 && self.users[index].connection.accepts_requests() => {
                self.drop_socket(index);
            }
            _ => self.fail(index, Failure::InvalidResponse),
        }
    }

    /// The request that the current step waits for, unless it is a handshake.
    fn request(&self, index: usize) -> Option<&'a Http> {
        let is_awaited = self.users[index].progress.waiting() == Waiting::Response;
        self.op(index)?.request().filter(|_| is_awaited)
    }

    /// Stores the cookies of a response, if the session keeps cookies.
    fn keep_cookies(&mut self, index: usize, response: &Response<'_>) {
        let user = &self.users[index];
        let session = &self.scenario.sessions[user.progress.session()];
        if response.cookies.is_empty() || !session.keeps_cookies {
            return;
        }
        let path = match self.op(index) {
            Some(Op::Connect(connect)) => &connect.path,
            Some(Op::Http(http)) => &http.path,
            Some(Op::Poll(poll) | Op::BackgroundPoll(poll)) => &poll.request.path,
            _ => return,
        };
        let path = self.script.full_path(user, path);
        let host = self.scenario.targets[usize::from(user.connection.target())].host();
        let jar = &mut self.users[index].memory(self.scenario).cookies;
        let now = wall_clock();
        response.cookies.iter().for_each(|cookie| jar.set(cookie, host, &path, now));
    }

    fn handle_upgrade(&mut self, index: usize, response: &Response<'_>) {
        let expected = self.script.websocket_accept(&self.users[index]);
        if response.status != 101 {
            self.fail(index, Failure::NotUpgraded(response.status));
        } else if response.websocket_accept != expected {
            self.fail(index, Failure::WrongAccept);
        } else {
            self.open(index, false);
            let content = Content::new(response.head, b"");
            match self.answer(index) {
                Some(answer) => self.complete_with(index, answer, &content),
                None => self.complete(index),
            }
        }
    }

    fn handle_stream(&mut self, index: usize, response: &Response<'_>) {
        if response.status != 200 {
            return self.fail(index, Failure::WrongStatus(response.status));
        }
        self.open(index, true);
        if let Some(Op::Connect(connect)) = self.op(index)
            && let Some(audience) = connect.audience
        {
            self.reports.join(&mut self.users[index].memberships, audience);
        }
        self.complete(index);
    }

    /// The websocket or event stream is open. The caller completes the step.
    fn open(&mut self, index: usize, is_stream: bool) {
        let now = self.clock.now();
        let user = &mut self.users[index];
        self.wire.note_open(&mut user.connection, is_stream);
        user.channel.open(super::millis(now));
        if self.scenario.recovered.is_some() {
            user.memory(self.scenario).order.note_opened(now);
        }
        if let Some(everyone) = self.scenario.audiences.everyone {
            self.reports.join(&mut user.memberships, everyone);
        }
    }

    fn handle_http(&mut self, index: usize, http: &'a Http, response: &Response<'_>) {
        if let Some(failure) = self.check_response(index, http, response) {
            return self.complete_with_error(index, failure);
        }
        self.reports.counts().deliveries_due += u64::from(http.is_delivered);
        if let Some(files) = &http.files {
            let user = &mut self.users[index];
            let path = self.script.full_path(user, &files.page);
            let mut page = WebFiles::new(self.clock.now());
            page.add_links(&path, files, response, &mut self.links);
            user.memory(self.scenario).files = Some(Box::new(page));
        }
        if http.answer.is_unused() {
            return self.complete(index);
        }
        let content = Content::new(response.head, &response.body);
        self.complete_with(index, &http.answer, &content);
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
        let text = self.script.text(&self.users[index], http.contains.as_ref()?);
        memmem::find(&response.body, text.as_bytes()).is_none().then_some(Failure::TextMissing)
    }

    fn handle_poll(&mut self, index: usize, poll: &Poll, response: &Response<'_>) {
        if let Some(failure) = self.check_response(index, &poll.request, response) {
            return self.complete_with_error(index, failure);
        }
        self.note_delivery(index, &response.body, !response.body.is_empty());
        if self.is_polled(index, poll, &response.body) {
            return self.complete(index);
        }
        self.arm(index, self.poll_timeout(index, poll));
        self.send_or_connect(index);
    }

    /// Whether this response ends polling.
    fn is_polled(&self, index: usize, poll: &Poll, body: &[u8]) -> bool {
        let user = &self.users[index];
        let is_received = poll.until.as_ref().is_some_and(|text| {
            memmem::find(body, self.script.text(user, text).as_bytes()).is_some()
        });
        let due = user.progress.due();
        let is_late = poll.period.is_some_and(|period| self.clock.now() >= due + period);
        let is_single = poll.until.is_none() && poll.period.is_none();
        is_received || is_late || is_single
    }

    /// Handles the answer to the request of a file, and continues with the next one.
    fn handle_file(&mut self, index: usize, files: &PageFiles, response: &Response<'_>) {
        if let Some(failure) = self.check_response(index, &files.request, response) {
            return self.complete_with_error(index, failure);
        }
        let user = &mut self.users[index];
        if let Some(page) = user.memory.as_mut().and_then(|memory| memory.files.as_mut())
            && let Some(path) = page.next()
        {
            page.go_on();
            page.add_links(&path, files, response, &mut self.links);
        }
        user.progress.wait_for(Waiting::Nothing);
        self.advance(index);
    }
}
