//! Requests with an `Idempotency-Key`, among several processes.
//!
//! One process decides about each name of a request: it does the request once, and answers its repeats
//! ([`Repeats`]). The names are spread over the processes by a hash.
//!
//! # The faults without more
//!
//! - Process 2 decides about a name and hangs. If process 3 decided instead, it would do a repeat of a
//!   request that process 2 has done. And process 2 would do the requests that are in its queue when it
//!   goes on. So a process that hangs decides until it has ended: its requests fail with 503 meanwhile.
//!   A process of this machine that hangs is killed after 8 seconds.
//! - Process 2 ends, with its answers. So it sends each of them to a second process, before the caller
//!   gets it: the one that decides next.
//! - Process 2 starts again, and decides about names that process 3 has answered meanwhile. So for
//!   `api.idempotency_period` after any process has started or ended, the process that receives a request
//!   first asks all processes whether they have its answer.
//!
//! # Bounds
//!
//! - A copy for which the second process has no room is not kept.
//! - A repeat is published again if the first process was killed in the microseconds between the message
//!   and the copy, or if both processes have ended within the period.

use std::sync::Arc;
use std::time::Instant as SystemInstant;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use watchfire::feature::PartLink;
use watchfire_types::Instant;

use super::error::CallError;
use super::publish::{PublishCall, Publisher};
use super::repeats::{Answer, Begun, KeptAnswer, RepeatLimits, Repeats, RequestName};

/// Gets the answer to a request.
type Reply = Box<dyn FnOnce(Result<Answer, CallError>) + Send>;

/// An answer, for the process that decides about its name next.
#[derive(Debug, Serialize, Deserialize)]
pub struct AnswerCopy {
    pub name: RequestName,
    pub answer: KeptAnswer,
}

/// This process's part in deciding about requests.
pub struct OnceRequests {
    link: PartLink,
    publisher: Arc<Publisher>,
    repeats: Arc<Mutex<Repeats<Reply>>>,
    started_at: SystemInstant,
    /// When another process last started or ended, or this one started.
    changed_at: Mutex<Instant>,
}

impl OnceRequests {
    pub fn new(link: PartLink, publisher: Arc<Publisher>, limits: RepeatLimits) -> Self {
        OnceRequests {
            link,
            publisher,
            repeats: Arc::new(Mutex::new(Repeats::new(limits))),
            started_at: SystemInstant::now(),
            changed_at: Mutex::new(Instant::ZERO),
        }
    }

    /// Does a request, or answers a repeat, as the process that decides about its name.
    pub fn decide(
        &self,
        name: RequestName,
        fingerprint: [u8; 32],
        call: &PublishCall<'_>,
        reply: impl FnOnce(Result<Answer, CallError>) + Send + 'static,
    ) {
        let begun = self.repeats.lock().begin(self.now(), &name, fingerprint, Box::new(reply));
        match begun {
            Begun::Answered(reply, answer) => return reply(answer),
            Begun::Waits => return,
            Begun::First => {}
        }
        let id = message_id(&name, fingerprint);
        let (link, repeats, started_at) =
            (self.link.clone(), self.repeats.clone(), self.started_at);
        self.publisher.run(call, Some(&id), move |result| {
            let result = result.map(|answer| answer.to_string());
            if let Ok(body) = &result {
                send_copy(&link, &name, KeptAnswer { fingerprint, body: body.clone() });
            }
            let answers = repeats.lock().end(since(started_at), &name, result);
            answers.into_iter().for_each(|(reply, answer)| reply(answer));
        });
    }

    /// Takes the copy of an answer.
    pub fn receive(&self, AnswerCopy { name, answer }: AnswerCopy) {
        self.repeats.lock().keep(self.now(), name, answer);
    }

    /// The answer that this process has for a name.
    pub fn kept(&self, name: &RequestName) -> Option<KeptAnswer> {
        self.repeats.lock().kept(name).cloned()
    }

    /// Another process has started or ended.
    pub fn note_change(&self) {
        *self.changed_at.lock() = self.now();
    }

    /// Whether another process than the one that decides may have the answer for a name.
    pub fn are_answers_spread(&self) -> bool {
        let period = self.repeats.lock().period();
        !self.link.cluster().is_alone() && self.now().since(*self.changed_at.lock()) < period
    }

    /// Forgets the answers that are old enough.
    pub fn expire(&self) {
        self.repeats.lock().expire(self.now());
    }

    /// The answers that are kept, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        self.repeats.lock().size()
    }

    fn now(&self) -> Instant {
        since(self.started_at)
    }
}

fn since(started_at: SystemInstant) -> Instant {
    Instant::ZERO + started_at.elapsed()
}

/// The id of a request's messages in their histories.
fn message_id(RequestName { caller, key }: &RequestName, fingerprint: [u8; 32]) -> String {
    let bytes = postcard::to_stdvec(&(caller, key, fingerprint)).expect("a name is plain data");
    Sha256::digest(bytes)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends an answer to the process that decides about its name when this one has ended.
fn send_copy(link: &PartLink, name: &RequestName, answer: KeptAnswer) {
    let cluster = link.cluster();
    let (first, second) = cluster.deciding(&[&name.caller, &name.key]);
    let to = if first == cluster.me() { second } else { Some(first) };
    if let Some(to) = to {
        link.send(to, &AnswerCopy { name: name.clone(), answer }).ok();
    }
}

/// Samples of the messages.
#[cfg(test)]
pub fn samples() -> Vec<watchfire::internal::Samples> {
    use watchfire::message_samples as samples;

    let answer = KeptAnswer { fingerprint: [7; 32], body: "b".into() };
    vec![
        samples!(json KeptAnswer: answer.clone()),
        samples!(AnswerCopy: AnswerCopy { name: RequestName::new("c", "k"), answer }),
    ]
}
