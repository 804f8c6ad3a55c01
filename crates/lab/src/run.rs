//! Runs a load: as many workers as the open-file limit asks for, and all they tell put together.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::agent::{AgentAddress, call};
use crate::clock::{Clock, monotonic};
use crate::engine::{Engine, Share};
use crate::results::Results;
use crate::scenario::Scenario;
use crate::source::Source;
use crate::tally::Delta;
use crate::worker::{Begin, Job};

/// Open files that are not users' sockets.
pub(crate) const FILES_SPARE: u64 = 64;
/// Workers of one load.
pub(crate) const WORKERS_MAX: usize = 1_000;
/// From when all are ready to when users arrive, so that all begin at one moment.
const BEGIN_DELAY: Duration = Duration::from_millis(20);

/// The program that becomes a worker, and what it is to be called with.
pub type WorkerProgram = (PathBuf, Vec<String>);

/// How to run a load.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The program that becomes a worker, and what it is to be called with.
    pub worker: WorkerProgram,
    /// No more open files a process than this, whatever the system allows.
    pub files_max: Option<u64>,
    /// So many workers; `None` takes as many as are needed.
    pub workers: Option<usize>,
    /// Machines that users come from instead of this one.
    pub agents: Vec<AgentAddress>,
}

/// What a worker said.
enum Told {
    Delta(Box<Delta>),
    /// It ended early.
    Broken(String),
}

/// Run a load to its end; `watch` sees the results grow.
pub fn run_load(
    source: &Source,
    options: &LoadOptions,
    mut watch: impl FnMut(&Results),
) -> anyhow::Result<Results> {
    let scenario = source.scenario()?;
    let (sender, receiver) = channel();
    if !options.agents.is_empty() {
        let links = links_to_agents(&scenario, options)?;
        let mut results = Results::new(&source.name, &scenario, links.len());
        let _guards = begin(source, links, sender)?;
        collect(&receiver, &mut results, &mut watch);
        return Ok(results);
    }
    let files = raise_open_file_limit()?;
    let workers = workers_for(&scenario, options, files)?;
    let mut results = Results::new(&source.name, &scenario, workers);
    if workers == 1 {
        let share = Share { index: 0, count: 1 };
        std::thread::scope(|scope| {
            scope.spawn(|| run_here(&scenario, share, sender));
            collect(&receiver, &mut results, &mut watch);
        });
    } else {
        let links = (0..workers).map(|_| Link::to_process(&options.worker));
        let _guards = begin(source, links.collect::<anyhow::Result<_>>()?, sender)?;
        collect(&receiver, &mut results, &mut watch);
    }
    Ok(results)
}

/// A connection to a worker on one of the agents, for each worker that is needed.
fn links_to_agents(scenario: &Scenario, options: &LoadOptions) -> anyhow::Result<Vec<Link>> {
    let mut links = Vec::new();
    let mut files_min = u64::MAX;
    for agent in &options.agents {
        let (link, files) = Link::to_agent(agent)?;
        files_min = files_min.min(files);
        links.push(link);
    }
    let workers = workers_for(scenario, options, files_min)?;
    for agent in options.agents.iter().cycle().take(workers.saturating_sub(links.len())) {
        links.push(Link::to_agent(agent)?.0);
    }
    Ok(links)
}

/// How many workers the load needs: each user is an open file.
fn workers_for(scenario: &Scenario, options: &LoadOptions, files: u64) -> anyhow::Result<usize> {
    let files = files.min(options.files_max.unwrap_or(u64::MAX));
    let users = files.saturating_sub(FILES_SPARE);
    anyhow::ensure!(
        users > 0,
        "{files} open files are too few; {FILES_SPARE} are needed besides users"
    );
    let needed =
        usize::try_from(scenario.users_at_once_max().div_ceil(users)).unwrap_or(usize::MAX);
    let workers = options.workers.unwrap_or(1).max(needed).max(1);
    anyhow::ensure!(
        workers <= WORKERS_MAX,
        "{} users at once need {workers} processes of {files} open files each, and {WORKERS_MAX} \
         are the most; raise the open-file limit (`watchfire doctor --sockets {}`)",
        scenario.users_at_once_max(),
        scenario.users_at_once_max(),
    );
    Ok(workers)
}

/// As many open files as the system lets us have.
pub(crate) fn raise_open_file_limit() -> anyhow::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(limit.maximum.unwrap_or(u64::MAX));
    }
    Ok(limit.current.unwrap_or(u64::MAX))
}

fn run_here(scenario: &Scenario, share: Share, sender: Sender<(usize, Told)>) {
    let clock = Clock::from_origin(monotonic() + BEGIN_DELAY);
    let engine = Engine::new(scenario, share, clock);
    let tell = |delta| sender.send((share.index, Told::Delta(Box::new(delta)))).is_ok();
    if let Err(error) = engine.and_then(|engine| engine.run(tell)) {
        // The receiver is there until we are gone.
        let _ = sender.send((share.index, Told::Broken(error.to_string())));
    }
}

fn collect(
    receiver: &Receiver<(usize, Told)>,
    results: &mut Results,
    watch: &mut impl FnMut(&Results),
) {
    for (worker, told) in receiver {
        match told {
            Told::Delta(delta) => results.add(worker, &delta),
            Told::Broken(why) => results.broken.push(format!("worker {worker}: {why}")),
        }
        watch(results);
    }
}

/// The way to a worker and back.
struct Link {
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
    fn to_process((program, arguments): &WorkerProgram) -> anyhow::Result<Link> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
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

    fn to_agent(agent: &AgentAddress) -> anyhow::Result<(Link, u64)> {
        let (stream, reader, files) = call(agent)?;
        let begin = Begin::In(BEGIN_DELAY);
        let link = Link { input: Box::new(stream), output: Box::new(reader), begin, child: None };
        Ok((link, files))
    }
}

/// Give each worker its share, and let all begin at one moment. What they tell goes to the sender,
/// while the guards are kept.
fn begin(
    source: &Source,
    mut links: Vec<Link>,
    sender: Sender<(usize, Told)>,
) -> anyhow::Result<Vec<Guard>> {
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
    let origin = monotonic() + BEGIN_DELAY;
    let mut guards = Vec::new();
    for (index, mut link) in links.into_iter().enumerate() {
        let begin = match link.begin {
            Begin::At(_) => Begin::At(origin),
            // Another machine's clock is not ours.
            Begin::In(_) => Begin::In(origin.saturating_sub(monotonic())),
        };
        writeln!(link.input, "{}", serde_json::to_string(&begin)?)?;
        guards.extend(link.child.take());
        let sender = sender.clone();
        std::thread::spawn(move || listen(index, link, &sender));
    }
    Ok(guards)
}

/// Pass on what a worker tells, to its last word.
fn listen(index: usize, link: Link, sender: &Sender<(usize, Told)>) {
    let mut is_done = false;
    // An agent takes the end of our side for the end of the load.
    let _input = link.input;
    for line in link.output.lines() {
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
