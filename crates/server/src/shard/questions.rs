//! Questions about this shard's clients, from other threads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use watchfire_sockets::Sockets;

use super::client::{id_topic, is_id_topic};
use super::scan_queue::Search;
use super::state::Shard;
use super::watches::WatchCall;
use crate::channel_api::{ShardAnswer, ShardQuestion, ShardQuestions, WatchAnswer};

/// The reason for a join that waits while its channel is ended.
const UNSUBSCRIBED: &str = "unsubscribed";

impl Shard {
    /// Answers a question, immediately or after a scan.
    pub(super) fn answer_question(&mut self, sockets: &mut Sockets, asked: Arc<ShardQuestions>) {
        let answer = match &asked.question {
            ShardQuestion::Topics { prefix, after, count } => {
                ShardAnswer::Topics(self.topics(prefix, after, *count))
            }
            ShardQuestion::LargestTopics { prefix, count } => {
                ShardAnswer::Topics(self.largest_topics(prefix, *count))
            }
            ShardQuestion::Connections(query) => {
                let query = query.clone();
                return self.begin_scan(sockets, asked, Search::List(query));
            }
            ShardQuestion::Connection { shard, client } => {
                let found = (*shard == self.id).then(|| self.details(sockets, *client));
                ShardAnswer::Connections(found.unwrap_or_default())
            }
            ShardQuestion::WatchConnection { shard, client, after, payloads } => {
                let call = WatchCall { after: *after, payloads: *payloads };
                let is_here = *shard == self.id;
                ShardAnswer::Watch(match is_here.then(|| self.key_of(sockets, *client)).flatten() {
                    Some(key) => self.watches.call(sockets.now(), key, call),
                    None => WatchAnswer::Gone,
                })
            }
            ShardQuestion::EndConnection { shard, client } => {
                ShardAnswer::Count(if *shard == self.id {
                    self.end_client(sockets, *client)
                } else {
                    0
                })
            }
            ShardQuestion::EndAddress { address, count } => {
                let (address, count) = (*address, *count);
                return self.begin_scan(sockets, asked, Search::EndAddress { address, count });
            }
            ShardQuestion::Disconnect { id } => {
                let sockets = self.hub.subscribers(&id_topic(id));
                self.disconnect(id);
                ShardAnswer::Count(sockets as u64)
            }
            ShardQuestion::Unsubscribe { id, topic } => {
                ShardAnswer::Count(self.unsubscribe(sockets, id, topic))
            }
        };
        asked.add(answer);
    }

    /// The first topics, by name, that begin with `prefix` and come after `after`. Reads the names of
    /// all topics, and keeps `count` of them.
    fn topics(&self, prefix: &str, after: &str, count: usize) -> Vec<(String, u64)> {
        let is_wanted = |(topic, _): &(&str, usize)| {
            !is_id_topic(topic) && topic.starts_with(prefix) && *topic > after
        };
        let mut first = BinaryHeap::with_capacity(count + 1);
        for topic in self.hub.topic_sizes().filter(is_wanted) {
            first.push(topic);
            if first.len() > count {
                first.pop();
            }
        }
        let first = first.into_sorted_vec().into_iter();
        first.map(|(topic, subscribers)| (topic.to_owned(), subscribers as u64)).collect()
    }

    /// The topics with the most subscribers that begin with `prefix`. Reads the names of all topics, and
    /// keeps `count` of them.
    fn largest_topics(&self, prefix: &str, count: usize) -> Vec<(String, u64)> {
        let mut largest = BinaryHeap::with_capacity(count + 1);
        for (topic, subscribers) in self.hub.topic_sizes() {
            if !is_id_topic(topic) && topic.starts_with(prefix) {
                largest.push(Reverse((subscribers, topic)));
                if largest.len() > count {
                    largest.pop();
                }
            }
        }
        let largest = largest.into_sorted_vec().into_iter();
        largest
            .map(|Reverse((subscribers, topic))| (topic.to_owned(), subscribers as u64))
            .collect()
    }

    /// Ends the channels of the sockets with an id on a topic. Returns their number.
    fn unsubscribe(&mut self, sockets: &mut Sockets, id: &str, topic: &str) -> u64 {
        let clients: Vec<u32> = self.hub.clients_on(&id_topic(id)).collect();
        let mut ended = 0;
        for key in clients {
            let Some(client) = self.clients.get(key as usize) else { continue };
            let Some(channel) = self.hub.find(&client.subscriptions, topic) else { continue };
            if !self.refuse_waiting_join(sockets, channel, UNSUBSCRIBED) {
                self.stop(sockets, key, channel);
            }
            ended += 1;
        }
        ended
    }
}
