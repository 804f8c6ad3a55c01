//! Joins and leaves of channels, and clients that are gone.

use std::any::Any;
use std::time::Duration;

use watchfire_channels::{JoinRef, Message, Payload, Ref, Serializer, event};
use watchfire_hub::SubscriptionId;
use watchfire_sockets::Sockets;
use watchfire_types::{Instant, SocketId};

use super::ServerShard;
use super::client::{Client, StreamJoin, StreamTicket, Use};
use super::connect_rules::ConnectRefusal;
use super::spans::join_span;
use super::streams::{add_stream, refuse_stream};
use super::waiting_joins::{PendingMessage, PendingMessages, ReadyJoin, Wait};
use crate::channel_api::{
    ChannelAddress, Crash, NotJoined, Outcome, Refusal, Reply, caught, encoding,
};

impl ServerShard {
    /// Joins a client to a topic that it is not joined to. After a rejoin, `old` is the join that
    /// ended; its close follows the reply to the new join.
    pub(super) fn join(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        message: &Message<'_>,
        old: Option<JoinRef>,
    ) {
        let topic = &*message.topic;
        let guest = self.clients[key].guest();
        if let Some(reason) = guest.and_then(|guest| guest.refusal_of_join(topic)) {
            return self.refuse_join(sockets, key, message, old, &Reply::because(reason));
        }
        let Some(number) = self.shared.registry.find(topic) else {
            return self.refuse(sockets, key, message, &watchfire_channels::Refusal::Unmatched);
        };
        if let Some(reply) = self.refusal_of_join(key, number, message) {
            return self.refuse_join(sockets, key, message, old, &reply);
        }
        let id = self.clients.subscribe_channel(key, topic, JoinRef::of(message), number);
        let is_crowded = |client: &Client| client.is_crowded(&self.shared.limits, sockets);
        let wait = match self.awaited(topic) {
            Some(number) => Some(Wait::Processes(number)),
            None if self.histories.lacks_log(topic) => Some(Wait::Log),
            None => self.clients.get(key).is_some_and(is_crowded).then_some(Wait::Room),
        };
        let now = sockets.now();
        match wait {
            Some(wait) => self.joins.defer(&mut self.clients, now, wait, id, message, old),
            None => self.complete_join(sockets, id, message, old, None, now),
        }
    }

    /// Refuses a join before its channel knows of it.
    fn refuse_join(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        message: &Message<'_>,
        old: Option<JoinRef>,
        reply: &Reply,
    ) {
        join_span(message).fail("refused");
        self.metrics.joins_refused.add(1);
        self.answer(sockets, key, message, reply);
        self.metrics.join_took(Duration::ZERO);
        if let Some(old) = old.filter(|_| self.clients.is_connected(key)) {
            self.close_left_channel(sockets, key, &message.topic, &old);
        }
    }

    /// Refuses a join that would subscribe the process to its topic, if the client may not join. To subscribe
    /// costs a message to each other process, and this needs only the token.
    fn refusal_of_join(&self, key: u32, number: u16, message: &Message<'_>) -> Option<Reply> {
        if self.shared.cluster.is_alone() || self.clients.hub().subscribers(&message.topic) > 0 {
            return None;
        }
        let check = self.shared.registry.join_check(number)?;
        let details = self.clients[key].details.as_ref();
        let token = details.and_then(|details| details.data.as_ref()?.token.as_deref());
        match caught(|| check(&message.topic, token, message.payload)) {
            Ok(Err(Refusal(NotJoined::Refused(response)))) => Some(Reply::error(response)),
            // The channel's `join` does the same, and its crash is counted.
            Ok(_) | Err(_) => None,
        }
    }

    /// The number of the subscription of the process that a new subscriber of a topic waits for. The first
    /// subscriber of a shard subscribes the process.
    fn awaited(&self, topic: &str) -> Option<u64> {
        let cluster = &self.shared.cluster;
        match !cluster.is_alone() && self.clients.hub().subscribers(topic) == 1 {
            true => cluster.subscribe(topic),
            false => self.joins.awaited(&self.clients, topic, cluster.ready_up_to()),
        }
    }

