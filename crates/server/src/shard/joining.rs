//! Joins and leaves of channels, and clients that are gone.

use std::any::Any;
use std::time::Duration;

use watchfire_channels::{JoinRef, Message, Ref, Serializer};
use watchfire_hub::{PresenceOwner, SubscriptionId};
use watchfire_sockets::Sockets;
use watchfire_types::Instant;

use super::client::{JoinedChannel, Transport, Use};
use super::spans::join_span;
use super::state::Shard;
use crate::channel_api::{Crash, NotJoined, Outcome, Refusal, Reply, caught, encoding};

impl Shard {
    /// Joins a client to a topic that it is not joined to. After a rejoin, `old` is the join that
    /// ended; its close follows the reply to the new join.
    pub(super) fn join(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        message: &Message<'_>,
        old: Option<JoinRef>,
    ) {
        let Some(number) = self.shared.registry.find(&message.topic) else {
            return self.refuse(sockets, key, message, &watchfire_channels::Refusal::Unmatched);
        };
        if let Some(reply) = self.refusal_of_join(key, number, message) {
            join_span(message).fail("refused");
            self.metrics.joins_refused.add(1);
            self.answer(sockets, key, &message.join_ref, message, &reply);
            self.metrics.join_took(Duration::ZERO);
            if let Some(old) = old.filter(|_| self.is_connected(key)) {
                self.close_left_channel(sockets, key, &message.topic, &old);
            }
            return;
        }
        let join_ref = JoinRef::of(message);
        let (id, awaited) = self.subscribe(key, &message.topic, join_ref, number);
        match awaited {
            Some(awaited) => self.defer_join(sockets.now(), id, awaited, message, old),
            None if self.lacks_log(&message.topic) => {
                self.defer_until_log(sockets, id, message, old);
            }
            None if self.is_crowded(sockets, key) => {
                self.defer_until_read(sockets, id, message, old);
            }
            None => {
                let arrived = sockets.now();
                self.complete_join(sockets, id, message, old, None, arrived)
            }
        }
    }

    /// Refuses a join that would subscribe the process to its topic, if the client may not join. To subscribe
    /// costs a message to each other process, and this needs only the token.
    fn refusal_of_join(&self, key: u32, number: u16, message: &Message<'_>) -> Option<Reply> {
        if self.shared.cluster.is_alone() || self.hub.subscribers(&message.topic) > 0 {
            return None;
        }
        let check = self.shared.registry.join_check(number)?;
        let details = self.clients[key as usize].details.as_ref();
        let token = details.and_then(|details| details.data.as_ref()?.token.as_deref());
        match caught(|| check(&message.topic, token, message.payload)) {
            Ok(Err(Refusal(NotJoined::Refused(response)))) => Some(Reply::error(response)),
            // The channel's `join` does the same, and its crash is counted.
            Ok(_) | Err(_) => None,
        }
    }

