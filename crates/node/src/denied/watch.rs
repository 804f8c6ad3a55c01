use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use super::Denied;

/// How often the file is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// Looks at the file until it is dropped.
pub(crate) struct Watch {
    _stop: Sender<()>,
}

impl Watch {
    /// Call back whenever the list has changed. `None` when there is no list.
    pub fn start(
        denied: &Arc<Denied>,
        changed: impl Fn() + Send + 'static,
    ) -> io::Result<Option<Self>> {
        if !denied.is_on() {
            return Ok(None);
        }
        let (stop, stopped) = mpsc::channel();
        let denied = denied.clone();
        thread::Builder::new().name("deny-list".into()).spawn(move || {
            let mut is_readable = true;
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let refreshed = denied.refresh();
                if let (Err(error), true) = (&refreshed, is_readable) {
                    tracing::error!(%error, "the deny-list cannot be read: it stays as it was");
                }
                is_readable = refreshed.is_ok();
                if let Ok(true) = refreshed {
                    changed();
                }
            }
        })?;
        Ok(Some(Watch { _stop: stop }))
    }
}
