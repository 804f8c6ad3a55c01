//! Which topics an operator looks for, and what the shards find.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};

/// The order of topics; the largest value comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopicOrder {
    #[default]
    Subscribers,
    Messages,
    Bytes,
}

/// The topics that an operator looks for: the first ones in an order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicQuery {
    pub sort: TopicOrder,
    pub limit: usize,
    /// Only those that begin with this text.
    pub prefix: String,
}

/// The topics that one shard or process found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FoundTopics {
    /// The first ones in the order of the query.
    pub topics: Vec<FoundTopic>,
    /// How many the scan looked at, each once for each shard.
    pub scanned: u64,
    /// The time of the longest scan of a shard, without its pauses.
    pub scan_micros: u64,
}

/// A topic with subscribers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FoundTopic {
    pub topic: String,
    pub subscribers: u64,
    /// Messages a second that its clients sent, and that they got by broadcasts or from each other.
    pub messages: f64,
    /// Bytes a second of the payloads of these messages.
    pub bytes: f64,
    /// The event loop with the most of its subscribers, as `process/event loop`.
    pub owner: String,
    /// How many of the subscribers that event loop has.
    pub owned: u64,
    /// Event loops with a subscriber.
    pub loops: u64,
    /// Kept messages that the process knows. `None`: the topic has no history.
    pub kept: Option<u64>,
}

impl FoundTopics {
    /// The first `limit` topics of several parts. A topic of several parts has the sums.
    pub fn merged(parts: impl IntoIterator<Item = Self>, sort: TopicOrder, limit: usize) -> Self {
        let mut merged = FoundTopics::default();
        let mut topics = BTreeMap::new();
        for part in parts {
            merged.scanned += part.scanned;
            merged.scan_micros = merged.scan_micros.max(part.scan_micros);
            for found in part.topics {
                match topics.entry(found.topic.clone()) {
                    Entry::Vacant(entry) => drop(entry.insert(found)),
                    Entry::Occupied(mut entry) => entry.get_mut().add(found),
                }
            }
        }
        merged.topics = topics.into_values().collect();
        let rank = |topic: &FoundTopic| match sort {
            TopicOrder::Subscribers => topic.subscribers as f64,
            TopicOrder::Messages => topic.messages,
            TopicOrder::Bytes => topic.bytes,
        };
        merged.topics.sort_by(|one, other| rank(other).total_cmp(&rank(one)));
        merged.topics.truncate(limit);
        merged
    }
}

impl FoundTopic {
    /// Adds the same topic of another part.
    fn add(&mut self, other: FoundTopic) {
        self.subscribers += other.subscribers;
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.loops += other.loops;
        self.kept = self.kept.max(other.kept);
        if other.owned > self.owned {
            (self.owner, self.owned) = (other.owner, other.owned);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_of_several_shards_has_their_sums_and_the_owner_with_most_subscribers() {
        let part = |owner: &str, topics: &[(&str, u64, f64)]| FoundTopics {
            topics: topics
                .iter()
                .map(|&(topic, subscribers, messages)| FoundTopic {
                    topic: topic.to_owned(),
                    subscribers,
                    messages,
                    owner: owner.to_owned(),
                    owned: subscribers,
                    loops: 1,
                    ..FoundTopic::default()
                })
                .collect(),
            scanned: 10,
            scan_micros: 5,
        };
        let parts =
            || [part("0/0", &[("a", 3, 1.0), ("b", 2, 9.5)]), part("0/1", &[("a", 4, 0.5)])];
        let all = FoundTopics::merged(parts(), TopicOrder::Subscribers, 5);
        let first = &all.topics[0];
        assert_eq!((first.topic.as_str(), first.subscribers, first.loops), ("a", 7, 2));
        assert_eq!((first.owner.as_str(), first.owned, first.messages), ("0/1", 4, 1.5));
        assert_eq!((all.topics.len(), all.scanned, all.scan_micros), (2, 20, 5));
        let busiest = FoundTopics::merged(parts(), TopicOrder::Messages, 1);
        assert_eq!((busiest.topics.len(), busiest.topics[0].topic.as_str()), (1, "b"));
    }
}
