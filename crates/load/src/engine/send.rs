//! The sending half of a user: requests, messages, frames, and bytes that the kernel did not
//! accept.

use std::io::Write as _;
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;
use watchfire_types::{Instant, Rng};

use super::addresses::Tried;
use super::message::HEARTBEAT_REFERENCE;
use super::user::{Connection, NEVER, Outbox, User, Waiting};
use super::{Engine, micros, micros_since, millis};
use crate::clock::monotonic;
use crate::cookies::wall_clock;
use crate::failure::Failure;
use crate::frame::{self, Opcode};
use crate::sampling::{seed_for, weighted};
use crate::scenario::{
    Connect, Effect, Headers, Http, Mark, Message, Op, Send, Serializer, Text, TextContext,
    whole_url,
};

/// Most unsent bytes of one user. A user whose server does not read ends with an error.
const OUTBOX_BYTES_MAX: usize = 1 << 20;

impl Engine<'_> {
    /// Sends the request of the current step, over the existing connection or a new one.
    pub(super) fn send_or_connect(&mut self, index: usize) {
        let user = &self.users[index];
        let is_upgrade = user.waiting == Waiting::Open;
        if user.connection == Connection::Http && !is_upgrade {
            self.send_request(index);
            return;
        }
        self.users[index].tried = Tried::default();
        self.connect(index);
    }

    /// Sends the request of the current step over a new connection to the next address of the
    /// server.
    fn connect(&mut self, index: usize) {
        self.drop_socket(index);
        let User { number, target, tried, .. } = self.users[index];
        let target = usize::from(target);
        let next = self.addresses.next(target, number, tried, self.clock.now());
        let (address, server) = next.expect("a server has an address that was not tried");
        let user = &mut self.users[index];
        user.tried.add(address);
        user.address = address as u8;
        user.is_connecting = true;
        user.is_opening = true;
        self.opening += 1;
        user.connect_begun = micros(self.clock.now());
        match self.sources.connect(target, server) {
            Ok(socket) => {
                self.users[index].socket = Some(socket);
                if !self.begin_tls(index) {
                    return;
                }
                // On loopback the socket is connected immediately and accepts the bytes. Otherwise they
                // wait in the outbox.
                self.send_request(index);
                if self.has_user(index, number) {
                    self.watch(index);
                }
            }
            Err(failure) => self.handle_broken(index, failure),
        }
    }

    /// The connection failed. Returns whether another address of the server is tried instead.
    pub(super) fn tries_next_address(&mut self, index: usize, failure: Failure) -> bool {
        let User { number, target, tried, is_connecting, .. } = self.users[index];
        if !is_connecting || !failure.is_of_address() {
            return false;
        }
        self.note_address_failed(index);
        let now = self.clock.now();
        if self.addresses.next(usize::from(target), number, tried, now).is_none() {
            return false;
        }
        self.connect(index);
        true
    }

    /// Other users try this address after the others.
    pub(super) fn note_address_failed(&mut self, index: usize) {
        let User { target, address, .. } = self.users[index];
        let now = self.clock.now();
        self.addresses.note_failed(usize::from(target), usize::from(address), now);
    }

    fn note_connected(&mut self, index: usize) {
        let user = &mut self.users[index];
        if std::mem::take(&mut user.is_connecting) {
            let time = micros_since(user.connect_begun, self.clock.now());
            self.tally.stages.connect.record(time);
            self.addresses.note_connected(usize::from(user.target), usize::from(user.address));
        }
    }

    /// The first answer over the connection has come, or none will.
    pub(super) fn note_opened(&mut self, index: usize) {
        if std::mem::take(&mut self.users[index].is_opening) {
            self.opening -= 1;
        }
    }

    /// Registers a new socket with epoll.
    pub(super) fn watch(&mut self, index: usize) {
        let user = &mut self.users[index];
        let Some(socket) = user.socket.as_ref().filter(|_| !user.is_watched) else { return };
        user.is_watched = true;
        user.is_write_watched = user.outbox.is_some();
        let interest = interest(user.is_write_watched);
        let token = EventData::new_u64(token(user.number, index));
        if let Err(errno) = epoll::add(&self.epoll, socket, token, interest) {
            self.fail(index, Failure::from_errno(errno));
        }
    }

    /// Rearms the socket in epoll, and also waits until it can be written.
    pub(super) fn watch_again(&mut self, index: usize) {
        let user = &mut self.users[index];
        let Some(socket) = user.socket.as_ref().filter(|_| user.is_watched) else { return };
        user.is_write_watched |= user.outbox.is_some();
        let interest = interest(user.is_write_watched);
        let token = EventData::new_u64(token(user.number, index));
        if let Err(errno) = epoll::modify(&self.epoll, socket, token, interest) {
            self.fail(index, Failure::from_errno(errno));
        }
    }

    /// Sends the request of the current step over the current connection.
    fn send_request(&mut self, index: usize) {
        let mut message_buffer = std::mem::take(&mut self.message_buffer);
        message_buffer.clear();
        let user = &self.users[index];
        let connection = match self.op(user) {
            Some(Op::Connect(connect)) => {
                self.write_upgrade(user, connect, &mut message_buffer);
                Connection::Upgrading
            }
            Some(Op::Http(http)) => {
                self.write_request(user, http, &http.path, &mut message_buffer);
                Connection::Http
            }
            Some(Op::Poll(poll) | Op::PollBeside(poll)) => {
                self.write_request(user, &poll.request, &poll.request.path, &mut message_buffer);
                Connection::Http
            }
            Some(Op::Files(files)) => {
                let path = self.next_file(index).expect("a file is requested only if there is one");
                self.write_request(user, &files.request, &path, &mut message_buffer);
                Connection::Http
            }
            _ => unreachable!("only these operations need a connection"),
        };
        self.users[index].connection = connection;
        self.write(index, &message_buffer);
        self.message_buffer = message_buffer;
    }

    fn write_upgrade(&self, user: &User, connect: &Connect, out: &mut Vec<u8>) {
        self.write_head(user, ("GET", &connect.path), &connect.headers, None, out);
        let key = frame::key(self.nonce(user));
        write!(
            out,
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: {key}\r\n\r\n"
        )
        .expect("writing to a vector cannot fail");
    }

    fn write_request(&self, user: &User, http: &Http, path: &Text, out: &mut Vec<u8>) {
        self.write_head(user, (&http.method, path), &http.headers, Some(http), out);
        let mut body = Vec::new();
        http.body.write(&self.text_context(user), &mut body);
        if !body.is_empty() || ["POST", "PUT", "PATCH"].contains(&http.method.as_str()) {
            write!(out, "Content-Length: {}\r\n", body.len())
                .expect("writing to a vector cannot fail");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&body);
    }

    /// The request line, and the headers that do not depend on the body.
    fn write_head(
        &self,
        user: &User,
        (method, path): (&str, &Text),
        headers: &Headers,
        http: Option<&Http>,
        out: &mut Vec<u8>,
    ) {
        let target = &self.scenario.targets[usize::from(user.target)];
        let path = self.full_path(user, path);
        let version = if http.is_some_and(|http| http.is_old) { "1.0" } else { "1.1" };
        let context = self.text_context(user);
        let mut line = |text: String| out.extend_from_slice(text.as_bytes());
        line(format!("{method} {path} HTTP/{version}\r\n"));
        if !headers.has_host {
            line(format!("Host: {}\r\n", target.authority));
        }
        if let Some(agent) =
            self.user_agent(user).filter(|_| http.is_some() && !headers.has_user_agent)
        {
            line(format!("User-Agent: {agent}\r\n"));
        }
        headers.lines.write(&context, out);
        if let Some(login) = http.and_then(|http| http.login.as_ref()) {
            login.write(method, &path, &context, out);
        }
        if headers.has_cookie {
            return;
        }
        let own = http.and_then(|http| http.cookies.as_ref()).map(|text| text.to_string(&context));
        let own = own.unwrap_or_default();
        match &user.memory {
            Some(memory) => memory.cookies.write(target.host(), &path, wall_clock(), &own, out),
            None if own.is_empty() => {}
            None => out.extend_from_slice(format!("Cookie: {own}\r\n").as_bytes()),
        }
    }

    /// The `User-Agent` of a user, the same for all its requests.
    fn user_agent(&self, user: &User) -> Option<&str> {
        let agents = &self.scenario.user_agents;
        // Drawn again for each request, so that a user needs no memory for it.
        let seed = seed_for(self.scenario.seed, u64::from(user.number), 0x6167_656e_7400);
        let weights = agents.iter().map(|(weight, _)| *weight);
        let chosen = (!agents.is_empty()).then(|| weighted(&mut Rng::from_seed(seed), weights));
        chosen.map(|chosen| agents[chosen].1.as_str())
    }

    /// The path of a request, with the prefix of the server.
    pub(super) fn full_path(&self, user: &User, path: &Text) -> String {
        let target = &self.scenario.targets[usize::from(user.target)];
        let path = path.to_string(&self.text_context(user));
        let path = whole_url(&path).map_or(path.as_str(), |(_, rest)| rest);
        let slash = if path.starts_with('/') { "" } else { "/" };
        format!("{}{slash}{path}", target.prefix)
    }

    /// The random number for the websocket key of a user. It is computed again to check the
    /// response.
    pub(super) fn nonce(&self, user: &User) -> u64 {
        let purpose = 0x6b65_7900 | u64::from(user.socket_serial);
        seed_for(self.scenario.seed, u64::from(user.number), purpose)
    }

    /// Sends a message; `false` if that ended the user.
    pub(super) fn send_message(&mut self, index: usize, send: &Send) -> bool {
        let mut message_buffer = std::mem::take(&mut self.message_buffer);
        message_buffer.clear();
        let audience = match send.effect {
            Effect::Leaves(audience) => {
                // Before the message is sent: the server may stop deliveries when it reads it.
                self.leave_audience(index, audience);
                None
            }
            Effect::Addresses(audience) => Some(audience).filter(|_| {
                let is_reported = self.tally.takes_broadcast();
                self.tally.counts.broadcasts_unreported += u64::from(!is_reported);
                is_reported
            }),
            Effect::Joins(_) | Effect::Nothing => None,
        };
        let mark = self.next_mark(index, send, audience.is_some());
        let now = if self.scenario.is_timed { monotonic() } else { Duration::ZERO };
        let user = &mut self.users[index];
        let mut reference = user.next_reference;
        let mut opcode = Opcode::Text;
        match &send.message {
            Message::Raw { text, is_binary } => {
                if *is_binary {
                    opcode = Opcode::Binary;
                }
                let text_context = self.text_context_at(&self.users[index], now, mark);
                text.write(&text_context, &mut message_buffer);
            }
            Message::Push { join_ref, is_join, topic, event, payload } => {
                if *is_join {
                    reference = *join_ref;
                } else {
                    user.next_reference += 1;
                }
                user.awaited = reference;
                let user = &self.users[index];
                let text_context = self.text_context_at(user, now, mark);
                let texts = [topic, event, payload];
                let refs = [*join_ref, reference];
                write_push(user.serializer, refs, texts, &text_context, &mut message_buffer);
            }
        }
        if let Some(audience) = audience {
            let at = self.clock.now().since(Instant::ZERO);
            self.tally.sent(send.step, audience, self.users[index].number, now, at);
        }
        let is_sent = self.send_frame(index, opcode, &message_buffer);
        self.message_buffer = message_buffer;
        is_sent
    }

    /// The mark that `${now}` in a message has besides the time.
    fn next_mark(&mut self, index: usize, send: &Send, is_broadcast: bool) -> Mark {
        let user = self.users[index].number;
        if is_broadcast {
            return Mark::Broadcast(user);
        }
        if send.recovered.is_none() {
            return Mark::Nothing;
        }
        let memory = self.memory(index);
        memory.numbered += 1;
        Mark::Numbered(user, memory.numbered)
    }

    pub(super) fn send_heartbeat(&mut self, index: usize) {
        let message = match self.users[index].serializer {
            Serializer::V1 => format!(
                "{{\"topic\":\"phoenix\",\"event\":\"heartbeat\",\"payload\":{{}},\"ref\":\"{HEARTBEAT_REFERENCE}\"}}"
            ),
            Serializer::V2 | Serializer::Raw => {
                format!("[null,\"{HEARTBEAT_REFERENCE}\",\"phoenix\",\"heartbeat\",{{}}]")
            }
        };
        self.send_frame(index, Opcode::Text, message.as_bytes());
    }

    /// Closes the websocket, if it is open; the step is done when the connection has ended.
    pub(super) fn send_close(&mut self, index: usize) {
        if self.users[index].connection != Connection::Open {
            self.handle_closed(index);
            return;
        }
        self.await_close(index);
        self.send_frame(index, Opcode::Close, &1000_u16.to_be_bytes());
    }

    /// Sends one frame; `false` when that ended the user.
    pub(super) fn send_frame(&mut self, index: usize, opcode: Opcode, payload: &[u8]) -> bool {
        let mut frame_buffer = std::mem::take(&mut self.frame_buffer);
        frame_buffer.clear();
        frame::encode(opcode, payload, self.rng.next_u64() as u32, &mut frame_buffer);
        let is_sent = self.write(index, &frame_buffer);
        self.frame_buffer = frame_buffer;
        is_sent
    }

    /// Writes bytes to the socket, and keeps what the kernel does not accept; `false` when that
    /// ended the user.
    pub(super) fn write_raw(&mut self, index: usize, bytes: &[u8]) -> bool {
        let user = &mut self.users[index];
        if let Some(Outbox(outbox)) = user.outbox.as_deref_mut() {
            if outbox.len() + bytes.len() > OUTBOX_BYTES_MAX {
                self.fail(index, Failure::NotReading);
                return false;
            }
            outbox.extend_from_slice(bytes);
            return true;
        }
        let Some(socket) = &user.socket else {
            self.fail(index, Failure::Ended);
            return false;
        };
        let written = match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(written) => written,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(errno) => {
                self.handle_broken(index, Failure::from_errno(errno));
                return false;
            }
        };
        if written > 0 {
            self.note_connected(index);
        }
        let user = &mut self.users[index];
        self.tally.counts.bytes_out += written as u64;
        if written < bytes.len() {
            user.outbox = Some(Box::new(Outbox(bytes[written..].to_vec())));
            self.watch_again(index);
        }
        true
    }

    /// Writes the outbox, because the socket is writable again.
    pub(super) fn flush(&mut self, index: usize) {
        let user = &mut self.users[index];
        let (Some(Outbox(outbox)), Some(socket)) = (user.outbox.as_deref_mut(), &user.socket)
        else {
            return;
        };
        let mut written_all = 0;
        // Write until the socket is full, because epoll is edge-triggered.
        let ended = loop {
            if outbox.is_empty() {
                break Ok(true);
            }
            match rustix::net::send(socket, outbox, SendFlags::NOSIGNAL) {
                Ok(written) => {
                    written_all += written as u64;
                    outbox.drain(..written);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break Ok(false),
                Err(errno) => break Err(errno),
            }
        };
        if written_all > 0 {
            self.tally.counts.bytes_out += written_all;
            self.note_connected(index);
        }
        match ended {
            Ok(true) => self.users[index].outbox = None,
            Ok(false) => {}
            Err(errno) => self.handle_broken(index, Failure::from_errno(errno)),
        }
    }

    /// The websocket is open. The caller completes the step.
    pub(super) fn opened(&mut self, index: usize) {
        self.connected += 1;
        self.connected_peak = self.connected_peak.max(self.connected);
        let now = millis(self.clock.now());
        let user = &mut self.users[index];
        user.connection = Connection::Open;
        let period = u32::from(user.heartbeat_seconds) * 1000;
        user.heartbeat_at = if period > 0 { now + period } else { NEVER };
        if self.scenario.recovered.is_some() {
            self.memory(index).opened_at = self.clock.now();
        }
        if let Some(everyone) = self.scenario.audiences.everyone {
            self.join_audience(index, everyone);
        }
    }
}

