//! Calls that the shards of a process answer about their clients.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::json;
use watchfire::internal::{
    ClientId, ConnectionId, ConnectionQuery, FoundConnections, FoundTopics, ShardAnswer,
    ShardQuestion, TopicQuery, WatchAnswer,
};
use watchfire_types::ShardId;

/// A call about the clients of a process. The answer is JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum ClientCall {
    Connections(ConnectionQuery),
    Connection {
        shard: u16,
        client: ClientId,
    },
    EndConnection {
        shard: u16,
        client: ClientId,
    },
    /// The messages of a connection after a number, and whether to keep payloads from now on.
    WatchConnection {
        shard: u16,
        client: ClientId,
        after: u64,
        payloads: Option<bool>,
    },
    /// Ends clients of an address, `count` on each shard at most.
    EndAddress {
        address: IpAddr,
        count: usize,
    },
    Topics(TopicQuery),
    EndTopic {
        topic: String,
    },
}

impl ClientCall {
    pub fn details_of(id: ConnectionId) -> Self {
        ClientCall::Connection { shard: id.shard.0, client: id.client }
    }

    pub fn end_of(id: ConnectionId) -> Self {
        ClientCall::EndConnection { shard: id.shard.0, client: id.client }
    }

    pub fn question(&self) -> ShardQuestion {
        match self.clone() {
            ClientCall::Connections(query) => ShardQuestion::Connections(query),
            ClientCall::Connection { shard, client } => {
                ShardQuestion::Connection { shard: ShardId(shard), client }
            }
            ClientCall::EndConnection { shard, client } => {
                ShardQuestion::EndConnection { shard: ShardId(shard), client }
            }
            ClientCall::WatchConnection { shard, client, after, payloads } => {
                ShardQuestion::WatchConnection { shard: ShardId(shard), client, after, payloads }
            }
            ClientCall::EndAddress { address, count } => {
                ShardQuestion::EndAddress { address, count }
            }
            ClientCall::Topics(query) => ShardQuestion::FindTopics(query),
            ClientCall::EndTopic { topic } => ShardQuestion::EndTopic { topic },
        }
    }

    pub fn text_of(&self, answers: Vec<ShardAnswer>) -> String {
        match self {
            ClientCall::Connections(query) => found_json(answers, query.limit),
            ClientCall::Connection { .. } => found_json(answers, 1),
            ClientCall::EndConnection { .. }
            | ClientCall::EndAddress { .. }
            | ClientCall::EndTopic { .. } => ended(answers).to_string(),
            ClientCall::WatchConnection { .. } => json!(watched(answers)).to_string(),
            ClientCall::Topics(query) => json!(topics(answers, query)).to_string(),
        }
    }
}

/// The connections that the shards of a process have found, as JSON.
fn found_json(answers: Vec<ShardAnswer>, limit: usize) -> String {
    let parts = answers.into_iter().filter_map(|answer| match answer {
        ShardAnswer::Connections(found) => Some(found),
        _ => None,
    });
    let found = FoundConnections::merged(parts, limit);
    serde_json::to_string(&found).expect("connections have a JSON form")
}

fn topics(answers: Vec<ShardAnswer>, query: &TopicQuery) -> FoundTopics {
    let parts = answers.into_iter().filter_map(|answer| match answer {
        ShardAnswer::FoundTopics(found) => Some(found),
        _ => None,
    });
    FoundTopics::merged(parts, query.sort, query.limit)
}

fn ended(answers: Vec<ShardAnswer>) -> u64 {
    let count = |answer| match answer {
        ShardAnswer::Count(count) => count,
        _ => 0,
    };
    answers.into_iter().map(count).sum()
}

fn watched(answers: Vec<ShardAnswer>) -> WatchAnswer {
    let mut answers = answers.into_iter().filter_map(|answer| match answer {
        ShardAnswer::Watch(WatchAnswer::Gone) => None,
        ShardAnswer::Watch(answer) => Some(answer),
        _ => None,
    });
    answers.next().unwrap_or(WatchAnswer::Gone)
}

/// Samples of the calls, and of the answers that other processes read.
#[cfg(test)]
pub(super) fn message_samples() -> Vec<watchfire::internal::Samples> {
    use watchfire::internal::{
        ConnectionOrder, ConnectionTransport, Direction, FoundConnection, FoundConnections,
        FoundTopic, TcpFigures, TopicOrder, WatchAnswer, WatchedMessage, WatchedMessages,
    };
    use watchfire::message_samples as samples;
    let client = ClientId::Socket { slot: 1, generation: 2 };
    let session = ClientId::LongPoll { key: 1, generation: 2 };
    let query = ConnectionQuery {
        sort: ConnectionOrder::Channels,
        limit: 3,
        transport: Some(ConnectionTransport::Longpoll),
        address: "a".into(),
        topic: "t".into(),
    };
    let found = FoundConnection {
        idle_seconds: Some(1.5),
        topics: vec!["t".into()],
        tcp: Some(TcpFigures::default()),
        ..FoundConnection::default()
    };
    let connections = vec![found];
    let message = WatchedMessage {
        number: 1,
        time_ms: 2,
        direction: Direction::Sent,
        topic: "t".into(),
        event: "e".into(),
        payload_bytes: 3,
        payload: Some("{}".into()),
    };
    let watched =
        WatchedMessages { since_ms: 1, has_payloads: true, missed: 2, messages: vec![message] };
    vec![
        samples!(enum ClientCall:
            ClientCall::Connections(query),
            ClientCall::Connection { shard: 1, client },
            ClientCall::EndConnection { shard: 1, client: session },
            ClientCall::WatchConnection { shard: 1, client, after: 2, payloads: Some(true) },
            ClientCall::EndAddress { address: [192, 0, 2, 1].into(), count: 3 },
            ClientCall::Topics(TopicQuery::default()),
            ClientCall::EndTopic { topic: "t".into() },
        ),
        samples!(enum ClientId: client, session),
        samples!(enum ConnectionTransport:
            ConnectionTransport::Websocket,
            ConnectionTransport::Longpoll,
            ConnectionTransport::Http,
        ),
        samples!(enum ConnectionOrder:
            ConnectionOrder::QueuedBytes,
            ConnectionOrder::QueueSeconds,
            ConnectionOrder::IdleSeconds,
            ConnectionOrder::SentBytes,
            ConnectionOrder::ReceivedBytes,
            ConnectionOrder::Channels,
        ),
        samples!(enum TopicOrder: TopicOrder::Subscribers, TopicOrder::Messages, TopicOrder::Bytes),
        samples!(TopicQuery:
            TopicQuery { sort: TopicOrder::Bytes, limit: 3, prefix: "p".into() },
        ),
        samples!(json FoundTopics:
            FoundTopics { topics: vec![FoundTopic::default()], scanned: 1, scan_micros: 2 }
        ),
        samples!(json FoundConnections:
            FoundConnections { connections, scanned: 1, scan_micros: 2 }
        ),
        samples!(json WatchAnswer:
            WatchAnswer::Gone,
            WatchAnswer::TooMany,
            WatchAnswer::Messages(watched),
        ),
    ]
}
