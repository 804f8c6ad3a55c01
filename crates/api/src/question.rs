//! Questions to each process about its own clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::publish::PublishCall;

/// A question to one process. The answer is JSON, of the type that stands beside it.
#[derive(Debug, Serialize, Deserialize)]
pub enum Question<'a> {
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
    /// The answer that the process has for the name of a request: `Option<KeptAnswer>`.
    Kept { caller: &'a str, key: &'a str },
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
pub struct PresenceCounts {
    /// Keys of all processes, as far as this process knows them. A process with subscribers of the topic
    /// knows all.
    pub keys: usize,
    /// Metas of this process's own clients.
    pub own_metas: usize,
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    pub clients: u64,
    pub topics: u64,
    pub uptime_seconds: u64,
}

/// The topics of several answers in order, each with the sum of its subscribers.
pub fn summed(topics: impl IntoIterator<Item = (String, u64)>) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (topic, subscribers) in topics {
        *all.entry(topic).or_default() += subscribers;
    }
    all
}

/// Samples of the questions and of the answers that this file defines.
#[cfg(test)]
pub fn samples() -> Vec<watchfire::internal::Samples> {
    use watchfire::message_samples as samples;

    use super::publish::PublishMethod;

    let (caller, key, fingerprint) = ("c", "k", [7; 32]);
    let call = PublishCall { method: PublishMethod::Batch, binary: Some(("t", "e")), body: b"b" };
    vec![
        samples!(enum Question<'_>:
            Question::Presence { topic: "t" },
            Question::PresenceStats { topic: "t" },
            Question::Topics { prefix: "p", after: "a", count: 3 },
            Question::Disconnect { id: "i" },
            Question::Unsubscribe { id: "i", topic: "t" },
            Question::History { topic: "t", after: Some("a"), limit: 3 },
            Question::Info,
            Question::Kept { caller, key },
            Question::PublishOnce { caller, key, fingerprint, call },
        ),
        samples!(json PresenceCounts: PresenceCounts { keys: 1, own_metas: 2 }),
        samples!(json ProcessInfo: ProcessInfo { clients: 1, topics: 2, uptime_seconds: 3 }),
        samples!(json Vec<(String, u64)>: vec![("t".into(), 1)]),
    ]
}
