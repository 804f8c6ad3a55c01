//! The messages of one connection, as an operator sees them.

use serde::{Deserialize, Serialize};

/// A message to or from a client: its name and its size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchedMessage {
    /// Its position among those since the watch began; the first one has 1.
    pub number: u64,
    pub time_ms: u64,
    pub direction: Direction,
    pub topic: String,
    pub event: String,
    pub payload_bytes: usize,
    /// The first bytes of the payload. `None`: it is binary, or the operator did not ask for payloads.
    pub payload: Option<String>,
}

/// Whether a client sent a message or got it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the client.
    #[default]
    Received,
    /// To the client.
    Sent,
}

/// The last messages of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchedMessages {
    /// When the watch began.
    pub since_ms: u64,
    pub has_payloads: bool,
    /// Messages that the operator has not seen and that are gone, because later ones replaced them.
    pub missed: u64,
    pub messages: Vec<WatchedMessage>,
}

/// The answer of a shard to an operator who watches a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchAnswer {
    /// The shard has no such client.
    Gone,
    /// Other connections are watched already: the shard's limit is reached.
    TooMany,
    Messages(WatchedMessages),
}
