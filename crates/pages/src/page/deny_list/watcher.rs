//! Watches the file of the deny-list for changes.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;
use std::{io, thread};
use watchfire_types::VitalThread;

use super::list::DenyList;

const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// Checks the file until it is dropped.
pub(crate) struct DenyListWatcher {
    _stop: Sender<()>,
}

impl DenyListWatcher {
    /// Calls `changed` after each change of the list. Returns `None` without a list.
    pub fn start(
        deny_list: &Arc<DenyList>,
        changed: impl Fn() + Send + 'static,
    ) -> io::Result<Option<Self>> {
        if !deny_list.is_on() {
            return Ok(None);
        }
        let (stop, stopped) = mpsc::channel();
        let deny_list = deny_list.clone();
        thread::Builder::new().name("deny-list".into()).spawn(move || {
            let _vital = VitalThread::enter("deny-list");
            let mut is_readable = true;
            while stopped.recv_timeout(CHECK_PERIOD) == Err(RecvTimeoutError::Timeout) {
                let refreshed = deny_list.refresh();
                if let (Err(error), true) = (&refreshed, is_readable) {
                    tracing::error!(%error, "cannot read the deny-list; keeping the last version");
                }
                is_readable = refreshed.is_ok();
                if let Ok(true) = refreshed {
                    changed();
                }
            }
        })?;
        Ok(Some(DenyListWatcher { _stop: stop }))
    }
}
