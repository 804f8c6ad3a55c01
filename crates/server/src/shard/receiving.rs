//! Messages from clients: decoding, the protocol's own rules, and rate limits.

use serde_json::json;
use watchfire_channels::{Action, ConversationLimits, Message, Payload};
use watchfire_hub::SubscriptionId;
use watchfire_sockets::Sockets;

use super::client::{Client, Transport, Use};
use super::state::Shard;
use super::waiting::PendingMessage;
use crate::channel_api::{Body, Direction, Reply, encoding};

/// The close code for a message that cannot be decoded: unexpected condition.
const UNEXPECTED: u16 = 1011;

impl Shard {
    pub(super) fn receive_text(&mut self, sockets: &mut Sockets, key: u32, text: &str) {
        let Some(client) = self.receiver(key) else { return };
        if self.waits(key) {
            return self.defer_message(sockets, key, PendingMessage::Text(text.into()));
        }
        match watchfire_channels::decode_text(client.serializer, text) {
            Ok(message) => self.receive(sockets, key, &message),
            Err(error) => self.reject_message(sockets, key, &error),
        }
    }

    pub(super) fn receive_binary(&mut self, sockets: &mut Sockets, key: u32, bytes: &[u8]) {
        let Some(client) = self.receiver(key) else { return };
        if self.waits(key) {
            return self.defer_message(sockets, key, PendingMessage::Binary(bytes.into()));
        }
        match watchfire_channels::decode_binary(client.serializer, bytes) {
            Ok(message) => self.receive(sockets, key, &message),
            Err(error) => self.reject_message(sockets, key, &error),
        }
    }

    /// The client of a message. `None`: it is gone, or an earlier message ended its session.
    fn receiver(&self, key: u32) -> Option<&Client> {
        self.clients.get(key as usize).filter(|client| !client.is_ending())
    }

    fn reject_message(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        error: &watchfire_channels::DecodeError,
    ) {
        self.shared.metrics.refused("bad_message");
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

    fn receive(&mut self, sockets: &mut Sockets, key: u32, message: &Message<'_>) {
        self.metrics.messages.add(1);
        if !self.watches.is_empty() {
            let (topic, event) = (&message.topic, &message.event);
            self.watches.note(key, Direction::Received, topic, event, message.payload);
        }
        let now = sockets.now();
        let client = &mut self.clients[key as usize];
        let found = self.hub.find(&client.subscriptions, &message.topic);
        // The topic of the socket's id is not a channel, also for a client that guesses its name.
        let found = found.filter(|id| !matches!(self.records[*id].used_by, Use::SocketId));
        let has_id = client.details.as_ref().is_some_and(|details| details.id.is_some());
        let joined = client.subscriptions.len() - usize::from(has_id);
        let join_ref = found.map(|id| match &self.records[id].used_by {
            Use::Channel(channel) => &channel.join_ref,
            Use::Joining(joining) => &joining.channel.join_ref,
            Use::SocketId | Use::Free => unreachable!("a found topic is joined"),
        });
        let limits = &self.shared.limits;
        let bounds =
            ConversationLimits { channels_max: usize::from(limits.channels_per_socket_max) };
        let action = watchfire_channels::route(message, join_ref, joined, &bounds);

        let is_join = matches!(action, Action::Join | Action::Rejoin);
        let has_own_limits = matches!(message.payload, Payload::Binary(_))
            && found.is_some_and(|id| self.shared.registry.has_own_limits(self.records[id].number));
        let counts = !has_own_limits && !matches!(action, Action::Heartbeat);
        if counts && !client.rates.spend(now, is_join, limits) {
            let (reason, name, max) = match is_join {
                true => (
                    "joins_per_second",
                    "joins_per_second_per_socket",
                    limits.joins_per_second_per_socket,
                ),
                false => (
                    "messages_per_second",
                    "messages_per_second_per_socket",
                    limits.messages_per_second_per_socket,
                ),
            };
            self.shared.metrics.refused(reason);
            let reply = Reply::error(json!({ "reason": "too fast", "limit": name, "max": max }));
            return self.answer(sockets, key, &message.join_ref, message, &reply);
        }
        self.act(sockets, key, message, found, action);
    }

    /// Does what a message of a client asks. `found` is the client's subscription of its topic.
    fn act(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        message: &Message<'_>,
        found: Option<SubscriptionId>,
        action: Action,
    ) {
        match action {
            Action::Heartbeat => {
                let serializer = self.clients[key as usize].serializer;
                let reply = encoding::heartbeat_reply(serializer, &message.reference);
                self.send(sockets, key, reply);
            }
            Action::Join => self.join(sockets, key, message, None),
            Action::Rejoin => {
                let old = found.expect("a rejoined topic is joined");
                self.close_replaced(sockets, key, old);
                let old_ref = self.leave_channel(sockets, key, old);
                self.join(sockets, key, message, Some(old_ref));
            }
            Action::Leave => {
                let id = found.expect("a left topic is joined");
                self.answer(sockets, key, &message.join_ref, message, &Reply::ok(Body::EMPTY));
                self.close_replaced(sockets, key, id);
                let join_ref = self.leave_channel(sockets, key, id);
                self.close_left_channel(sockets, key, &message.topic, &join_ref);
            }
            Action::LeaveNotJoined => {
                self.answer(sockets, key, &message.join_ref, message, &Reply::ok(Body::EMPTY));
            }
            Action::Deliver => {
                let id = found.expect("a message is delivered to a joined topic");
                if matches!(self.records[id].used_by, Use::Joining(_)) {
                    self.shared.metrics.refused("join_pending");
                    let reply = Reply::because("join_pending");
                    return self.answer(sockets, key, &message.join_ref, message, &reply);
                }
                self.call(sockets, id, &message.reference, |channel, states, state, socket| {
                    channel.handle_in(states, state, socket, &message.event, message.payload)
                });
            }
            Action::Stale => self.shared.metrics.refused("stale_join_ref"),
            Action::Refuse(refusal) => self.refuse(sockets, key, message, &refusal),
        }
    }

    pub(super) fn refuse(
        &mut self,
        sockets: &mut Sockets,
        key: u32,
        message: &Message<'_>,
        refusal: &watchfire_channels::Refusal,
    ) {
        self.shared.metrics.refused(match refusal {
            watchfire_channels::Refusal::Unmatched => "unmatched_topic",
            watchfire_channels::Refusal::TooManyChannels { .. } => "channels_per_socket",
            watchfire_channels::Refusal::JoinCrashed => "join_crashed",
            watchfire_channels::Refusal::TopicTooLong { .. } => "topic_too_long",
            watchfire_channels::Refusal::EventTooLong { .. } => "event_too_long",
        });
        let serializer = self.clients[key as usize].serializer;
        self.send(sockets, key, encoding::refusal(serializer, message, refusal));
    }
}
