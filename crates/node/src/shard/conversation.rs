//! What a client says, carried to its channels, and their answers.

use std::any::Any;
use std::sync::Arc;

use channels::{Action, ConversationLimits, JoinRef, Message, Ref, Serializer};
use edge::Sockets;
use hub::{PresenceOwner, SubscriptionId};
use serde_json::json;

use super::Shard;
use super::admission::id_topic;
use super::client::{JoinedChannel, Slot, Tenancy, Transport};
use super::joining::Unheard;
use super::mail::Mail;
use crate::app::{
    AnyChannel, AnyStates, Body, ChannelAddress, Crash, HandleIn, Outcome, Payload, Refusal, Reply,
    Socket, StateId,
};
use crate::broadcast::Broadcast;
use crate::wire;

/// Something is wrong with what came: bad JSON, a wrong shape, a bad binary kind.
const UNEXPECTED: u16 = 1011;

impl Shard {
    pub(super) fn hear_text(&mut self, sockets: &mut Sockets, key: u32, text: &str) {
        if self.waits(key) {
            return self.hear_later(sockets, key, Unheard::Text(text.into()));
        }
        let Some(client) = self.clients.get(key as usize) else { return };
        match channels::decode_text(client.serializer, text) {
            Ok(message) => self.hear(sockets, key, &message),
            Err(error) => self.misheard(sockets, key, &error),
        }
    }

    pub(super) fn hear_binary(&mut self, sockets: &mut Sockets, key: u32, bytes: &[u8]) {
        if self.waits(key) {
            return self.hear_later(sockets, key, Unheard::Binary(bytes.into()));
        }
        let Some(client) = self.clients.get(key as usize) else { return };
        match channels::decode_binary(client.serializer, bytes) {
            Ok(message) => self.hear(sockets, key, &message),
            Err(error) => self.misheard(sockets, key, &error),
        }
    }

    fn misheard(&mut self, sockets: &mut Sockets, key: u32, error: &channels::DecodeError) {
        self.world.metrics.refused("bad_message");
        tracing::debug!(%error, "bad message");
        match self.clients[key as usize].transport {
            Transport::WebSocket(socket) => {
                // A close reason has at most 123 bytes.
                let reason: String = error.to_string().chars().take(80).collect();
                sockets.close(socket, UNEXPECTED, &reason);
            }
            Transport::LongPoll(_) => self.end_session(sockets, key),
        }
    }

    fn hear(&mut self, sockets: &mut Sockets, key: u32, message: &Message<'_>) {
        self.world.metrics.messages.inc();
        let now = sockets.now();
        let client = &mut self.clients[key as usize];
        let found = self.hub.find(&client.subscriptions, &message.topic);
        let has_id = client.admission.as_ref().is_some_and(|admission| admission.id.is_some());
        let joined = client.subscriptions.len() - usize::from(has_id);
        let join_ref = found.map(|id| match &self.slots[id].tenant {
            Tenancy::Channel(channel) => &channel.join_ref,
            Tenancy::Joining(joining) => &joining.channel.join_ref,
            Tenancy::SocketId | Tenancy::Vacant => {
                unreachable!("a socket's id is no topic that a client can name")
            }
        });
        let limits = &self.world.settings.limits;
        let bounds =
            ConversationLimits { channels_max: usize::from(limits.channels_per_socket_max) };
        let action = channels::route(message, join_ref, joined, &bounds);

        let is_join = matches!(action, Action::Join | Action::Rejoin);
        let is_relay = matches!(message.payload, Payload::Binary(_));
        let counts = !is_relay && !matches!(action, Action::Heartbeat);
        if counts && !client.allowance.spend(now, is_join, limits) {
            self.world.metrics.refused(if is_join {
                "joins_per_second"
            } else {
                "messages_per_second"
            });
            let name = if is_join { "joins_per_second_max" } else { "messages_per_second_max" };
            let max =
                if is_join { limits.joins_per_second_max } else { limits.messages_per_second_max };
            let reply = Reply::error(json!({ "reason": "too fast", "limit": name, "max": max }));
            return self.answer(sockets, key, &message.join_ref, message, &reply);
        }

        match action {
            Action::Heartbeat => {
                let serializer = self.clients[key as usize].serializer;
                let reply = wire::heartbeat_reply(serializer, &message.reference);
                self.send(sockets, key, reply);
            }
            Action::Join => self.join(sockets, key, message, None),
            Action::Rejoin => {
                let old = found.expect("only a joined topic is rejoined");
                let old_ref = self.part(sockets, key, old);
                self.join(sockets, key, message, Some(old_ref));
            }
            Action::Leave => {
                let id = found.expect("only a joined topic is left");
                self.answer(sockets, key, &message.join_ref, message, &Reply::ok(Body::EMPTY));
                let join_ref = self.part(sockets, key, id);
                self.close_channel(sockets, key, &message.topic, &join_ref);
            }
            Action::LeaveNotJoined => {
                self.answer(sockets, key, &message.join_ref, message, &Reply::ok(Body::EMPTY));
            }
            Action::Deliver => {
                let id = found.expect("only a joined topic gets messages");
                self.call(sockets, id, &message.reference, |channel, states, state, socket| {
                    channel.handle_in(states, state, socket, &message.event, message.payload)
                });
            }
            Action::Stale => self.world.metrics.refused("stale_join_ref"),
            Action::Refuse(refusal) => self.refuse(sockets, key, message, &refusal),
        }
    }

