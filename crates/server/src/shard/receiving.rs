//! Messages from clients: decoding, the protocol's own rules, and rate limits.

use serde_json::json;
use watchfire_channels::longpoll::{Frame, Status, decode_body};
use watchfire_channels::{
    Action, ClientBroadcast, ConversationLimits, DecodeError, Message, Payload, Serializer,
};
use watchfire_hub::SubscriptionId;
use watchfire_sockets::Sockets;

use super::ServerShard;
use super::backpressure::PostAnswer;
use super::client::{Client, Transport, Use};
use super::long_polls::is_session;
use super::waiting_joins::PendingMessage;
use crate::channel_api::{Body, Direction, Reply, encoding};
use crate::token::SessionId;

/// The close code for a message that cannot be decoded: unexpected condition.
const UNEXPECTED: u16 = 1011;
/// The close code for too many bytes: try again later.
const TRY_AGAIN_LATER: u16 = 1013;

impl ServerShard {
    pub(super) fn receive_text(&mut self, sockets: &mut Sockets, key: u32, text: &str) {
        let Some(client) = self.receiver(key) else { return };
        if self.joins.delays(key) {
            return self.defer_message(sockets, key, PendingMessage::Text(text.into()));
        }
        match watchfire_channels::decode_text(client.serializer, text) {
            Ok(message) => self.receive(sockets, key, &message),
            Err(error) => self.reject_message(sockets, key, &error),
        }
    }

    pub(super) fn receive_binary(&mut self, sockets: &mut Sockets, key: u32, bytes: &[u8]) {
        let Some(client) = self.receiver(key) else { return };
        if self.joins.delays(key) {
            return self.defer_message(sockets, key, PendingMessage::Binary(bytes.into()));
        }
        let serializer = client.serializer;
        if serializer == Serializer::V2
            && let Some(broadcast) = watchfire_channels::client_broadcast(bytes)
        {
            return match broadcast {
                Ok(ClientBroadcast::Text(text)) => self.receive_text(sockets, key, &text),
                Ok(ClientBroadcast::Binary(push)) => self.receive_binary(sockets, key, &push),
                Err(error) => self.reject_message(sockets, key, &error),
            };
        }
        match watchfire_channels::decode_binary(serializer, bytes) {
            Ok(message) => self.receive(sockets, key, &message),
            Err(error) => self.reject_message(sockets, key, &error),
        }
    }

    /// The client of a message. `None`: it is gone, or an earlier message ended its session.
    fn receiver(&self, key: u32) -> Option<&Client> {
        self.clients.get(key).filter(|client| !client.is_ending())
    }

    /// Handles the messages of a POST, and answers it.
    pub(super) fn receive_post(
        &mut self,
        sockets: &mut Sockets,
        id: SessionId,
        content_type: Option<&str>,
        body: &[u8],
        answer: PostAnswer,
    ) {
        self.backpressure.begin_post();
        let result = if is_session(&self.clients, id.client, id.generation) {
            decode_body(content_type, body).map(|frames| {
                for frame in frames {
                    match frame {
                        Frame::Text(text) => self.receive_text(sockets, id.client, text),
                        Frame::Binary(bytes) => self.receive_binary(sockets, id.client, &bytes),
                    }
                }
                // A message may have ended the session. Those after it were not read.
                match is_session(&self.clients, id.client, id.generation) {
                    true => Status::Ok,
                    false => Status::Gone,
                }
            })
        } else {
            Ok(Status::Gone)
        };
        self.backpressure.answer_post(sockets, answer, result);
    }

    fn defer_message(&mut self, sockets: &mut Sockets, key: u32, message: PendingMessage) {
        if !self.joins.defer_message(key, message) {
            self.shared.metrics.refused("join_backlog");
            let reason = "too many bytes sent while a join waits";
            self.end_client(sockets, key, TRY_AGAIN_LATER, reason);
        }
    }

    fn reject_message(&mut self, sockets: &mut Sockets, key: u32, error: &DecodeError) {
        self.shared.metrics.refused("bad_message");
        tracing::debug!(%error, "bad message");
        // A close reason has at most 123 bytes.
        let reason: String = error.to_string().chars().take(80).collect();
        self.end_client(sockets, key, UNEXPECTED, &reason);
    }

    /// Closes the socket of a client with a code and a reason, or ends its session.
    fn end_client(&mut self, sockets: &mut Sockets, key: u32, code: u16, reason: &str) {
        match self.clients[key].transport {
            Transport::WebSocket(socket) | Transport::Events(socket) => {
                sockets.close(socket, code, reason);
            }
            Transport::LongPoll(_) => self.clients.end_session(sockets, key, Status::Gone),
        }
    }

    pub(super) fn receive(&mut self, sockets: &mut Sockets, key: u32, message: &Message<'_>) {
        self.metrics.messages.add(1);
        let watched = self.deliveries.watched();
        if !watched.is_empty() {
            let (topic, event) = (&message.topic, &message.event);
            watched.note(key, Direction::Received, topic, event, message.payload);
        }
        let found = self.clients.find(key, &message.topic);
        // The topic of the socket's id is not a channel, also for a client that guesses its name.
        let found = found.filter(|id| !matches!(self.clients.record(*id).used_by, Use::SocketId));
        if let Some(id) = found {
            let bytes = match message.payload {
                Payload::Json(text) => text.len(),
                Payload::Binary(bytes) => bytes.len(),
            };
            self.clients.note_traffic(id, bytes);
        }
        let client = &self.clients[key];
        let has_id = client.details.as_ref().is_some_and(|details| details.id.is_some());
        let joined = client.subscriptions.len() - usize::from(has_id);
        let join_ref = found.map(|id| match &self.clients.record(id).used_by {
            Use::Channel(channel) => &channel.join_ref,
            Use::Joining(joining) => &joining.channel.join_ref,
            Use::SocketId | Use::Free => unreachable!("a found topic is joined"),
        });
        let limits = &self.shared.limits;
        let bounds =
            ConversationLimits { channels_max: usize::from(limits.channels_per_socket_max) };
        let action = watchfire_channels::route(message, join_ref, joined, &bounds);

        let is_join = matches!(action, Action::Join | Action::Rejoin);
        let number = found.map(|id| self.clients.record(id).number);
        let has_own_limits = matches!(message.payload, Payload::Binary(_))
            && number.is_some_and(|number| self.shared.registry.has_own_limits(number));
        let counts = !has_own_limits && !matches!(action, Action::Heartbeat);
        if counts && !self.clients[key].rates.spend(sockets.now(), is_join, limits) {
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
            return self.answer(sockets, key, message, &reply);
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
                let serializer = self.clients[key].serializer;
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
                self.answer(sockets, key, message, &Reply::ok(Body::EMPTY));
                self.close_replaced(sockets, key, id);
                let join_ref = self.leave_channel(sockets, key, id);
                self.close_left_channel(sockets, key, &message.topic, &join_ref);
            }
            Action::LeaveNotJoined => {
                self.answer(sockets, key, message, &Reply::ok(Body::EMPTY));
            }
            Action::Deliver => {
                let id = found.expect("a message is delivered to a joined topic");
                if matches!(self.clients.record(id).used_by, Use::Joining(_)) {
                    self.shared.metrics.refused("join_pending");
                    let reply = Reply::because("join_pending");
                    return self.answer(sockets, key, message, &reply);
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
        let serializer = self.clients[key].serializer;
        if serializer == Serializer::Events {
            let reply = Reply::error(Body::Json(refusal.response()));
            return self.answer(sockets, key, message, &reply);
        }
        self.send(sockets, key, encoding::refusal(serializer, message, refusal));
    }
}
