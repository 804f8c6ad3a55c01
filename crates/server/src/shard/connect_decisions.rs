//! Upgrade requests that wait until the backend has decided about their clients.
//!
//! Such a request is parked, so it costs its records and the first bytes that its client sends
//! meanwhile. `hooks.waiting_max` bounds their number, and `hooks.timeout` their time: the thread of
//! the hooks sends a decision about each.

use std::any::Any;

use watchfire_hooks::ConnectVerdict;
use watchfire_sockets::Sockets;
use watchfire_types::SocketId;

use super::client::{ConnectTicket, Transport};
use super::state::Shard;
use super::waiting::WaitingUpgrade;
use crate::hooks::ConnectReply;

impl Shard {
    /// Asks the backend about a client whose upgrade request is parked.
    pub(super) fn park_connect(&mut self, socket: SocketId, ticket: ConnectTicket) -> u32 {
        let ConnectTicket { handshake, serializer, connected, counted, question } = ticket;
        let waiting = WaitingUpgrade { socket, handshake, serializer, connected, counted };
        let key = self.upgrades.insert(waiting);
        let to = ConnectReply::Shard { shard: self.id, key, socket };
        self.shared.connect_rules.ask(question, to);
        key
    }

    /// Opens the WebSocket of a request that waited, or refuses it.
    pub(super) fn continue_connect(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        socket: SocketId,
        info: Box<dyn Any + Send>,
    ) {
        let Ok(verdict) = info.downcast::<ConnectVerdict>() else { return };
        // The client may have gone, or the server drains.
        let Some(waiting) = self.upgrades.remove(key, socket) else { return };
        let WaitingUpgrade { handshake, serializer, connected, counted, .. } = waiting;
        match self.shared.connect_rules.accept(*verdict, connected) {
            Ok(connected) => {
                tracing::debug!(?socket, ?serializer, "opened");
                let transport = Transport::WebSocket(socket);
                sockets.open_parked(socket, &handshake, || {
                    self.add_client(transport, serializer, connected, counted.keep())
                });
            }
            Err(refusal) => sockets.refuse_parked(socket, refusal.status(), refusal.body()),
        }
    }

    /// A client closed its connection before the decision.
    pub(super) fn waiting_upgrade_closed(&mut self, key: u32, socket: SocketId) {
        self.upgrades.remove(key, socket);
    }

    /// The server stops: refuses the clients that wait. They connect to the next server.
    pub(super) fn end_waiting_upgrades(&mut self, sockets: &mut Sockets) {
        for waiting in self.upgrades.0.drain() {
            sockets.refuse_parked(waiting.socket, 503, "the server restarts");
        }
    }
}
