//! Effects that callbacks requested, and relayed data between two clients.

use std::sync::{Arc, OnceLock};

use watchfire_channels::Ref;
use watchfire_sockets::{OfferError, Sockets};
use watchfire_types::Instant;

use super::ServerShard;
use super::client::Transport;
use crate::channel_api::{
    Body, Broadcast, ChannelAddress, Direction, Effect, Payload, RelayKind, Reply, ReplyTo,
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
                Effect::Relay { kind, to, data, ack } if self.clients.owns(to) => {
                    let arrived = sockets.now();
                    self.relay(sockets, kind, to, &data, ack, Some(arrived));
                }
                Effect::Relay { kind, to, data, ack } => {
                    let (endpoint, arrived) = (&self.shared.endpoint, Some(sockets.now()));
                    if endpoint.relay(kind, to, data, ack.clone(), arrived).is_err() {
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

    /// Sends relayed data to its destination, and replies to the sender whether the queue took it.
    /// `arrived` is `None` for data from another process, whose clock is another one.
    pub(super) fn relay(
        &mut self,
        sockets: &mut Sockets,
        kind: RelayKind,
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
        kind: RelayKind,
        to: ChannelAddress,
        data: &[u8],
        arrived: Option<Instant>,
    ) -> Reply {
        let Some(key) = self.clients.client_at(to) else {
            self.shared.metrics.refused("relay_peer_gone");
            return Reply::because("peer gone");
        };
        let Transport::WebSocket(socket) = self.clients[key].transport else {
            self.shared.metrics.refused("binary_not_carried");
            return Reply::because("peer cannot take bytes");
        };
        let message = self.clients.with_channel(key, to, |serializer, topic, join_ref| {
            let payload = Payload::Binary(data);
            encoding::push(serializer, join_ref, topic, kind.event(), payload)
        });
        let Some(message) = message else {
            self.shared.metrics.refused("binary_not_carried");
            return Reply::because("peer cannot take bytes");
        };
        let queued_bytes_max = self.shared.limits.queued_bytes_max as usize;
        let queued_bytes_max = match kind {
            RelayKind::Segment => queued_bytes_max / 2,
            // A signal passes while segments wait, because it sets up a direct connection.
            RelayKind::Signal => queued_bytes_max / 4 * 3,
        };
        match sockets.offer(socket, &message.into_frame(), queued_bytes_max) {
            Ok(()) => {
                let topic = self.clients.hub().topic_of(to.subscription);
                let (watched, event) = (self.deliveries.watched(), kind.event());
                watched.note(key, Direction::Sent, topic, event, Payload::Binary(data));
                if let Some(arrived) = arrived {
                    self.metrics.relay_took(sockets.elapsed(arrived));
                }
                match kind {
                    RelayKind::Segment => {
                        self.metrics.relayed_frames.add(1);
                        self.metrics.relayed_bytes.add(data.len() as u64);
                    }
                    RelayKind::Signal => self.metrics.signals.add(1),
                }
                Reply::ok(Body::EMPTY)
            }
            Err(OfferError::Gone) => {
                self.shared.metrics.refused("relay_peer_gone");
                Reply::because("peer gone")
            }
            Err(OfferError::Full) => {
                self.shared.metrics.refused("relay_peer_busy");
                Reply::peer_busy()
            }
        }
    }
}
