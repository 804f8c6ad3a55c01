//! Questions to the backend with the recipients of their answers, and notices.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Hooks;
use crate::request::HookRequest;
use crate::settings::Hook;
use crate::verdict::{ConnectVerdict, Verdict};

/// A question to the backend.
pub struct Question {
    pub hook: Hook,
    /// The request as JSON.
    pub body: String,
    /// The place of the question until its recipient has the decision.
    pub slot: Slot,
    pub recipient: Recipient,
}

/// Receives a decision, once.
pub enum Recipient {
    /// About a client that connects.
    Connect(Box<dyn FnOnce(ConnectVerdict) -> Delivered + Send>),
    /// About a join or a message.
    Channel(Box<dyn FnOnce(Verdict) -> Delivered + Send>),
}

/// Ends when the decision is delivered.
pub type Delivered = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The place of a question, or of a message that waits, until it is dropped.
pub struct Slot(pub(crate) Arc<AtomicU32>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells the backend that a channel has ended, when it is dropped. So each join that was granted has
/// one notice, also if its client was gone before the answer.
pub struct LeaveNotice {
    hooks: Arc<dyn Hooks>,
    body: Box<str>,
    is_granted: bool,
}

impl LeaveNotice {
    /// The notice of the end of a join.
    pub fn new(hooks: &Arc<dyn Hooks>, request: &HookRequest<'_>) -> Self {
        let request = HookRequest { hook: Hook::Leave, event: None, payload: None, ..*request };
        LeaveNotice { hooks: hooks.clone(), body: request.to_json().into(), is_granted: false }
    }

    /// From now on, the notice is sent when this is dropped.
    pub fn grant(&mut self) {
        self.is_granted = true;
    }
}

impl Drop for LeaveNotice {
    fn drop(&mut self) {
        if self.is_granted {
            self.hooks.notify(std::mem::take(&mut self.body));
        }
    }
}
