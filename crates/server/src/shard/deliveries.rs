//! Messages to clients: one message to one client, and slices of a broadcast to many.

use std::sync::Arc;

use watchfire_channels::longpoll::{BINARY_REFUSAL, Input, Status};
use watchfire_channels::{Message, Serializer};
use watchfire_sockets::Sockets;

use super::backpressure::Backpressure;
use super::client::{Client, Transport, Use, is_id_topic};
use super::clients::{Clients, Recipient};
use super::histories::Histories;
use super::long_polls::drive_session;
use super::process_state::ProcessState;
use super::session::SessionState;
use super::stream_answers::{STREAM_HEAD, status_of_refusal};
use super::watched_clients::WatchedClients;
use crate::channel_api::{
    Body, Broadcast, ChannelAddress, Direction, Encoded, Reply, ReplyTo, encoding,
};
use crate::metrics::ShardMetrics;

/// The close code for a disconnect by the application: going away. A client reconnects after it.
const GOING_AWAY: u16 = 1001;
/// The reason of the same for an event stream.
const DISCONNECTED: &str = r#"{"reason":"disconnected by the server"}"#;

/// Sends messages to clients, and keeps those of the clients that an operator watches.
pub(super) struct Deliveries {
    shared: Arc<ProcessState>,
    metrics: Arc<ShardMetrics>,
    watched: WatchedClients,
}

impl Deliveries {
    pub fn new(shared: Arc<ProcessState>, metrics: Arc<ShardMetrics>) -> Self {
        Deliveries { shared, metrics, watched: WatchedClients::default() }
    }

    /// The clients that an operator watches.
    pub fn watched(&mut self) -> &mut WatchedClients {
        &mut self.watched
    }

    /// Sends to every subscriber of a topic, on all shards of all processes.
    pub fn broadcast(&self, clients: &mut Clients, broadcast: Broadcast) {
        let endpoint = &self.shared.endpoint;
        let broadcast = broadcast.counted(endpoint.flows());
        endpoint.publish_elsewhere(&broadcast);
        self.metrics.broadcasts.add(1);
        endpoint.deliver(&broadcast, Some(clients.shard()));
        self.queue(clients, &broadcast);
    }

    /// Queues a broadcast for the subscribers on this shard. Returns false when the topic's queue is
    /// full: then the broadcast is dropped and counted.
    pub fn queue(&self, clients: &mut Clients, broadcast: &Arc<Broadcast>) -> bool {
        let is_queued = clients.broadcast(broadcast).is_ok();
        if !is_queued {
            self.shared.metrics.refused("broadcast_backlog");
            self.metrics.broadcasts_dropped.add(1);
        }
        is_queued
    }

