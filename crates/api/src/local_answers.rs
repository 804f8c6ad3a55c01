//! The answers of this process to questions about its own clients.

use std::sync::Arc;
use std::time::Instant as SystemInstant;

use serde::Serialize;
use watchfire::internal::{History, Metrics, ReplicatedPresence, ShardAnswer, ShardQuestion};

use super::kept_messages;
use super::once::OnceRequests;
use super::publish::Publisher;
use super::question::{PresenceCounts, ProcessInfo, Question, summed};
use super::repeats::RequestName;

/// Answers questions about the clients of this process.
pub struct LocalAnswers {
    pub publisher: Arc<Publisher>,
    pub presence: Arc<ReplicatedPresence>,
    pub metrics: Arc<Metrics>,
    /// `None`: no topic has a history.
    pub history: Option<Arc<History>>,
    pub once: OnceRequests,
    pub started_at: SystemInstant,
}

impl LocalAnswers {
    /// Answers a question, immediately or from another thread. `None`: a shard is too busy.
    pub fn answer(
        &self,
        question: &Question<'_>,
        reply: impl FnOnce(Option<String>) + Send + 'static,
    ) {
        match *question {
            Question::Presence { topic } => {
                let state = self.presence.on(topic).own_state(topic);
                reply(Some(state));
            }
            Question::PresenceStats { topic } => {
                let presence = self.presence.on(topic);
                let (keys, own_metas) = (presence.keys(topic), presence.own_count(topic));
                drop(presence);
                reply(Some(json(&PresenceCounts { keys, own_metas })));
            }
            Question::Topics { prefix, after, count } => {
                let (prefix, after) = (prefix.to_owned(), after.to_owned());
                let question = ShardQuestion::Topics { prefix, after, count };
                self.publisher.endpoint.ask_shards(question, move |answers| {
                    reply(answers.map(|answers| json(&first_topics(answers, count))));
                });
            }
            Question::Disconnect { id } => {
                let question = ShardQuestion::Disconnect { id: id.to_owned() };
                self.publisher.endpoint.ask_shards(question, |answers| reply(answers.map(sum)));
            }
            Question::Unsubscribe { id, topic } => {
                let (id, topic) = (id.to_owned(), topic.to_owned());
                let question = ShardQuestion::Unsubscribe { id, topic };
                self.publisher.endpoint.ask_shards(question, |answers| reply(answers.map(sum)));
            }
            Question::History { topic, after, limit } => match &self.history {
                Some(history) => {
                    let answer = |answer| reply(Some(answer));
                    kept_messages::answer(history, topic, after, limit, answer);
                }
                None => reply(None),
            },
            Question::Info => reply(Some(json(&ProcessInfo {
                clients: self.metrics.clients(),
                topics: self.metrics.topics(),
                uptime_seconds: self.started_at.elapsed().as_secs(),
            }))),
            Question::Kept { caller, key } => {
                reply(Some(json(&self.once.kept(&RequestName::new(caller, key)))));
            }
            Question::PublishOnce { caller, key, fingerprint, ref call } => {
                let name = RequestName::new(caller, key);
                let reply = move |answer| reply(Some(json(&answer)));
                self.once.decide(name, fingerprint, call, reply);
            }
        }
    }
}

fn json(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).expect("answers have a JSON form")
}

fn sum(answers: Vec<ShardAnswer>) -> String {
    let count = |answer| match answer {
        ShardAnswer::Count(count) => count,
        _ => 0,
    };
    answers.into_iter().map(count).sum::<u64>().to_string()
}

/// The first topics of all shards. Each shard has sent its own first ones, so none is missing.
fn first_topics(answers: Vec<ShardAnswer>, count: usize) -> Vec<(String, u64)> {
    let topics = answers.into_iter().flat_map(|answer| match answer {
        ShardAnswer::Topics(topics) => topics,
        _ => Vec::new(),
    });
    summed(topics).into_iter().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_on_several_shards_has_the_sum_of_their_subscribers() {
        let topics = |list: &[(&str, u64)]| {
            ShardAnswer::Topics(list.iter().map(|(topic, n)| ((*topic).to_owned(), *n)).collect())
        };
        let answers = vec![topics(&[("a", 1), ("c", 2)]), topics(&[("b", 3), ("c", 4)])];
        let merged = first_topics(answers, 3);
        assert_eq!(merged, [("a".into(), 1), ("b".into(), 3), ("c".into(), 6)]);
        assert_eq!(sum(vec![ShardAnswer::Count(2), ShardAnswer::Count(3)]), "5");
    }
}
