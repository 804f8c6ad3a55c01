//! The receiving half of a user: bytes, frames and messages. HTTP responses are in `responses.rs`.

use std::time::Duration;

use memchr::memmem;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use watchfire_types::Instant;

use super::Engine;
use super::message::{HEARTBEAT_REFERENCE, Received, response_of};
use super::user::{Connection, Inbox, User, Waiting};
use crate::broadcast::BroadcastId;
use crate::clock::monotonic;
use crate::failure::Failure;
use crate::frame::{self, Frame, MESSAGE_BYTES_MAX, Opcode};
use crate::order::{self, Step};
use crate::scenario::{
    Answer, Content, Effect, Found, Mark, Message, Op, SentAt, Serializer, Wanted, sent_at,
};

/// Full buffers read from one socket in one turn.
const READS_PER_TURN: usize = 16;
/// The events at the end of a connection.
const END: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

pub(super) enum Consumed {
    /// This many bytes.
    Bytes(usize),
    /// The frame or response is incomplete; nothing was consumed.
    Incomplete,
    /// The user or its socket has ended.
    Gone,
}

impl<'a> Engine<'a> {
    pub(super) fn handle_event(&mut self, index: usize, flags: EventFlags) {
        let User { number, socket_serial: serial, .. } = self.users[index];
        if flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR) {
            self.flush(index);
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP)
            && self.has_user(index, number)
            && self.users[index].socket_serial == serial
        {
            self.read(index, flags);
        }
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

    /// How many bytes the user may receive now. Without any, it pauses until it is swept.
    fn allowed_bytes(&mut self, index: usize, max: usize) -> usize {
        let now = self.clock.now();
        // An ended user has nothing to receive.
        let Some(memory) = self.users.get_mut(index).and_then(|user| user.memory.as_mut()) else {
            return max;
        };
        let Some(bucket) = &mut memory.bucket else { return max };
        let available = bucket.available(now);
        bucket.is_paused = available == 0;
        usize::try_from(available).unwrap_or(max).min(max)
    }

    /// Reads again from the socket of a paused user that may receive bytes; returns whether it was.
    pub(super) fn resumes_reading(&mut self, index: usize, now: Instant) -> bool {
        let memory = self.users[index].memory.as_mut();
        let Some(bucket) = memory.and_then(|memory| memory.bucket.as_mut()) else { return false };
        if !bucket.is_paused || bucket.available(now) == 0 {
            return false;
        }
        bucket.is_paused = false;
        // The kernel reports bytes that have waited.
        self.watch_again(index);
        true
    }

    /// Reads once; returns whether the socket is empty.
    fn read_once(&mut self, index: usize, flags: EventFlags, buffer: &mut [u8]) -> bool {
        let user = &self.users[index];
        let (number, serial) = (user.number, user.socket_serial);
        let Some(socket) = &user.socket else { return true };
        match rustix::net::recv(socket, &mut *buffer, rustix::net::RecvFlags::empty()) {
            Ok((0, _)) => {
                self.handle_ended(index);
                true
            }
            Ok((len, _)) => {
                self.tally.counts.bytes_in += len as u64;
                let memory = self.users[index].memory.as_mut();
                if let Some(bucket) = memory.and_then(|memory| memory.bucket.as_mut()) {
                    bucket.take(len as u64);
                }
                self.receive_raw(index, &buffer[..len]);
                let is_same =
                    self.has_user(index, number) && self.users[index].socket_serial == serial;
                // The end of the connection arrives as a read of 0 bytes.
                let is_more_likely = len == buffer.len() || flags.intersects(END);
                !is_same || !is_more_likely
            }
            Err(Errno::INTR) => false,
            Err(Errno::AGAIN) => true,
            Err(errno) => {
                self.handle_broken(index, Failure::from_errno(errno));
                true
            }
        }
    }

