//! Questions about this shard's clients, from other threads.

use std::collections::BinaryHeap;
use std::sync::Arc;

use watchfire_hub::{Hub, SubscriptionId};
use watchfire_sockets::Sockets;

use super::ServerShard;
use super::client::{id_topic, is_id_topic};
use super::connection_scan::Search;
use super::connections::{Connections, end_client};
use super::watched_clients::WatchCall;
use crate::channel_api::{ShardAnswer, ShardQuestion, ShardQuestions, WatchAnswer};

/// The reason for a join that waits while its channel is ended.
const UNSUBSCRIBED: &str = "unsubscribed";
/// Channels of a topic that end before the event loop handles everything else again. Ending one costs some
/// microseconds.
const ENDED_AT_A_TIME: usize = 200;

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
            ShardQuestion::EndTopic { topic } => {
                // Dropped without an answer: the caller is told that the server is busy.
                if !self.ending.is_empty() {
                    return;
                }
                self.begin_end(topic);
                ShardAnswer::Count(self.ending.len() as u64)
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
            self.end_channel(sockets, channel);
            ended += 1;
        }
        ended
    }

    fn end_channel(&mut self, sockets: &mut Sockets, channel: SubscriptionId) {
        if !self.refuse_waiting_join(sockets, channel, UNSUBSCRIBED) {
            let key = self.clients.hub().client_of(channel);
            self.stop(sockets, key, channel);
        }
    }

    /// Notes the channels of a topic, which end in slices. A client that joins from now on is not among them, so the
    /// work is bounded however many join.
    fn begin_end(&mut self, topic: &str) {
        let hub = self.clients.hub();
        let channels = hub.subscriptions_on(topic).filter(|_| !is_id_topic(topic));
        self.ending = channels.map(|channel| self.clients.address(channel)).collect();
    }

    /// Ends the next channels of a topic that ends. Returns whether more are left.
    pub(super) fn end_slice(&mut self, sockets: &mut Sockets) -> bool {
        let rest = self.ending.len().saturating_sub(ENDED_AT_A_TIME);
        let next = match rest {
            0 => std::mem::take(&mut self.ending),
            _ => self.ending.split_off(rest),
        };
        for address in next {
            // It may have left, or joined again.
            if self.clients.is_current(address) {
                self.end_channel(sockets, address.subscription);
            }
        }
        rest > 0
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
