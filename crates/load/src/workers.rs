//! The controller's side of each worker, on this machine or on an agent.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::Context as _;

use crate::clock::monotonic;
use crate::engine::Inbox;
use crate::plan::Plan;
use crate::secure::Channel;
use crate::tally::Delta;
use crate::worker::{Begin, Command as ToWorker, READY, Start, WorkerProgram};

/// Most plans of a worker that are kept.
const PLANS_MAX: usize = 8;

pub(crate) enum WorkerEvent {
    Delta(Box<Delta>),
    Broken(String),
}

/// A worker that has no users yet.
pub(crate) struct Link {
    name: String,
    input: Box<dyn Write + Send>,
    output: Box<dyn BufRead + Send>,
    /// Whether it is on this machine, and so has the same clock.
    is_here: bool,
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
            name: format!("process {}", child.id()),
            input: Box::new(input),
            output: Box::new(BufReader::new(output)),
            is_here: true,
            child: Some(ChildGuard(child)),
        })
    }

    pub(crate) fn to_channel(name: String, channel: Channel) -> Link {
        let (input, output) = (Box::new(channel.clone()), Box::new(BufReader::new(channel)));
        Link { name, input, output, is_here: false, child: None }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn send_job(&mut self, job: &str) -> anyhow::Result<()> {
        writeln!(self.input, "{job}").context("cannot send the job to a worker")
    }

    pub(crate) fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        anyhow::ensure!(line.trim() == READY, "a worker did not report that it is ready");
        Ok(())
    }

    /// Starts the users of a load that begins, or began, at `origin`. Reports go to the sender.
    pub(crate) fn begin(
        mut self,
        index: usize,
        plan: Plan,
        origin: Duration,
        sender: &Sender<(usize, WorkerEvent)>,
    ) -> Worker {
        let now = monotonic();
        let begin = match now.checked_sub(origin) {
            _ if self.is_here => Begin::At(origin),
            // Machines do not share a clock.
            Some(passed) => Begin::Ago(passed),
            None => Begin::In(origin - now),
        };
        let start = serde_json::to_string(&Start { begin, plan }).expect("it can be serialized");
        // A failed write means that the worker has ended, which `listen` notices.
        let _ = writeln!(self.input, "{start}").and_then(|()| self.input.flush());
        let (output, sender) = (self.output, sender.clone());
        std::thread::spawn(move || listen(index, output, &sender));
        Worker { plans: vec![plan], to: Recipient::Lines(self.input), _guard: self.child }
    }
}

/// A running worker. Its process ends when this is dropped.
pub(crate) struct Worker {
    /// The last plans that it was given, the newest last. It may not have taken up all of them.
    pub(crate) plans: Vec<Plan>,
    to: Recipient,
    /// Closing the input ends the load of the worker.
    _guard: Option<ChildGuard>,
}

enum Recipient {
    Lines(Box<dyn Write + Send>),
    /// A thread of this process.
    Thread(Inbox),
}

impl Worker {
    pub(crate) fn here(inbox: Inbox) -> Worker {
        Worker { plans: vec![Plan::default()], to: Recipient::Thread(inbox), _guard: None }
    }

    /// Closes the connection. A worker that was only silent must not go on beside those that have its users.
    pub(crate) fn disconnect(&mut self) {
        self.to = Recipient::Lines(Box::new(std::io::sink()));
    }

    pub(crate) fn follow(&mut self, plan: Plan) {
        if self.plans.len() == PLANS_MAX {
            self.plans.remove(0);
        }
        self.plans.push(plan);
        match &mut self.to {
            Recipient::Lines(input) => send(input, ToWorker::Follow(plan)),
            Recipient::Thread(inbox) => inbox.add(plan),
        }
    }

    pub(crate) fn stop(&mut self) {
        match &mut self.to {
            Recipient::Lines(input) => send(input, ToWorker::Stop),
            Recipient::Thread(inbox) => inbox.stop.set(),
        }
    }
}

fn send(input: &mut impl Write, command: ToWorker) {
    let line = serde_json::to_string(&command).expect("a command can be serialized");
    // A failed write means that the worker has ended.
    let _ = writeln!(input, "{line}").and_then(|()| input.flush());
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