    /// Handles received bytes: processes complete frames and responses, keeps the rest.
    pub(super) fn receive_bytes(&mut self, index: usize, bytes: &[u8]) {
        let user = &mut self.users[index];
        let earlier = user.inbox.as_mut().map(|inbox| std::mem::take(&mut inbox.unread));
        match earlier.filter(|earlier| !earlier.is_empty()) {
            // Most reads end with a complete frame: then no byte is copied.
            None => {
                if let Some(consumed) = self.consume(index, bytes) {
                    self.keep(index, bytes[consumed..].to_vec());
                }
            }
            Some(mut unread) => {
                unread.extend_from_slice(bytes);
                if let Some(consumed) = self.consume(index, &unread) {
                    unread.drain(..consumed);
                    self.keep(index, unread);
                }
            }
        }
    }

    fn keep(&mut self, index: usize, unread: Vec<u8>) {
        let user = &mut self.users[index];
        // 16 bytes are more than the header of a frame.
        if unread.len() > MESSAGE_BYTES_MAX + 16 {
            return self.fail(index, Failure::TooLong);
        }
        if !unread.is_empty() {
            user.inbox.get_or_insert_default().unread = unread;
        } else if user.inbox.as_ref().is_some_and(|inbox| inbox.fragments_opcode.is_none()) {
            user.inbox = None;
        }
    }

    /// Returns the number of consumed bytes; `None` if the socket has ended.
    fn consume(&mut self, index: usize, bytes: &[u8]) -> Option<usize> {
        let (number, serial) = (self.users[index].number, self.users[index].socket_serial);
        let mut at = 0;
        while at < bytes.len() {
            let consumed = match self.users[index].connection {
                Connection::Open | Connection::Closing => self.handle_frame(index, &bytes[at..]),
                Connection::Upgrading | Connection::Http => {
                    self.handle_response(index, &bytes[at..], false)
                }
                Connection::None => Consumed::Gone,
            };
            // A handled frame may have ended the user or its socket. Then the rest is dropped.
            let is_current =
                self.has_user(index, number) && self.users[index].socket_serial == serial;
            match consumed {
                Consumed::Bytes(len) if is_current => at += len,
                Consumed::Incomplete if is_current => break,
                Consumed::Bytes(_) | Consumed::Incomplete | Consumed::Gone => return None,
            }
        }
        Some(at)
    }

    /// Handles the end of the connection by the server.
    pub(super) fn handle_ended(&mut self, index: usize) {
        let user = &mut self.users[index];
        match user.connection {
            Connection::Closing => self.handle_closed(index),
            Connection::Upgrading | Connection::Http
                if matches!(user.waiting, Waiting::Open | Waiting::Response) =>
            {
                let unread = user.inbox.take().map_or(Vec::new(), |inbox| inbox.unread);
                let is_response = !unread.is_empty()
                    && !matches!(self.handle_response(index, &unread, true), Consumed::Incomplete);
                if !is_response {
                    self.fail(index, Failure::Ended);
                }
            }
            // A server may close an idle connection; the next request opens a new one.
            Connection::Http => self.drop_socket(index),
            _ => self.fail(index, Failure::Ended),
        }
    }

    pub(super) fn handle_broken(&mut self, index: usize, failure: Failure) {
        let user = &self.users[index];
        let is_awaited = matches!(user.waiting, Waiting::Open | Waiting::Response);
        if user.connection == Connection::Closing {
            self.handle_closed(index);
        } else if user.connection == Connection::Http && !is_awaited {
            // A server may also end an idle connection with a reset.
            self.drop_socket(index);
        } else if !self.tries_next_address(index, failure) {
            self.fail(index, failure);
        }
    }

    fn handle_frame(&mut self, index: usize, bytes: &[u8]) -> Consumed {
        let (frame, len) = match frame::decode(bytes) {
            Ok(Some(found)) => found,
            Ok(None) => return Consumed::Incomplete,
            Err(error) => {
                self.fail(index, error.into());
                return Consumed::Gone;
            }
        };
        match frame.opcode {
            Opcode::Ping => {
                if self.users[index].connection == Connection::Open {
                    self.send_frame(index, Opcode::Pong, frame.payload);
                }
            }
            Opcode::Pong => {}
            Opcode::Close => return self.handle_close(index, frame.payload, len),
            Opcode::Text | Opcode::Binary | Opcode::Continuation => self.handle_data(index, &frame),
        }
        Consumed::Bytes(len)
    }

