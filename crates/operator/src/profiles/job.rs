//! A profile that is taken on a thread, so that the operator's listener answers meanwhile.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use super::cpu_profile::{CpuProfile, ProfileError, Turn};
use super::profile::Profile;

/// A profile that runs. Dropping it ends the profile without a result.
pub(super) struct Job {
    /// Nothing is sent: its drop ends the profile.
    _stop: mpsc::Sender<()>,
    pub result: oneshot::Receiver<Result<Vec<u8>, ProfileError>>,
}

impl Job {
    /// Starts a profile. `write` writes it when the period is over.
    pub fn start(
        period: Duration,
        write: impl FnOnce(&Profile) -> Vec<u8> + Send + 'static,
    ) -> Result<Job, ProfileError> {
        let turn = Turn::take()?;
        let (stop, stopped) = mpsc::channel();
        let (sender, result) = oneshot::channel();
        let run = move || {
            let written = match CpuProfile::start_in(turn) {
                Ok(profile) => match stopped.recv_timeout(period) {
                    Err(RecvTimeoutError::Timeout) => profile.finish().map(|p| write(&p)),
                    // The client has left.
                    _ => return,
                },
                Err(error) => Err(error),
            };
            sender.send(written).ok();
        };
        let thread = thread::Builder::new().name("profile".into()).spawn(run);
        thread.map_err(ProfileError::Thread)?;
        Ok(Job { _stop: stop, result })
    }
}
