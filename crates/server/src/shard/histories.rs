//! Topics with a history: joins that recover missed messages, and messages with positions.
//!
//! The log of a topic may be ahead of the messages that this shard has queued. A client that joins gets
//! the messages of the log immediately, so later the shard skips those that the client already has.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use watchfire_channels::{Message, Serializer};
use watchfire_hub::SubscriptionId;
use watchfire_hub::history::{Position, Positioned};
use watchfire_sockets::Sockets;
use watchfire_types::heap_bytes;

use super::client::{Client, Transport};
use super::clients::Clients;
use crate::channel_api::{Body, Encoded, Payload, Placed, Reply, encoding};
use crate::history::{Excerpt, History, Recovery, Wanted};
use crate::settings::Limits;

/// A join's answer about the history, and the messages that follow it.
pub(super) struct Replay {
    members: Map<String, Value>,
    pub messages: Vec<Encoded>,
}

/// How a message of a log follows those that were queued before.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// No client here has joined since the topic has a history, which it may have only since another
    /// machine is there. Clients that joined before get the message as any other.
    Unknown,
    Next,
    /// It was queued before.
    Old,
    /// This shard has missed a message, so its clients have too.
    Gap,
}

/// The topics with a history that have joined clients on this shard.
pub(super) struct Histories {
    /// `None`: no topic has a history.
    history: Option<Arc<History>>,
    /// The last position that was queued for the subscribers. `None`: the topic had no log yet.
    topics: HashMap<Box<str>, Option<Position>>,
    /// By subscription: the position up to which a client got the log, if broadcasts up to it may still
    /// be on their way.
    served: HashMap<SubscriptionId, Position>,
}

impl Histories {
    pub fn new(history: Option<Arc<History>>) -> Self {
        Histories { history, topics: HashMap::new(), served: HashMap::new() }
    }

    fn history_of(&self, topic: &str) -> Option<&Arc<History>> {
        self.history.as_ref().filter(|history| history.has(topic))
    }

    /// The memory of its own notes about topics.
    pub fn memory_bytes(&self) -> usize {
        let topic = size_of::<(Box<str>, Option<Position>)>() + 1;
        heap_bytes(self.topics.capacity() * topic) + self.topics.len() * heap_bytes(24)
    }

    /// The kept messages of a topic that this process knows. `None`: the topic has no history.
    pub fn kept(&self, topic: &str) -> Option<u64> {
        Some(self.history_of(topic)?.kept(topic) as u64)
    }

    /// Whether a join has to wait for the log of its topic.
    pub fn lacks_log(&self, topic: &str) -> bool {
        self.history_of(topic).is_some_and(|history| !history.open(topic))
    }

    /// Whether a client already has a message.
    pub fn has(&mut self, id: SubscriptionId, position: Position) -> bool {
        if self.served.is_empty() {
            return false;
        }
        let Some(served) = self.served.get(&id) else { return false };
        let has = position.offset <= served.offset;
        if position.offset >= served.offset {
            self.served.remove(&id);
        }
        has
    }

    /// Notes a message that is to be queued for the subscribers of its topic.
    pub fn place(&mut self, topic: &str, placed: &Placed) -> Order {
        let Some(queued) = self.topics.get_mut(topic) else { return Order::Unknown };
        if let Some(queued) = *queued
            && queued != placed.after
        {
            let is_old =
                queued.epoch == placed.position.epoch && placed.position.offset <= queued.offset;
            return if is_old { Order::Old } else { Order::Gap };
        }
        *queued = Some(placed.position);
        Order::Next
    }

    /// Reads what a client that joins has missed. `None`: the topic has no history.
    pub fn replay(
        &mut self,
        clients: &Clients,
        limits: &Limits,
        sockets: &Sockets,
        id: SubscriptionId,
        message: &Message<'_>,
    ) -> Option<Replay> {
        let topic = &*message.topic;
        let history = self.history_of(topic)?.clone();
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
        match self.topics.get(topic) {
            Some(queued) if *queued == has_up_to && clients.hub().waiting() == 0 => {}
            known => {
                if known.is_none() {
                    history.add_shard(topic);
                    self.topics.insert(topic.into(), position);
                }
                if let Some(position) = has_up_to {
                    self.served.insert(id, position);
                }
            }
        }
        let client = &clients[clients.hub().client_of(id)];
        let encoded =
            messages.as_deref().map(|messages| encode(client.serializer, topic, messages));
        let fitting = encoded.filter(|encoded| has_room(client, limits, sockets, encoded));
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
        let mut messages = fitting.unwrap_or_default();
        // A stream that continues keeps its own id, also one that is ahead of the log here.
        if client.serializer == Serializer::Events && messages.is_empty() && !is_recovered {
            messages.extend(position.and_then(encoding::position));
        }
        Some(Replay { members, messages })
    }

    /// Forgets a channel that has ended. Its topic has `subscribers` left.
    pub fn leave(&mut self, id: SubscriptionId, topic: &str, subscribers: usize) {
        if self.topics.is_empty() {
            return;
        }
        self.served.remove(&id);
        if subscribers == 0 {
            self.forget(topic);
        }
    }

    /// Forgets a topic until its next join.
    pub fn forget(&mut self, topic: &str) {
        if self.topics.remove(topic).is_some()
            && let Some(history) = &self.history
        {
            history.remove_shard(topic);
        }
    }
}

fn encode(serializer: Serializer, topic: &str, messages: &[Positioned]) -> Vec<Encoded> {
    let encode = |(position, message): &Positioned| {
        let payload = Payload::Json(&message.payload);
        encoding::broadcast(serializer, topic, &message.event, payload, Some(*position))
    };
    messages.iter().filter_map(encode).collect()
}

/// Whether messages fit into half of a client's queue, so that the client is not closed as too slow.
fn has_room(client: &Client, limits: &Limits, sockets: &Sockets, messages: &[Encoded]) -> bool {
    let bytes: usize = messages.iter().map(Encoded::len).sum();
    match &client.transport {
        Transport::WebSocket(socket) | Transport::Events(socket) => {
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

    fn position(offset: u64) -> Position {
        Position { epoch: 7, offset }
    }

    #[test]
    fn a_message_of_a_log_is_queued_once_and_only_after_the_one_before_it() {
        use Order::{Gap, Next, Old};
        let mut histories = Histories::new(None);
        let message = |offset| Placed { after: position(offset - 1), position: position(offset) };
        assert_eq!(histories.place("kept:1", &message(5)), Order::Unknown);
        histories.topics.insert("kept:1".into(), None);
        let orders = [5, 6, 6, 5, 8].map(|offset| histories.place("kept:1", &message(offset)));
        assert_eq!(orders, [Next, Next, Old, Old, Gap]);
        let restarted = Position { epoch: 8, offset: 1 };
        let other = Placed { after: Position { offset: 0, ..restarted }, position: restarted };
        assert_eq!(histories.place("kept:1", &other), Gap, "a log of another epoch");
    }

    #[test]
    fn a_client_gets_no_message_again_that_its_join_has_replayed() {
        let mut histories = Histories::new(None);
        let [joined, other] = [0, 1].map(SubscriptionId::from_index);
        histories.served.insert(joined, position(6));
        assert!(histories.has(joined, position(5)) && !histories.has(other, position(5)));
        assert!(histories.has(joined, position(6)) && !histories.has(joined, position(7)));
        assert!(histories.served.is_empty(), "the record costs nothing once it is served");
    }

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
