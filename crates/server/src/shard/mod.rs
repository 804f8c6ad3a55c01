//! One event loop's part of the server: its clients, their channels, and the messages to them.
//!
//! [`ServerShard`] is a [`watchfire_sockets::SocketHandler`]. It passes received messages to the protocol
//! cores and to channels, and sends their results. This file has its state and the calls of the event
//! loop; `receiving` decodes messages and applies the protocol's rules and the rate limits; `joining`
//! handles joins and leaves; `callbacks` handles the results of an application's callbacks, and `effects`
//! the effects that they requested; `questions` answers questions of other threads.
//!
//! Everything else is a part. A part owns its state, and gets what it needs as arguments:
//!
//! - `clients` has the clients, their subscriptions and their channels;
//! - `deliveries` sends to one client, and broadcasts in slices;
//! - `callbacks` runs an application's callbacks;
//! - `waiting_joins` has the joins that wait, and the messages after them;
//! - `histories` replays missed messages at a join, on topics with a history;
//! - `long_polls` has the long-poll sessions, `streams` the requests for event streams, `parking` the requests that
//!   features park, `upgrades` those that wait until the backend has decided about their clients;
//! - `backpressure` knows whose queues are full and move, and which publishers wait for them;
//! - `presence_rounds` broadcasts the changes of presence;
//! - `connection_scan` looks for connections and topics for an operator, who sees them as `connections` shows
//!   them, with the rates of `topic_traffic`; `watched_clients` keeps the last messages of a few.
//!
//! `connecting` routes requests, and `connect_rules` decides whether their clients may connect.
//!
//! # Ends of clients
//!
//! A message to a client may end it. A message to a WebSocket closes the socket when the queue is
//! full, and a message to a long-poll session ends the session. Any call into a channel sends
//! messages, also to other clients: the push of a presence list, the reply to forwarded data. If
//! such a message removed its client, the code that sent it would hold a channel that is gone.
//!
//! So no message removes a client. A closed socket is reported by `crates/sockets` in a call of its
//! own (`handle_close`). A session that ends takes no more messages, and its client is removed when
//! the call of the event loop that ended it is over (`ServerShard::run_call`). Until
//! then every client, channel and subscription that the call has looked up is there.
//!
//! # Slow readers
//!
//! The socket of a slow reader is closed in `crates/sockets`, not here: `sockets::outbound_queue` queues
//! the frames that the kernel's buffer does not take, and closes the socket with 1013 when its
//! queue is over `limits.queued_bytes_max` and does not move, or makes no progress for
//! `socket.slow_timeout`. That crate alone knows how much a socket has read. It then calls
//! `handle_close` here, and the client's channels end as for any other close.
//!
//! This folder adds three rules. Publishers wait for a queue that is full and moves
//! (`backpressure`). Forwarded data is offered with a lower bound (`effects`): when the queue is over
//! the part of the limit that its [`Forward`](crate::channel_api::Forward) allows, the sender gets an
//! error and may send to another peer, and the socket stays open. A long-poll session has its own queue (`watchfire_channels::longpoll`), which
//! ends the session when it is full and the client does not poll.

mod backpressure;
mod callbacks;
mod client;
mod clients;
mod connect_rules;
mod connecting;
mod connection_scan;
mod connections;
mod deliveries;
mod effects;
mod histories;
mod joining;
mod long_polls;
mod parking;
mod presence_rounds;
mod process_state;
mod questions;
mod receiving;
mod refused_origins;
mod session;
mod spans;
mod stream_answers;
mod streams;
mod subscriptions;
mod topic_traffic;
mod upgrades;
mod waiting_joins;
mod watched_clients;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use watchfire_channels::Message;
use watchfire_sockets::{
    CloseCause, HandoffConnection, HandoffTarget, RequestHead, Route, SocketHandler, Sockets,
};
use watchfire_types::{Instant, ShardId, SocketId};

use self::backpressure::Backpressure;
use self::callbacks::Callbacks;
use self::client::{Ticket, Transport, id_topic};
use self::clients::Clients;
use self::connecting::route_request;
use self::connection_scan::Scans;
use self::deliveries::Deliveries;
use self::histories::{Histories, Order};
use self::long_polls::LongPolls;
use self::parking::ParkedRequests;
use self::presence_rounds::PresenceRounds;
use self::upgrades::WaitingUpgrades;
use self::waiting_joins::{Wait, WaitingJoins};
use crate::channel_api::{Body, Broadcast, ChannelAddress, Encoded, Reply, ReplyTo, ShardMessage};
use crate::cluster::ProcessLoad;
use crate::metrics::ShardMetrics;

