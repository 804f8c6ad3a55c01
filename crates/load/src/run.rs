//! Runs a load: divides its users among workers, on this machine or on agents, and collects their
//! results.
//!
//! # The reason
//!
//! Each user is a socket, so an open file, and the number of open files of a process is limited: with a
//! limit of 20,000 and 64 spare files, one process runs 19,936 users. One event loop also starts at most about 15,000
//! users per second on time. A larger load needs several processes, and often several machines.
//!
//! # How many workers
//!
//! `workers_for` takes the larger of two numbers: what the open files need (the most users at the same
//! time divided by the users of a process), and what the arrivals need (the highest rate divided by
//! 15,000, but at most one per core of this machine; `--workers` replaces this number). Example: 100,000 users
//! arrive at 5,000 per second on this machine, with 20,000 files each: 6 workers for the files, one for
//! the rate, so 6. One worker is a thread of this process; more are processes.
//!
//! # How agents share them
//!
//! Each agent gets one connection, and each connection is one worker process there. The agents' greetings
//! name their limits of open files. The smallest one counts for all, because all workers get equal
//! shares. Then further workers are added to the agents in turn, until the load fits. Example: three
//! agents with limits of 20,000, 20,000 and 10,000, and 50,000 users: 9,936 users for each worker, so 6
//! workers, two on each agent.
//!
//! Users are dealt like cards: worker i of n takes users i, i + n, i + 2n, and more than 16 workers get 64 cards at a
//! time (`arrivals.rs`). So each
//! worker has its share of every phase and of every moment, and no worker waits for another. A load
//! has the same users, at the same times and with the same sessions, with any number of workers.
//!
//! # The limit of the balance
//!
//! A slow machine gets as many users as a fast one. It shows as lateness in the results, not as fewer
//! users. The users of a worker that fails are not given to others: its part is reported as missing,
//! because a load with a hole and a late repair would measure something else.
//!
//! # The bounds
//!
//! A load has at most 1,000 workers, and an agent runs at most 1,000. An agent's worker that is silent
//! for 30 s counts as failed. All begin together: the start is set 20 ms ahead, and 2 ms more per worker, since
//! each of them must be scheduled on a core first.

use std::net::TcpListener;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::agent::{AgentAddress, admit, connect};
use crate::controller::{Control, Controller};
use crate::engine::StopFlag;
use crate::open_files::{FILES_SPARE, raise_open_file_limit};
use crate::phases::{Announcer, PhaseEvent};
use crate::results::Results;
use crate::scenario::Scenario;
use crate::source::Source;
use crate::worker::{WORKERS_MAX, WorkerProgram};
use crate::workers::Link;

/// Users that one worker can start in a second without being late.
const STARTS_PER_SECOND: f64 = 15_000.0;

/// The address at which agents join a load.
#[derive(Debug)]
pub struct Swarm {
    pub listener: TcpListener,
    /// The token that agents must know.
    pub token: String,
    /// The load begins when this many have joined.
    pub agents_min: usize,
}

#[derive(Debug, Default)]
pub struct LoadOptions {
    /// The program of a worker process, and its arguments.
    pub worker: WorkerProgram,
    /// Most open files per process, even if the system allows more.
    pub files_max: Option<u64>,
    /// The least number of workers; `None` starts as many as needed.
    pub workers: Option<usize>,
    /// Agents that run the users instead of this machine.
    pub agents: Vec<AgentAddress>,
    /// Stops the load early; the results so far are kept.
    pub stop: StopFlag,
    /// Receives the begin and the end of each phase at its time.
    pub phases: Option<Sender<PhaseEvent>>,
    /// Lets agents join, and runs the users on them.
    pub swarm: Option<Swarm>,
    /// Changes of the load while it runs.
    pub controls: Option<Receiver<Control>>,
}

