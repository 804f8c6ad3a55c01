//! The workers of a load, wherever they run: started, told when to begin, heard, told to stop.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::Context as _;

use crate::agent::{AgentAddress, call};
use crate::clock::monotonic;
use crate::engine::Share;
use crate::run::WorkerProgram;
use crate::source::Source;
use crate::tally::Delta;
use crate::worker::{Begin, Job, STOP};

/// From when all are ready to when users arrive, so that all begin at one moment.
pub(crate) const BEGIN_DELAY: Duration = Duration::from_millis(20);
/// As much longer for each worker, whose turn it must be on some core before.
const BEGIN_DELAY_EACH: Duration = Duration::from_millis(2);

/// What a worker said.
pub(crate) enum Told {
    Delta(Box<Delta>),
    /// It ended early.
    Broken(String),
}

/// The way to a worker and back.
pub(crate) struct Link {
    input: Box<dyn Write + Send>,
    output: Box<dyn BufRead + Send>,
    begin: Begin,
    child: Option<Guard>,
}

/// A worker process, ended when nobody listens to it any more.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // It ends by itself after its last word; killing it then does no harm.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Link {
    pub(crate) fn to_process((program, arguments): &WorkerProgram) -> anyhow::Result<Link> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Of a group of its own: an interrupt from the keyboard is the controller's to act on.
        command.process_group(0);
        let mut child = command.spawn().context("a worker process cannot be started")?;
        let input = child.stdin.take().expect("the worker's input is a pipe");
        let output = child.stdout.take().expect("the worker's output is a pipe");
        Ok(Link {
            input: Box::new(input),
            output: Box::new(BufReader::new(output)),
            begin: Begin::At(Duration::ZERO),
            child: Some(Guard(child)),
        })
    }

    pub(crate) fn to_agent(agent: &AgentAddress) -> anyhow::Result<(Link, u64)> {
        let (stream, reader, files) = call(agent)?;
        let begin = Begin::In(BEGIN_DELAY);
        let link = Link { input: Box::new(stream), output: Box::new(reader), begin, child: None };
        Ok((link, files))
    }
}

/// Workers at work. Their processes end with it.
pub(crate) struct Team {
    inputs: Vec<Box<dyn Write + Send>>,
    /// An agent takes the end of our side for the end of the load, and so does a process.
    _guards: Vec<Guard>,
}

impl Team {
    /// Give each worker its share, and let all begin at one moment. What they tell goes to the
    /// sender.
    pub(crate) fn begin(
        source: &Source,
        mut links: Vec<Link>,
        sender: &Sender<(usize, Told)>,
    ) -> anyhow::Result<Team> {
        let count = links.len();
        for (index, link) in links.iter_mut().enumerate() {
            let job = Job { source: source.clone(), share: Share { index, count } };
            let job = serde_json::to_string(&job)?;
            writeln!(link.input, "{job}").context("a worker takes no job")?;
        }
        for link in &mut links {
            let mut line = String::new();
            link.output.read_line(&mut line)?;
            anyhow::ensure!(line.trim() == "ready", "a worker did not become ready");
        }
        let origin = monotonic() + BEGIN_DELAY + BEGIN_DELAY_EACH * count as u32;
        let mut team = Team { inputs: Vec::new(), _guards: Vec::new() };
        for (index, mut link) in links.into_iter().enumerate() {
            let begin = match link.begin {
                Begin::At(_) => Begin::At(origin),
                // Another machine's clock is not ours.
                Begin::In(_) => Begin::In(origin.saturating_sub(monotonic())),
            };
            writeln!(link.input, "{}", serde_json::to_string(&begin)?)?;
            team._guards.extend(link.child.take());
            team.inputs.push(link.input);
            let (output, sender) = (link.output, sender.clone());
            std::thread::spawn(move || listen(index, output, &sender));
        }
        Ok(team)
    }

    /// Let all of them end.
    pub(crate) fn stop(&mut self) {
        for input in &mut self.inputs {
            // Who does not take it has ended already.
            let _ = writeln!(input, "{STOP}").and_then(|()| input.flush());
        }
    }
}

/// Pass on what a worker tells, to its last word.
fn listen(index: usize, output: impl BufRead, sender: &Sender<(usize, Told)>) {
    let mut is_done = false;
    for line in output.lines() {
        let delta = line.map_err(anyhow::Error::from);
        let delta = delta.and_then(|line| Ok(serde_json::from_str::<Box<Delta>>(&line)?));
        let told = match delta {
            Ok(delta) => {
                is_done = delta.is_last;
                Told::Delta(delta)
            }
            Err(error) => Told::Broken(error.to_string()),
        };
        let is_broken = matches!(told, Told::Broken(_));
        if sender.send((index, told)).is_err() || is_broken {
            return;
        }
    }
    if !is_done {
        let why = "ended before the load was over".to_owned();
        // Without a receiver nobody wants to know.
        let _ = sender.send((index, Told::Broken(why)));
    }
}
