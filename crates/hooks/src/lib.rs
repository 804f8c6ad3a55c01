//! Hooks: a server asks a backend about clients, joins and messages, and tells it which channels end.
//!
//! [`Hooks`] is the handle of a process. [`Hooks::ask`] never waits. The thread `client::thread` sends
//! the requests over HTTP, and passes each decision to the [`Recipient`] of its question. The requests
//! are signed (`client::signature`). After several failures in a row, the circuit breaker
//! (`client::breaker`) stops them for a while.
//!
//! The crate knows no channels and no event loops: a recipient does.

#[cfg(feature = "client")]
mod client;
mod error;
mod question;
mod request;
mod settings;
mod verdict;

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::timeout;
use watchfire_metrics::MetricSource;

#[cfg(feature = "client")]
pub use client::open;
pub use error::HookError;
pub use question::{Delivered, LeaveNotice, Question, Recipient, Slot};
pub use request::{ChannelId, ConnectBody, HookRequest};
pub use settings::{Hook, HookSettings, OnFailure};
pub use verdict::{Allowed, ConnectVerdict, Verdict};

/// The backend of a process.
pub trait Hooks: MetricSource {
    /// The settings of the backend.
    fn settings(&self) -> &HookSettings;

    /// A slot for a question. `None`: `hooks.waiting_max` joins and messages wait for an answer, or
    /// `hooks.waiting_max` clients that connect.
    fn reserve(&self, hook: Hook) -> Option<Slot>;

    /// A slot for a message that waits until its channel may ask about it. `None`:
    /// `hooks.waiting_max` such messages wait.
    fn reserve_behind(&self) -> Option<Slot>;

    /// Asks the backend.
    fn ask(&self, question: Question);

    /// Queues a notice, or drops it when `hooks.waiting_max` of them wait.
    fn notify(&self, body: Box<str>);

    /// Starts the thread that sends the requests, until the result is dropped.
    fn start(self: Arc<Self>) -> Result<oneshot::Sender<()>, HookError>;

    /// Has the thread signal when the notices so far are sent.
    fn finish(&self, finished: oneshot::Sender<()>);
}

/// Sends requests to the backend until it is dropped.
pub struct HookThread {
    hooks: Arc<dyn Hooks>,
    _stop: oneshot::Sender<()>,
}

impl HookThread {
    pub fn start(hooks: &Arc<dyn Hooks>) -> Result<Self, HookError> {
        Ok(HookThread { hooks: hooks.clone(), _stop: hooks.clone().start()? })
    }

    /// Waits until the notices so far are sent, but not for longer than `hooks.timeout`.
    pub async fn finish(self) {
        let (sender, finished) = oneshot::channel();
        self.hooks.finish(sender);
        timeout(self.hooks.settings().timeout, finished).await.ok();
    }
}