    /// Calls the channel's `join` and sends the reply, unless the channel lets the join wait.
    /// `continued` is the message that continues a join that waited. The join arrived at `arrived`.
    pub(super) fn complete_join(
        &mut self,
        sockets: &mut Sockets,
        id: SubscriptionId,
        message: &Message<'_>,
        old: Option<JoinRef>,
        continued: Option<Box<dyn Any + Send>>,
        arrived: Instant,
    ) {
        let key = self.hub.client_of(id);
        let mut span = join_span(message);
        let entered = span.enter();
        let result =
            self.with_socket(sockets, id, &message.reference, |channel, states, socket| {
                socket.continued = continued;
                channel.join(states, socket, message.payload)
            });
        if span.is_recorded() {
            span.set_age(sockets.elapsed(arrived));
        }
        let mut reply = match result {
            Ok(Ok((state, response))) => {
                self.metrics.joins_accepted.add(1);
                self.channel_mut(id).state = Some(state);
                Reply::ok(response)
            }
            Ok(Err(Refusal(NotJoined::Waits))) => {
                drop(entered);
                span.discard();
                return self.hold_join(arrived, id, message, old);
            }
            Ok(Err(Refusal(NotJoined::Refused(response)))) => {
                self.metrics.joins_refused.add(1);
                span.fail("refused");
                Reply::error(response)
            }
            Err(Crash(reason)) => {
                self.shared.metrics.crashes.inc();
                self.metrics.joins_crashed.add(1);
                tracing::warn!(topic = %message.topic, reason, "join crashed");
                span.fail("join crashed");
                Reply::because("join crashed")
            }
        };
        let is_in = self.channel_mut(id).state.is_some();
        if !is_in {
            self.leave_channel(sockets, key, id);
        }
        let replay = if is_in { self.replay(sockets, id, message) } else { None };
        if let Some(replay) = &replay {
            replay.add_to(&mut reply);
        }
        self.answer(sockets, key, &message.join_ref, message, &reply);
        self.metrics.join_took(sockets.elapsed(arrived));
        // A full long-poll session ends with any message.
        if !self.is_connected(key) {
            return;
        }
        if let Some(old) = old {
            self.close_left_channel(sockets, key, &message.topic, &old);
        }
        self.send_replay(sockets, key, replay);
        if is_in && self.is_connected(key) {
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
        self.records.open(id, number, Use::Channel(channel));
        self.metrics.channels_now.add(1);
        // The first subscriber of a shard subscribes the process.
        let cluster = &self.shared.cluster;
        let is_first = !cluster.is_alone() && self.hub.subscribers(topic) == 1;
        (id, if is_first { cluster.subscribe(topic) } else { self.awaited(topic) })
    }

    /// Ends a channel: calls its `leave`, removes its presences and its subscription. Sends nothing
    /// to the client.
    pub(super) fn leave_channel(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        id: SubscriptionId,
    ) -> JoinRef {
        if let Use::Channel(JoinedChannel { state, .. }) = &mut self.record_mut(id).used_by
            && let Some(state) = state.take()
        {
            let result = self.with_socket(sockets, id, &Ref::NULL, |channel, states, socket| {
                channel.leave(states, state, socket)
            });
            if let Err(Crash(reason)) = result {
                self.shared.metrics.crashes.inc();
                tracing::warn!(reason, "leave crashed");
            }
        }
        let topic = self.hub.topic_of(id).to_owned();
        let mut channel = match self.records.close(id) {
            Use::Channel(channel) => channel,
            Use::Joining(joining) => joining.channel,
            Use::SocketId | Use::Free => unreachable!("only a channel can be left"),
        };
        if !channel.presence.is_empty() {
            self.shared.presence.on(&topic).untrack_all(&mut channel.presence);
        }
        self.hub.unsubscribe(&mut self.clients[key as usize].subscriptions, id);
        self.leave_history(id, &topic);
        self.metrics.channels_now.sub(1);
        if !self.shared.cluster.is_alone() && self.hub.subscribers(&topic) == 0 {
            self.shared.cluster.unsubscribe(&topic);
        }
        channel.join_ref
    }

    pub(super) fn close_channel(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        topic: &str,
        join_ref: &JoinRef,
    ) {
        let message = encoding::close(self.clients[key as usize].serializer, join_ref, topic);
        self.send(sockets, key, message);
    }

    /// Sends the close of a join that the client has left or replaced. Over V1 nothing is sent.
    ///
    /// A V1 frame does not say which join it belongs to. A client that has joined the topic again
    /// would take the old join's close for the new join's. It needs no close: its own leave, or its
    /// new join, has ended the old channel.
    pub(super) fn close_left_channel(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        topic: &str,
        old: &JoinRef,
    ) {
        if self.clients[key as usize].serializer == Serializer::V2 {
            self.close_channel(sockets, key, topic, old);
        }
    }

    /// Removes a client that is gone, and ends its channels. Called only where nothing holds the
    /// client or one of its channels: for a closed socket, and by
    /// [`Shard::remove_ended_sessions`].
    pub(super) fn remove_client(&mut self, sockets: &mut Sockets, key: u32) {
        let details = self.clients[key as usize].details.as_mut();
        if let Some(id) = details.and_then(|details| details.id.take()) {
            self.records.close(id);
            self.hub.unsubscribe(&mut self.clients[key as usize].subscriptions, id);
        }
        let first = |shard: &Self| {
            shard.hub.subscriptions(&shard.clients[key as usize].subscriptions).next()
        };
        while let Some(id) = first(self) {
            self.leave_channel(sockets, key, id);
        }
        // Removed last, because the `leave` of a channel may read them.
        let details = self.clients[key as usize].details.take();
        if let Some(address) = details.and_then(|details| details.counted) {
            self.shared.addresses.release(address);
        }
        self.pending_messages.remove(&key);
        self.watches.remove(key);
        let client = self.clients.remove(key);
        self.metrics.clients_now(matches!(client.transport, Transport::WebSocket(_))).sub(1);
    }
}
