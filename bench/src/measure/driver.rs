use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::client::{Order, Outcome};
use crate::tether::{Tethered, tethered};

/// The client gives up on an order earlier and says why.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(90);

/// When the first and the last socket had done what was ordered.
#[derive(Clone, Copy)]
pub struct Done {
    pub last: Duration,
}

/// The client process, seen from the one that gives it orders.
pub struct Driver {
    _process: Tethered,
    orders: ChildStdin,
    outcomes: mpsc::Receiver<String>,
}

impl Driver {
    pub fn start() -> Result<Self> {
        let mut command = tethered(std::env::current_exe()?)?;
        command.arg("client").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Tethered::spawn(&mut command)?;
        let orders = process.child().stdin.take().context("the client has a stdin")?;
        let stdout = process.child().stdout.take().context("the client has a stdout")?;
        let (sender, outcomes) = mpsc::channel(); // one line an order
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Driver { _process: process, orders, outcomes })
    }

    /// Give an order and wait until it is done.
    pub fn carry_out(&mut self, order: &Order) -> Result<Done> {
        serde_json::to_writer(&self.orders, order)?;
        writeln!(self.orders)?;
        let line = self.outcomes.recv_timeout(OUTCOME_TIMEOUT);
        match serde_json::from_str(&line.context("the client does not answer")?)? {
            Outcome::Done { last_us, .. } => Ok(Done { last: Duration::from_micros(last_us) }),
            Outcome::Failed(why) => bail!("{why}"),
        }
    }
}