    fn refuse(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        message: &Message<'_>,
        refusal: &channels::Refusal,
    ) {
        self.world.metrics.refused(match refusal {
            channels::Refusal::Unmatched => "unmatched_topic",
            channels::Refusal::TooManyChannels { .. } => "channels_per_socket",
            channels::Refusal::JoinCrashed => "join_crashed",
            channels::Refusal::TopicTooLong { .. } => "topic_too_long",
            channels::Refusal::EventTooLong { .. } => "event_too_long",
        });
        let serializer = self.clients[key as usize].serializer;
        self.send(sockets, key, wire::refusal(serializer, message, refusal));
    }

    /// Answer a message outside of any channel's own replies.
    fn answer(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        join_ref: &Ref,
        message: &Message<'_>,
        reply: &Reply,
    ) {
        let serializer = self.clients[key as usize].serializer;
        let refusal = self.refusal_of_bytes(key, reply);
        let reply = refusal.as_ref().unwrap_or(reply);
        let encoded = wire::reply(serializer, join_ref, &message.reference, &message.topic, reply);
        self.send(sockets, key, encoded);
    }

    /// Let a client join a topic that it is not joined to. After a rejoin, `old` is the join that
    /// ended: its close follows the new join's reply.
    fn join(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        message: &Message<'_>,
        old: Option<JoinRef>,
    ) {
        let Some(number) = self.world.registry.find(&message.topic) else {
            return self.refuse(sockets, key, message, &channels::Refusal::Unmatched);
        };
        let join_ref = JoinRef::of(message);
        let (id, awaited) = self.subscribe(key, &message.topic, join_ref, number);
        match awaited {
            Some(awaited) => self.enter_later(id, awaited, message, old),
            None => self.enter(sockets, id, message, old),
        }
    }

    /// Ask the channel whether the client may join, and tell the client.
    pub(super) fn enter(
        &mut self,
        sockets: &mut Sockets,
        id: SubscriptionId,
        message: &Message<'_>,
        old: Option<JoinRef>,
    ) {
        let key = self.hub.client_of(id);
        let result =
            self.with_socket(sockets, id, &message.reference, |channel, states, socket| {
                channel.join(states, socket, message.payload)
            });
        let metrics = &self.world.metrics;
        let reply = match result {
            Ok(Ok((state, response))) => {
                metrics.joins.inc();
                self.channel_mut(id).state = Some(state);
                Reply::ok(response)
            }
            Ok(Err(Refusal(response))) => {
                metrics.refused("join_refused");
                Reply::error(response)
            }
            Err(Crash(reason)) => {
                metrics.crashes.inc();
                tracing::warn!(topic = %message.topic, reason, "join crashed");
                Reply::because("join crashed")
            }
        };
        let is_in = self.channel_mut(id).state.is_some();
        if !is_in {
            self.part(sockets, key, id);
        }
        self.answer(sockets, key, &message.join_ref, message, &reply);
        if let Some(old) = old {
            self.close_rejoined(sockets, key, &message.topic, &old);
        }
        if is_in {
            self.call(sockets, id, &message.reference, |channel, states, state, socket| {
                channel.joined(states, state, socket).map(|()| Outcome::NoReply)
            });
        }
    }

    fn subscribe(
        &mut self,
        key: u32,
        topic: &str,
        join_ref: JoinRef,
        number: u16,
    ) -> (SubscriptionId, Option<u64>) {
        let client = &mut self.clients[key as usize];
        let id = self.hub.subscribe(key, &mut client.subscriptions, topic);
        let channel = JoinedChannel { join_ref, presence: PresenceOwner::default(), state: None };
        let slot = self.slot_mut(id);
        (slot.number, slot.tenant) = (number, Tenancy::Channel(channel));
        self.world.metrics.channels.inc();
        // The first subscriber of a shard subscribes the process.
        let cluster = &self.world.cluster;
        let is_first = !cluster.is_alone() && self.hub.subscribers(topic) == 1;
        (id, if is_first { cluster.subscribe(topic) } else { self.awaited(topic) })
    }

