//! Long-poll sessions: clients whose messages wait for their next poll.

use std::net::IpAddr;

use bytes::Bytes;
use channels::Serializer;
use channels::longpoll::{
    BodyError, EndReason, Frame, Input, LongPoll, LongPollLimits, Output, Status, decode_body,
    encode_answer,
};
use edge::{RequestHead, Route, Sockets};
use tokio::sync::oneshot;
use vocab::{Instant, SocketId};

use super::client::Transport;
use super::{Shard, Ticket};
use crate::app::Connected;
use crate::token::{SessionId, TokenKey};
use crate::world::World;

/// What every long-poll answer is.
pub(crate) const CONTENT_TYPE: &str = "application/json; charset=utf-8";
/// Ticks in which every session is looked at once.
pub(super) const SWEEP_TICKS: usize = 10;

/// The token of a long poll, wherever its client puts it; the header wins.
pub(crate) fn token<'a>(header: Option<&'a str>, query: &'a str) -> Option<&'a str> {
    let in_query = || query.split('&').find_map(|pair| pair.strip_prefix("token="));
    header.or_else(in_query).filter(|token| !token.is_empty())
}

impl World {
    pub(crate) fn longpoll_limits(&self) -> LongPollLimits {
        LongPollLimits {
            window: self.settings.socket.longpoll_window,
            queued_messages_max: self.settings.limits.longpoll_frames_max,
            queued_bytes_max: self.settings.limits.longpoll_bytes_max,
        }
    }
}

impl Shard {
    /// A request for a session of another process goes there. A GET for one that lives here is
    /// parked, for one on another shard moves there, and all else goes to the router, which opens
    /// sessions and reads POSTs.
    pub(super) fn route_poll(&self, head: &RequestHead<'_>) -> Route<Ticket> {
        let token = token(head.header("x-phoenix-longpoll-token"), head.query());
        if let Some(node) = token.and_then(TokenKey::node_of)
            && node != self.world.cluster.me()
            && self.world.cluster.is_up(node)
        {
            return Route::Away(node);
        }
        if head.method() != "GET" {
            return Route::Http;
        }
        match token.and_then(|token| self.world.sessions.open(token)) {
            Some(id) if id.shard != self.id => Route::Move(id.shard),
            Some(id) if self.is_session(id.client, id.generation) => {
                Route::Park { ticket: Ticket::Poll { session: id.client } }
            }
            _ => Route::Http,
        }
    }

    fn is_session(&self, key: u32, generation: u32) -> bool {
        self.clients.get(key as usize).is_some_and(|client| {
            matches!(client.transport, Transport::LongPoll(_)) && client.generation == generation
        })
    }

    pub(super) fn open_session(
        &mut self,
        now: Instant,
        serializer: Serializer,
        connected: Connected,
        counted: Option<IpAddr>,
        token: oneshot::Sender<String>,
    ) {
        let (client, generation) = self.clients.next();
        let node = self.world.cluster.me();
        let id = SessionId { node, shard: self.id, client, generation };
        let session = Session { id, state: LongPoll::new(now), parked: None };
        self.add_client(Transport::LongPoll(Box::new(session)), serializer, connected, counted);
        // A client that hung up meanwhile leaves a session behind that ends by its silence.
        token.send(self.world.sessions.seal(id)).ok();
    }

    pub(super) fn park_poll(&mut self, sockets: &mut Sockets, socket: SocketId, key: u32) -> u32 {
        let client = self.clients.get_mut(key as usize).map(|client| &mut client.transport);
        if let Some(Transport::LongPoll(session)) = client
            && session.park(&self.world, sockets, socket) == Life::Over
        {
            self.end_session(sockets, key);
        }
        key
    }

    pub(super) fn poll_gone(&mut self, sockets: &mut Sockets, key: u32, socket: SocketId) {
        if let Some(client) = self.clients.get_mut(key as usize)
            && let Transport::LongPoll(session) = &mut client.transport
        {
            session.parked = session.parked.filter(|parked| *parked != socket);
        }
        self.drive_session(sockets, key, Input::PollGone { connection: connection(socket) });
    }

    /// Handle a POST's messages; answers with the status for its body.
    pub(super) fn hear_post(
        &mut self,
        sockets: &mut Sockets,
        id: SessionId,
        content_type: Option<&str>,
        body: &[u8],
        status: oneshot::Sender<Result<Status, BodyError>>,
    ) {
        let result = if self.is_session(id.client, id.generation) {
            decode_body(content_type, body).map(|frames| {
                for frame in frames {
                    self.hear_posted(sockets, id, &frame);
                }
                Status::Ok
            })
        } else {
            Ok(Status::Gone)
        };
        status.send(result).ok();
    }

