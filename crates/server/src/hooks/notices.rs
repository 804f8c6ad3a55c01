//! Notices to the backend about channels that have ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::count::add_up_to;
use super::metrics::HookMetrics;
use super::request::HookRequest;
use crate::settings::Hook;

/// A task of the thread besides the questions.
pub(super) enum NoticeTask {
    Notify {
        body: Box<str>,
        since: Instant,
    },
    /// Signals when the earlier notices are sent.
    Finish(oneshot::Sender<()>),
}

/// The notices that wait.
pub(crate) struct Notices {
    pub(super) tasks: UnboundedSender<NoticeTask>,
    pub(super) waiting: AtomicU32,
    pub(super) waiting_max: u32,
    pub(super) metrics: Arc<HookMetrics>,
}

impl Notices {
    /// Queues a notice, or drops it when `hooks.waiting_max` of them wait.
    fn notify(&self, body: Box<str>) {
        if !add_up_to(&self.waiting, self.waiting_max) {
            return self.metrics.count(Hook::Leave, "queue_full");
        }
        // It fails when the server has stopped.
        self.tasks.send(NoticeTask::Notify { body, since: Instant::now() }).ok();
    }

    /// Counts a notice as done.
    pub(super) fn done(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells the backend that a channel has ended, when it is dropped. So each join that was granted has
/// one notice, also if its client was gone before the answer.
pub(crate) struct LeaveNotice {
    notices: Arc<Notices>,
    body: Box<str>,
    is_granted: bool,
}

impl LeaveNotice {
    pub(super) fn new(notices: Arc<Notices>, request: &HookRequest<'_>) -> Self {
        let request = HookRequest { hook: Hook::Leave, event: None, payload: None, ..*request };
        LeaveNotice { notices, body: request.to_json().into(), is_granted: false }
    }

    /// From now on, the notice is sent when this is dropped.
    pub fn grant(&mut self) {
        self.is_granted = true;
    }
}

impl Drop for LeaveNotice {
    fn drop(&mut self) {
        if self.is_granted {
            self.notices.notify(std::mem::take(&mut self.body));
        }
    }
}
