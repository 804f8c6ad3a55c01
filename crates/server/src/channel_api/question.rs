//! Questions to every shard of a process about its own clients, and their answers.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use watchfire_types::ShardId;

use super::connections::{ClientId, ConnectionQuery, FoundConnections};
use super::found_topics::{FoundTopics, TopicQuery};
use super::watched_messages::WatchAnswer;

/// A question to every shard about its own clients.
#[derive(Debug)]
pub enum ShardQuestion {
    /// The first topics, by name, that begin with `prefix` and come after `after`.
    Topics { prefix: String, after: String, count: usize },
    /// The first topics in an order. It is answered after a scan.
    FindTopics(TopicQuery),
    /// The first connections in an order. It is answered after a scan.
    Connections(ConnectionQuery),
    /// The details of a client of one shard.
    Connection { shard: ShardId, client: ClientId },
    /// The messages of a client of one shard after a number, and whether to keep payloads from now on.
    WatchConnection { shard: ShardId, client: ClientId, after: u64, payloads: Option<bool> },
    /// End a client of one shard. The answer is the number of clients with this name.
    EndConnection { shard: ShardId, client: ClientId },
    /// End clients of an address, after a scan; at most this number. The answer is the number of ended clients.
    EndAddress { address: IpAddr, count: usize },
    /// Close the sockets with an id. The answer is their number.
    Disconnect { id: String },
    /// End the channels of a topic that are joined now, or wait for their join. The answer is their number; they end
    /// in the next slices of the event loop. There is no answer while an earlier such question is not done.
    EndTopic { topic: String },
    /// End the channels of the sockets with an id on a topic. The answer is their number.
    Unsubscribe { id: String, topic: String },
}

/// The answer of one shard.
#[derive(Debug)]
pub enum ShardAnswer {
    /// Topics with their numbers of subscribers, in order.
    Topics(Vec<(String, u64)>),
    FoundTopics(FoundTopics),
    Connections(FoundConnections),
    Watch(WatchAnswer),
    Count(u64),
}

type OnAll = Box<dyn FnOnce(Option<Vec<ShardAnswer>>) + Send>;

/// A question, and the answers of the shards so far. Each shard that is asked has a reference. When
/// the last one is dropped, the answers are handed over.
pub struct ShardQuestions {
    pub question: ShardQuestion,
    shards: usize,
    state: Mutex<(Vec<ShardAnswer>, Option<OnAll>)>,
}

impl ShardQuestions {
    /// `on_all` gets the answers of all shards, or `None` when one of them did not answer, because
    /// its queue was full.
    pub fn new(
        question: ShardQuestion,
        shards: usize,
        on_all: impl FnOnce(Option<Vec<ShardAnswer>>) + Send + 'static,
    ) -> Arc<Self> {
        let state = Mutex::new((Vec::with_capacity(shards), Some(Box::new(on_all) as OnAll)));
        Arc::new(ShardQuestions { question, shards, state })
    }

    /// Adds the answer of one shard.
    pub fn add(&self, answer: ShardAnswer) {
        self.state.lock().0.push(answer);
    }
}

impl Drop for ShardQuestions {
    fn drop(&mut self) {
        let (answers, on_all) = self.state.get_mut();
        let is_complete = answers.len() == self.shards;
        let answers = is_complete.then(|| std::mem::take(answers));
        if let Some(on_all) = on_all.take() {
            on_all(answers);
        }
    }
}

impl fmt::Debug for ShardQuestions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.question.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// The answers that are handed over after so many of two shards have answered.
    fn after(answered: usize) -> Option<usize> {
        let (sender, answers) = mpsc::channel();
        let question = ShardQuestion::Disconnect { id: "users:1".into() };
        let on_all = move |all: Option<Vec<_>>| sender.send(all.map(|all| all.len())).unwrap();
        let asked = ShardQuestions::new(question, 2, on_all);
        let shards = [asked.clone(), asked];
        for shard in &shards[..answered] {
            shard.add(ShardAnswer::Count(1));
        }
        assert!(answers.try_recv().is_err(), "a shard has not dropped its reference");
        drop(shards);
        answers.try_recv().expect("the answers are handed over")
    }

    #[test]
    fn the_answers_are_handed_over_when_no_shard_is_left() {
        assert_eq!(after(2), Some(2));
        assert_eq!(after(1), None);
    }
}