    /// Calls the channel's `join` and sends the reply, unless the channel lets the join wait.
    /// `continued` is the message that continues a join that waited. The join arrived at `arrived`.
    fn complete_join(
        &mut self,
        sockets: &mut Sockets,
        id: SubscriptionId,
        message: &Message<'_>,
        old: Option<JoinRef>,
        continued: Option<Box<dyn Any + Send>>,
        arrived: Instant,
    ) {
        let key = self.clients.hub().client_of(id);
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
                self.clients.record_mut(id).channel_mut().state = Some(state);
                Reply::ok(response)
            }
            Ok(Err(Refusal(NotJoined::Waits))) => {
                drop(entered);
                span.discard();
                return self.joins.hold(&mut self.clients, arrived, id, message, old);
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
        let is_in = self.clients.record_mut(id).channel_mut().state.is_some();
        let mut replay = None;
        if is_in {
            let limits = &self.shared.limits;
            replay = self.histories.replay(&self.clients, limits, sockets, id, message);
        } else {
            self.leave_channel(sockets, key, id);
        }
        if let Some(replay) = &replay {
            replay.add_to(&mut reply);
        }
        self.answer(sockets, key, message, &reply);
        self.metrics.join_took(sockets.elapsed(arrived));
        // A full long-poll session ends with any message.
        if !self.clients.is_connected(key) {
            return;
        }
        if let Some(old) = old {
            self.close_left_channel(sockets, key, &message.topic, &old);
        }
        for missed in replay.into_iter().flat_map(|replay| replay.messages) {
            self.send(sockets, key, Some(missed));
        }
        if is_in && self.clients.is_connected(key) {
            self.call(sockets, id, &message.reference, |channel, states, state, socket| {
                channel.joined(states, state, socket).map(|()| Outcome::NoReply)
            });
        }
    }

    // Joins of event streams.

    /// Joins the client of a request for a stream. Returns its key.
    pub(super) fn park_stream(
        &mut self,
        sockets: &mut Sockets,
        socket: SocketId,
        ticket: Result<StreamTicket, ConnectRefusal>,
    ) -> u32 {
        match ticket {
            Ok(StreamTicket { join, connected, counted }) => {
                let key = add_stream(&mut self.clients, socket, connected, counted.keep());
                // A channel that ends in its first callback closes the socket, and the close needs the key.
                sockets.set_parked_key(socket, key);
                self.join_stream(sockets, key, &join);
                key
            }
            Err(refusal) => {
                refuse_stream(sockets, socket, refusal);
                0
            }
        }
    }

    pub(super) fn join_stream(&mut self, sockets: &mut Sockets, key: u32, join: &StreamJoin) {
        let message = Message {
            join_ref: Ref::NULL,
            reference: Ref::NULL,
            topic: (&*join.topic).into(),
            event: event::JOIN.into(),
            payload: Payload::Json(&join.payload),
        };
        self.receive(sockets, key, &message);
    }

    // Joins that waited.

    /// Continues the joins whose topics the other processes have sent.
    pub(super) fn resume_subscribed_joins(&mut self, sockets: &mut Sockets) {
        let up_to = self.shared.cluster.ready_up_to();
        let now = sockets.now();
        loop {
            let lacks_log = |topic: &str| self.histories.lacks_log(topic);
            let ready = self.joins.next_of_processes(&self.clients, now, up_to, lacks_log);
            let Some(ready) = ready else { return };
            self.resume_delayed_join(sockets, ready.address);
        }
    }

    /// Continues the joins that waited for a log, or for room, and need not wait any longer.
    pub(super) fn resume_timed_joins(&mut self, sockets: &mut Sockets, wait: Wait) {
        let mut left = self.joins.waiting(wait);
        loop {
            let ServerShard { joins, clients, histories, shared, .. } = self;
            let still_waits = |topic: &str, key: u32| match wait {
                Wait::Room => clients[key].is_crowded(&shared.limits, sockets),
                _ => histories.lacks_log(topic),
            };
            match joins.next_timed(clients, sockets.now(), wait, &mut left, still_waits) {
                Some(ReadyJoin { address, continued: None }) => {
                    self.resume_delayed_join(sockets, address);
                }
                Some(ReadyJoin { address, continued }) => {
                    self.resume_join(sockets, address.subscription, continued);
                }
                None => return,
            }
        }
    }

    /// Continues a join, unless it no longer waits, and then handles the client's later messages.
    fn resume_delayed_join(&mut self, sockets: &mut Sockets, address: ChannelAddress) {
        let Some(key) = self.clients.joining_client_at(address) else { return };
        let pending = self.joins.take_pending(key);
        self.resume_join(sockets, address.subscription, None);
        self.receive_pending(sockets, key, pending);
    }

    /// Handles the messages that a client sent while its join waited, until the next join waits.
    fn receive_pending(&mut self, sockets: &mut Sockets, key: u32, mut pending: PendingMessages) {
        while !self.joins.delays(key)
            && let Some(message) = pending.pop()
        {
            match message {
                PendingMessage::Text(text) => self.receive_text(sockets, key, &text),
                PendingMessage::Binary(bytes) => self.receive_binary(sockets, key, &bytes),
            }
        }
        self.joins.put_back(key, pending);
    }