/// Writes a push as the serializer does. The references are those of the join and of the message.
fn write_push(
    serializer: Serializer,
    [join_ref, reference]: [u32; 2],
    [topic, event, payload]: [&Text; 3],
    context: &TextContext<'_>,
    out: &mut Vec<u8>,
) {
    if serializer == Serializer::V1 {
        out.extend_from_slice(b"{\"topic\":\"");
        topic.write(context, out);
        out.extend_from_slice(b"\",\"event\":\"");
        event.write(context, out);
        out.extend_from_slice(b"\",\"payload\":");
        payload.write(context, out);
        let refs = format!(",\"ref\":\"{reference}\",\"join_ref\":\"{join_ref}\"}}");
        out.extend_from_slice(refs.as_bytes());
        return;
    }
    out.extend_from_slice(format!("[\"{join_ref}\",\"{reference}\",\"").as_bytes());
    topic.write(context, out);
    out.extend_from_slice(b"\",\"");
    event.write(context, out);
    out.extend_from_slice(b"\",");
    payload.write(context, out);
    out.push(b']');
}

/// The epoll events of a socket, edge-triggered.
fn interest(is_write_watched: bool) -> EventFlags {
    let writing = if is_write_watched { EventFlags::OUT } else { EventFlags::empty() };
    EventFlags::IN | EventFlags::RDHUP | EventFlags::ET | writing
}

/// The epoll key of a user. The number distinguishes it from later users of the same slot.
fn token(number: u32, index: usize) -> u64 {
    (u64::from(number) << 32) | index as u64
}
