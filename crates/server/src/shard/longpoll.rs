//! Requests of long-poll sessions.

use std::net::{IpAddr, SocketAddr};

use tokio::sync::oneshot;
use watchfire_channels::Serializer;
use watchfire_channels::longpoll::{Frame, Input, Status, decode_body};
use watchfire_sockets::{RequestHead, Route, Sockets};
use watchfire_types::{Instant, SocketId};

use super::awaited::PostAnswer;
use super::client::{Ticket, Transport};
use super::session::{SWEEP_TICKS, Session, SessionState, connection};
use super::state::Shard;
use crate::channel_api::Connected;
use crate::token::{SessionId, TokenKey, request_token};

impl Shard {
    /// A request for a session of another process goes there. A GET for a session of this shard is
    /// parked; a GET for a session of another shard moves there. All other requests go to the
    /// router, which opens sessions and reads POSTs.
    pub(super) fn route_poll(&self, from: SocketAddr, head: &RequestHead<'_>) -> Route<Ticket> {
        let header = head.header("x-phoenix-longpoll-token");
        let token = request_token(header, head.query());
        if let Some(node) = token.and_then(TokenKey::node_of)
            && node != self.shared.cluster.me()
            && self.shared.cluster.can_move_to(node)
        {
            return Route::HandOff(node);
        }
        if head.method() != "GET" {
            return Route::Http;
        }
        match token.and_then(|token| self.shared.sessions.open(token)) {
            Some(id) if id.shard != self.id => Route::Move(id.shard),
            Some(id) if self.is_session(id.client, id.generation) => {
                Route::Park { ticket: Ticket::Poll { session: id.client } }
            }
            // The router opens a session.
            _ => match self.shared.addresses.decider(self.client_of(from, head).from.ip()) {
                Some(decider) => Route::HandOff(decider),
                None => Route::Http,
            },
        }
    }

    fn is_session(&self, key: u32, generation: u32) -> bool {
        self.clients.get(key as usize).is_some_and(|client| match &client.transport {
            Transport::LongPoll(session) => client.generation == generation && !session.is_ending(),
            Transport::WebSocket(_) => false,
        })
    }

    /// Whether a client is there, and its session has not ended.
    pub(super) fn is_connected(&self, key: u32) -> bool {
        self.clients.get(key as usize).is_some_and(|client| !client.is_ending())
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
        let node = self.shared.cluster.me();
        let id = SessionId { node, shard: self.id, client, generation };
        let session = Session::new(id, now);
        self.add_client(Transport::LongPoll(Box::new(session)), serializer, connected, counted);
        // If the client is gone already, its session times out.
        token.send(self.shared.sessions.seal(id)).ok();
    }

    pub(super) fn park_poll(&mut self, sockets: &mut Sockets, socket: SocketId, key: u32) -> u32 {
        let client = self.clients.get_mut(key as usize).map(|client| &mut client.transport);
        if let Some(Transport::LongPoll(session)) = client
            && session.park(&self.shared, sockets, socket) == SessionState::Ended
        {
            self.end_session(sockets, key);
        }
        self.relieve_few_topics(sockets);
        key
    }

    pub(super) fn poll_closed(&mut self, sockets: &mut Sockets, key: u32, socket: SocketId) {
        if let Some(client) = self.clients.get_mut(key as usize)
            && let Transport::LongPoll(session) = &mut client.transport
        {
            session.parked = session.parked.filter(|parked| *parked != socket);
        }
        self.drive_session(sockets, key, Input::PollClosed { connection: connection(socket) });
    }

    /// Handles the messages of a POST, and returns the status for its body.
    pub(super) fn receive_post(
        &mut self,
        sockets: &mut Sockets,
        id: SessionId,
        content_type: Option<&str>,
        body: &[u8],
        status: PostAnswer,
    ) {
        self.backpressure.post_topic = None;
        let result = if self.is_session(id.client, id.generation) {
            decode_body(content_type, body).map(|frames| {
                for frame in frames {
                    match frame {
                        Frame::Text(text) => self.receive_text(sockets, id.client, text),
                        Frame::Binary(bytes) => self.receive_binary(sockets, id.client, &bytes),
                    }
                }
                // A message may have ended the session. Those after it were not read.
                match self.is_session(id.client, id.generation) {
                    true => Status::Ok,
                    false => Status::Gone,
                }
            })
        } else {
            Ok(Status::Gone)
        };
        self.answer_post(sockets, status, result);
    }

    /// Gives a session an input, and ends the session if that was its last.
    pub(super) fn drive_session(&mut self, sockets: &mut Sockets, key: u32, input: Input) {
        let client = self.clients.get_mut(key as usize).map(|client| &mut client.transport);
        if let Some(Transport::LongPoll(session)) = client
            && session.handle_input(&self.shared, sockets, input) == SessionState::Ended
        {
            self.end_session(sockets, key);
        }
    }

    /// Ends a session: answers its poll. Its token becomes invalid. Its channels end when this call
    /// of the event loop does, because the caller may still use them.
    pub(super) fn end_session(&mut self, sockets: &mut Sockets, key: u32) {
        self.end_session_with(sockets, key, Status::Gone);
    }

    fn end_session_with(&mut self, sockets: &mut Sockets, key: u32, status: Status) {
        let Some(client) = self.clients.get_mut(key as usize) else { return };
        if let Transport::LongPoll(session) = &mut client.transport
            && session.end(sockets, status)
        {
            self.ended_sessions.push(key);
        }
    }

    /// Removes the clients whose sessions have ended. Only the end of a call of the event loop does
    /// so: then nothing else holds a client, a channel or a subscription.
    pub(super) fn remove_ended_sessions(&mut self, sockets: &mut Sockets) {
        // The `leave` of a channel may end the session of another client.
        while let Some(key) = self.ended_sessions.pop() {
            self.remove_client(sockets, key);
        }
    }

    /// Ends all sessions, for a drain.
    pub(super) fn end_sessions(&mut self, sockets: &mut Sockets) {
        for key in 0..self.clients.key_count() as u32 {
            self.end_session_with(sockets, key, Status::Restarting);
        }
    }

    /// Checks a tenth of the clients, so that the timeout of each session is checked once a second.
    pub(super) fn sweep_sessions(&mut self, sockets: &mut Sockets, now: Instant) {
        let keys = self.clients.key_count();
        for _ in 0..keys.div_ceil(SWEEP_TICKS) {
            self.swept = if self.swept + 1 < keys { self.swept + 1 } else { 0 };
            let client = self.clients.get_mut(self.swept).map(|client| &mut client.transport);
            if let Some(Transport::LongPoll(session)) = client
                && !session.is_receiving(&self.shared, sockets)
                && session.state.next_wake(&self.shared.longpoll).is_some_and(|at| at <= now)
            {
                self.drive_session(sockets, self.swept as u32, Input::Tick);
            }
        }
    }
}