pub(crate) use self::connect_rules::{
    Admitted, ConnectHook, ConnectRefusal, ConnectRequest, ConnectRules, origin_of,
};
pub(crate) use self::process_state::ProcessState;
pub(crate) use self::refused_origins::RefusedOrigins;
pub(crate) use self::session::CONTENT_TYPE;
pub(crate) use self::streams::STREAM_PATH;

/// Messages sent before the event loop handles everything else again.
const SLICE: usize = 2_000;

/// One event loop's clients, topics and channels.
pub(crate) struct ServerShard {
    id: ShardId,
    shared: Arc<ProcessState>,
    metrics: Arc<ShardMetrics>,
    clients: Clients,
    deliveries: Deliveries,
    callbacks: Callbacks,
    joins: WaitingJoins,
    histories: Histories,
    long_polls: LongPolls,
    parked: ParkedRequests,
    upgrades: WaitingUpgrades,
    backpressure: Backpressure,
    presence_rounds: PresenceRounds,
    scans: Scans,
    /// Channels that an operator ends.
    ending: Vec<ChannelAddress>,
}

impl SocketHandler for ServerShard {
    type Ticket = Ticket;
    type Message = ShardMessage;

    fn route(&mut self, _: Instant, from: SocketAddr, head: &RequestHead<'_>) -> Route<Ticket> {
        route_request(&self.shared, &self.clients, from, head)
    }

    fn handle_open(&mut self, _: &mut Sockets, socket: SocketId, ticket: Ticket) -> u32 {
        let Ticket::WebSocket { serializer, connected, counted } = ticket else {
            unreachable!("the ticket of a parked request opens no WebSocket at once")
        };
        tracing::debug!(?socket, ?serializer, "opened");
        self.clients.add(Transport::WebSocket(socket), serializer, connected, counted)
    }

    fn handle_park(&mut self, sockets: &mut Sockets, socket: SocketId, ticket: Ticket) -> u32 {
        self.run_call(sockets, |shard, sockets| shard.park(sockets, socket, ticket))
    }

    fn handle_request(
        &mut self,
        _: &mut Sockets,
        ticket: Ticket,
        body: &[u8],
    ) -> Option<[Bytes; 2]> {
        let Ticket::Answered { name } = ticket else {
            unreachable!("only such a ticket has a request with its body")
        };
        self.parked.answer(&name, body)
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
        self.run_call(sockets, |shard, sockets| shard.receive_from_thread(sockets, message));
    }

    fn handle_tick(&mut self, sockets: &mut Sockets, now: Instant) {
        self.run_call(sockets, |shard, sockets| shard.tick(sockets, now));
    }

    fn handle_relief(&mut self, sockets: &mut Sockets) {
        self.backpressure.relieve_few_topics(&self.clients, sockets);
    }

    fn run_pending_work(&mut self, sockets: &mut Sockets) -> bool {
        self.run_call(sockets, ServerShard::run_slice)
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
            shard.backpressure.end_waits(sockets);
            shard.long_polls.end_all(&mut shard.clients, sockets);
            shard.parked.end_all(sockets);
            shard.upgrades.end_all(sockets);
        });
    }
}

impl ServerShard {
    /// A shard without clients.
    pub fn new(id: ShardId, shared: Arc<ProcessState>, seed: u64) -> Self {
        let metrics = shared.metrics.add_shard();
        ServerShard {
            id,
            clients: Clients::new(shared.cluster.me(), id, seed, metrics.clone()),
            deliveries: Deliveries::new(shared.clone(), metrics.clone()),
            callbacks: Callbacks::new(shared.clone()),
            joins: WaitingJoins::default(),
            histories: Histories::new(shared.history.clone()),
            long_polls: LongPolls::new(shared.clone()),
            parked: ParkedRequests::new(id, shared.parking.clone()),
            upgrades: WaitingUpgrades::new(shared.clone()),
            backpressure: Backpressure::new(id, shared.clone(), metrics.clone()),
            presence_rounds: PresenceRounds::new(),
            scans: Scans::default(),
            ending: Vec::new(),
            shared,
            metrics,
        }
    }

