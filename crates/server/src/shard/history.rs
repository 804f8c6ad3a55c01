//! Topics with a history: joins that recover missed messages, and messages with positions.
//!
//! The log of a topic may be ahead of the messages that this shard has queued. A client that joins gets
//! the messages of the log immediately, so later the shard skips those that the client already has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use watchfire_channels::{JoinRef, Message};
use watchfire_hub::SubscriptionId;
use watchfire_hub::history::Positioned;
use watchfire_sockets::Sockets;

use super::client::{Transport, Use};
use super::state::Shard;
use crate::channel_api::{Body, Broadcast, Encoded, Payload, Reply, encoding};
use crate::history::{Excerpt, History, Recovery, Wanted};

/// The longest wait of a join for a log. Then its reply has no position.
const LOG_TIMEOUT: Duration = Duration::from_secs(3);

/// A join's answer about the history, and the messages that follow it.
pub(super) struct Replay {
    members: Map<String, Value>,
    messages: Vec<Encoded>,
}

impl Shard {
    fn history_of(&self, topic: &str) -> Option<Arc<History>> {
        self.shared.history.as_ref().filter(|history| history.has(topic)).cloned()
    }

    /// Whether a join has to wait for the log of its topic.
    pub(super) fn lacks_log(&self, topic: &str) -> bool {
        self.history_of(topic).is_some_and(|history| !history.open(topic))
    }

    /// Defers a join until its topic has a log.
    pub(super) fn defer_until_log(
        &mut self,
        sockets: &Sockets,
        id: SubscriptionId,
        message: &Message<'_>,
        old: Option<JoinRef>,
    ) {
        self.park_join(sockets.now(), id, message, old);
        self.await_log(sockets, id);
    }

    /// Lets a parked join wait for the log of its topic.
    pub(super) fn await_log(&mut self, sockets: &Sockets, id: SubscriptionId) {
        let address = self.address(id);
        self.history.awaiting.push((sockets.now() + LOG_TIMEOUT, address));
    }

    /// Continues the joins whose topic has a log now, or that have waited for too long.
    pub(super) fn resume_awaiting(&mut self, sockets: &mut Sockets) {
        let now = sockets.now();
        for (until, address) in std::mem::take(&mut self.history.awaiting) {
            if self.joining_client_at(address).is_none() {
                continue;
            }
            let topic = self.hub.topic_of(address.subscription).to_owned();
            if until > now && self.lacks_log(&topic) {
                self.history.awaiting.push((until, address));
            } else {
                self.resume_waiting_join(sockets, address);
            }
        }
    }

    /// Reads what a client that joins has missed. `None`: the topic has no history.
    pub(super) fn replay(
        &mut self,
        sockets: &Sockets,
        id: SubscriptionId,
        message: &Message<'_>,
    ) -> Option<Replay> {
        let topic = &*message.topic;
        let history = self.history_of(topic)?;
        let wanted = wanted(message.payload);
        let excerpt = history.read(topic, wanted);
        let position = excerpt.as_ref().map(|excerpt| excerpt.position);
        let messages = excerpt.and_then(|Excerpt { messages, .. }| messages);
        // The client may have got later messages from another process.
        let has_up_to = match (wanted, &messages) {
            (Wanted::After(Some(after)), Some(_)) => position.map(|position| {
                let is_ahead = after.epoch == position.epoch && after.offset > position.offset;
                if is_ahead { after } else { position }
            }),
            _ => position,
        };
        match self.history.topics.get(topic) {
            Some(queued) if *queued == has_up_to && self.hub.waiting() == 0 => {}
            known => {
                if known.is_none() {
                    history.add_shard(topic);
                    self.history.topics.insert(topic.into(), position);
                }
                if let Some(position) = has_up_to {
                    self.history.served.insert(id, position);
                }
            }
        }
        let encoded = messages.as_deref().map(|messages| self.encode(id, topic, messages));
        let fitting = encoded.filter(|encoded| self.has_room(sockets, id, encoded));
        if let Wanted::After(_) = wanted {
            history.count(match (&messages, &fitting) {
                (_, Some(_)) => Recovery::Recovered,
                (None, _) => Recovery::Lost,
                (Some(_), None) => Recovery::TooLarge,
            });
        }
        let is_recovered = fitting.is_some() && matches!(wanted, Wanted::After(_));
        let mut members = Map::new();
        members.insert("recovered".into(), is_recovered.into());
        members.insert("position".into(), json!(position.map(|position| position.to_string())));
        Some(Replay { members, messages: fitting.unwrap_or_default() })
    }

