//! Questions to each process about its own clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::publish::PublishCall;

/// A question to one process. The answer is JSON, of the type that stands beside it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question<'a> {
    /// The presences of the process's clients, as in a `presence_state`.
    Presence { topic: &'a str },
    /// [`PresenceCounts`]
    PresenceStats { topic: &'a str },
    /// A list of topics with their numbers of subscribers, in order.
    Topics { prefix: &'a str, after: &'a str, count: usize },
    /// The number of sockets that are closed.
    Disconnect { id: &'a str },
    /// The number of channels that are ended.
    Unsubscribe { id: &'a str, topic: &'a str },
    /// The answer of a `history` call.
    History { topic: &'a str, after: Option<&'a str>, limit: u32 },
    /// [`ProcessInfo`]
    Info,
    /// A request that may be a repeat: `Result<Answer, CallError>`.
    PublishOnce {
        caller: &'a str,
        key: &'a str,
        fingerprint: [u8; 32],
        #[serde(borrow)]
        call: PublishCall<'a>,
    },
}

/// The presences on a topic that a process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PresenceCounts {
    /// Keys of all processes, as far as this process knows them. A process with subscribers of the topic
    /// knows all.
    pub keys: usize,
    /// Metas of this process's own clients.
    pub own_metas: usize,
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessInfo {
    pub clients: u64,
    pub topics: u64,
    pub uptime_seconds: u64,
}

/// The topics of several answers in order, each with the sum of its subscribers.
pub(super) fn summed(topics: impl IntoIterator<Item = (String, u64)>) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (topic, subscribers) in topics {
        *all.entry(topic).or_default() += subscribers;
    }
    all
}
