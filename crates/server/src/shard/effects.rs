//! Effects that callbacks requested, and data that one client sends to another.

use std::sync::{Arc, OnceLock};

use watchfire_channels::Ref;
use watchfire_sockets::{OfferError, Sockets};
use watchfire_types::Instant;

use super::ServerShard;
use super::client::Transport;
use crate::channel_api::{
    Body, Broadcast, ChannelAddress, Direction, Effect, ForwardKind, Payload, Reply, ReplyTo,
    encoding,
};

impl ServerShard {
    /// Applies the effects that a callback requested, in order.
    pub(super) fn apply_effects(
        &mut self,
        sockets: &mut Sockets,
        topic: &str,
        address: ChannelAddress,
    ) {
        let mut effects = self.callbacks.take_effects();
        for effect in effects.drain(..) {
            match effect {
                Effect::Push { event, body } => self.push(sockets, address, &event, &body),
                Effect::Broadcast { event, body, to_self } => {
                    let except = (!to_self).then_some(address);
                    let broadcast = Broadcast::new(topic, &event, body, except);
                    self.deliveries.broadcast(&mut self.clients, broadcast);
                    let key = self.clients.hub().client_of(address.subscription);
                    self.backpressure.wait_after_publishing(&self.clients, sockets, key, topic);
                }
                Effect::Store { event, payload, ack } => {
                    let (reference, reply) =
                        ack.unwrap_or_else(|| (Ref::NULL, Reply::ok(Body::EMPTY)));
                    let to = ReplyTo { channel: address, reference };
                    let key = self.clients.hub().client_of(address.subscription);
                    self.store(sockets, topic, &event, &payload, (to, reply));
                    self.backpressure.wait_after_publishing(&self.clients, sockets, key, topic);
                }
                Effect::Reply { to, reply } => self.reply(sockets, &to, &reply),
                Effect::Forward { kind, to, data, ack } if self.clients.owns(to) => {
                    let arrived = sockets.now();
                    self.forward(sockets, kind, to, &data, ack, Some(arrived));
                }
                Effect::Forward { kind, to, data, ack } => {
                    let (endpoint, arrived) = (&self.shared.endpoint, Some(sockets.now()));
                    if endpoint.forward(kind, to, data, ack.clone(), arrived).is_err() {
                        self.reply(sockets, &ack, &Reply::peer_busy());
                    }
                }
            }
        }
        self.callbacks.reuse(effects);
    }

    /// Publishes a message to the history of its topic, and replies when it is stored. A ref that is null
    /// expects no reply.
    fn store(
        &mut self,
        sockets: &mut Sockets,
        topic: &str,
        event: &str,
        payload: &str,
        (to, reply): (ReplyTo, Reply),
    ) {
        self.metrics.broadcasts.add(1);
        let endpoint = self.shared.endpoint.clone();
        // The outcome if it is known before `store` returns; then `None`.
        let known = Arc::new(OnceLock::new());
        let later = (known.clone(), to.clone(), reply.clone());
        self.shared.endpoint.store(topic, event, payload, None, move |outcome| {
            let (known, to, reply) = later;
            if known.set(Some(outcome)).is_err() {
                endpoint.reply(to, reply.if_stored(outcome));
            }
        });
        if known.set(None).is_err()
            && let Some(outcome) = known.get().copied().flatten()
        {
            self.reply(sockets, &to, &reply.if_stored(outcome));
        }
    }

    /// Sends data to its destination, and replies to the sender whether the queue took it.
    /// `arrived` is `None` for data from another process, whose clock is another one.
    pub(super) fn forward(
        &mut self,
        sockets: &mut Sockets,
        kind: ForwardKind,
        to: ChannelAddress,
        data: &[u8],
        ack: ReplyTo,
        arrived: Option<Instant>,
    ) {
        let reply = self.offer(sockets, kind, to, data, arrived);
        if self.clients.owns(ack.channel) {
            self.reply(sockets, &ack, &reply);
        } else {
            self.shared.endpoint.reply(ack, reply);
        }
    }

    fn offer(
        &mut self,
        sockets: &mut Sockets,
        kind: ForwardKind,
        to: ChannelAddress,
        data: &[u8],
        arrived: Option<Instant>,
    ) -> Reply {
        let ServerShard { shared, clients, deliveries, .. } = self;
        let Some(forward) = shared.registry.forward(kind) else {
            shared.metrics.refused("forward_kind");
            return Reply::because("peer gone");
        };
        let Some(key) = clients.client_at(to) else {
            shared.metrics.refused(forward.gone);
            return Reply::because("peer gone");
        };
        let Transport::WebSocket(socket) = clients[key].transport else {
            shared.metrics.refused("binary_not_carried");
            return Reply::because("peer cannot take bytes");
        };
        let payload = Payload::Binary(data);
        let message = clients.with_channel(key, to, |serializer, topic, join_ref| {
            encoding::push(serializer, join_ref, topic, forward.event, payload)
        });
        let Some(message) = message else {
            shared.metrics.refused("binary_not_carried");
            return Reply::because("peer cannot take bytes");
        };
        let queued_bytes_max = shared.limits.queued_bytes_max as usize / 4 * forward.queue_quarters;
        match sockets.offer(socket, &message.into_frame(), queued_bytes_max) {
            Ok(()) => {
                let topic = clients.hub().topic_of(to.subscription);
                let watched = deliveries.watched();
                watched.note(key, Direction::Sent, topic, forward.event, payload);
                clients.note_traffic(to.subscription, data.len());
                let time = arrived.map(|arrived| sockets.elapsed(arrived));
                (forward.count)(data.len(), time, clients[key].guest());
                Reply::ok(Body::EMPTY)
            }
            Err(OfferError::Gone) => {
                shared.metrics.refused(forward.gone);
                Reply::because("peer gone")
            }
            Err(OfferError::Full) => {
                shared.metrics.refused(forward.busy);
                Reply::peer_busy()
            }
        }
    }
}
