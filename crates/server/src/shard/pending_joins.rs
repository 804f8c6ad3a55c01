//! Joins that wait: for the other processes, or for their channel.
//!
//! The first subscriber of a topic subscribes the process to it. The join gets its reply only after
//! every other process has sent its state. A client with a reply therefore misses no later message,
//! and finds all presences and peers. Messages that the client sends meanwhile are handled after
//! the join, so that replies come in the order of the messages.
//!
//! A channel may let a join wait too, for a backend that decides about it. Such a wait may take
//! seconds, so the client's other channels go on. On the topic of the join, the client can leave or
//! join again; its other messages are refused.

use std::any::Any;

use watchfire_channels::{JoinRef, Message, Ref};
use watchfire_hub::SubscriptionId;
use watchfire_sockets::Sockets;
use watchfire_types::Instant;

use super::client::{Joining, Transport, Use};
use super::state::Shard;
use super::waiting::{PENDING_BYTES_MAX, PendingMessage, PendingMessages};
use crate::channel_api::{Body, ChannelAddress, Reply};

impl Shard {
    /// Whether a join of this client waits.
    pub(super) fn waits(&self, key: u32) -> bool {
        !self.pending_messages.is_empty() && self.pending_messages.contains_key(&key)
    }

    /// Keeps a message until the client's join is answered.
    pub(super) fn defer_message(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        message: PendingMessage,
    ) {
        let pending = self.pending_messages.entry(key).or_default();
        pending.bytes += message.cost_bytes();
        if pending.bytes <= PENDING_BYTES_MAX {
            return pending.messages.push_back(message);
        }
        self.shared.metrics.refused("join_backlog");
        match self.clients[key as usize].transport {
            Transport::WebSocket(socket) => {
                sockets.close(socket, 1013, "too many bytes sent while a join waits");
            }
            Transport::LongPoll(_) => self.end_session(sockets, key),
        }
    }

    /// Handles the messages that a client sent while its join waited, until the next join waits.
    fn receive_pending(&mut self, sockets: &mut Sockets, key: u32, pending: PendingMessages) {
        let mut messages = pending.messages;
        while !self.waits(key)
            && let Some(message) = messages.pop_front()
        {
            match message {
                PendingMessage::Text(text) => self.receive_text(sockets, key, &text),
                PendingMessage::Binary(bytes) => self.receive_binary(sockets, key, &bytes),
            }
        }
        // There is no entry when the client is gone.
        if let Some(again) = self.pending_messages.get_mut(&key) {
            again.bytes += messages.iter().map(PendingMessage::cost_bytes).sum::<usize>();
            messages.append(&mut again.messages);
            again.messages = messages;
        }
    }

    /// Defers a join until the other processes have sent their state of the topic.
    pub(super) fn defer_join(
        &mut self,
        arrived: Instant,
        id: SubscriptionId,
        awaited: u64,
        message: &Message<'_>,
        old: Option<JoinRef>,
    ) {
        self.park_join(arrived, id, message, old);
        self.joining.push_back((awaited, self.address(id)));
    }

    /// Lets a join wait, and the messages that the client sends after it.
    pub(super) fn park_join(
        &mut self,
        arrived: Instant,
        id: SubscriptionId,
        message: &Message<'_>,
        old: Option<JoinRef>,
    ) {
        self.keep_join(arrived, id, message, old, true);
        self.pending_messages.entry(self.hub.client_of(id)).or_default();
    }

    /// Lets a join wait until its channel continues it.
    pub(super) fn hold_join(
        &mut self,
        arrived: Instant,
        id: SubscriptionId,
        message: &Message<'_>,
        old: Option<JoinRef>,
    ) {
        self.keep_join(arrived, id, message, old, false);
    }

    fn keep_join(
        &mut self,
        arrived: Instant,
        id: SubscriptionId,
        message: &Message<'_>,
        old: Option<JoinRef>,
        delays_client: bool,
    ) {
        let record = self.record_mut(id);
        let Use::Channel(channel) = std::mem::take(&mut record.used_by) else {
            unreachable!("the channel has subscribed, and is not joined")
        };
        record.used_by = Use::Joining(Box::new(Joining {
            channel,
            join_ref: message.join_ref.clone(),
            reference: message.reference.clone(),
            payload: message.payload.into(),
            delays_client,
            old,
            arrived,
        }));
    }

    /// Continues the joins whose topics are ready.
    pub(super) fn resume_joins(&mut self, sockets: &mut Sockets) {
        let up_to = self.shared.cluster.ready_up_to();
        while let Some((_, address)) = self.joining.pop_front_if(|(number, _)| *number <= up_to) {
            if self.joining_client_at(address).is_none() {
                continue;
            }
            match self.lacks_log(self.hub.topic_of(address.subscription)) {
                true => self.await_log(sockets, address.subscription),
                false => self.resume_waiting_join(sockets, address),
            }
        }
    }

