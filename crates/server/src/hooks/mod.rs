//! Hooks: the server asks a backend about clients, joins and messages, and tells it which channels
//! end.
//!
//! [`Hooks`] is the handle of a process. A channel asks with [`Hooks::ask`], which never waits. The
//! thread `thread` sends the requests over HTTP, and sends each decision to the shard of
//! the channel, or to the client that connects. The requests are signed (`signature`). After several
//! failures in a row, the [`Breaker`](breaker::Breaker) stops them for a while.
//!
//! The channel that asks is in `rules`; `shard` asks about clients that connect. This folder knows
//! no rules.

mod breaker;
mod connect;
mod count;
mod error;
mod handle;
mod metrics;
mod notices;
mod question;
mod request;
mod signature;
#[cfg(feature = "hooks")]
mod thread;
mod verdict;

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::channel_api::Endpoint;
use crate::not_built::NotBuilt;
use crate::settings::HookSettings;

pub(crate) use connect::{ConnectBody, ConnectVerdict};
pub use error::HookError;
pub(crate) use handle::Hooks;
pub(crate) use notices::LeaveNotice;
pub(crate) use question::{
    ClientMessage, ConnectReply, DecidedJoin, DecidedMessage, JoinTicket, Question, Recipient, Slot,
};
pub(crate) use request::{ChannelId, HookRequest};
pub(crate) use verdict::{Allowed, Verdict};

/// Reads the settings. `None`: there is no backend.
pub(crate) fn open(settings: &HookSettings) -> Result<Option<Arc<Hooks>>, HookError> {
    if settings.is_on() && cfg!(not(feature = "hooks")) {
        return Err(NotBuilt { setting: "hooks", feature: "hooks" }.into());
    }
    Hooks::open(settings)
}

/// Sends requests to the backend until it is dropped.
pub(crate) struct HookThread {
    hooks: Arc<Hooks>,
    _stop: oneshot::Sender<()>,
}

impl HookThread {
    #[cfg(feature = "hooks")]
    pub fn start(hooks: &Arc<Hooks>, endpoint: &Endpoint) -> Result<Self, HookError> {
        Ok(HookThread { hooks: hooks.clone(), _stop: thread::start(hooks, endpoint)? })
    }

    #[cfg(not(feature = "hooks"))]
    pub fn start(_: &Arc<Hooks>, _: &Endpoint) -> Result<Self, HookError> {
        unreachable!("`open` refuses the settings of a backend")
    }

    /// Waits until the notices so far are sent, but not for longer than `hooks.timeout`.
    pub async fn finish(self) {
        let (sender, finished) = oneshot::channel();
        self.hooks.notices.tasks.send(notices::NoticeTask::Finish(sender)).ok();
        timeout(self.hooks.settings.timeout, finished).await.ok();
    }
}
