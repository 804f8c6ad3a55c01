//! Long-poll sessions: clients whose messages wait for their next poll.

use bytes::Bytes;
use watchfire_channels::longpoll::{
    EndReason, Input, LongPoll, LongPollLimits, Output, Status, encode_answer,
};
use watchfire_sockets::Sockets;
use watchfire_types::{Instant, SocketId};

use super::process_state::ProcessState;
use crate::token::SessionId;

/// The content type of every long-poll response.
pub(crate) const CONTENT_TYPE: &str = "application/json; charset=utf-8";
/// Ticks in which the age of every session and parked request is checked once.
pub(super) const SWEEP_TICKS: u32 = 10;

/// How many times its limits the queue of a client that polls in time may hold, if it is filled with
/// broadcasts, whose memory all sessions share.
const LEEWAY: u32 = 16;

/// Whether a session continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum SessionState {
    Open,
    Ended,
}

/// A long-poll session and the connection that its poll is parked on.
pub(super) struct Session {
    pub id: SessionId,
    pub state: LongPoll,
    pub parked: Option<SocketId>,
    /// Whether the session's client is removed at the end of this call of the event loop.
    is_ending: bool,
    /// The connection of the last answer.
    answered: Option<SocketId>,
    /// When it was last known that the client has not received that answer.
    received_at: Instant,
}

impl Session {
    /// A session whose client has not polled yet.
    pub fn new(id: SessionId, now: Instant) -> Self {
        Session {
            id,
            state: LongPoll::new(now),
            parked: None,
            is_ending: false,
            answered: None,
            received_at: now,
        }
    }

    /// Whether the session has ended. Its client is removed at the end of this call of the event
    /// loop.
    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Ends the session: it takes no more messages, and its poll is answered. Returns whether this
    /// is its end, and not a repetition.
    pub fn end(&mut self, sockets: &mut Sockets, status: Status) -> bool {
        if self.is_ending {
            return false;
        }
        self.is_ending = true;
        self.state.close(sockets.now());
        if let Some(parked) = self.parked.take() {
            answer(sockets, parked, status, None, &[]);
        }
        true
    }

    /// Gives the session an input, and sends its responses.
    pub fn handle_input(
        &mut self,
        shared: &ProcessState,
        sockets: &mut Sockets,
        input: Input,
    ) -> SessionState {
        // Broadcasts have filled the queue of a client that polls in time: other messages follow them.
        let leeway = if self.is_over(&shared.longpoll) { LEEWAY } else { 1 };
        self.handle_with(shared, sockets, input, leeway)
    }

    /// `leeway`: how many times its limits the queue may hold, while the client polls in time.
    fn handle_with(
        &mut self,
        shared: &ProcessState,
        sockets: &mut Sockets,
        input: Input,
        leeway: u32,
    ) -> SessionState {
        let mut state = SessionState::Open;
        let mut outputs = Vec::new();
        let leeway = if self.polls_in_time(shared, sockets) { leeway } else { 1 };
        let limits = LongPollLimits { leeway, ..shared.longpoll };
        self.state.handle_input(sockets.now(), &limits, input, &mut outputs);
        for output in outputs {
            match output {
                Output::Answer { connection, status, messages } => {
                    let socket = socket_of(connection);
                    self.parked = self.parked.filter(|parked| *parked != socket);
                    self.answered = Some(socket);
                    let token = shared.sessions.seal(self.id);
                    answer(sockets, socket, status, Some(&token), &messages);
                }
                Output::End { reason } => {
                    shared.metrics.refused(match reason {
                        EndReason::IdleTimeout => "longpoll_silent",
                        EndReason::TooManyMessages => "longpoll_frames",
                        EndReason::TooManyBytes => "longpoll_bytes",
                    });
                    state = SessionState::Ended;
                }
            }
        }
        state
    }

    /// Queues a broadcast for the next poll. While the client polls in time and there `has_room` for
    /// more broadcasts in memory, the queue may exceed its limits.
    pub fn queue_shared(
        &mut self,
        shared: &ProcessState,
        sockets: &mut Sockets,
        message: Bytes,
        has_room: bool,
    ) -> SessionState {
        let leeway = if has_room { LEEWAY } else { 1 };
        self.handle_with(shared, sockets, Input::Message(message), leeway)
    }

    /// Whether publishers to the client should wait for its next poll.
    pub fn is_awaited(&self, shared: &ProcessState, sockets: &Sockets) -> bool {
        let LongPollLimits { queued_bytes_max, queued_messages_max, .. } = shared.longpoll;
        let half = LongPollLimits {
            queued_bytes_max: queued_bytes_max / 2,
            queued_messages_max: queued_messages_max / 2,
            ..shared.longpoll
        };
        self.is_over(&half) && self.polls_in_time(shared, sockets)
    }

    fn is_over(&self, limits: &LongPollLimits) -> bool {
        self.state.queued_bytes() > limits.queued_bytes_max
            || self.state.queued_messages() > limits.queued_messages_max as usize
    }

    /// Whether the client still receives the last answer, or has had no time to poll since then.
    pub fn is_receiving(&mut self, shared: &ProcessState, sockets: &Sockets) -> bool {
        if self.answered.is_some_and(|socket| sockets.queued_bytes(socket) > 0) {
            self.received_at = sockets.now();
        }
        sockets.now().since(self.received_at) < shared.longpoll.window
    }

    fn polls_in_time(&self, shared: &ProcessState, sockets: &Sockets) -> bool {
        let waited = sockets.now().since(self.state.since());
        waited < shared.endpoint.flows().wait_max() / 2
    }

    /// Parks a poll on a connection.
    pub fn park(
        &mut self,
        shared: &ProcessState,
        sockets: &mut Sockets,
        socket: SocketId,
    ) -> SessionState {
        let connection = connection(socket);
        // An older poll is answered first, which clears its own connection.
        let state = self.handle_input(shared, sockets, Input::Poll { connection });
        if self.state.is_parked() {
            self.parked = Some(socket);
        }
        state
    }
}

/// A socket's id as a session names its connections.
pub(super) fn connection(socket: SocketId) -> u64 {
    u64::from(socket.generation) << 32 | u64::from(socket.index)
}

fn socket_of(connection: u64) -> SocketId {
    SocketId { index: connection as u32, generation: (connection >> 32) as u32 }
}

/// Answers a parked poll.
pub(super) fn answer(
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
