//! The questions to the server, and its answers.

use std::fmt;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use strum::{EnumDiscriminants, IntoStaticStr, VariantArray};
use watchfire_operator::answers::{
    Event, Events, FoundConnection, FoundConnections, FoundTopic, FoundTopics, History, State,
    WatchedMessages,
};

use crate::operator::{CallError, Operator};

/// The most connections or topics that the server names in one answer.
const ROWS_MAX: &str = "200";

/// A question to the server. An empty machine is the one that is asked. At most one of each kind is open.
#[derive(Clone, Debug, PartialEq, Eq, EnumDiscriminants)]
#[strum_discriminants(name(Kind), derive(PartialOrd, Ord))]
pub enum Question {
    State {
        machine: String,
    },
    History {
        machine: String,
        after_ms: u64,
    },
    Events {
        machine: String,
    },
    Connections {
        machine: String,
        query: ConnectionQuery,
    },
    Connection {
        id: String,
    },
    /// The messages of a connection after a number.
    Messages {
        id: String,
        after: u64,
    },
    Topics {
        machine: String,
        query: TopicQuery,
    },
    Disconnect {
        id: String,
    },
    EndTopic {
        topic: String,
    },
    EndProcess {
        machine: String,
        process: u16,
    },
}

#[derive(Clone, Debug)]
pub enum Answer {
    State(Box<State>),
    History(History),
    Events(Vec<Event>),
    Connections(FoundConnections),
    Connection(Box<FoundConnection>),
    Messages(WatchedMessages),
    Topics(Vec<FoundTopic>),
    /// A connection, a topic or a process.
    Ended,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub message: String,
    /// The server says that the connection does not exist any more.
    pub is_gone: bool,
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let is_gone = matches!(error, CallError::Refused { status: 404, .. });
        Failure { message: error.to_string(), is_gone }
    }
}

impl Question {
    pub fn kind(&self) -> Kind {
        self.into()
    }

    pub async fn ask(&self, operator: &Operator) -> Result<Answer, Failure> {
        let path = self.path();
        Ok(match self {
            Question::State { .. } => Answer::State(operator.call("GET", &path).await?),
            Question::History { .. } => Answer::History(operator.call("GET", &path).await?),
            Question::Events { .. } => {
                let Events { events } = operator.call("GET", &path).await?;
                Answer::Events(events)
            }
            Question::Connections { .. } => Answer::Connections(operator.call("GET", &path).await?),
            Question::Connection { .. } => Answer::Connection(operator.call("GET", &path).await?),
            Question::Messages { .. } => Answer::Messages(operator.call("GET", &path).await?),
            Question::Topics { .. } => {
                let FoundTopics { topics, .. } = operator.call("GET", &path).await?;
                Answer::Topics(topics)
            }
            Question::Disconnect { .. }
            | Question::EndTopic { .. }
            | Question::EndProcess { .. } => {
                let _: Value = operator.call("POST", &path).await?;
                Answer::Ended
            }
        })
    }

    fn path(&self) -> String {
        match self {
            Question::State { machine } => path_with("/admin/state", &[("machine", machine)]),
            Question::History { machine, after_ms } => {
                let after = after_ms.to_string();
                let params = [("step", "second"), ("after", &*after), ("machine", machine)];
                path_with("/admin/history", &params)
            }
            Question::Events { machine } => path_with("/admin/events", &[("machine", machine)]),
            Question::Connections { machine, query } => {
                let ConnectionQuery { order, transport, filter } = query;
                let mut params = vec![
                    ("sort", order.names().parameter),
                    ("limit", ROWS_MAX),
                    ("transport", transport.name()),
                    ("machine", machine),
                ];
                match filter {
                    Filter::Topic(topic) => params.push(("topic", topic)),
                    Filter::Address(address) => params.push(("address", address)),
                }
                path_with("/admin/connections", &params)
            }
            Question::Connection { id } => format!("/admin/connections/{}", segment(id)),
            Question::Messages { id, after } => {
                let path = format!("/admin/connections/{}/messages", segment(id));
                path_with(&path, &[("after", &after.to_string())])
            }
            Question::Topics { machine, query: TopicQuery { order, prefix } } => {
                let sort = order.names().parameter;
                let params =
                    [("sort", sort), ("limit", ROWS_MAX), ("prefix", prefix), ("machine", machine)];
                path_with("/admin/topics", &params)
            }
            Question::Disconnect { id } => {
                format!("/admin/connections/{}/disconnect", segment(id))
            }
            Question::EndTopic { topic } => path_with("/admin/topics/end", &[("topic", topic)]),
            Question::EndProcess { machine, process } => {
                path_with(&format!("/admin/processes/{process}/end"), &[("machine", machine)])
            }
        }
    }
}

/// A path with a query. Parameters with an empty value are left out: the server has a default for them.
fn path_with(path: &str, params: &[(&str, &str)]) -> String {
    let mut all = path.to_owned();
    for (name, value) in params.iter().filter(|(_, value)| !value.is_empty()) {
        all.push(if all.len() == path.len() { '?' } else { '&' });
        all += &format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
    }
    all
}

