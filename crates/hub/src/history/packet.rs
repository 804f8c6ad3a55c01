//! Messages between the processes.

use serde::{Deserialize, Serialize};

use crate::history::log::{LogImage, Message, Origin};
use crate::history::position::Position;

/// A message of one process's [`crate::history::Replicas`] to another's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Packet {
    /// To the owner: a message for the topic.
    Publish {
        topic: String,
        /// Where it was published.
        origin: Origin,
        message: Message,
    },
    /// To the process that published a message: another process than the owner has it.
    Published { topic: String, number: u64 },
    /// From the owner: the next message of the log.
    Append {
        topic: String,
        /// The position of the message before it.
        after: Position,
        /// The epoch in which it was written.
        epoch: u64,
        /// Where it was published.
        origin: Origin,
        message: Message,
    },
    Log {
        topic: String,
        /// Whether the sender owns the topic.
        is_owner: bool,
        image: LogImage,
    },
    /// The sender wants to own the topics. Each comes with the sender's last position.
    Claim {
        /// Chosen by the sender, repeated in the response.
        number: u64,
        topics: Vec<(String, Option<Position>)>,
    },
    /// The response to a claim, after the logs that the claimant lacks.
    Granted {
        number: u64,
        /// The topics that the claimant may not own.
        denied: Vec<String>,
    },
    /// The sender owned the topic until now.
    Owned { topic: String },
    /// From the owner: keep a copy of the log also without subscribers.
    Keep { topic: String },
    /// To the owner: send the log.
    Want { topic: String },
}
