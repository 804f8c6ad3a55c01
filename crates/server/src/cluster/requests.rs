//! Requests to other processes that wait for their responses.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use watchfire_types::NodeId;

/// Requests that may wait at the same time. At the limit, a further request fails immediately, as if
/// the other process had not answered.
const REQUESTS_MAX: usize = 10_000;

/// Why a request has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The other process does not have the part that the request is for.
    NoPart,
    /// The process is gone, did not answer in time, or too many requests wait already.
    NoAnswer,
}

/// The outcome of a request, once it is known.
type Outcome = oneshot::Receiver<Result<Vec<u8>, Unanswered>>;

/// Requests of this process that have no response yet.
#[derive(Default)]
pub(super) struct PendingRequests(Mutex<State>);

type ResponseSender = oneshot::Sender<Result<Vec<u8>, Unanswered>>;

#[derive(Default)]
struct State {
    last_number: u64,
    /// The process that is asked, and where its response goes.
    waiting: HashMap<u64, (NodeId, ResponseSender)>,
}

impl PendingRequests {
    /// Registers a request to a process, which has this time to answer; `None` when too many wait.
    pub fn open(&self, to: NodeId, timeout: Duration) -> Option<SentRequest<'_>> {
        let mut state = self.0.lock();
        if state.waiting.len() >= REQUESTS_MAX {
            return None;
        }
        state.last_number += 1;
        let number = state.last_number;
        let (sender, outcome) = oneshot::channel();
        state.waiting.insert(number, (to, sender));
        Some(SentRequest { all: self, number, outcome, until: Instant::now() + timeout })
    }

    /// Delivers the outcome of a request. Without a waiting request it is dropped.
    pub fn resolve(&self, number: u64, response: Result<&[u8], Unanswered>) {
        if let Some((_, sender)) = self.0.lock().waiting.remove(&number) {
            sender.send(response.map(<[u8]>::to_owned)).ok();
        }
    }

    /// Fails every request to a process that is gone.
    pub fn node_down(&self, node: NodeId) {
        self.0.lock().waiting.retain(|_, (to, _)| *to != node);
    }
}

/// A request that waits for its response. It is forgotten when this is dropped.
pub(super) struct SentRequest<'a> {
    all: &'a PendingRequests,
    pub number: u64,
    outcome: Outcome,
    until: Instant,
}

impl SentRequest<'_> {
    pub async fn response(mut self) -> Result<Vec<u8>, Unanswered> {
        let outcome = timeout_at(self.until, &mut self.outcome).await;
        outcome.ok().and_then(Result::ok).unwrap_or(Err(Unanswered::NoAnswer))
    }
}

impl Drop for SentRequest<'_> {
    fn drop(&mut self) {
        self.all.0.lock().waiting.remove(&self.number);
    }
}
