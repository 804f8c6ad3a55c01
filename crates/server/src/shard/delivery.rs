//! Messages to clients: one message to one client, and slices of a broadcast to many.

use std::sync::Arc;

use watchfire_channels::longpoll::{BINARY_REFUSAL, Input};
use watchfire_channels::{JoinRef, Message, Ref, Serializer};
use watchfire_sockets::Sockets;

use super::client::{Client, Transport, Use, is_id_topic};
use super::session::SessionState;
use super::shared::Shared;
use super::state::Shard;
use crate::channel_api::{
    Body, Broadcast, ChannelAddress, Direction, Encoded, Reply, ReplyTo, encoding,
};

/// The close code for a disconnect by the application: going away. A client reconnects after it.
const GOING_AWAY: u16 = 1001;

impl Shard {
    /// Sends to every subscriber of a topic, on all shards of all processes.
    pub(super) fn broadcast(&mut self, broadcast: Broadcast) {
        let broadcast = broadcast.counted(self.shared.endpoint.flows());
        self.shared.endpoint.publish_elsewhere(&broadcast);
        self.broadcast_here(broadcast);
    }

    /// Sends to every subscriber of a topic at this process.
    pub(super) fn broadcast_here(&mut self, broadcast: Arc<Broadcast>) {
        self.metrics.broadcasts.add(1);
        self.shared.endpoint.deliver(&broadcast, Some(self.id));
        self.queue(broadcast);
    }

    /// Queues a broadcast for the subscribers on this shard. When the topic's queue is full, the
    /// broadcast is dropped and counted.
    pub(super) fn queue(&mut self, broadcast: Arc<Broadcast>) {
        let topic = broadcast.topic.clone();
        if self.hub.broadcast(&topic, broadcast).is_err() {
            self.shared.metrics.refused("broadcast_backlog");
        }
    }

    /// Delivers some of the queued broadcasts. Returns whether more wait.
    pub(super) fn deliver_slice(&mut self, sockets: &mut Sockets, budget: usize) -> bool {
        let Shard {
            hub,
            clients,
            records,
            shared,
            metrics,
            id,
            history,
            watches,
            backpressure,
            ..
        } = self;
        let flows = shared.endpoint.flows();
        let has_room = flows.has_shared_room();
        let mut delivered = 0;
        let mut ended = Vec::new();
        let visit = |subscription, client, broadcast: &Arc<Broadcast>| {
            let record = &records[subscription];
            match record.used_by {
                Use::SocketId => {
                    if let Transport::WebSocket(socket) = clients[client as usize].transport {
                        sockets.close(socket, GOING_AWAY, "disconnected by the server");
                    } else {
                        ended.push(client);
                    }
                    return;
                }
                // The join may still be refused.
                Use::Joining(_) => return,
                Use::Channel(_) | Use::Free => {}
            }
            let is_recipient = |address: &ChannelAddress| {
                (address.node, address.shard) == (shared.cluster.me(), *id)
                    && address.subscription == subscription
                    && address.serial == record.serial
            };
            if broadcast.except.as_ref().is_some_and(is_recipient) {
                return;
            }
            if let Some(placed) = &broadcast.placed
                && history.has(subscription, placed.position)
            {
                return;
            }
            delivered += 1;
            if !watches.is_empty() {
                let (topic, event) = (&broadcast.topic, &broadcast.event);
                watches.note(client, Direction::Sent, topic, event, broadcast.body.as_payload());
            }
            match deliver(shared, &mut clients[client as usize], sockets, broadcast, has_room) {
                Delivered::Done => {}
                Delivered::Awaited => {
                    backpressure.note_awaited(flows, *id, &broadcast.topic, client);
                }
                Delivered::Ended => ended.push(client),
            }
        };
        let more = hub.deliver(budget, visit, |broadcast, subscribers| {
            if subscribers > 0 && !is_id_topic(&broadcast.topic) {
                metrics.broadcast_took(broadcast.published.elapsed(), subscribers);
            }
        });
        metrics.deliveries.add(delivered);
        for key in ended {
            self.end_session(sockets, key);
        }
        more
    }