    /// Runs one call of the event loop, and then removes the clients whose sessions it ended: then nothing
    /// else holds a client, a channel or a subscription.
    fn run_call<R>(
        &mut self,
        sockets: &mut Sockets,
        call: impl FnOnce(&mut ServerShard, &mut Sockets) -> R,
    ) -> R {
        let result = call(self, sockets);
        // The `leave` of a channel may end the session of another client.
        while let Some(key) = self.clients.next_ended() {
            self.remove_client(sockets, key);
        }
        result
    }

    fn park(&mut self, sockets: &mut Sockets, socket: SocketId, ticket: Ticket) -> u32 {
        match ticket {
            Ticket::Poll { session } => {
                self.long_polls.park(&mut self.clients, sockets, socket, session);
                self.backpressure.relieve_few_topics(&self.clients, sockets);
                session
            }
            Ticket::Parked { name, client } => self.parked.park(sockets, socket, &name, client),
            Ticket::Connecting(ticket) => self.upgrades.park(&self.clients, socket, *ticket),
            Ticket::Stream(ticket) => self.park_stream(sockets, socket, *ticket),
            Ticket::WebSocket { .. } | Ticket::Answered { .. } => {
                unreachable!("only a ticket of a request that waits parks it")
            }
        }
    }

    fn close(&mut self, sockets: &mut Sockets, socket: SocketId, key: u32, cause: CloseCause) {
        if WaitingUpgrades::has_form(key) {
            return self.upgrades.handle_close(key, socket);
        }
        if ParkedRequests::has_form(key) {
            return self.parked.handle_close(sockets, key, socket);
        }
        match self.clients.get(key).map(|client| &client.transport) {
            Some(Transport::WebSocket(open) | Transport::Events(open)) if *open == socket => {
                tracing::debug!(?socket, ?cause, "closed");
                self.remove_client(sockets, key);
            }
            Some(Transport::LongPoll(_)) => {
                self.long_polls.poll_closed(&mut self.clients, sockets, key, socket);
            }
            _ => {}
        }
    }

    /// Handles a message from another thread.
    fn receive_from_thread(&mut self, sockets: &mut Sockets, message: ShardMessage) {
        match message {
            ShardMessage::Broadcast(broadcast) => self.queue(sockets, &broadcast),
            ShardMessage::Reset { topic } => self.reset_topic(sockets, &topic),
            ShardMessage::Room { topic } => {
                self.backpressure.resume_publishers(sockets, Some(&topic));
            }
            ShardMessage::Disconnect { id } => self.disconnect(&id),
            ShardMessage::Ask(asked) => self.answer_question(sockets, asked),
            ShardMessage::Push { to, event, body } => self.push(sockets, to, &event, &body),
            ShardMessage::Info { to, info } => self.call_handle_info(sockets, to, info),
            ShardMessage::ContinueJoin { to, info } => self.continue_join(sockets, to, info),
            ShardMessage::ContinueConnect { key, socket, info } => {
                let opened = self.upgrades.decide(&mut self.clients, sockets, key, socket, info);
                if let Some((key, join)) = opened {
                    self.join_stream(sockets, key, &join);
                }
            }
            ShardMessage::Reply { to, reply } => self.reply(sockets, &to, &reply),
            ShardMessage::Forward { kind, to, data, ack, arrived } => {
                self.forward(sockets, kind, to, &data, ack, arrived)
            }
            ShardMessage::Ready => {
                self.resume_subscribed_joins(sockets);
                self.joins.note_log();
            }
            ShardMessage::Wake(request) => self.parked.wake(sockets, request),
            ShardMessage::OpenSession { serializer, connected, counted, token } => {
                let (now, clients) = (sockets.now(), &mut self.clients);
                self.long_polls.open(clients, now, serializer, connected, counted, token);
            }
            ShardMessage::Post { session, content_type, body, status } => {
                self.receive_post(sockets, session, content_type.as_deref(), &body, status);
            }
        }
    }

    fn tick(&mut self, sockets: &mut Sockets, now: Instant) {
        self.resume_subscribed_joins(sockets);
        self.resume_timed_joins(sockets, Wait::Log);
        self.resume_timed_joins(sockets, Wait::Room);
        self.backpressure.relieve_topics(&self.clients, sockets);
        self.backpressure.resume_publishers(sockets, None);
        self.long_polls.sweep(&mut self.clients, sockets, now);
        self.parked.sweep(sockets, now);
        self.deliveries.watched().end_silent(now);
        self.clients.traffic().handle_tick(now);
        self.metrics.topics_now.set(self.clients.hub().topics() as u64);
        let ServerShard { clients, callbacks, histories, metrics, .. } = self;
        let of_topics = clients.topic_bytes() + callbacks.memory_bytes() + histories.memory_bytes();
        metrics.topic_bytes.set(of_topics as u64);
        metrics.socket_bytes.set((sockets.memory_bytes() + clients.memory_bytes()) as u64);
        // The first shard also does the work of the whole process.
        if self.id == ShardId(0) {
            let people = self.shared.metrics.people();
            let connections = sockets.connections();
            self.shared.memory.handle_tick(now, connections);
            let load = ProcessLoad { people, connections };
            self.shared.cluster.report_load(load);
            self.shared.endpoint.report_flows();
            self.presence_rounds.start_round(now, &self.shared.presence);
            self.broadcast_presence(now);
            self.shared.parts.iter().for_each(|part| part.handle_tick(now));
        }
    }

