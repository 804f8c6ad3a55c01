//! Runs a load: as many workers as the open-file limit asks for, and all they tell put together.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::clock::{Clock, monotonic};
use crate::engine::{Engine, Share};
use crate::results::Results;
use crate::scenario::Scenario;
use crate::source::Source;
use crate::tally::Delta;
use crate::worker::Job;

/// Open files that are not users' sockets.
const FILES_SPARE: u64 = 64;
/// Workers of one load.
const WORKERS_MAX: usize = 1_000;
/// From when all are ready to when users arrive, so that all begin at one moment.
const BEGIN_DELAY: Duration = Duration::from_millis(20);

/// How to run a load.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The program that becomes a worker, and what it is to be called with.
    pub worker: (PathBuf, Vec<String>),
    /// No more open files a process than this, whatever the system allows.
    pub files_max: Option<u64>,
    /// So many workers; `None` takes as many as are needed.
    pub workers: Option<usize>,
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
    let workers = workers_for(&scenario, options)?;
    let (sender, receiver) = channel();
    let mut results = Results::new(&source.name, &scenario, workers);
    if workers == 1 {
        let share = Share { index: 0, count: 1 };
        std::thread::scope(|scope| {
            scope.spawn(|| run_here(&scenario, share, sender));
            collect(&receiver, &mut results, &mut watch);
        });
    } else {
        let children = Children::start(source, workers, options, sender)?;
        collect(&receiver, &mut results, &mut watch);
        children.wait();
    }
    Ok(results)
}

/// How many workers the load needs: each user is an open file.
fn workers_for(scenario: &Scenario, options: &LoadOptions) -> anyhow::Result<usize> {
    let files = raise_open_file_limit()?.min(options.files_max.unwrap_or(u64::MAX));
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
fn raise_open_file_limit() -> anyhow::Result<u64> {
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

/// Worker processes; they are ended when the load is.
struct Children(Vec<Child>);

impl Children {
    fn start(
        source: &Source,
        workers: usize,
        options: &LoadOptions,
        sender: Sender<(usize, Told)>,
    ) -> anyhow::Result<Children> {
        let mut children = Children(Vec::new());
        let mut ready = Vec::new();
        for index in 0..workers {
            let job = Job { source: source.clone(), share: Share { index, count: workers } };
            let (program, arguments) = &options.worker;
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().context("a worker process cannot be started")?;
            let mut input = child.stdin.take().expect("the worker's input is a pipe");
            let output = child.stdout.take().expect("the worker's output is a pipe");
            children.0.push(child);
            writeln!(input, "{}", serde_json::to_string(&job)?).context("a worker takes no job")?;
            ready.push((input, BufReader::new(output)));
        }
        for (_, output) in &mut ready {
            let mut line = String::new();
            output.read_line(&mut line)?;
            anyhow::ensure!(line.trim() == "ready", "a worker process did not become ready");
        }
        let origin = monotonic() + BEGIN_DELAY;
        for (index, (mut input, output)) in ready.into_iter().enumerate() {
            writeln!(input, "{}", origin.as_nanos())?;
            let sender = sender.clone();
            std::thread::spawn(move || listen(index, input, output, &sender));
        }
        Ok(children)
    }

    fn wait(mut self) {
        for child in &mut self.0 {
            // It told all it had to tell, or why not.
            let _ = child.wait();
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            if let Ok(None) = child.try_wait() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// Pass on what a worker tells, to its last word.
fn listen(
    index: usize,
    _input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
    sender: &Sender<(usize, Told)>,
) {
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
        if sender.send((index, told)).is_err() {
            return;
        }
    }
    if !is_done {
        let why = anyhow!("ended before the load was over").to_string();
        // Without a receiver nobody wants to know.
        let _ = sender.send((index, Told::Broken(why)));
    }
}
