//! A profile of each minute, for those who look at it later.
//!
//! A thread samples for ten seconds at a time, and adds the samples to the file. So a process that is killed loses the last
//! ten seconds, and the next server goes on with the same minute. While someone asks for a profile, the thread gives way.

use std::error::Error;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::dispatcher::{Dispatch, with_default};
use watchfire::internal::now_ms;

use super::cpu_profile::{CpuProfile, SAMPLES_PER_SECOND_KEPT};
use super::minute_ring::MinuteRing;
use super::profile::Profile;
use crate::answers::ProfiledFunctions;

const MINUTE_MS: u64 = 60_000;
const SAVE_PERIOD: Duration = Duration::from_secs(10);
/// The time between two looks at the clock, and at whether someone asks for a profile.
const PAUSE: Duration = Duration::from_millis(200);

/// Keeps profiles in a file, on a thread that ends after the sender is dropped. `None`: it did not start.
pub(super) fn start(path: PathBuf) -> Option<mpsc::Sender<()>> {
    let (stop, stopped) = mpsc::channel();
    let run = move || {
        if let Err(error) = run(&path, &stopped) {
            tracing::warn!(
                file = %path.display(), %error,
                "cannot keep profiles. Make admin.profile_file writable for the server's user"
            );
        }
    };
    let thread = thread::Builder::new().name("profiles".into()).spawn(run);
    thread.inspect_err(|error| tracing::warn!(%error, "cannot keep profiles")).ok()?;
    Some(stop)
}

fn run(path: &Path, stopped: &Receiver<()>) -> Result<(), Box<dyn Error>> {
    let is_stopped = || stopped.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout);
    let ring = loop {
        match MinuteRing::open(path) {
            // The server that this one replaces still has it.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !is_stopped() => {}
            opened => break opened?,
        }
    };
    let keep = || -> Result<(), Box<dyn Error>> {
        while !is_stopped() {
            let Some(sampler) = CpuProfile::start_kept()? else { continue };
            let (began, minute) = (Instant::now(), now_ms() / MINUTE_MS);
            let is_due = || began.elapsed() >= SAVE_PERIOD || now_ms() / MINUTE_MS != minute;
            while !is_due() && !CpuProfile::is_wanted() && !is_stopped() {}
            let mut profile = sampler.finish()?;
            profile.add_text(&ring.read(minute).unwrap_or_default());
            ring.write(minute, &profile)?;
        }
        Ok(())
    };
    // The profiler logs each start and each end, and that says nothing here.
    with_default(&Dispatch::none(), keep)
}

/// The profile of a minute: a flame graph, or the functions as JSON. `None`: there is none. It may wait for the disk.
pub(super) fn answer(path: &Path, at_ms: u64, functions: bool) -> Option<Vec<u8>> {
    let minute = at_ms / MINUTE_MS;
    let mut profile = Profile::empty(SAMPLES_PER_SECOND_KEPT as u64);
    profile.duration = Duration::from_millis(MINUTE_MS);
    profile.add_text(&MinuteRing(File::open(path).ok()?).read(minute)?);
    if functions {
        let (samples, functions) = (profile.samples(), profile.functions());
        return serde_json::to_vec(&ProfiledFunctions { samples, functions }).ok();
    }
    let title = format!("Watchfire at {:02}:{:02} UTC", minute / 60 % 24, minute % 60);
    Some(profile.flame_graph(&title).into_bytes())
}