    fn encode(&self, id: SubscriptionId, topic: &str, messages: &[Positioned]) -> Vec<Encoded> {
        let serializer = self.clients[self.hub.client_of(id) as usize].serializer;
        let encode = |(position, message): &Positioned| {
            let payload = Payload::Json(&message.payload);
            encoding::broadcast(serializer, topic, &message.event, payload, Some(*position))
        };
        messages.iter().filter_map(encode).collect()
    }

    /// Whether messages fit into half of a client's queue, so that the client is not closed as too slow.
    fn has_room(&self, sockets: &Sockets, id: SubscriptionId, messages: &[Encoded]) -> bool {
        let bytes: usize = messages.iter().map(Encoded::len).sum();
        let limits = &self.shared.limits;
        match &self.clients[self.hub.client_of(id) as usize].transport {
            Transport::WebSocket(socket) => {
                sockets.queued_bytes(*socket) + bytes <= limits.queued_bytes_max as usize / 2
            }
            // A message is a JSON string there, so its quotes are escaped.
            Transport::LongPoll(session) => {
                let queued = session.state.queued_bytes() as usize;
                let frames = session.state.queued_messages() + messages.len();
                frames <= limits.longpoll_frames_max as usize / 2
                    && queued + 2 * bytes <= limits.longpoll_bytes_max as usize / 2
            }
        }
    }

    /// Sends missed messages, after the reply to the join.
    pub(super) fn send_replay(&mut self, sockets: &mut Sockets, key: u32, replay: Option<Replay>) {
        for message in replay.into_iter().flat_map(|replay| replay.messages) {
            self.send(sockets, key, Some(message));
        }
    }

    /// Queues a message with a position for the subscribers on this shard.
    pub(super) fn queue_placed(&mut self, sockets: &mut Sockets, broadcast: Arc<Broadcast>) {
        let placed = *broadcast.placed.as_deref().expect("the caller has checked it");
        let topic = broadcast.topic.clone();
        let Some(queued) = self.history.topics.get_mut(&topic) else {
            // No client here has joined since the topic has a history, which it may have only since
            // another machine is there. Clients that joined before get the message as any other.
            return self.queue(broadcast);
        };
        if let Some(queued) = *queued
            && queued != placed.after
        {
            let is_old =
                queued.epoch == placed.position.epoch && placed.position.offset <= queued.offset;
            if !is_old {
                // This shard has missed a message, so its clients have too.
                self.reset_topic(sockets, &topic);
            }
            return;
        }
        *queued = Some(placed.position);
        if self.hub.broadcast(&topic, broadcast).is_err() {
            self.shared.metrics.refused("broadcast_backlog");
            self.reset_topic(sockets, &topic);
        }
    }

    /// Fails the channels of a topic. Their clients rejoin, with their last positions.
    pub(super) fn reset_topic(&mut self, sockets: &mut Sockets, topic: &str) {
        self.shared.metrics.refused("history_gap");
        let clients: Vec<u32> = self.hub.clients_on(topic).collect();
        for key in clients {
            let subscriptions = self.clients.get(key as usize).map(|client| &client.subscriptions);
            let Some(id) = subscriptions.and_then(|list| self.hub.find(list, topic)) else {
                continue;
            };
            if !matches!(self.records[id].used_by, Use::Channel(_)) {
                continue;
            }
            let join_ref = self.leave_channel(sockets, key, id);
            let serializer = self.clients[key as usize].serializer;
            self.send(sockets, key, encoding::error(serializer, &join_ref, topic));
        }
        // A join that still waits makes it again.
        self.forget_history(topic);
    }