    fn handle_close(&mut self, index: usize, payload: &[u8], len: usize) -> Consumed {
        if self.users[index].connection == Connection::Closing {
            return Consumed::Bytes(len);
        }
        match frame::close_code(payload) {
            Ok(code) => {
                let echo = payload.get(..2).unwrap_or_default();
                if self.send_frame(index, Opcode::Close, echo) {
                    // 1005 stands for a frame without a code (RFC 6455, section 7.4.1).
                    self.fail(index, Failure::Closed(code.unwrap_or(1005)));
                }
            }
            Err(error) => self.fail(index, error.into()),
        }
        Consumed::Gone
    }

    fn handle_data(&mut self, index: usize, frame: &Frame<'_>) {
        let user = &mut self.users[index];
        let pending = user.inbox.as_ref().and_then(|inbox| inbox.fragments_opcode);
        match (frame.opcode, pending) {
            (Opcode::Continuation, None) | (Opcode::Text | Opcode::Binary, Some(_)) => {
                self.fail(index, Failure::InvalidFrame);
            }
            (opcode, None) if frame.is_final => {
                self.handle_message(index, opcode == Opcode::Text, frame.payload);
            }
            (opcode, pending) => {
                let inbox = user.inbox.get_or_insert_default();
                inbox.fragments.extend_from_slice(frame.payload);
                inbox.fragments_opcode = pending.or(Some(opcode));
                if inbox.fragments.len() > MESSAGE_BYTES_MAX {
                    self.fail(index, Failure::TooLong);
                } else if frame.is_final {
                    let Inbox { fragments, .. } =
                        *user.inbox.take().expect("the inbox was just filled");
                    self.handle_message(index, pending == Some(Opcode::Text), &fragments);
                }
            }
        }
    }

    fn handle_message(&mut self, index: usize, is_text: bool, message: &[u8]) {
        if is_text && str::from_utf8(message).is_err() {
            self.fail(index, Failure::InvalidText);
            return;
        }
        if self.echoes {
            let opcode = if is_text { Opcode::Text } else { Opcode::Binary };
            self.send_frame(index, opcode, message);
            return;
        }
        if self.handle_page_message(index, is_text, message) {
            return;
        }
        self.keep_values(index, message);
        let user = &mut self.users[index];
        let serializer = if is_text { user.serializer } else { Serializer::Raw };
        match Received::read(serializer, message) {
            Received::Reply { reference: Some(HEARTBEAT_REFERENCE), .. } => {
                user.is_heartbeat_unanswered = false;
            }
            Received::Reply { reference, is_ok } => {
                let is_awaited = matches!(self.wanted(index), Some(Wanted::Reply))
                    && reference == Some(self.users[index].awaited);
                match is_ok {
                    true if is_awaited => {
                        if let Some(Op::Send(send)) = self.op(&self.users[index]) {
                            self.tally.counts.deliveries_due += u64::from(send.is_delivered);
                            if let Effect::Joins(audience) = send.effect {
                                self.join_audience(index, audience);
                            }
                        }
                        let response = match self.answer(index) {
                            Some(answer) if !answer.is_unused() => response_of(serializer, message),
                            _ => None,
                        };
                        self.complete_message(index, response.unwrap_or_default().as_bytes());
                    }
                    false if is_awaited => self.complete_with_error(index, Failure::RefusedReply),
                    // The refs of a message that the scenario wrote whole are its own.
                    _ if self.awaits_raw(index) && self.is_wanted(index, message) => {
                        self.complete_message(index, message);
                    }
                    _ => {}
                }
            }
            Received::ChannelError => self.tally.error(self.step(index), Failure::ChannelError),
            Received::ChannelClose => {}
            Received::Other => {
                let is_wanted = self.is_wanted(index, message);
                self.delivered(index, message, !is_wanted || serializer != Serializer::Raw);
                if is_wanted {
                    self.complete_message(index, message);
                }
            }
        }
    }

