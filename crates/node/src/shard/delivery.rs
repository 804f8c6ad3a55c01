//! Sending to clients: one message to one, or a slice of a broadcast to many.

use std::sync::Arc;

use channels::Serializer;
use channels::longpoll::{BINARY_REFUSAL, Input};
use edge::{OfferError, Sockets};
use serde_json::json;

use super::Shard;
use super::client::{Client, Tenancy, Transport};
use super::longpoll::Life;
use crate::app::{Body, ChannelAddress, Effect, Relayed, Reply, ReplyTo};
use crate::broadcast::Broadcast;
use crate::page_board::retry_after_ms;
use crate::wire::{self, Encoded};
use crate::world::World;

/// How long a sender waits when its destination's queue is full.
const BUSY_RETRY: std::time::Duration = std::time::Duration::from_millis(50);
/// Going away: a client that gets it comes back, unless it is told not to.
const GOING_AWAY: u16 = 1001;

impl Shard {
    /// Send to everyone on a topic, at all shards of all processes.
    pub(super) fn broadcast(&mut self, broadcast: Broadcast) {
        let broadcast = Arc::new(broadcast);
        self.world.endpoint.publish(&broadcast);
        self.broadcast_here(broadcast);
    }

    /// Send to everyone on a topic who is at this process.
    pub(super) fn broadcast_here(&mut self, broadcast: Arc<Broadcast>) {
        self.world.metrics.broadcasts.inc();
        self.world.endpoint.deliver(&broadcast, Some(self.id));
        self.queue(broadcast);
    }

    /// Queue for the subscribers here. A topic whose backlog is full loses it: counted.
    pub(super) fn queue(&mut self, broadcast: Arc<Broadcast>) {
        let topic = broadcast.topic.clone();
        if self.hub.broadcast(&topic, broadcast).is_err() {
            self.world.metrics.refused("broadcast_backlog");
        }
    }

    /// Deliver some of what is queued; true when more is waiting.
    pub(super) fn deliver_slice(&mut self, sockets: &mut Sockets, budget: usize) -> bool {
        let Shard { hub, clients, slots, world, id, .. } = self;
        let mut delivered = 0;
        let mut over = Vec::new();
        let more = hub.deliver(budget, |subscription, client, broadcast| {
            let slot = &slots[subscription];
            match slot.tenant {
                Tenancy::SocketId => {
                    if let Transport::WebSocket(socket) = clients[client as usize].transport {
                        sockets.close(socket, GOING_AWAY, "disconnected by the server");
                    } else {
                        over.push(client);
                    }
                    return;
                }
                // Perhaps it is not let in.
                Tenancy::Joining(_) => return,
                Tenancy::Channel(_) | Tenancy::Vacant => {}
            }
            let slot_is = |address: &ChannelAddress| {
                (address.node, address.shard) == (world.cluster.me(), *id)
                    && address.subscription == subscription
                    && address.serial == slot.serial
            };
            if broadcast.except.as_ref().is_some_and(slot_is) {
                return;
            }
            delivered += 1;
            if deliver(world, &mut clients[client as usize], sockets, broadcast) == Life::Over {
                over.push(client);
            }
        });
        world.metrics.deliveries.inc_by(delivered);
        for key in over {
            self.end_session(sockets, key);
        }
        more
    }

    /// Send one message to one client.
    pub(super) fn send(&mut self, sockets: &mut Sockets, key: u32, message: Option<Encoded>) {
        let Some(message) = message else {
            // Bytes for a client that can only read text: its message is skipped, not its socket.
            self.world.metrics.refused("binary_not_carried");
            return;
        };
        match &mut self.clients[key as usize].transport {
            // What overflows is closed by the edge, which tells us later.
            Transport::WebSocket(socket) => {
                sockets.send(*socket, &message.into_frame()).ok();
            }
            Transport::LongPoll(_) => match message.into_longpoll_message() {
                Some(message) => self.drive_session(sockets, key, Input::Message(message)),
                None => self.world.metrics.refused("binary_not_carried"),
            },
        }
    }