/// Runs a load to its end; `watch` receives the results while they grow.
pub fn run_load(
    source: &Source,
    options: &LoadOptions,
    mut watch: impl FnMut(&Results),
) -> anyhow::Result<Results> {
    let scenario = source.scenario()?;
    let files = raise_open_file_limit();
    let mut links = match (options.agents.is_empty(), &options.swarm) {
        (true, None) => links_to_processes(&scenario, options, files)?,
        (true, Some(_)) => Vec::new(),
        (false, _) => links_to_agents(&scenario, options)?,
    };
    let job = serde_json::to_string(source)?;
    // All read it at the same time.
    links.iter_mut().try_for_each(|link| link.send_job(&job))?;
    links.iter_mut().try_for_each(Link::wait_until_ready)?;
    let admission = options.swarm.as_ref().map(|swarm| {
        let (sender, arrived) = channel();
        let (listener, token) = (swarm.listener.try_clone()?, swarm.token.clone());
        std::thread::spawn(move || admit(&listener, &token, &job, &sender));
        anyhow::Ok((arrived, swarm.agents_min))
    });
    let results = Results::new(&source.name, &scenario, 0);
    let announcer = Announcer::new(&scenario.phases, options.phases.clone());
    let mut controller = Controller::new(&scenario, results, announcer, admission.transpose()?);
    std::thread::scope(|scope| {
        match links.is_empty() && options.swarm.is_none() {
            true => controller.begin_here(scope, &options.stop),
            false => controller.wait_with(links),
        }
        controller.collect(&options.stop, options.controls.as_ref(), &mut watch);
    });
    Ok(controller.results)
}

/// The number of processes with which a load would run on this machine.
pub fn workers_here(scenario: &Scenario, options: &LoadOptions) -> anyhow::Result<usize> {
    workers_for(scenario, options, raise_open_file_limit())
}

/// Starts a process for each worker. Returns none when one worker is enough, which then runs as a
/// thread.
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

/// Connects to the agents, once for each worker.
fn links_to_agents(scenario: &Scenario, options: &LoadOptions) -> anyhow::Result<Vec<Link>> {
    let mut links = Vec::new();
    let mut files_min = u64::MAX;
    for agent in &options.agents {
        let (link, files) = connect(agent)?;
        files_min = files_min.min(files);
        links.push(link);
    }
    let workers = workers_for(scenario, options, files_min)?;
    for agent in options.agents.iter().cycle().take(workers.saturating_sub(links.len())) {
        links.push(connect(agent)?.0);
    }
    Ok(links)
}

/// The number of workers that the load needs: each user is an open file. Up to the number of cores,
/// no worker gets more arrivals than it can start on time.
fn workers_for(scenario: &Scenario, options: &LoadOptions, files: u64) -> anyhow::Result<usize> {
    let files = files.min(options.files_max.unwrap_or(u64::MAX));
    let users = files.saturating_sub(FILES_SPARE);
    anyhow::ensure!(
        users > 0,
        "cannot run users with {files} open files: {FILES_SPARE} are needed besides users; raise the open-file limit"
    );
    let needed_with = |users: u64| {
        usize::try_from(scenario.files_at_once_max().div_ceil(users)).unwrap_or(usize::MAX)
    };
    let needed = match scenario.block(needed_with(users)) {
        1 => needed_with(users),
        // A worker may have a block of users more than another one, each with two files.
        block => needed_with(users.saturating_sub(4 * block as u64).max(1)),
    };
    let in_time =
        scenario.phases.iter().map(|phase| phase.rate.max(phase.rate_end) / STARTS_PER_SECOND);
    let in_time = in_time.fold(0.0, f64::max).ceil() as usize;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = options.workers.unwrap_or(in_time.min(cores)).max(needed).max(1);
    anyhow::ensure!(
        workers <= WORKERS_MAX,
        "{} users at once need {workers} processes of {files} open files each, but at most \
         {WORKERS_MAX} are allowed; raise the open-file limit (`watchfire doctor --sockets {}`)",
        scenario.users_at_once_max(),
        scenario.files_at_once_max(),
    );
    Ok(workers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_workers_have_room_for_the_users_that_they_take_in_a_row() {
        let scenario = |rate: u32| {
            let text = format!(
                "targets = [{{ url = 'ws://127.0.0.1:1' }}]\n\
                 phases = [{{ duration = '80s', rate = {rate} }}]\n\
                 sessions = [{{ steps = [{{ connect = {{ path = '/' }} }}, {{ stay = {{}} }}] }}]"
            );
            Scenario::parse("many.toml", &text).unwrap()
        };
        let workers = |rate| workers_for(&scenario(rate), &LoadOptions::default(), 20_000).unwrap();
        let (many, few) = (workers(25_000), workers(2_500));
        assert_eq!((many, scenario(25_000).block(many)), (102, 64));
        assert_eq!((few, scenario(2_500).block(few)), (11, 1));
        let blocks = 2_000_000_u64.div_ceil(64).div_ceil(many as u64);
        assert!(blocks * 64 + FILES_SPARE <= 20_000);
    }
}
