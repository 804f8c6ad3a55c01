//! The workers of a load, on this machine or on agents: starts them, collects reports, stops them.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::Context as _;

use crate::agent::{self, AgentAddress};
use crate::clock::monotonic;
use crate::engine::Share;
use crate::source::Source;
use crate::tally::Delta;
use crate::worker::{Begin, Job, STOP, WorkerProgram};

/// Delay from the time all workers are ready to the first arrival, so that all begin together.
pub(crate) const BEGIN_DELAY: Duration = Duration::from_millis(20);
/// Additional delay per worker, because each must be scheduled on a core first.
const BEGIN_DELAY_EACH: Duration = Duration::from_millis(2);

pub(crate) enum WorkerEvent {
    Delta(Box<Delta>),
    Broken(String),
}

pub(crate) struct Link {
    input: Box<dyn Write + Send>,
    output: Box<dyn BufRead + Send>,
    begin: Begin,
    child: Option<ChildGuard>,
}

/// A worker process that is killed when this is dropped.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // A worker ends by itself after its last report; killing it then has no effect.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Link {
    pub(crate) fn to_process((program, arguments): &WorkerProgram) -> anyhow::Result<Link> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A process group of its own: Ctrl-C must reach only the controller.
        command.process_group(0);
        let mut child = command.spawn().context("cannot start a worker process")?;
        let input = child.stdin.take().expect("the worker's input is a pipe");
        let output = child.stdout.take().expect("the worker's output is a pipe");
        Ok(Link {
            input: Box::new(input),
            output: Box::new(BufReader::new(output)),
            begin: Begin::At(Duration::ZERO),
            child: Some(ChildGuard(child)),
        })
    }

    pub(crate) fn to_agent(agent: &AgentAddress) -> anyhow::Result<(Link, u64)> {
        let (stream, reader, files) = agent::connect(agent)?;
        let begin = Begin::In(BEGIN_DELAY);
        let link = Link { input: Box::new(stream), output: Box::new(reader), begin, child: None };
        Ok((link, files))
    }
}

/// Running workers. Their processes end when this is dropped.
pub(crate) struct Workers {
    inputs: Vec<Box<dyn Write + Send>>,
    /// Closing an input ends the load of that worker.
    _guards: Vec<ChildGuard>,
}

impl Workers {
    /// Gives each worker its share of the users, and starts all at the same time, which is
    /// returned. Reports go to the sender.
    pub(crate) fn begin(
        source: &Source,
        mut links: Vec<Link>,
        sender: &Sender<(usize, WorkerEvent)>,
    ) -> anyhow::Result<(Workers, Duration)> {
        let count = links.len();
        for (index, link) in links.iter_mut().enumerate() {
            let job = Job { source: source.clone(), share: Share { index, count } };
            let job = serde_json::to_string(&job)?;
            writeln!(link.input, "{job}").context("cannot send the job to a worker")?;
        }
        for link in &mut links {
            let mut line = String::new();
            link.output.read_line(&mut line)?;
            anyhow::ensure!(line.trim() == "ready", "a worker did not report that it is ready");
        }
        let origin = monotonic() + BEGIN_DELAY + BEGIN_DELAY_EACH * count as u32;
        let mut workers = Workers { inputs: Vec::new(), _guards: Vec::new() };
        for (index, mut link) in links.into_iter().enumerate() {
            let begin = match link.begin {
                Begin::At(_) => Begin::At(origin),
                // Machines do not share a clock.
                Begin::In(_) => Begin::In(origin.saturating_sub(monotonic())),
            };
            writeln!(link.input, "{}", serde_json::to_string(&begin)?)?;
            workers._guards.extend(link.child.take());
            workers.inputs.push(link.input);
            let (output, sender) = (link.output, sender.clone());
            std::thread::spawn(move || listen(index, output, &sender));
        }
        Ok((workers, origin))
    }

    pub(crate) fn stop(&mut self) {
        for input in &mut self.inputs {
            // A failed write means that the worker has ended.
            let _ = writeln!(input, "{STOP}").and_then(|()| input.flush());
        }
    }
}

/// Forwards the reports of a worker until its last one.
fn listen(index: usize, output: impl BufRead, sender: &Sender<(usize, WorkerEvent)>) {
    let mut is_done = false;
    for line in output.lines() {
        let delta = line.map_err(anyhow::Error::from);
        let delta = delta.and_then(|line| Ok(serde_json::from_str::<Box<Delta>>(&line)?));
        let event = match delta {
            Ok(delta) => {
                is_done = delta.is_last;
                WorkerEvent::Delta(delta)
            }
            Err(error) => WorkerEvent::Broken(error.to_string()),
        };
        let is_broken = matches!(event, WorkerEvent::Broken(_));
        if sender.send((index, event)).is_err() || is_broken {
            return;
        }
    }
    if !is_done {
        let cause = "ended before the end of the load".to_owned();
        // A missing receiver means that the load has ended.
        let _ = sender.send((index, WorkerEvent::Broken(cause)));
    }
}