    /// The client of a channel that still is joined.
    pub(super) fn client_at(&self, address: ChannelAddress) -> Option<u32> {
        let slot = self.slots.get(address.subscription)?;
        let joined = matches!(slot.tenant, Tenancy::Channel(_));
        (joined && slot.serial == address.serial).then(|| self.hub.client_of(address.subscription))
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
            wire::push(serializer, join_ref, topic, event, body.as_payload())
        });
        self.send(sockets, key, message);
    }

    pub(super) fn reply(&mut self, sockets: &mut Sockets, to: &ReplyTo, reply: &Reply) {
        let Some(key) = self.client_at(to.channel) else { return };
        if to.reference.is_null() {
            return; // A push without a ref asks for no answer.
        }
        let refusal = self.refusal_of_bytes(key, reply);
        let reply = refusal.as_ref().unwrap_or(reply);
        let message = self.with_channel(key, to.channel, |serializer, topic, join_ref| {
            wire::reply(serializer, &join_ref.shown(), &to.reference, topic, reply)
        });
        self.send(sockets, key, message);
    }

    /// What a client is answered instead, when the answer is bytes and it can only read text: a
    /// push that is never answered would look like a server that is too slow.
    pub(super) fn refusal_of_bytes(&self, key: u32, reply: &Reply) -> Option<Reply> {
        let Body::Binary(_) = reply.response else { return None };
        let client = &self.clients[key as usize];
        let refusal = match (&client.transport, client.serializer) {
            (Transport::LongPoll(_), _) => Body::Json(BINARY_REFUSAL.into()),
            (_, Serializer::V1) => Body::reason("binary cannot be carried by serializer V1"),
            (Transport::WebSocket(_), Serializer::V2) => return None,
        };
        self.world.metrics.refused("binary_not_carried");
        Some(Reply::error(refusal))
    }

    fn with_channel(
        &self,
        key: u32,
        address: ChannelAddress,
        encode: impl FnOnce(Serializer, &str, &channels::JoinRef) -> Option<Encoded>,
    ) -> Option<Encoded> {
        let Tenancy::Channel(channel) = &self.slots[address.subscription].tenant else {
            unreachable!("the address was looked up")
        };
        let topic = self.hub.topic_of(address.subscription);
        encode(self.clients[key as usize].serializer, topic, &channel.join_ref)
    }

    /// Do what a callback asked for, in its order.
    pub(super) fn apply_effects(
        &mut self,
        sockets: &mut Sockets,
        topic: &str,
        address: ChannelAddress,
    ) {
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Push { event, body } => self.push(sockets, address, &event, &body),
                Effect::Broadcast { event, body, to_self } => {
                    let except = (!to_self).then_some(address);
                    self.broadcast(Broadcast::new(topic, &event, body, except));
                }
                Effect::Relay { what, to, data, ack } if self.is_here(to) => {
                    self.relay(sockets, what, to, &data, ack);
                }
                Effect::Relay { what, to, data, ack } => {
                    if self.world.endpoint.relay(what, to, data, ack.clone()).is_err() {
                        self.reply(sockets, &ack, &busy());
                    }
                }
            }
        }
        self.effects = effects; // Keeps its memory for the next callback.
    }

    fn is_here(&self, address: ChannelAddress) -> bool {
        (address.node, address.shard) == (self.world.cluster.me(), self.id)
    }

    /// Pass relayed data on, and tell its sender whether it was accepted.
    pub(super) fn relay(
        &mut self,
        sockets: &mut Sockets,
        what: Relayed,
        to: ChannelAddress,
        data: &[u8],
        ack: ReplyTo,
    ) {
        let reply = self.offer(sockets, what, to, data);
        if self.is_here(ack.channel) {
            self.reply(sockets, &ack, &reply);
        } else {
            self.world.endpoint.reply(ack, reply);
        }
    }

    fn offer(
        &mut self,
        sockets: &mut Sockets,
        what: Relayed,
        to: ChannelAddress,
        data: &[u8],
    ) -> Reply {
        let Some(key) = self.client_at(to) else {
            self.world.metrics.refused("relay_peer_gone");
            return Reply::because("peer gone");
        };
        let Transport::WebSocket(socket) = self.clients[key as usize].transport else {
            self.world.metrics.refused("binary_not_carried");
            return Reply::because("peer cannot take bytes");
        };
        let message = self.with_channel(key, to, |serializer, topic, join_ref| {
            let payload = crate::app::Payload::Binary(data);
            wire::push(serializer, join_ref, topic, what.event(), payload)
        });
        let Some(message) = message else {
            self.world.metrics.refused("binary_not_carried");
            return Reply::because("peer cannot take bytes");
        };
        let queued_bytes_max = self.world.settings.limits.queued_bytes_max as usize;
        let queued_bytes_max = match what {
            Relayed::Segment => queued_bytes_max / 2,
            // It gets through where segments wait: by it the two find a way past the server.
            Relayed::Signal => queued_bytes_max / 4 * 3,
        };
        match sockets.offer(socket, &message.into_frame(), queued_bytes_max) {
            Ok(()) => {
                match what {
                    Relayed::Segment => {
                        self.world.metrics.relayed_frames.inc();
                        self.world.metrics.relayed_bytes.inc_by(data.len() as u64);
                    }
                    Relayed::Signal => drop(self.world.metrics.signals.inc()),
                }
                Reply::ok(Body::EMPTY)
            }
            Err(OfferError::Gone) => {
                self.world.metrics.refused("relay_peer_gone");
                Reply::because("peer gone")
            }
            Err(OfferError::Full) => {
                self.world.metrics.refused("relay_peer_busy");
                busy()
            }
        }
    }
}

/// What a relayed frame is refused with when its destination has no room for it.
pub(crate) fn busy() -> Reply {
    Reply::error(json!({
        "reason": "peer busy",
        "retry_after_ms": retry_after_ms(BUSY_RETRY),
    }))
}

fn deliver(
    world: &World,
    client: &mut Client,
    sockets: &mut Sockets,
    broadcast: &Broadcast,
) -> Life {
    match &mut client.transport {
        Transport::WebSocket(socket) => {
            if let Some(frame) = broadcast.frame(client.serializer) {
                // What overflows is closed by the edge, which tells us later.
                sockets.send(*socket, frame).ok();
            }
            Life::GoesOn
        }
        Transport::LongPoll(session) => match broadcast.message(client.serializer) {
            Some(message) => session.handle_input(world, sockets, Input::Message(message.clone())),
            None => Life::GoesOn,
        },
    }
}
