//! Questions to all processes of the server.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use watchfire::feature::{ClusterPart, NodeId, PartLink, PendingResponse};
use watchfire::internal::Unanswered;

use super::error::{CallError, Code};
use super::local_answers::LocalAnswers;
use super::publish::PublishCall;
use super::question::Question;
use super::repeats::{Answer, KeptAnswer, RequestName};

/// How long the shards of this process have to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// All processes of the server, this one included.
pub struct Processes {
    pub link: PartLink,
    pub own: LocalAnswers,
}

impl Processes {
    /// Checks a topic that a caller names.
    pub fn check_topic(&self, topic: &str) -> Result<(), CallError> {
        self.own.publisher.reserved.check(topic)
    }

    /// Asks every process at the same time. If one does not answer, the result is an error, but the others were
    /// asked.
    pub async fn ask_all<T: DeserializeOwned>(
        &self,
        question: &Question<'_>,
    ) -> Result<Vec<T>, CallError> {
        let texts = self.ask_all_as_text(question).await?;
        texts.iter().map(|text| read(text)).collect()
    }

    /// The same, with the answers as JSON.
    pub async fn ask_all_as_text(&self, question: &Question<'_>) -> Result<Vec<String>, CallError> {
        let cluster = self.link.cluster();
        let others: Vec<NodeId> = cluster.others().map(|(node, _)| node).collect();
        let others = self.link.request_each(others, question);
        let (own, others) = tokio::join!(self.ask_here(question), others);
        let mut answers = vec![own?];
        for (node, answer) in others {
            match answer {
                Ok(answer) => answers.push(answer),
                // A process that has ended has no clients.
                Err(_) if !cluster.is_up(node) => {}
                Err(_) => return Err(no_answer()),
            }
        }
        Ok(answers)
    }

    /// Whether a topic has a history.
    pub fn has_history(&self, topic: &str) -> bool {
        self.own.history.as_ref().is_some_and(|history| history.has(topic))
    }

    /// Asks one process.
    pub async fn ask(&self, node: NodeId, question: &Question<'_>) -> Result<String, CallError> {
        match node == self.link.cluster().me() {
            true => self.ask_here(question).await,
            false => self.link.request(node, question).await.ok_or_else(no_answer),
        }
    }

    /// Does a request that may be a repeat. One process decides about each name of a request: see `once`.
    pub async fn publish_once(
        &self,
        caller: &str,
        key: &str,
        fingerprint: [u8; 32],
        call: PublishCall<'_>,
    ) -> Result<Answer, CallError> {
        if self.own.once.are_answers_spread()
            && let Some(kept) = self.find_kept(caller, key).await?
        {
            return kept.replay(fingerprint);
        }
        let (deciding, _) = self.link.cluster().deciding(&[caller, key]);
        let question = Question::PublishOnce { caller, key, fingerprint, call };
        read::<Result<Answer, CallError>>(&self.ask(deciding, &question).await?)?
    }

    /// Asks all processes for the answer to a request. An error: one that may have it did not respond.
    async fn find_kept(&self, caller: &str, key: &str) -> Result<Option<KeptAnswer>, CallError> {
        if let Some(kept) = self.own.once.kept(&RequestName::new(caller, key)) {
            return Ok(Some(kept));
        }
        let cluster = self.link.cluster();
        let others: Vec<NodeId> = cluster.all_up().filter(|node| *node != cluster.me()).collect();
        let question = Question::Kept { caller, key };
        for (node, answer) in self.link.request_each::<String>(others, &question).await {
            match answer.as_deref().map(read::<Option<KeptAnswer>>) {
                Ok(Ok(None)) | Err(Unanswered::NoPart) => {}
                Ok(answer) => return answer,
                Err(Unanswered::NoAnswer) if !cluster.is_up(node) => {}
                Err(Unanswered::NoAnswer) => return Err(no_answer()),
            }
        }
        Ok(None)
    }

    /// Asks this process.
    pub async fn ask_here(&self, question: &Question<'_>) -> Result<String, CallError> {
        let (sender, answer) = oneshot::channel();
        self.own.answer(question, move |answer| drop(sender.send(answer)));
        match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
            Ok(Ok(Some(text))) => Ok(text),
            Ok(Ok(None) | Err(_)) | Err(_) => Err(no_answer()),
        }
    }
}

/// The error of a call that got no answer in time.
pub fn no_answer() -> CallError {
    let message = "a part of the server is too busy or restarts; try again";
    CallError::new(Code::Unavailable, message)
}

fn read<T: DeserializeOwned>(answer: &str) -> Result<T, CallError> {
    serde_json::from_str(answer).map_err(|error| {
        // A bug, because the other process runs the same program.
        tracing::error!(%error, "cannot read the answer of another process");
        no_answer()
    })
}

impl ClusterPart for Processes {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, _: NodeId, copy: &[u8]) -> Result<(), postcard::Error> {
        self.own.once.receive(postcard::from_bytes(copy)?);
        Ok(())
    }

    fn node_up(&self, _: NodeId) {
        self.own.once.note_change();
    }

    fn node_down(&self, _: NodeId) {
        self.own.once.note_change();
    }

    fn take_request(&self, request: &[u8], response: PendingResponse) {
        match postcard::from_bytes(request) {
            Ok(question) => self.own.answer(&question, move |answer| {
                if let Some(text) = answer {
                    response.send(&text);
                }
            }),
            Err(error) => tracing::error!(%error, "cannot decode a question of another process"),
        }
    }
}