    /// Sends one message to one client.
    pub(super) fn send(&mut self, sockets: &mut Sockets, key: u32, message: Option<Encoded>) {
        let Some(message) = message else {
            // Bytes for a client that reads text only are skipped. Its socket stays open.
            self.shared.metrics.refused("binary_not_carried");
            return;
        };
        self.note_sent(key, &message);
        match &mut self.clients[key as usize].transport {
            // On overflow, the socket server closes the socket and reports it later.
            Transport::WebSocket(socket) => {
                sockets.send(*socket, &message.into_frame()).ok();
            }
            Transport::LongPoll(_) => match message.into_longpoll_message() {
                Some(message) => self.drive_session(sockets, key, Input::Message(message)),
                None => self.shared.metrics.refused("binary_not_carried"),
            },
        }
    }

    /// Keeps a message for the operator, if its client is watched.
    fn note_sent(&mut self, key: u32, message: &Encoded) {
        if !self.watches.has(key) {
            return;
        }
        let serializer = self.clients[key as usize].serializer;
        if let Some(Message { topic, event, payload, .. }) = message.decoded(serializer) {
            self.watches.note(key, Direction::Sent, &topic, &event, payload);
        }
    }

    /// The client of a channel that is still joined.
    pub(super) fn client_at(&self, address: ChannelAddress) -> Option<u32> {
        let record = self.records.get(address.subscription)?;
        let joined = matches!(record.used_by, Use::Channel(_));
        (joined && record.serial == address.serial)
            .then(|| self.hub.client_of(address.subscription))
    }

    pub(super) fn push(
        &mut self,
        sockets: &mut Sockets,
        to: ChannelAddress,
        event: &str,
        body: &Body,
    ) {
        let Some(key) = self.client_at(to) else { return };
        let message = self.with_channel(key, to, |serializer, topic, join_ref| {
            encoding::push(serializer, join_ref, topic, event, body.as_payload())
        });
        self.send(sockets, key, message);
    }

    pub(super) fn reply(&mut self, sockets: &mut Sockets, to: &ReplyTo, reply: &Reply) {
        let Some(key) = self.client_at(to.channel) else { return };
        if to.reference.is_null() {
            return; // A push without a ref expects no reply.
        }
        let refusal = self.bytes_refusal(key, reply);
        let reply = refusal.as_ref().unwrap_or(reply);
        let message = self.with_channel(key, to.channel, |serializer, topic, join_ref| {
            encoding::reply(serializer, &join_ref.shown(), &to.reference, topic, reply)
        });
        self.send(sockets, key, message);
    }

    /// The error for a reply of bytes to a client that reads text only. Without any reply, its push
    /// would time out.
    pub(super) fn bytes_refusal(&self, key: u32, reply: &Reply) -> Option<Reply> {
        let Body::Binary(_) = reply.response else { return None };
        let client = &self.clients[key as usize];
        let refusal = match (&client.transport, client.serializer) {
            (Transport::LongPoll(_), _) => Body::Json(BINARY_REFUSAL.into()),
            (_, Serializer::V1) => Body::reason("binary cannot be carried by serializer V1"),
            (Transport::WebSocket(_), Serializer::V2) => return None,
        };
        self.shared.metrics.refused("binary_not_carried");
        Some(Reply::error(refusal))
    }

    pub(super) fn with_channel(
        &self,
        key: u32,
        address: ChannelAddress,
        encode: impl FnOnce(Serializer, &str, &JoinRef) -> Option<Encoded>,
    ) -> Option<Encoded> {
        let Use::Channel(channel) = &self.records[address.subscription].used_by else {
            unreachable!("the caller looked the address up")
        };
        let topic = self.hub.topic_of(address.subscription);
        encode(self.clients[key as usize].serializer, topic, &channel.join_ref)
    }

    /// Replies to a message on behalf of the protocol, not of a channel.
    pub(super) fn answer(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        join_ref: &Ref,
        message: &Message<'_>,
        reply: &Reply,
    ) {
        let serializer = self.clients[key as usize].serializer;
        let refusal = self.bytes_refusal(key, reply);
        let reply = refusal.as_ref().unwrap_or(reply);
        let encoded =
            encoding::reply(serializer, join_ref, &message.reference, &message.topic, reply);
        self.send(sockets, key, encoded);
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
    shared: &Shared,
    client: &mut Client,
    sockets: &mut Sockets,
    broadcast: &Broadcast,
    has_room: bool,
) -> Delivered {
    match &mut client.transport {
        Transport::WebSocket(socket) => {
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