    /// Delivers some queued broadcasts, and does some other pending work. Returns whether more is
    /// to do.
    fn run_slice(&mut self, sockets: &mut Sockets) -> bool {
        if self.joins.take_logs() {
            self.resume_timed_joins(sockets, Wait::Log);
        }
        let has_ends = self.end_slice(sockets);
        let ServerShard { clients, deliveries, histories, backpressure, scans, .. } = self;
        let has_deliveries =
            deliveries.deliver_slice(clients, histories, backpressure, sockets, SLICE);
        let has_scans = scans.run_slice(clients, histories, sockets) || has_ends;
        self.metrics.broadcasts_now.set(self.clients.hub().waiting() as u64);
        if has_deliveries || !self.presence_rounds.is_running() {
            return has_deliveries || has_scans;
        }
        // The last changes of presence were sent: queue the next few.
        self.broadcast_presence(sockets.now());
        has_scans || self.clients.hub().waiting() > 0
    }

    // Messages to clients.

    /// Broadcasts some of the changes of presence that are due.
    fn broadcast_presence(&mut self, now: Instant) {
        while let Some(diff) = self.presence_rounds.send_next(now, &self.shared, self.id) {
            self.metrics.broadcasts.add(1);
            self.deliveries.queue(&mut self.clients, &diff);
        }
    }

    /// Queues a broadcast for the subscribers on this shard. A message of a topic with a history is queued
    /// only after the one before it; if that is missing, or the queue is full, its channels fail.
    fn queue(&mut self, sockets: &mut Sockets, broadcast: &Arc<Broadcast>) {
        let placed = broadcast.placed.as_deref();
        let order =
            placed.map_or(Order::Unknown, |placed| self.histories.place(&broadcast.topic, placed));
        let is_queued = match order {
            Order::Unknown | Order::Next => self.deliveries.queue(&mut self.clients, broadcast),
            Order::Old | Order::Gap => false,
        };
        if order == Order::Gap || order == Order::Next && !is_queued {
            self.reset_topic(sockets, &broadcast.topic);
        }
    }

    /// Fails the channels of a topic. Their clients rejoin, with their last positions.
    fn reset_topic(&mut self, sockets: &mut Sockets, topic: &str) {
        self.shared.metrics.refused("history_gap");
        let clients: Vec<u32> = self.clients.hub().clients_on(topic).collect();
        for key in clients {
            let Some(id) = self.clients.find(key, topic) else { continue };
            if self.clients.client_at(self.clients.address(id)).is_some() {
                self.fail_channel(sockets, key, id, topic);
            }
        }
        // A join that still waits makes it again.
        self.histories.forget(topic);
    }

    /// Closes the sockets with an id, after the broadcasts that were queued before.
    fn disconnect(&mut self, id: &str) {
        let broadcast = Broadcast::new(&id_topic(id), "disconnect", Body::EMPTY, None);
        self.deliveries.queue(&mut self.clients, &Arc::new(broadcast));
    }

    fn send(&mut self, sockets: &mut Sockets, key: u32, message: Option<Encoded>) {
        self.deliveries.send(&mut self.clients, sockets, key, message);
    }

    fn push(&mut self, sockets: &mut Sockets, to: ChannelAddress, event: &str, body: &Body) {
        self.deliveries.push(&mut self.clients, sockets, to, event, body);
    }

    fn reply(&mut self, sockets: &mut Sockets, to: &ReplyTo, reply: &Reply) {
        self.deliveries.reply(&mut self.clients, sockets, to, reply);
    }

    fn answer(&mut self, sockets: &mut Sockets, key: u32, message: &Message<'_>, reply: &Reply) {
        self.deliveries.answer(&mut self.clients, sockets, key, message, reply);
    }
}