/// An id as a part of a path. The server creates ids of digits, letters and `-`.
fn segment(id: &str) -> String {
    id.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '-').collect()
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionQuery {
    pub order: Order,
    pub transport: Transport,
    pub filter: Filter,
}

/// The order of connections; the largest value is the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, VariantArray)]
pub enum Order {
    #[default]
    Queued,
    Wait,
    Idle,
    Sent,
    Received,
    Channels,
}

pub struct OrderNames {
    /// The key that chooses it.
    pub letter: char,
    pub heading: &'static str,
    pub phrase: &'static str,
    parameter: &'static str,
}

impl Order {
    /// Its names for the user, for the columns and for the server.
    pub fn names(self) -> OrderNames {
        let (letter, heading, phrase, parameter) = match self {
            Order::Queued => ('b', "queued", "queued bytes", "queued_bytes"),
            Order::Wait => ('w', "wait", "wait", "queue_seconds"),
            Order::Idle => ('i', "idle", "idle time", "idle_seconds"),
            Order::Sent => ('s', "sent", "bytes sent", "sent_bytes"),
            Order::Received => ('r', "received", "bytes received", "received_bytes"),
            Order::Channels => ('c', "ch", "channels", "channels"),
        };
        OrderNames { letter, heading, phrase, parameter }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicQuery {
    pub order: TopicOrder,
    pub prefix: String,
}

/// The order of topics; the largest value is the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, VariantArray)]
pub enum TopicOrder {
    #[default]
    Subscribers,
    Messages,
    Bytes,
}

pub struct TopicOrderNames {
    pub heading: &'static str,
    /// The first topics in this order.
    pub phrase: &'static str,
    parameter: &'static str,
}

impl TopicOrder {
    /// Its names for the columns, for the user and for the server.
    pub fn names(self) -> TopicOrderNames {
        let (heading, phrase, parameter) = match self {
            TopicOrder::Subscribers => ("subscribers", "largest topics", "subscribers"),
            TopicOrder::Messages => ("msg/s", "topics with the most messages", "messages"),
            TopicOrder::Bytes => ("bytes/s", "topics with the most bytes", "bytes"),
        };
        TopicOrderNames { heading, phrase, parameter }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Transport {
    #[default]
    #[strum(serialize = "")]
    Any,
    WebSocket,
    LongPoll,
    Http,
}

impl Transport {
    /// Its name for the server; empty for any.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The variant of an enum `steps` further than a variant. The last one is followed by the first.
pub fn after<T: VariantArray + PartialEq + Copy>(variant: T, steps: isize) -> T {
    let at = T::VARIANTS.iter().position(|other| *other == variant).unwrap_or(0) as isize;
    T::VARIANTS[(at + steps).rem_euclid(T::VARIANTS.len() as isize) as usize]
}

/// A filter of connections. An empty text matches all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    Topic(String),
    Address(String),
}

impl Default for Filter {
    fn default() -> Self {
        Filter::Topic(String::new())
    }
}

impl Filter {
    pub fn text(&self) -> &str {
        let (Filter::Topic(text) | Filter::Address(text)) = self;
        text
    }

    pub fn text_mut(&mut self) -> &mut String {
        let (Filter::Topic(text) | Filter::Address(text)) = self;
        text
    }

    /// The same text for the other field.
    pub fn toggled(self) -> Self {
        match self {
            Filter::Topic(text) => Filter::Address(text),
            Filter::Address(text) => Filter::Topic(text),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::Topic(text) => write!(f, "topic: {text}"),
            Filter::Address(text) => write!(f, "address: {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_what_is_asked_for() {
        let query = ConnectionQuery {
            order: Order::Idle,
            transport: Transport::WebSocket,
            filter: Filter::Topic("rooms:a&b".into()),
        };
        let path = Question::Connections { machine: "web 2".into(), query }.path();
        assert_eq!(
            path,
            "/admin/connections?sort=idle%5Fseconds&limit=200&transport=websocket&machine=web%202&topic=rooms%3Aa%26b"
        );
        assert_eq!(Question::State { machine: String::new() }.path(), "/admin/state");
        let hostile = Question::Disconnect { id: "../x?y\r\n0-1".into() };
        assert_eq!(hostile.path(), "/admin/connections/xy0-1/disconnect");
        let topic = Question::EndTopic { topic: "a b".into() };
        assert_eq!(topic.path(), "/admin/topics/end?topic=a%20b");
        let process = Question::EndProcess { machine: "web".into(), process: 3 };
        assert_eq!(process.path(), "/admin/processes/3/end?machine=web");
    }

    #[test]
    fn values_in_a_query_are_escaped() {
        assert_eq!(path_with("/a", &[("b", ""), ("c", "é&d"), ("e", "1")]), "/a?c=%C3%A9%26d&e=1");
        assert_eq!(path_with("/a", &[("b", "")]), "/a");
    }

    #[test]
    fn an_order_has_a_key_of_its_own_and_a_neighbour_on_each_side() {
        for order in Order::VARIANTS {
            assert_eq!(after(after(*order, 1), -1), *order);
            let letter = order.names().letter;
            let same = Order::VARIANTS.iter().filter(|other| other.names().letter == letter);
            assert_eq!(same.count(), 1);
        }
        assert_eq!(after(Order::Queued, -1), Order::Channels);
    }
}
