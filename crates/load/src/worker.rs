//! A worker process: one engine that a controller starts over a pipe.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::clock::{Clock, monotonic};
use crate::engine::{Engine, Inbox, StopFlag};
use crate::plan::Plan;
use crate::source::Source;

/// Most workers of one load, and of one agent.
pub(crate) const WORKERS_MAX: usize = 1_000;

/// The program of a worker process, and its arguments.
pub type WorkerProgram = (PathBuf, Vec<String>);

/// The second line of the controller, after the scenario.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) begin: Begin,
    pub(crate) plan: Plan,
}

/// The start time of the load.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Begin {
    /// At this time of the monotonic clock, which all processes of a machine share.
    At(Duration),
    /// This long after the line was read.
    In(Duration),
    /// This long before the line was read.
    Ago(Duration),
}

/// Each further line of the controller.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    Follow(Plan),
    /// The worker ends.
    Stop,
}

/// The line of a worker that has read the scenario.
pub(crate) const READY: &str = "ready";

/// Runs one worker for the controller at the other end. The controller sends the scenario as a line of
/// JSON, the worker answers that it is ready, and the controller sends the start time. Then the
/// worker reports once a second, until the load ends, the controller stops it, or the connection
/// ends. Returns whether the last report was sent.
///
/// `begin` is called when the users may start. Once `leave` is set, the reports ask the controller to give the users to others.
pub fn run_worker(
    input: impl BufRead + Send + 'static,
    mut output: impl Write,
    leave: &StopFlag,
    begin: impl FnOnce(),
) -> anyhow::Result<bool> {
    let mut lines = input.lines();
    let source = lines.next().context("the controller sent no job")??;
    let source: Source = serde_json::from_str(&source).context("cannot parse the job")?;
    let scenario = source.scenario()?;
    writeln!(output, "{READY}")?;
    output.flush()?;
    let start = lines.next().context("the controller closed the connection")??;
    let start: Start = serde_json::from_str(&start).context("cannot parse the start time")?;
    let clock = match start.begin {
        Begin::At(origin) => Clock::from_origin(origin),
        Begin::In(delay) => Clock::from_origin(monotonic() + delay),
        Begin::Ago(passed) => Clock::of_running(passed),
    };
    let engine = Engine::new(&scenario, start.plan, clock)?;
    begin();
    let inbox = Inbox::default();
    let received = inbox.clone();
    std::thread::spawn(move || {
        let commands = lines.map_while(|line| serde_json::from_str(&line.ok()?).ok());
        for command in commands {
            match command {
                Command::Follow(plan) => received.add(plan),
                Command::Stop => break,
            }
        }
        // The end of the input means that the controller has ended.
        received.stop.set();
    });
    let mut is_complete = false;
    engine.run(&inbox, |mut delta| {
        delta.is_leaving = leave.is_set();
        let line = serde_json::to_string(&delta).expect("a delta can be serialized");
        // A failed write means that the controller has ended.
        let is_sent = writeln!(output, "{line}").and_then(|()| output.flush()).is_ok();
        is_complete = is_sent && delta.is_last;
        is_sent
    })?;
    Ok(is_complete)
}

/// Runs a scenario whose users send every message back instead of reading it, so that a test suite
/// can judge the client's side of RFC 6455. Nothing is measured.
#[doc(hidden)]
pub fn echo(source: &Source) -> anyhow::Result<()> {
    let scenario = source.scenario()?;
    let engine = Engine::new(&scenario, Plan::default(), Clock::from_origin(monotonic()))?;
    engine.echoing().run(&Inbox::default(), |_| true)?;
    Ok(())
}
