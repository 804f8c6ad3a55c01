//! Which connections an operator looks for, and what the shards find.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use watchfire_types::{NodeId, ShardId, SocketId};

/// The order of connections; the largest value comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionOrder {
    #[default]
    QueuedBytes,
    QueueSeconds,
    IdleSeconds,
    /// Bytes that the client has acknowledged. The kernel counts them, so each costs a system call.
    SentBytes,
    /// The same for bytes from the client.
    ReceivedBytes,
    Channels,
}

/// The transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionTransport {
    Websocket,
    Longpoll,
    Http,
}

/// The connections that an operator looks for: the first ones in an order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionQuery {
    pub sort: ConnectionOrder,
    pub limit: usize,
    /// Only those with this transport.
    pub transport: Option<ConnectionTransport>,
    /// Only those whose address begins with this text.
    pub address: String,
    /// Only those that have joined this topic.
    pub topic: String,
}

/// The connections that one shard or process found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FoundConnections {
    /// The first ones in the order of the query.
    pub connections: Vec<FoundConnection>,
    /// How many the scan looked at.
    pub scanned: u64,
    /// The time of the longest scan of a shard, without its pauses.
    pub scan_micros: u64,
}

impl FoundConnections {
    /// The first `limit` connections of several parts.
    pub fn merged(parts: impl IntoIterator<Item = Self>, limit: usize) -> Self {
        let mut merged = FoundConnections::default();
        for part in parts {
            merged.connections.extend(part.connections);
            merged.scanned += part.scanned;
            merged.scan_micros = merged.scan_micros.max(part.scan_micros);
        }
        merged.connections.sort_by_key(|found| Reverse(found.rank));
        merged.connections.truncate(limit);
        merged
    }
}

/// A connection, or a long-poll session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FoundConnection {
    pub id: String,
    /// Its value in the order of the query.
    pub rank: u64,
    pub address: String,
    pub transport: String,
    pub state: String,
    pub queued_bytes: u64,
    pub queue_seconds: f64,
    /// `None`: not known for a long-poll session.
    pub idle_seconds: Option<f64>,
    /// How many channels it has joined.
    pub channels: u64,
    /// The first topics of these.
    pub topics: Vec<String>,
    /// The id that the application gave it; empty for none.
    pub user: String,
    /// `None`: it has no TCP connection of the shard's now.
    pub tcp: Option<TcpFigures>,
}

/// The kernel's figures of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpFigures {
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub unsent_bytes: u32,
    pub round_trip_micros: u64,
    pub retransmits: u32,
    pub unacknowledged_segments: u32,
    pub congestion_window: u32,
}

/// The name of a connection: `process-shard-slot-generation`, or for a long-poll session
/// `process-shard-key-generation-longpoll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionId {
    pub node: NodeId,
    pub shard: ShardId,
    pub client: ClientId,
}

/// The part of a connection's name that its shard knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientId {
    Socket { slot: u32, generation: u32 },
    LongPoll { key: u32, generation: u32 },
}

impl ClientId {
    pub fn of(socket: SocketId) -> Self {
        ClientId::Socket { slot: socket.index, generation: socket.generation }
    }
}

/// The text is not the name of a connection.
#[derive(Debug, PartialEq, Eq)]
pub struct NotAConnection;

impl FromStr for ConnectionId {
    type Err = NotAConnection;

    fn from_str(text: &str) -> Result<Self, NotAConnection> {
        let (numbers, is_session) = match text.strip_suffix("-longpoll") {
            Some(numbers) => (numbers, true),
            None => (text, false),
        };
        let numbers = numbers.split('-').map(|number| number.parse().map_err(|_| NotAConnection));
        let numbers: Vec<u32> = numbers.collect::<Result<_, _>>()?;
        let [node, shard, first, generation] = numbers[..] else { return Err(NotAConnection) };
        let narrow = |number: u32| u16::try_from(number).map_err(|_| NotAConnection);
        Ok(ConnectionId {
            node: NodeId(narrow(node)?),
            shard: ShardId(narrow(shard)?),
            client: match is_session {
                true => ClientId::LongPoll { key: first, generation },
                false => ClientId::Socket { slot: first, generation },
            },
        })
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, shard) = (self.node.0, self.shard.0);
        match self.client {
            ClientId::Socket { slot, generation } => {
                write!(f, "{node}-{shard}-{slot}-{generation}")
            }
            ClientId::LongPoll { key, generation } => {
                write!(f, "{node}-{shard}-{key}-{generation}-longpoll")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written() {
        for text in ["0-1-4711-3", "63-0-0-4294967295", "2-1-7-9-longpoll"] {
            assert_eq!(text.parse::<ConnectionId>().unwrap().to_string(), text);
        }
        for text in ["", "1-2-3", "1-2-3-4-5", "65536-0-0-0", "a-0-0-0", "0-0-0--1", "0-0-0-0-http"]
        {
            assert_eq!(text.parse::<ConnectionId>(), Err(NotAConnection), "{text}");
        }
    }

    #[test]
    fn the_first_of_all_parts_remain() {
        let part = |ranks: &[u64]| FoundConnections {
            connections: ranks
                .iter()
                .map(|&rank| FoundConnection { rank, ..FoundConnection::default() })
                .collect(),
            scanned: 10,
            scan_micros: ranks[0],
        };
        let merged = FoundConnections::merged([part(&[9, 2]), part(&[7, 5])], 3);
        let ranks: Vec<u64> = merged.connections.iter().map(|found| found.rank).collect();
        assert_eq!((ranks, merged.scanned, merged.scan_micros), (vec![9, 7, 5], 20, 9));
    }
}