    /// The slot beside a subscription of the hub.
    pub(super) fn slot_mut(&mut self, id: SubscriptionId) -> &mut Slot {
        self.slots.open(id)
    }

    /// End a channel: its `leave`, its presences, its subscription. Says nothing to the client.
    pub(super) fn part(&mut self, sockets: &mut Sockets, key: u32, id: SubscriptionId) -> JoinRef {
        if let Tenancy::Channel(JoinedChannel { state, .. }) = &mut self.slot_mut(id).tenant
            && let Some(state) = state.take()
        {
            let result = self.with_socket(sockets, id, &Ref::NULL, |channel, states, socket| {
                channel.leave(states, state, socket)
            });
            if let Err(Crash(reason)) = result {
                self.world.metrics.crashes.inc();
                tracing::warn!(reason, "leave crashed");
            }
        }
        let topic = self.hub.topic_of(id).to_owned();
        let slot = &mut self.slots[id];
        slot.serial = slot.serial.wrapping_add(1);
        let mut channel = match std::mem::take(&mut slot.tenant) {
            Tenancy::Channel(channel) => channel,
            Tenancy::Joining(joining) => joining.channel,
            Tenancy::SocketId | Tenancy::Vacant => unreachable!("only channels are parted from"),
        };
        if !channel.presence.is_empty() {
            self.world.presence.on(&topic).untrack_all(&mut channel.presence);
        }
        self.hub.unsubscribe(&mut self.clients[key as usize].subscriptions, id);
        self.world.metrics.channels.dec();
        if !self.world.cluster.is_alone() && self.hub.subscribers(&topic) == 0 {
            self.world.cluster.unsubscribe(&topic);
        }
        channel.join_ref
    }

