//! A program with a log.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::log::log_tail;
use crate::parent_death_guard::GuardedChild;
use crate::process::Watched;

const PAUSE: Duration = Duration::from_millis(10);

/// A program with a log, which ends when this is dropped.
pub struct Logged {
    process: GuardedChild,
    out: PathBuf,
    err: PathBuf,
}

impl Logged {
    /// Its output goes to `<stem>.out` and `<stem>.err`.
    pub fn spawn(command: &mut Command, stem: &Path) -> Result<Self> {
        let (out, err) = (stem.with_extension("out"), stem.with_extension("err"));
        let create = |path: &Path| {
            File::create(path).with_context(|| format!("cannot write {}", path.display()))
        };
        command.stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&err)?);
        Ok(Logged { process: GuardedChild::spawn(command)?, out, err })
    }

    pub fn watched(&self) -> Watched {
        Watched::new(self.process.id())
    }

    pub fn output(&self) -> Result<String> {
        fs::read_to_string(&self.out).with_context(|| self.out.display().to_string())
    }

    pub fn error_output(&self) -> Result<String> {
        fs::read_to_string(&self.err).with_context(|| self.err.display().to_string())
    }

    /// The last lines of its error output, to append to an error.
    pub fn log_tail(&self) -> String {
        log_tail(&self.err)
    }

    /// Waits until `find` returns a value for its output.
    pub fn wait_for<T>(
        &mut self,
        name: &str,
        timeout: Duration,
        find: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        let started_at = Instant::now();
        loop {
            if let Some(found) = find(&self.output()?) {
                return Ok(found);
            }
            if let Some(status) = self.process.child().try_wait()? {
                bail!("the process ended with {status} before {name}{}", self.log_tail());
            }
            ensure!(
                started_at.elapsed() < timeout,
                "no {name} after {} s{}",
                timeout.as_secs(),
                self.log_tail()
            );
            std::thread::sleep(PAUSE);
        }
    }

    /// Fails if the ended process reported an error.
    pub fn check_status(&mut self) -> Result<()> {
        let status = self.process.child().wait()?;
        ensure!(status.success(), "the process ended with {status}{}", self.log_tail());
        Ok(())
    }
}