    /// Delivers some of the queued broadcasts. Returns whether more wait.
    pub fn deliver_slice(
        &mut self,
        clients: &mut Clients,
        histories: &mut Histories,
        backpressure: &mut Backpressure,
        sockets: &mut Sockets,
        budget: usize,
    ) -> bool {
        let Deliveries { shared, metrics, watched } = self;
        let (node, shard) = (clients.node(), clients.shard());
        let has_room = shared.endpoint.flows().has_shared_room();
        let mut delivered = 0;
        let mut ended = Vec::new();
        let visit = |recipient: Recipient<'_>, broadcast: &Arc<Broadcast>| {
            let Recipient { key, client, subscription, record } = recipient;
            match record.used_by {
                Use::SocketId => {
                    if let Transport::WebSocket(socket) = client.transport {
                        sockets.close(socket, GOING_AWAY, "disconnected by the server");
                    } else {
                        ended.push(key);
                    }
                    return;
                }
                // The join may still be refused.
                Use::Joining(_) => return,
                Use::Channel(_) | Use::Free => {}
            }
            let is_recipient = |address: &ChannelAddress| {
                (address.node, address.shard) == (node, shard)
                    && address.subscription == subscription
                    && address.serial == record.serial
            };
            if broadcast.except.as_ref().is_some_and(is_recipient) {
                return;
            }
            if let Some(placed) = &broadcast.placed
                && histories.has(subscription, placed.position)
            {
                return;
            }
            delivered += 1;
            if !watched.is_empty() {
                let (topic, event) = (&broadcast.topic, &broadcast.event);
                watched.note(key, Direction::Sent, topic, event, broadcast.body.as_payload());
            }
            match deliver(shared, client, sockets, broadcast, has_room) {
                Delivered::Done => {}
                Delivered::Awaited => backpressure.note_awaited(&broadcast.topic, key),
                Delivered::Ended => ended.push(key),
            }
        };
        let more = clients.deliver(budget, visit, |broadcast, subscribers| {
            if subscribers > 0 && !is_id_topic(&broadcast.topic) {
                metrics.broadcast_took(broadcast.published.elapsed(), subscribers);
            }
        });
        metrics.deliveries.add(delivered);
        for key in ended {
            clients.end_stream(sockets, key, 403, DISCONNECTED);
            clients.end_session(sockets, key, Status::Gone);
        }
        more
    }

    /// Sends one message to one client.
    pub fn send(
        &mut self,
        clients: &mut Clients,
        sockets: &mut Sockets,
        key: u32,
        message: Option<Encoded>,
    ) {
        let Some(message) = message else {
            // Bytes for a client that reads text only are skipped. Its socket stays open.
            self.shared.metrics.refused("binary_not_carried");
            return;
        };
        self.note_sent(&clients[key], key, &message);
        match &mut clients[key].transport {
            // On overflow, the socket server closes the socket and reports it later.
            Transport::WebSocket(socket) => {
                sockets.send(*socket, &message.into_frame()).ok();
            }
            Transport::Events(socket) => {
                sockets.begin_stream(*socket, &STREAM_HEAD);
                sockets.send(*socket, &message.into_frame()).ok();
            }
            Transport::LongPoll(_) => match message.into_longpoll_message() {
                Some(message) => {
                    drive_session(&self.shared, clients, sockets, key, Input::Message(message));
                }
                None => self.shared.metrics.refused("binary_not_carried"),
            },
        }
    }

    /// Sends the last message of a channel. An event stream, which has no other channel, ends with it.
    pub fn send_last(
        &mut self,
        clients: &mut Clients,
        sockets: &mut Sockets,
        key: u32,
        message: Option<Encoded>,
    ) {
        let Transport::Events(socket) = clients[key].transport else {
            return self.send(clients, sockets, key, message);
        };
        if let Some(message) = message {
            sockets.end_stream(socket, &message.into_frame());
        }
    }

    /// Keeps a message for the operator, if its client is watched.
    fn note_sent(&mut self, client: &Client, key: u32, message: &Encoded) {
        if self.watched.has(key)
            && let Some(message) = message.decoded(client.serializer)
        {
            let Message { topic, event, payload, .. } = message;
            self.watched.note(key, Direction::Sent, &topic, &event, payload);
        }
    }

    pub fn push(
        &mut self,
        clients: &mut Clients,
        sockets: &mut Sockets,
        to: ChannelAddress,
        event: &str,
        body: &Body,
    ) {
        let Some(key) = clients.client_at(to) else { return };
        let message = clients.with_channel(key, to, |serializer, topic, join_ref| {
            encoding::push(serializer, join_ref, topic, event, body.as_payload())
        });
        self.send(clients, sockets, key, message);
    }

    pub fn reply(
        &mut self,
        clients: &mut Clients,
        sockets: &mut Sockets,
        to: &ReplyTo,
        reply: &Reply,
    ) {
        let Some(key) = clients.client_at(to.channel) else { return };
        if to.reference.is_null() {
            return; // A push without a ref expects no reply.
        }
        let refusal = self.bytes_refusal(&clients[key], reply);
        let reply = refusal.as_ref().unwrap_or(reply);
        let message = clients.with_channel(key, to.channel, |serializer, topic, join_ref| {
            encoding::reply(serializer, &join_ref.shown(), &to.reference, topic, reply)
        });
        self.send(clients, sockets, key, message);
    }

    /// Replies to a message on behalf of the protocol, not of a channel.
    pub fn answer(
        &mut self,
        clients: &mut Clients,
        sockets: &mut Sockets,
        key: u32,
        message: &Message<'_>,
        reply: &Reply,
    ) {
        let client = &clients[key];
        let refusal = self.bytes_refusal(client, reply);
        let reply = refusal.as_ref().unwrap_or(reply);
        if let (Transport::Events(_), Body::Json(response), "error") =
            (&client.transport, &reply.response, &*reply.status)
        {
            return clients.end_stream(sockets, key, status_of_refusal(response), response);
        }
        let Message { join_ref, reference, topic, .. } = message;
        let encoded = encoding::reply(client.serializer, join_ref, reference, topic, reply);
        self.send(clients, sockets, key, encoded);
    }

    /// The error for a reply of bytes to a client that reads text only. Without any reply, its push
    /// would time out.
    fn bytes_refusal(&self, client: &Client, reply: &Reply) -> Option<Reply> {
        let Body::Binary(_) = reply.response else { return None };
        let refusal = match (&client.transport, client.serializer) {
            (Transport::LongPoll(_), _) => Body::Json(BINARY_REFUSAL.into()),
            (_, Serializer::V1) => Body::reason("binary cannot be carried by serializer V1"),
            (_, Serializer::Events) => Body::reason("binary cannot be carried by an event stream"),
            (_, Serializer::V2) => return None,
        };
        self.shared.metrics.refused("binary_not_carried");
        Some(Reply::error(refusal))
    }
}

/// The result of a message to a client.
enum Delivered {
    Done,
    /// The client's queue is full and moves.
    Awaited,
    /// The client's session has ended.
    Ended,
}

/// `has_room`: a queue that moves may exceed its limit.
fn deliver(
    shared: &ProcessState,
    client: &mut Client,
    sockets: &mut Sockets,
    broadcast: &Broadcast,
    has_room: bool,
) -> Delivered {
    match &mut client.transport {
        Transport::WebSocket(socket) | Transport::Events(socket) => {
            let Some(frame) = broadcast.frame(client.serializer) else { return Delivered::Done };
            // On overflow, the socket server closes the socket and reports it later.
            match sockets.send_shared(*socket, frame, has_room) {
                Ok(true) => Delivered::Awaited,
                Ok(false) | Err(_) => Delivered::Done,
            }
        }
        Transport::LongPoll(session) => {
            let Some(message) = broadcast.message(client.serializer) else {
                return Delivered::Done;
            };
            match session.queue_shared(shared, sockets, message.clone(), has_room) {
                SessionState::Ended => Delivered::Ended,
                SessionState::Open if session.is_awaited(shared, sockets) => Delivered::Awaited,
                SessionState::Open => Delivered::Done,
            }
        }
    }
}
