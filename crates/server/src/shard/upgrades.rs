//! Upgrade requests, and requests for event streams, that wait until the backend has decided about their clients.
//!
//! Such a request is parked, so it costs its records and the first bytes that its client sends
//! meanwhile. `hooks.waiting_max` bounds their number, and `hooks.timeout` their time: the thread of
//! the hooks sends a decision about each.

use std::any::Any;
use std::sync::Arc;

use slab::Slab;
use watchfire_hooks::ConnectVerdict;
use watchfire_sockets::Sockets;
use watchfire_types::SocketId;

use super::client::{ConnectTicket, Opening, StreamJoin, Transport};
use super::clients::Clients;
use super::process_state::ProcessState;
use super::streams::{add_stream, refuse_stream};
use crate::addresses::CountedAddress;
use crate::channel_api::Connected;
use crate::hooks::ConnectReply;

/// Set in the keys of these requests, so that they differ from the keys of clients and of other parked
/// requests (`parking.rs`).
const UPGRADE_BIT: u32 = 1 << 30;

/// The requests about which the backend decides.
pub(super) struct WaitingUpgrades {
    shared: Arc<ProcessState>,
    waiting: Slab<WaitingUpgrade>,
}

struct WaitingUpgrade {
    socket: SocketId,
    opening: Opening,
    connected: Connected,
    counted: CountedAddress,
}

impl WaitingUpgrades {
    pub fn new(shared: Arc<ProcessState>) -> Self {
        WaitingUpgrades { shared, waiting: Slab::new() }
    }

    /// Whether this is the key of such a request, rather than of a client.
    pub fn has_form(key: u32) -> bool {
        key & UPGRADE_BIT != 0
    }

    /// Asks the backend about a client whose request is parked. Returns its key.
    pub fn park(&mut self, clients: &Clients, socket: SocketId, ticket: ConnectTicket) -> u32 {
        let ConnectTicket { opening, connected, counted, question } = ticket;
        let waiting = WaitingUpgrade { socket, opening, connected, counted };
        let key = self.waiting.insert(waiting) as u32 | UPGRADE_BIT;
        let to = ConnectReply::Shard { shard: clients.shard(), key, socket };
        self.shared.connect_rules.ask(question, to);
        key
    }

    /// Opens the WebSocket of a request that waited, or refuses it. `info` is the backend's decision. Returns the key and
    /// the join of an event stream, which the caller does.
    pub fn decide(
        &mut self,
        clients: &mut Clients,
        sockets: &mut Sockets,
        key: u32,
        socket: SocketId,
        info: Box<dyn Any + Send>,
    ) -> Option<(u32, StreamJoin)> {
        let verdict = info.downcast::<ConnectVerdict>().ok()?;
        // The client may have gone, or the server drains.
        let WaitingUpgrade { opening, connected, counted, .. } = self.remove(key, socket)?;
        match (self.shared.connect_rules.accept(*verdict, connected), opening) {
            (Ok(connected), Opening::Stream(join)) => {
                let key = add_stream(clients, socket, connected, counted.keep());
                sockets.set_parked_key(socket, key);
                return Some((key, join));
            }
            (Err(refusal), Opening::Stream(_)) => refuse_stream(sockets, socket, refusal),
            (Ok(connected), Opening::WebSocket { handshake, serializer }) => {
                tracing::debug!(?socket, ?serializer, "opened");
                let transport = Transport::WebSocket(socket);
                sockets.open_parked(socket, &handshake, || {
                    clients.add(transport, serializer, connected, counted.keep())
                });
            }
            (Err(refusal), Opening::WebSocket { .. }) => {
                sockets.refuse_parked(socket, refusal.status(), refusal.body());
            }
        }
        None
    }

    /// A client closed its connection before the decision.
    pub fn handle_close(&mut self, key: u32, socket: SocketId) {
        self.remove(key, socket);
    }

    /// The server stops: refuses the clients that wait. They connect to the next server.
    pub fn end_all(&mut self, sockets: &mut Sockets) {
        for waiting in self.waiting.drain() {
            sockets.refuse_parked(waiting.socket, 503, "the server restarts");
        }
    }

    /// Removes a request, if this socket has the key still.
    fn remove(&mut self, key: u32, socket: SocketId) -> Option<WaitingUpgrade> {
        let index = (key & !UPGRADE_BIT) as usize;
        let is_same = self.waiting.get(index).is_some_and(|waiting| waiting.socket == socket);
        is_same.then(|| self.waiting.remove(index))
    }
}