    /// Whether the current step has sent a whole message of the scenario.
    fn awaits_raw(&self, index: usize) -> bool {
        let op = self.op(&self.users[index]);
        matches!(op, Some(Op::Send(send)) if matches!(send.message, Message::Raw { .. }))
    }

    /// Completes the step that waited for this message.
    pub(super) fn complete_message(&mut self, index: usize, message: &[u8]) {
        if let Some(Op::Listen) = self.op(&self.users[index]) {
            let now = self.clock.now();
            let user = &mut self.users[index];
            (user.anchor, user.due) = (now, now);
        }
        match self.answer(index) {
            Some(answer) => self.complete_with(index, answer, &Content::new(b"", message)),
            None => self.complete(index),
        }
    }

    /// The use of the answer to the current step.
    pub(super) fn answer(&self, index: usize) -> Option<&'a Answer> {
        match self.op(&self.users[index])? {
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
                let wanted = text.to_string(&self.text_context(&self.users[index]));
                memmem::find(message, wanted.as_bytes()).is_some()
            }
            Some(Wanted::Reply | Wanted::Nothing) | None => false,
        }
    }

    /// The message that the current step waits for, if any.
    fn wanted(&self, index: usize) -> Option<&Wanted> {
        static ANY: Wanted = Wanted::Any;
        let user = &self.users[index];
        match self.op(user) {
            Some(Op::Send(send)) if user.waiting == Waiting::Message => Some(&send.wanted),
            Some(Op::Expect { wanted, .. }) if user.waiting == Waiting::Message => Some(wanted),
            Some(Op::Listen) if user.waiting == Waiting::Message => Some(&ANY),
            _ => None,
        }
    }

    /// Counts a message; `is_delivery` when it is not a reply.
    pub(super) fn delivered(&mut self, index: usize, message: &[u8], is_delivery: bool) {
        if is_delivery {
            self.tally.counts.deliveries += 1;
            self.tally.counts.delivery_bytes += message.len() as u64;
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
            Mark::Broadcast(user) => {
                self.tally.delivery.record(time);
                let id = BroadcastId { sent_at: at.as_nanos() as u64, user };
                self.tally.receipts.record(id, time);
            }
            Mark::Nothing => {
                self.tally.delivery.record(time);
                self.tally.counts.deliveries_timed += 1;
            }
            Mark::Numbered(sender, number) => {
                let is_recovered = self.note_order(index, at, (sender, number));
                if !is_recovered {
                    self.tally.delivery.record(time);
                }
            }
        }
    }

    /// Checks the order of a message. Returns whether it was sent before the websocket was opened. Then it is
    /// recovered, and its time counts from there.
    fn note_order(&mut self, index: usize, sent_at: Duration, numbered: (u32, u32)) -> bool {
        let (sender, number) = numbered;
        let Some(recovered) = self.scenario.recovered else { return true };
        let memory = self.memory(index);
        let (step, opened_at) = (memory.order.note(sender, number), memory.opened_at);
        self.tally.count(order::RECEIVED);
        match step {
            Step::Next { missing: 0 } => {}
            Step::Next { missing } => self.tally.count_many(order::MISSING, missing.into()),
            Step::Repeated => self.tally.count(order::REPEATED),
        }
        let is_recovered = self.clock.origin() + opened_at.since(Instant::ZERO) > sent_at;
        if is_recovered {
            self.tally.step(recovered, opened_at, opened_at, self.clock.now());
        }
        is_recovered
    }

    /// Saves the values that the session keeps from each message.
    fn keep_values(&mut self, index: usize, message: &[u8]) {
        let keeps = &self.scenario.sessions[usize::from(self.users[index].session)].keeps;
        if keeps.is_empty() {
            return;
        }
        let content = Content::new(b"", message);
        for keep in keeps {
            if let Found::Value(value) = keep.find.find(&content) {
                self.memory(index).values[keep.slot] = value;
            }
        }
    }
}
