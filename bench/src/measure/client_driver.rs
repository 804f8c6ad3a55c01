use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::client::{Command, Outcome};
use crate::parent_death_guard::{GuardedChild, guarded_command};

/// The client times out earlier, and reports the cause.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(90);

/// The time until the last socket finished a command.
#[derive(Clone, Copy)]
pub struct Done {
    pub last: Duration,
}

/// The client process, seen from the measuring process.
pub struct Driver {
    _process: GuardedChild,
    commands: ChildStdin,
    outcomes: mpsc::Receiver<String>,
}

impl Driver {
    pub fn start() -> Result<Self> {
        let mut command = guarded_command(std::env::current_exe()?)?;
        command.arg("client").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = GuardedChild::spawn(&mut command)?;
        let commands = process.child().stdin.take().context("the client has a stdin")?;
        let stdout = process.child().stdout.take().context("the client has a stdout")?;
        let (sender, outcomes) = mpsc::channel(); // one line for each command
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Driver { _process: process, commands, outcomes })
    }

    /// Send a command and wait until it is done.
    pub fn execute(&mut self, command: &Command) -> Result<Done> {
        serde_json::to_writer(&self.commands, command)?;
        writeln!(self.commands)?;
        let line = self.outcomes.recv_timeout(OUTCOME_TIMEOUT);
        match serde_json::from_str(&line.context("the client does not respond")?)? {
            Outcome::Done { last_us, .. } => Ok(Done { last: Duration::from_micros(last_us) }),
            Outcome::Failed(cause) => bail!("{cause}"),
        }
    }
}
