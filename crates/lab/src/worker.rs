//! One engine, told what to do over a pipe or run in a thread of the controller's own.

use std::io::{BufRead, Write};
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::clock::{Clock, monotonic};
use crate::engine::{Engine, Share};
use crate::source::Source;
use crate::stop::Stop;

/// All that a worker must know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) source: Source,
    pub(crate) share: Share,
}

/// When users begin to arrive.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Begin {
    /// At this time of the monotonic clock that all processes of a machine share.
    At(Duration),
    /// So long after this is read.
    In(Duration),
}

/// The line after which a worker ends.
pub(crate) const STOP: &str = "stop";

/// Follow the controller at the other end of these: a job comes as a line of JSON, we say that we
/// are ready, the moment to begin comes, and we tell once a second what happened, until the load is
/// over, or the controller says so or is gone.
pub fn run_worker(
    input: impl BufRead + Send + 'static,
    mut output: impl Write,
) -> anyhow::Result<()> {
    let mut lines = input.lines();
    let job = lines.next().context("no job came")??;
    let job: Job = serde_json::from_str(&job).context("the job makes no sense")?;
    let scenario = job.source.scenario()?;
    writeln!(output, "ready")?;
    output.flush()?;
    let begin = lines.next().context("the controller went away")??;
    let begin = serde_json::from_str(&begin).context("no moment to begin came")?;
    let origin = match begin {
        Begin::At(origin) => origin,
        Begin::In(delay) => monotonic() + delay,
    };
    let engine = Engine::new(&scenario, job.share, Clock::from_origin(origin))?;
    let stop = Stop::default();
    let told = stop.clone();
    std::thread::spawn(move || {
        // Its end is the controller's end.
        let _ = lines.take_while(|line| line.as_ref().is_ok_and(|line| line != STOP)).count();
        told.tell();
    });
    engine.run(&stop, |delta| {
        let line = serde_json::to_string(&delta).expect("a delta can be written down");
        // A controller that is gone wants to hear nothing more.
        writeln!(output, "{line}").and_then(|()| output.flush()).is_ok()
    })?;
    Ok(())
}