    fn hear_posted(&mut self, sockets: &mut Sockets, id: SessionId, frame: &Frame<'_>) {
        // An earlier message of the same POST may have ended the session.
        if self.is_session(id.client, id.generation) {
            match frame {
                Frame::Text(text) => self.hear_text(sockets, id.client, text),
                Frame::Binary(bytes) => self.hear_binary(sockets, id.client, bytes),
            }
        }
    }

    /// Give a session an input, and end it when that is what follows.
    pub(super) fn drive_session(&mut self, sockets: &mut Sockets, key: u32, input: Input) {
        let client = self.clients.get_mut(key as usize).map(|client| &mut client.transport);
        if let Some(Transport::LongPoll(session)) = client
            && session.handle_input(&self.world, sockets, input) == Life::Over
        {
            self.end_session(sockets, key);
        }
    }

    /// A session is over: its poll learns it, its channels end, its token is worth nothing.
    pub(super) fn end_session(&mut self, sockets: &mut Sockets, key: u32) {
        let Some(client) = self.clients.get_mut(key as usize) else { return };
        let Transport::LongPoll(session) = &mut client.transport else { return };
        if let Some(parked) = session.parked.take() {
            answer(sockets, parked, Status::Gone, None, &[]);
        }
        self.remove_client(sockets, key);
    }

    pub(super) fn end_sessions(&mut self, sockets: &mut Sockets) {
        for key in 0..self.clients.places() as u32 {
            self.end_session(sockets, key);
        }
    }

    /// Look at a tenth of the clients, so that each session's time is checked once a second.
    pub(super) fn sweep_sessions(&mut self, sockets: &mut Sockets, now: Instant) {
        let slots = self.clients.places();
        let limits = self.world.longpoll_limits();
        for _ in 0..slots.div_ceil(SWEEP_TICKS) {
            self.swept = if self.swept + 1 < slots { self.swept + 1 } else { 0 };
            let client = self.clients.get(self.swept).map(|client| &client.transport);
            if let Some(Transport::LongPoll(session)) = client
                && session.state.next_wake(&limits).is_some_and(|at| at <= now)
            {
                self.drive_session(sockets, self.swept as u32, Input::Tick);
            }
        }
    }
}

/// Does a session go on?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Life {
    GoesOn,
    Over,
}

/// A long-poll session and the connection that its poll is parked on.
pub(super) struct Session {
    id: SessionId,
    state: LongPoll,
    parked: Option<SocketId>,
}

impl Session {
    pub fn handle_input(&mut self, world: &World, sockets: &mut Sockets, input: Input) -> Life {
        let mut life = Life::GoesOn;
        let mut outputs = Vec::new();
        self.state.handle_input(sockets.now(), &world.longpoll_limits(), input, &mut outputs);
        for output in outputs {
            match output {
                Output::Answer { connection, status, messages } => {
                    let socket = socket_of(connection);
                    self.parked = self.parked.filter(|parked| *parked != socket);
                    let token = world.sessions.seal(self.id);
                    answer(sockets, socket, status, Some(&token), &messages);
                }
                Output::End { reason } => {
                    world.metrics.refused(match reason {
                        EndReason::Silent => "longpoll_silent",
                        EndReason::TooManyMessages => "longpoll_frames",
                        EndReason::TooManyBytes => "longpoll_bytes",
                    });
                    life = Life::Over;
                }
            }
        }
        life
    }

    /// A poll waits on this connection from now on.
    fn park(&mut self, world: &World, sockets: &mut Sockets, socket: SocketId) -> Life {
        let connection = connection(socket);
        // The older poll, if there is one, is answered first, and forgets its own connection.
        let life = self.handle_input(world, sockets, Input::Poll { connection });
        if self.state.is_parked() {
            self.parked = Some(socket);
        }
        life
    }
}

/// A socket's id as the session names its connections.
fn connection(socket: SocketId) -> u64 {
    u64::from(socket.generation) << 32 | u64::from(socket.index)
}

fn socket_of(connection: u64) -> SocketId {
    SocketId { index: connection as u32, generation: (connection >> 32) as u32 }
}

fn answer(
    sockets: &mut Sockets,
    socket: SocketId,
    status: Status,
    token: Option<&str>,
    messages: &[Bytes],
) {
    let mut body = Vec::new();
    encode_answer(status, token, messages, &mut body);
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {CONTENT_TYPE}\r\ncache-control: no-store\r\n\
         access-control-allow-origin: *\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    sockets.answer(socket, &[head.into(), body.into()]);
}