    /// Call into a joined channel and do what follows from it.
    fn call(
        &mut self,
        sockets: &mut Sockets,
        id: SubscriptionId,
        reference: &Ref,
        callback: impl FnOnce(&dyn AnyChannel, &mut AnyStates, &StateId, &mut Socket<'_>) -> HandleIn,
    ) {
        let key = self.hub.client_of(id);
        let address = self.address(id);
        let Some(state) = self.channel_mut(id).state.take() else { return };
        let result = self.with_socket(sockets, id, reference, |channel, states, socket| {
            callback(channel, states, &state, socket)
        });
        self.channel_mut(id).state = Some(state);

        let reply_to = crate::app::ReplyTo { channel: address, reference: reference.clone() };
        match result {
            Ok(Outcome::NoReply) => {}
            Ok(Outcome::Reply(reply)) => self.reply(sockets, &reply_to, &reply),
            Ok(Outcome::Stop) => self.stop(sockets, key, id),
            Ok(Outcome::StopWith(reply)) => {
                self.reply(sockets, &reply_to, &reply);
                self.stop(sockets, key, id);
            }
            Err(Crash(reason)) => {
                self.world.metrics.crashes.inc();
                let topic = self.hub.topic_of(id).to_owned();
                tracing::warn!(%topic, reason, "channel crashed");
                let join_ref = self.part(sockets, key, id);
                let message = wire::error(self.clients[key as usize].serializer, &join_ref, &topic);
                self.send(sockets, key, message);
            }
        }
    }

    fn stop(&mut self, sockets: &mut Sockets, key: u32, id: SubscriptionId) {
        let topic = self.hub.topic_of(id).to_owned();
        let join_ref = self.part(sockets, key, id);
        self.close_channel(sockets, key, &topic, &join_ref);
    }

    fn close_channel(&mut self, sockets: &mut Sockets, key: u32, topic: &str, join_ref: &JoinRef) {
        let message = wire::close(self.clients[key as usize].serializer, join_ref, topic);
        self.send(sockets, key, message);
    }

    /// A V1 frame cannot say which join it belongs to: there, the old join's close would end the
    /// new one.
    fn close_rejoined(&mut self, sockets: &mut Sockets, key: u32, topic: &str, old: &JoinRef) {
        if self.clients[key as usize].serializer == Serializer::V2 {
            self.close_channel(sockets, key, topic, old);
        }
    }

    /// Run a callback with a [`Socket`], then do what it asked for.
    fn with_socket<R>(
        &mut self,
        sockets: &mut Sockets,
        id: SubscriptionId,
        reference: &Ref,
        callback: impl FnOnce(&dyn AnyChannel, &mut AnyStates, &mut Socket<'_>) -> R,
    ) -> R {
        let address = self.address(id);
        let Shard { world, hub, clients, slots, states, effects, .. } = self;
        let client = &clients[hub.client_of(id) as usize];
        let assigns = client.admission.as_ref().and_then(|admission| admission.assigns.as_ref());
        let counted = client.admission.as_ref().and_then(|admission| admission.counted);
        let slot = &mut slots[id];
        let number = slot.number;
        let JoinedChannel { presence, .. } = joined(slot);
        let mut socket = Socket {
            topic: hub.topic_of(id),
            now: sockets.now(),
            address,
            counted,
            reference,
            assigns,
            presence,
            board: &world.presence,
            endpoint: &world.endpoint,
            effects,
        };
        let states = &mut states[usize::from(number)];
        let result = callback(world.registry.channel(number).as_ref(), states, &mut socket);
        if !self.effects.is_empty() {
            let topic = self.hub.topic_of(id).to_owned();
            self.apply_effects(sockets, &topic, address);
        }
        result
    }

    pub(super) fn address(&self, id: SubscriptionId) -> ChannelAddress {
        ChannelAddress {
            node: self.world.cluster.me(),
            shard: self.id,
            subscription: id,
            serial: self.slots[id].serial,
        }
    }

    fn channel_mut(&mut self, id: SubscriptionId) -> &mut JoinedChannel {
        joined(&mut self.slots[id])
    }

    /// A client is gone: every channel of it ends.
    pub(super) fn remove_client(&mut self, sockets: &mut Sockets, key: u32) {
        let admission = self.clients[key as usize].admission.as_mut();
        if let Some(id) = admission.and_then(|admission| admission.id.take()) {
            let slot = self.slot_mut(id);
            (slot.serial, slot.tenant) = (slot.serial.wrapping_add(1), Tenancy::Vacant);
            self.hub.unsubscribe(&mut self.clients[key as usize].subscriptions, id);
        }
        let first = |shard: &Self| {
            shard.hub.subscriptions(&shard.clients[key as usize].subscriptions).next()
        };
        while let Some(id) = first(self) {
            self.part(sockets, key, id);
        }
        // Channels that end still ask who their client was.
        let admission = self.clients[key as usize].admission.take();
        if let Some(address) = admission.and_then(|admission| admission.counted) {
            self.world.addresses.release(address);
        }
        self.unheard.remove(&key);
        let client = self.clients.remove(key);
        self.world.metrics.closed(matches!(client.transport, Transport::WebSocket(_)));
    }

    pub(super) fn open_mail(&mut self, sockets: &mut Sockets, mail: Mail) {
        match mail {
            Mail::Broadcast(broadcast) => self.queue(broadcast),
            Mail::Disconnect { id } => self.disconnect(&id),
            Mail::Push { to, event, body } => self.push(sockets, to, &event, &body),
            Mail::Info { to, info } => self.inform(sockets, to, info),
            Mail::Reply { to, reply } => self.reply(sockets, &to, &reply),
            Mail::Relay { what, to, data, ack } => self.relay(sockets, what, to, &data, ack),
            Mail::Ready => self.enter_ready(sockets),
            Mail::AnswerPoll { peer, connection } => {
                self.answer_sprite_poll(sockets, peer, connection);
            }
            Mail::OpenSession { serializer, connected, counted, token } => {
                self.open_session(sockets.now(), serializer, connected, counted, token);
            }
            Mail::Post { session, content_type, body, status } => {
                self.hear_post(sockets, session, content_type.as_deref(), &body, status);
            }
        }
    }

    /// Close the sockets that carry an id, after what was broadcast to them before.
    fn disconnect(&mut self, id: &str) {
        let topic = id_topic(id);
        self.queue(Arc::new(Broadcast::new(&topic, "disconnect", Body::EMPTY, None)));
    }

    fn inform(&mut self, sockets: &mut Sockets, to: ChannelAddress, info: Box<dyn Any + Send>) {
        if self.client_at(to).is_some() {
            self.call(sockets, to.subscription, &Ref::NULL, |channel, states, state, socket| {
                channel.handle_info(states, state, socket, info)
            });
        }
    }
}

fn joined(slot: &mut Slot) -> &mut JoinedChannel {
    match &mut slot.tenant {
        Tenancy::Channel(channel) => channel,
        _ => unreachable!("the subscription is a channel's"),
    }
}