    /// Continues a join that its channel let wait.
    pub(super) fn continue_join(
        &mut self,
        sockets: &mut Sockets,
        to: ChannelAddress,
        info: Box<dyn Any + Send>,
    ) {
        let Some(key) = self.clients.joining_client_at(to) else { return };
        if self.clients[key].is_crowded(&self.shared.limits, sockets) {
            let join = ReadyJoin { address: to, continued: Some(info) };
            self.joins.wait_for_room(sockets.now(), join);
        } else {
            self.resume_join(sockets, to.subscription, Some(info));
        }
    }

    fn resume_join(
        &mut self,
        sockets: &mut Sockets,
        id: SubscriptionId,
        continued: Option<Box<dyn Any + Send>>,
    ) {
        let Some(mut join) = self.clients.record_mut(id).end_wait() else { return };
        let topic = self.clients.hub().topic_of(id).to_owned();
        let old = join.old.take();
        self.complete_join(sockets, id, &join.message(&topic), old, continued, join.arrived);
    }

    /// Refuses a join that waits, as its channel would. Returns whether there was one.
    pub(super) fn refuse_waiting_join(
        &mut self,
        sockets: &mut Sockets,
        id: SubscriptionId,
        reason: &str,
    ) -> bool {
        let Some(join) = self.clients.record_mut(id).end_wait() else { return false };
        let key = self.clients.hub().client_of(id);
        let topic = self.clients.hub().topic_of(id).to_owned();
        self.leave_channel(sockets, key, id);
        let pending = match join.delays_client {
            true => self.joins.take_pending(key),
            false => PendingMessages::default(),
        };
        self.answer(sockets, key, &join.message(&topic), &Reply::because(reason));
        self.metrics.joins_refused.add(1);
        self.metrics.join_took(sockets.elapsed(join.arrived));
        if let Some(old) = join.old {
            self.close_left_channel(sockets, key, &topic, &old);
        }
        self.receive_pending(sockets, key, pending);
        true
    }

    // Leaves.

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
        if self.clients[key].serializer == Serializer::V2 {
            self.send(sockets, key, encoding::close(Serializer::V2, old, topic));
        }
    }

    /// Closes the join that a waiting join has replaced. Called when the waiting join ends without a reply,
    /// which the close would have followed.
    pub(super) fn close_replaced(&mut self, sockets: &mut Sockets, key: u32, id: SubscriptionId) {
        let Use::Joining(joining) = &mut self.clients.record_mut(id).used_by else { return };
        let Some(old) = joining.join.old.take() else { return };
        let topic = self.clients.hub().topic_of(id).to_owned();
        self.close_left_channel(sockets, key, &topic, &old);
    }

    /// Ends a channel: calls its `leave`, removes its presences and its subscription. Sends nothing
    /// to the client.
    pub(super) fn leave_channel(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        id: SubscriptionId,
    ) -> JoinRef {
        if let Use::Channel(channel) = &mut self.clients.record_mut(id).used_by
            && let Some(state) = channel.state.take()
        {
            let result = self.with_socket(sockets, id, &Ref::NULL, |channel, states, socket| {
                channel.leave(states, state, socket)
            });
            if let Err(Crash(reason)) = result {
                self.shared.metrics.crashes.inc();
                tracing::warn!(reason, "leave crashed");
            }
        }
        let topic = self.clients.hub().topic_of(id).to_owned();
        let mut channel = self.clients.unsubscribe_channel(key, id);
        if !channel.presence.is_empty() {
            self.shared.presence.on(&topic).untrack_all(&mut channel.presence);
        }
        let subscribers = self.clients.hub().subscribers(&topic);
        self.histories.leave(id, &topic, subscribers);
        if !self.shared.cluster.is_alone() && subscribers == 0 {
            self.shared.cluster.unsubscribe(&topic);
        }
        channel.join_ref
    }

    /// Removes a client that is gone, and ends its channels. Called only where nothing holds the
    /// client or one of its channels: for a closed socket, and by [`ServerShard::run_call`].
    pub(super) fn remove_client(&mut self, sockets: &mut Sockets, key: u32) {
        self.clients.unsubscribe_id(key);
        while let Some(id) = self.clients.any_subscription(key) {
            self.leave_channel(sockets, key, id);
        }
        self.joins.take_pending(key);
        self.deliveries.watched().remove(key);
        // Its details are removed last, because the `leave` of a channel may read them.
        if let Some(address) = self.clients.remove(key) {
            self.shared.addresses.release(address);
        }
    }
}
