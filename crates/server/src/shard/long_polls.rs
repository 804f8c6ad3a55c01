//! Requests of long-poll sessions.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::oneshot;
use watchfire_channels::Serializer;
use watchfire_channels::longpoll::{Input, Status};
use watchfire_sockets::Sockets;
use watchfire_types::{Instant, SocketId};

use super::client::Transport;
use super::clients::Clients;
use super::process_state::ProcessState;
use super::session::{SWEEP_TICKS, Session, SessionState, connection};
use crate::channel_api::Connected;
use crate::token::SessionId;

/// Opens the sessions of a shard, parks their polls, and ends those whose clients are silent.
pub(super) struct LongPolls {
    shared: Arc<ProcessState>,
    /// The key of the client that the sweep checked last.
    swept: u32,
}

impl LongPolls {
    pub fn new(shared: Arc<ProcessState>) -> Self {
        LongPolls { shared, swept: 0 }
    }

    pub fn open(
        &self,
        clients: &mut Clients,
        now: Instant,
        serializer: Serializer,
        connected: Connected,
        counted: Option<IpAddr>,
        token: oneshot::Sender<String>,
    ) {
        let (client, generation) = clients.next();
        let id = SessionId { node: clients.node(), shard: clients.shard(), client, generation };
        let transport = Transport::LongPoll(Box::new(Session::new(id, now)));
        clients.add(transport, serializer, connected, counted);
        // If the client is gone already, its session times out.
        token.send(self.shared.sessions.seal(id)).ok();
    }

    /// Parks a poll on a connection.
    pub fn park(&self, clients: &mut Clients, sockets: &mut Sockets, socket: SocketId, key: u32) {
        if let Some(session) = session_mut(clients, key)
            && session.park(&self.shared, sockets, socket) == SessionState::Ended
        {
            clients.end_session(sockets, key, Status::Gone);
        }
    }

    /// The connection of a poll has closed.
    pub fn poll_closed(
        &self,
        clients: &mut Clients,
        sockets: &mut Sockets,
        key: u32,
        socket: SocketId,
    ) {
        if let Some(session) = session_mut(clients, key) {
            session.parked = session.parked.filter(|parked| *parked != socket);
        }
        let input = Input::PollClosed { connection: connection(socket) };
        drive_session(&self.shared, clients, sockets, key, input);
    }

    /// Ends all sessions, for a drain.
    pub fn end_all(&self, clients: &mut Clients, sockets: &mut Sockets) {
        for key in 0..clients.key_count() {
            clients.end_session(sockets, key, Status::Restarting);
        }
    }

    /// Checks a tenth of the clients, so that the timeout of each session is checked once a second.
    pub fn sweep(&mut self, clients: &mut Clients, sockets: &mut Sockets, now: Instant) {
        let keys = clients.key_count();
        for _ in 0..keys.div_ceil(SWEEP_TICKS) {
            self.swept = if self.swept + 1 < keys { self.swept + 1 } else { 0 };
            if let Some(session) = session_mut(clients, self.swept)
                && !session.is_receiving(&self.shared, sockets)
                && session.state.next_wake(&self.shared.longpoll).is_some_and(|at| at <= now)
            {
                drive_session(&self.shared, clients, sockets, self.swept, Input::Tick);
            }
        }
    }
}

/// Whether a session is there, and has not ended.
pub(super) fn is_session(clients: &Clients, key: u32, generation: u32) -> bool {
    clients.get(key).is_some_and(|client| match &client.transport {
        Transport::LongPoll(session) => client.generation == generation && !session.is_ending(),
        Transport::WebSocket(_) | Transport::Events(_) => false,
    })
}

/// Gives a session an input, and ends the session if that was its last.
pub(super) fn drive_session(
    shared: &ProcessState,
    clients: &mut Clients,
    sockets: &mut Sockets,
    key: u32,
    input: Input,
) {
    if let Some(session) = session_mut(clients, key)
        && session.handle_input(shared, sockets, input) == SessionState::Ended
    {
        clients.end_session(sockets, key, Status::Gone);
    }
}

fn session_mut(clients: &mut Clients, key: u32) -> Option<&mut Session> {
    match &mut clients.get_mut(key)?.transport {
        Transport::LongPoll(session) => Some(session),
        Transport::WebSocket(_) | Transport::Events(_) => None,
    }
}
