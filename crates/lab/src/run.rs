//! Runs a load: as many workers as the open-file limit asks for, and all they tell put together.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::agent::AgentAddress;
use crate::clock::{Clock, monotonic};
use crate::engine::{Engine, Share};
use crate::link::{BEGIN_DELAY, Link, Team, Told};
use crate::results::Results;
use crate::scenario::Scenario;
use crate::source::Source;
use crate::stop::Stop;

/// Open files that are not users' sockets.
pub(crate) const FILES_SPARE: u64 = 64;
/// Workers of one load.
pub(crate) const WORKERS_MAX: usize = 1_000;
/// Users that one worker can start in a second without being late.
const STARTS_A_SECOND: f64 = 15_000.0;
/// How soon a load ends that is told to stop.
const STOP_LATENCY: Duration = Duration::from_millis(100);

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
    /// Ends the load early; what was measured until then is its result.
    pub stop: Stop,
}

/// Run a load to its end; `watch` sees the results grow.
pub fn run_load(
    source: &Source,
    options: &LoadOptions,
    mut watch: impl FnMut(&Results),
) -> anyhow::Result<Results> {
    let scenario = source.scenario()?;
    let (sender, receiver) = channel();
    let files = raise_open_file_limit()?;
    let links = match options.agents.is_empty() {
        true => links_to_processes(&scenario, options, files)?,
        false => links_to_agents(&scenario, options)?,
    };
    if links.is_empty() {
        let mut results = Results::new(&source.name, &scenario, 1);
        let share = Share { index: 0, count: 1 };
        std::thread::scope(|scope| {
            scope.spawn(|| run_here(&scenario, share, sender, &options.stop));
            collect(&receiver, &mut results, &options.stop, || {}, &mut watch);
        });
        return Ok(results);
    }
    let mut results = Results::new(&source.name, &scenario, links.len());
    let mut team = Team::begin(source, links, &sender)?;
    drop(sender);
    collect(&receiver, &mut results, &options.stop, || team.stop(), &mut watch);
    Ok(results)
}

/// A process for each worker that is needed; none where one does, who then is a thread of ours.
fn links_to_processes(
    scenario: &Scenario,
    options: &LoadOptions,
    files: u64,
) -> anyhow::Result<Vec<Link>> {
    match workers_for(scenario, options, files)? {
        1 => Ok(Vec::new()),
        workers => (0..workers).map(|_| Link::to_process(&options.worker)).collect(),
    }
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

/// How many workers the load needs: each user is an open file. Where cores are free, no worker has
/// more arrivals than it can be in time for.
fn workers_for(scenario: &Scenario, options: &LoadOptions, files: u64) -> anyhow::Result<usize> {
    let files = files.min(options.files_max.unwrap_or(u64::MAX));
    let users = files.saturating_sub(FILES_SPARE);
    anyhow::ensure!(
        users > 0,
        "{files} open files are too few; {FILES_SPARE} are needed besides users"
    );
    let needed =
        usize::try_from(scenario.users_at_once_max().div_ceil(users)).unwrap_or(usize::MAX);
    let in_time =
        scenario.phases.iter().map(|phase| phase.rate.max(phase.rate_end) / STARTS_A_SECOND);
    let in_time = in_time.fold(0.0, f64::max).ceil() as usize;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = options.workers.unwrap_or(in_time.min(cores)).max(needed).max(1);
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

fn run_here(scenario: &Scenario, share: Share, sender: Sender<(usize, Told)>, stop: &Stop) {
    let clock = Clock::from_origin(monotonic() + BEGIN_DELAY);
    let engine = Engine::new(scenario, share, clock);
    let tell = |delta| sender.send((share.index, Told::Delta(Box::new(delta)))).is_ok();
    if let Err(error) = engine.and_then(|engine| engine.run(stop, tell)) {
        // The receiver is there until we are gone.
        let _ = sender.send((share.index, Told::Broken(error.to_string())));
    }
}

/// Put together what all workers tell, to the last word of the last.
fn collect(
    receiver: &Receiver<(usize, Told)>,
    results: &mut Results,
    stop: &Stop,
    mut pass_on_stop: impl FnMut(),
    watch: &mut impl FnMut(&Results),
) {
    let began = monotonic();
    loop {
        if stop.is_told() && results.stopped_after.is_none() {
            results.stopped_after = Some(monotonic() - began);
            pass_on_stop();
        }
        match receiver.recv_timeout(STOP_LATENCY) {
            Ok((worker, Told::Delta(delta))) => results.add(worker, &delta),
            Ok((worker, Told::Broken(why))) => results.add_broken(worker, &why),
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        }
        watch(results);
    }
}
