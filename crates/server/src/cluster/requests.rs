//! Requests to other processes that wait for their responses.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::oneshot;
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
    /// Registers a request to a process; `None` when too many wait.
    pub fn open(&self, to: NodeId) -> Option<(u64, Outcome)> {
        let mut state = self.0.lock();
        if state.waiting.len() >= REQUESTS_MAX {
            return None;
        }
        state.last_number += 1;
        let number = state.last_number;
        let (sender, response) = oneshot::channel();
        state.waiting.insert(number, (to, sender));
        Some((number, response))
    }

    /// Delivers the outcome of a request. Without a waiting request it is dropped.
    pub fn resolve(&self, number: u64, response: Result<&[u8], Unanswered>) {
        if let Some((_, sender)) = self.0.lock().waiting.remove(&number) {
            sender.send(response.map(<[u8]>::to_owned)).ok();
        }
    }

    /// Forgets a request.
    pub fn close(&self, number: u64) {
        self.0.lock().waiting.remove(&number);
    }

    /// Fails every request to a process that is gone.
    pub fn node_down(&self, node: NodeId) {
        self.0.lock().waiting.retain(|_, (to, _)| *to != node);
    }
}
