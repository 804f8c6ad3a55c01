//! The callbacks of the event loop.

use std::net::SocketAddr;

use bytes::Bytes;
use watchfire_sockets::{
    CloseCause, HandoffConnection, HandoffTarget, RequestHead, Route, SocketHandler, Sockets,
};
use watchfire_types::{Instant, SocketId};

use super::client::{Ticket, Transport};
use super::state::Shard;
use super::waiting::{ParkedRequests, WaitingUpgrades};
use crate::channel_api::ShardMessage;
use crate::cluster::ProcessLoad;

/// Messages sent before the event loop handles everything else again.
const SLICE: usize = 2_000;

impl SocketHandler for Shard {
    type Ticket = Ticket;
    type Message = ShardMessage;

    fn route(&mut self, _: Instant, from: SocketAddr, head: &RequestHead<'_>) -> Route<Ticket> {
        self.route_request(from, head)
    }

    fn handle_open(&mut self, _: &mut Sockets, socket: SocketId, ticket: Ticket) -> u32 {
        self.open_websocket(socket, ticket)
    }

    fn handle_park(&mut self, sockets: &mut Sockets, socket: SocketId, ticket: Ticket) -> u32 {
        self.run_call(sockets, |shard, sockets| shard.park(sockets, socket, ticket))
    }

    fn handle_request(
        &mut self,
        sockets: &mut Sockets,
        ticket: Ticket,
        body: &[u8],
    ) -> Option<[Bytes; 2]> {
        self.run_call(sockets, |shard, _| shard.answer_request(ticket, body))
    }

    fn handle_text(&mut self, sockets: &mut Sockets, _: SocketId, key: u32, text: &str) {
        self.run_call(sockets, |shard, sockets| shard.receive_text(sockets, key, text));
    }

    fn handle_binary(&mut self, sockets: &mut Sockets, _: SocketId, key: u32, bytes: &[u8]) {
        self.run_call(sockets, |shard, sockets| shard.receive_binary(sockets, key, bytes));
    }

    fn handle_close(
        &mut self,
        sockets: &mut Sockets,
        socket: SocketId,
        key: u32,
        cause: CloseCause,
    ) {
        self.run_call(sockets, |shard, sockets| shard.close(sockets, socket, key, cause));
    }

    fn handle_message(&mut self, sockets: &mut Sockets, message: ShardMessage) {
        self.run_call(sockets, |shard, sockets| shard.handle_shard_message(sockets, message));
    }

    fn handle_tick(&mut self, sockets: &mut Sockets, now: Instant) {
        self.run_call(sockets, |shard, sockets| shard.tick(sockets, now));
    }

    fn handle_relief(&mut self, sockets: &mut Sockets) {
        self.relieve_few_topics(sockets);
    }

    fn run_pending_work(&mut self, sockets: &mut Sockets) -> bool {
        self.run_call(sockets, Shard::run_slice)
    }

    fn hand_off(
        &mut self,
        to: HandoffTarget,
        connection: HandoffConnection,
    ) -> Result<(), HandoffConnection> {
        self.shared.cluster.hand_off(to, connection)
    }

    fn handle_drain(&mut self, sockets: &mut Sockets) {
        self.run_call(sockets, |shard, sockets| {
            shard.end_waits(sockets);
            shard.end_sessions(sockets);
            shard.end_parked(sockets);
            shard.end_waiting_upgrades(sockets);
        });
    }
}

impl Shard {
    /// Runs one call of the event loop, and then removes the clients whose sessions it ended.
    fn run_call<R>(
        &mut self,
        sockets: &mut Sockets,
        call: impl FnOnce(&mut Shard, &mut Sockets) -> R,
    ) -> R {
        let result = call(self, sockets);
        self.remove_ended_sessions(sockets);
        result
    }

    fn park(&mut self, sockets: &mut Sockets, socket: SocketId, ticket: Ticket) -> u32 {
        match ticket {
            Ticket::Poll { session } => self.park_poll(sockets, socket, session),
            Ticket::Parked { name, client } => self.park_request(sockets, socket, &name, client),
            Ticket::Connecting(ticket) => self.park_connect(socket, *ticket),
            Ticket::WebSocket { .. } | Ticket::Answered { .. } => {
                unreachable!("only a ticket of a request that waits parks it")
            }
        }
    }

    fn close(&mut self, sockets: &mut Sockets, socket: SocketId, key: u32, cause: CloseCause) {
        if WaitingUpgrades::has_form(key) {
            return self.waiting_upgrade_closed(key, socket);
        }
        if ParkedRequests::has_form(key) {
            self.parked_request_closed(sockets, key, socket);
            return;
        }
        match self.clients.get(key as usize).map(|client| &client.transport) {
            Some(Transport::WebSocket(open)) if *open == socket => {
                tracing::debug!(?socket, ?cause, "closed");
                self.remove_client(sockets, key);
            }
            Some(Transport::LongPoll(_)) => self.poll_closed(sockets, key, socket),
            _ => {}
        }
    }

    fn tick(&mut self, sockets: &mut Sockets, now: Instant) {
        self.resume_joins(sockets);
        self.resume_awaiting(sockets);
        self.resume_crowded(sockets);
        self.relieve_topics(sockets);
        self.resume_publishers(sockets, None);
        self.sweep_sessions(sockets, now);
        self.sweep_parked(sockets, now);
        self.watches.end_silent(now);
        self.metrics.topics_now.set(self.hub.topics() as u64);
        if self.is_first() {
            let clients = self.shared.metrics.clients();
            let connections = sockets.connections();
            self.shared.memory.handle_tick(now, connections);
            let load = ProcessLoad { clients, connections };
            self.shared.cluster.report_load(load);
            self.shared.endpoint.report_flows();
            self.begin_presence_round(now);
            self.broadcast_presence(now);
            self.shared.parts.iter().for_each(|part| part.handle_tick(now));
        }
    }

    /// Delivers some queued broadcasts, and does some other pending work. Returns whether more is
    /// to do.
    fn run_slice(&mut self, sockets: &mut Sockets) -> bool {
        if std::mem::take(&mut self.history.is_ready) {
            self.resume_awaiting(sockets);
        }
        let has_deliveries = self.deliver_slice(sockets, SLICE);
        let has_scans = self.scan_slice(sockets);
        if has_deliveries || !self.presence_rounds.is_running() {
            return has_deliveries || has_scans;
        }
        // The last changes of presence were sent: queue the next few.
        self.broadcast_presence(sockets.now());
        has_scans || self.hub.waiting() > 0
    }
}
