//! Questions about this shard's clients, from other threads.

use std::collections::BinaryHeap;
use std::sync::Arc;

use watchfire_hub::Hub;
use watchfire_sockets::Sockets;

use super::ServerShard;
use super::client::{id_topic, is_id_topic};
use super::connection_scan::Search;
use super::connections::{Connections, end_client};
use super::watched_clients::WatchCall;
use crate::channel_api::{ShardAnswer, ShardQuestion, ShardQuestions, WatchAnswer};

/// The reason for a join that waits while its channel is ended.
const UNSUBSCRIBED: &str = "unsubscribed";

impl ServerShard {
    /// Answers a question, immediately or after a scan.
    pub(super) fn answer_question(&mut self, sockets: &mut Sockets, asked: Arc<ShardQuestions>) {
        let connections = Connections { clients: &self.clients, sockets };
        let answer = match &asked.question {
            ShardQuestion::Topics { prefix, after, count } => {
                ShardAnswer::Topics(first_topics(self.clients.hub(), prefix, after, *count))
            }
            ShardQuestion::FindTopics(query) => {
                let search = Search::Topics(query.clone());
                return self.scans.begin(sockets, asked, search);
            }
            ShardQuestion::Connections(query) => {
                let search = Search::List(query.clone());
                return self.scans.begin(sockets, asked, search);
            }
            ShardQuestion::EndAddress { address, count } => {
                let search = Search::EndAddress { address: *address, count: *count };
                return self.scans.begin(sockets, asked, search);
            }
            ShardQuestion::Connection { shard, client } => {
                let found = (*shard == self.id).then(|| connections.details(*client));
                ShardAnswer::Connections(found.unwrap_or_default())
            }
            ShardQuestion::WatchConnection { shard, client, after, payloads } => {
                let call = WatchCall { after: *after, payloads: *payloads };
                let key = (*shard == self.id).then(|| connections.key_of(*client)).flatten();
                ShardAnswer::Watch(key.map_or(WatchAnswer::Gone, |key| {
                    self.deliveries.watched().call(sockets.now(), key, call)
                }))
            }
            ShardQuestion::EndConnection { shard, client } if *shard == self.id => {
                ShardAnswer::Count(end_client(&mut self.clients, sockets, *client))
            }
            ShardQuestion::EndConnection { .. } => ShardAnswer::Count(0),
            ShardQuestion::Disconnect { id } => {
                let sockets = self.clients.hub().subscribers(&id_topic(id));
                self.disconnect(id);
                ShardAnswer::Count(sockets as u64)
            }
            ShardQuestion::Unsubscribe { id, topic } => {
                ShardAnswer::Count(self.unsubscribe(sockets, id, topic))
            }
        };
        asked.add(answer);
    }

    /// Ends the channels of the sockets with an id on a topic. Returns their number.
    fn unsubscribe(&mut self, sockets: &mut Sockets, id: &str, topic: &str) -> u64 {
        let clients: Vec<u32> = self.clients.hub().clients_on(&id_topic(id)).collect();
        let mut ended = 0;
        for key in clients {
            let Some(channel) = self.clients.find(key, topic) else { continue };
            if !self.refuse_waiting_join(sockets, channel, UNSUBSCRIBED) {
                self.stop(sockets, key, channel);
            }
            ended += 1;
        }
        ended
    }
}

/// The first topics, by name, that begin with `prefix` and come after `after`. Reads the names of
/// all topics, and keeps `count` of them.
fn first_topics<D>(hub: &Hub<D>, prefix: &str, after: &str, count: usize) -> Vec<(String, u64)> {
    let is_wanted = |(topic, _): &(&str, usize)| {
        !is_id_topic(topic) && topic.starts_with(prefix) && *topic > after
    };
    let mut first = BinaryHeap::with_capacity(count + 1);
    for topic in hub.topic_sizes().filter(is_wanted) {
        first.push(topic);
        if first.len() > count {
            first.pop();
        }
    }
    let first = first.into_sorted_vec().into_iter();
    first.map(|(topic, subscribers)| (topic.to_owned(), subscribers as u64)).collect()
}
