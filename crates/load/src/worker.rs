//! A worker process: one engine that a controller starts over a pipe.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::clock::{Clock, monotonic};
use crate::engine::{Engine, Share, StopFlag};
use crate::source::Source;

/// Most workers of one load, and of one agent.
pub(crate) const WORKERS_MAX: usize = 1_000;

/// The program of a worker process, and its arguments.
pub type WorkerProgram = (PathBuf, Vec<String>);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) source: Source,
    pub(crate) share: Share,
}

/// The start time of the arrivals.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Begin {
    /// At this time of the monotonic clock, which all processes of a machine share.
    At(Duration),
    /// This long after the line was read.
    In(Duration),
}

/// The line after which a worker ends.
pub(crate) const STOP: &str = "stop";

/// Runs one worker for the controller at the other end. The controller sends the job as a line of
/// JSON, the worker answers that it is ready, and the controller sends the start time. Then the
/// worker reports once a second, until the load ends, the controller stops it, or the connection
/// ends.
pub fn run_worker(
    input: impl BufRead + Send + 'static,
    mut output: impl Write,
) -> anyhow::Result<()> {
    let mut lines = input.lines();
    let job = lines.next().context("the controller sent no job")??;
    let job: Job = serde_json::from_str(&job).context("cannot parse the job")?;
    let scenario = job.source.scenario()?;
    writeln!(output, "ready")?;
    output.flush()?;
    let begin = lines.next().context("the controller closed the connection")??;
    let begin = serde_json::from_str(&begin).context("cannot parse the start time")?;
    let origin = match begin {
        Begin::At(origin) => origin,
        Begin::In(delay) => monotonic() + delay,
    };
    let engine = Engine::new(&scenario, job.share, Clock::from_origin(origin))?;
    let stop = StopFlag::default();
    let stop_on_end = stop.clone();
    std::thread::spawn(move || {
        // The end of the input means that the controller has ended.
        let _ = lines.take_while(|line| line.as_ref().is_ok_and(|line| line != STOP)).count();
        stop_on_end.set();
    });
    engine.run(&stop, |delta| {
        let line = serde_json::to_string(&delta).expect("a delta can be serialized");
        // A failed write means that the controller has ended.
        writeln!(output, "{line}").and_then(|()| output.flush()).is_ok()
    })?;
    Ok(())
}

/// Runs a scenario whose users send every message back instead of reading it, so that a test suite
/// can judge the client's side of RFC 6455. Nothing is measured.
#[doc(hidden)]
pub fn echo(source: &Source) -> anyhow::Result<()> {
    let scenario = source.scenario()?;
    let share = Share { index: 0, count: 1 };
    let engine = Engine::new(&scenario, share, Clock::from_origin(monotonic()))?;
    engine.echoing().run(&StopFlag::default(), |_| true)?;
    Ok(())
}