    /// Continues a join, unless it no longer waits, and then handles the client's later messages.
    pub(super) fn resume_waiting_join(&mut self, sockets: &mut Sockets, address: ChannelAddress) {
        let Some(key) = self.joining_client_at(address) else { return };
        let pending = self.pending_messages.remove(&key).unwrap_or_default();
        self.resume_join(sockets, address.subscription, None);
        self.receive_pending(sockets, key, pending);
    }

    /// Continues a join that its channel let wait.
    pub(super) fn continue_join(
        &mut self,
        sockets: &mut Sockets,
        to: ChannelAddress,
        info: Box<dyn Any + Send>,
    ) {
        match self.joining_client_at(to) {
            Some(key) if self.is_crowded(sockets, key) => self.await_room(sockets, to, Some(info)),
            Some(_) => self.resume_join(sockets, to.subscription, Some(info)),
            None => {}
        }
    }

    /// The client of a join that still waits. It may have left, or joined again.
    pub(super) fn joining_client_at(&self, address: ChannelAddress) -> Option<u32> {
        let record = self.records.get(address.subscription)?;
        let waits = matches!(record.used_by, Use::Joining(_));
        (waits && record.serial == address.serial).then(|| self.hub.client_of(address.subscription))
    }

    pub(super) fn resume_join(
        &mut self,
        sockets: &mut Sockets,
        id: SubscriptionId,
        continued: Option<Box<dyn Any + Send>>,
    ) {
        if let Some(WaitingJoin { topic, join_ref, reference, payload, old, arrived, .. }) =
            self.take_waiting(id)
        {
            let message = join_message(&topic, join_ref, reference, &payload);
            self.complete_join(sockets, id, &message, old, continued, arrived);
        }
    }

    /// Takes a join that waits out of its record. `None`: the channel is joined.
    fn take_waiting(&mut self, id: SubscriptionId) -> Option<WaitingJoin> {
        let record = self.record_mut(id);
        let joining = match std::mem::take(&mut record.used_by) {
            Use::Joining(joining) => *joining,
            other => {
                record.used_by = other;
                return None;
            }
        };
        let Joining { channel, join_ref, reference, payload, delays_client, old, arrived } =
            joining;
        record.used_by = Use::Channel(channel);
        let topic = self.hub.topic_of(id).to_owned();
        Some(WaitingJoin { topic, join_ref, reference, payload, delays_client, old, arrived })
    }

    /// Refuses a join that waits, as its channel would. Returns whether there was one.
    pub(super) fn refuse_waiting_join(
        &mut self,
        sockets: &mut Sockets,
        id: SubscriptionId,
        reason: &str,
    ) -> bool {
        let Some(join) = self.take_waiting(id) else { return false };
        let WaitingJoin { topic, join_ref, reference, payload, delays_client, old, arrived } = join;
        let key = self.hub.client_of(id);
        self.leave_channel(sockets, key, id);
        let message = join_message(&topic, join_ref, reference, &payload);
        let pending = delays_client.then(|| self.pending_messages.remove(&key)).flatten();
        self.answer(sockets, key, &message.join_ref, &message, &Reply::because(reason));
        self.metrics.joins_refused.add(1);
        self.metrics.join_took(sockets.elapsed(arrived));
        if let Some(old) = old {
            self.close_left_channel(sockets, key, &topic, &old);
        }
        self.receive_pending(sockets, key, pending.unwrap_or_default());
        true
    }

    /// Closes the join that a waiting join has replaced. Called when the waiting join ends without a reply,
    /// which the close would have followed.
    pub(super) fn close_replaced(&mut self, sockets: &mut Sockets, key: u32, id: SubscriptionId) {
        let Use::Joining(joining) = &mut self.record_mut(id).used_by else { return };
        let Some(old) = joining.old.take() else { return };
        let topic = self.hub.topic_of(id).to_owned();
        self.close_left_channel(sockets, key, &topic, &old);
    }

    /// The number of the subscription that a topic still waits for, from an earlier subscriber of
    /// this shard.
    pub(super) fn awaited(&self, topic: &str) -> Option<u64> {
        let up_to = self.shared.cluster.ready_up_to();
        let waits = |&(number, address): &(u64, ChannelAddress)| {
            let record = self.records.get(address.subscription);
            let is_there = record.is_some_and(|record| record.serial == address.serial);
            let waits = is_there && number > up_to;
            (waits && self.hub.topic_of(address.subscription) == topic).then_some(number)
        };
        self.joining.iter().find_map(waits)
    }
}

/// A join that waited, out of its record.
struct WaitingJoin {
    topic: String,
    join_ref: Ref,
    reference: Ref,
    payload: Body,
    delays_client: bool,
    old: Option<JoinRef>,
    arrived: Instant,
}

fn join_message<'a>(
    topic: &'a str,
    join_ref: Ref,
    reference: Ref,
    payload: &'a Body,
) -> Message<'a> {
    Message {
        join_ref,
        reference,
        topic: topic.into(),
        event: watchfire_channels::event::JOIN.into(),
        payload: payload.as_payload(),
    }
}