    /// Forgets a channel that has ended.
    pub(super) fn leave_history(&mut self, id: SubscriptionId, topic: &str) {
        if self.history.topics.is_empty() {
            return;
        }
        self.history.served.remove(&id);
        if self.hub.subscribers(topic) == 0 {
            self.forget_history(topic);
        }
    }

    fn forget_history(&mut self, topic: &str) {
        if self.history.topics.remove(topic).is_some()
            && let Some(history) = &self.shared.history
        {
            history.remove_shard(topic);
        }
    }
}

impl Replay {
    /// Adds the members about the history to the reply of a join.
    pub fn add_to(&self, reply: &mut Reply) {
        let Body::Json(text) = &reply.response else { return };
        // The values stay texts: not every JSON text can be read into a `Value`, such as `1e999`.
        let Ok(mut response) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(text) else {
            return;
        };
        for (name, value) in &self.members {
            response.insert(name.clone(), to_raw_value(value).expect("a value has a JSON form"));
        }
        let text = serde_json::to_string(&response).expect("an object has a JSON form");
        reply.response = Body::Json(text.into());
    }
}

/// The messages that the payload of a join asks for. Bad values ask for an unknown position.
fn wanted(payload: Payload<'_>) -> Wanted {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        history: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct HistoryParams<'a> {
        #[serde(borrow)]
        after: Option<&'a str>,
        last: Option<u32>,
    }
    let Ok(Params { history: Some(history) }) = payload.json() else { return Wanted::Nothing };
    match serde_json::from_str(history.get()) {
        Ok(HistoryParams { after: Some(after), .. }) => Wanted::After(after.parse().ok()),
        Ok(HistoryParams { last: Some(last), .. }) => Wanted::Last(last as usize),
        Ok(_) => Wanted::Nothing,
        Err(_) => Wanted::After(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchfire_hub::history::Position;

    #[test]
    fn a_join_asks_for_messages_after_a_position_or_for_the_last_ones() {
        fn of(text: &str) -> Wanted {
            wanted(Payload::Json(text))
        }
        for text in ["{}", "null", "[]", r#"{"history":null}"#, r#"{"history":{}}"#] {
            assert_eq!(of(text), Wanted::Nothing, "{text}");
        }
        assert_eq!(wanted(Payload::Binary(b"\x01")), Wanted::Nothing);
        assert_eq!(of(r#"{"history":{"after":null}}"#), Wanted::Nothing);
        let position = Position { epoch: 35, offset: 7 };
        assert_eq!(of(r#"{"history":{"after":"z:7"}}"#), Wanted::After(Some(position)));
        assert_eq!(of(r#"{"history":{"last":50}}"#), Wanted::Last(50));
        for bad in
            [r#"{"after":7}"#, r#"{"after":"z"}"#, r#"{"last":-1}"#, "7", r#"{"after":"a\"b"}"#]
        {
            let text = format!(r#"{{"history":{bad}}}"#);
            assert_eq!(of(&text), Wanted::After(None), "{text}");
        }
    }

    #[test]
    fn the_reply_of_a_join_keeps_every_value_of_its_backend_beside_the_position() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(500), "]".repeat(500));
        for text in ["{}", r#"{"a":1e999}"#, r#"{"a":"\ud800"}"#, &deep] {
            let mut reply = Reply::ok(Body::Json(text.to_owned().into()));
            let members = Map::from_iter([("recovered".to_owned(), Value::Bool(true))]);
            Replay { members, messages: Vec::new() }.add_to(&mut reply);
            let Body::Json(all) = &reply.response else { panic!("the reply is JSON") };
            let separator = if text == "{}" { "" } else { "," };
            let expected =
                format!(r#"{}{separator}"recovered":true}}"#, text.strip_suffix('}').unwrap());
            assert_eq!(*all, expected);
        }
    }
}
