//! The users of a load: `watchfire load` or another load generator as a process, and the figures in its results.

mod figures;
mod other;
mod phases;
mod requirements;
mod samples;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::definition::{self, TrialPlan};
use crate::drivers::driver::{DriverError, with_causes};
use crate::drivers::processes::host::{Network, NodeError, Process, Site, run_to_end};
use crate::drivers::processes::nodes::TrialNode;
use crate::results::LoadOverTime;
use figures::{connected, measures};
use other::OtherUsers;
use phases::{Phases, Watched};
use samples::Samples;

/// The exit code with which `watchfire load` says that a threshold of its scenario was broken.
const THRESHOLD_BROKEN: i32 = 3;
/// The server in a check, which connects to none.
const NO_SERVER: &str = "ws://127.0.0.1:1";

/// The users of a run, and how they ended.
#[derive(Default)]
pub struct Load {
    /// `None` once they have ended, and if they did not start.
    running: Option<Running>,
    pub measures: BTreeMap<String, f64>,
    pub over_time: Option<LoadOverTime>,
    pub failure: Option<String>,
}

impl Load {
    /// Starts the users at all servers. Their process has the folder of the first one.
    pub fn start(
        plan: &TrialPlan,
        planned: &definition::Load,
        nodes: &[TrialNode<'_>],
        network: &Network,
        watchfire: &Path,
    ) -> Load {
        let mut load = Load::default();
        let servers = || nodes.iter().filter(|node| node.plan.has_users);
        let targets = servers().map(|node| node.node.as_ref()?.address());
        let Some(targets) = targets.collect::<Option<Vec<String>>>() else {
            load.failure = Some("a server did not start".to_owned());
            return load;
        };
        let Some(first) = servers().next() else {
            load.failure = Some("no server started".to_owned());
            return load;
        };
        let site = network.users_site(&first.site);
        let started = if let Some(line) = &planned.command {
            let command = other::command(line, planned, &site, (&targets[0], plan.seed), watchfire);
            let users = OtherUsers::start(&site, command, planned.users);
            users.map(|users| Running::Others(Box::new(users)))
        } else {
            let process = |node: &TrialNode<'_>| node.node.as_ref()?.process();
            let backends = || nodes.iter().filter(|node| node.plan.serves && !node.plan.has_users);
            let watched = Watched {
                servers: servers().filter_map(process).collect(),
                backends: backends().filter_map(process).collect(),
                backend_sites: backends().map(|node| node.site.clone()).collect(),
            };
            let users = Users::start(watchfire, &site, planned, &targets, plan.seed, watched);
            users.map(|users| Running::Ours(Box::new(users)))
        };
        match started {
            Ok(running) => load.running = Some(running),
            Err(error) => load.failure = Some(with_causes(&error)),
        }
        load
    }

    /// Whether users still run.
    pub fn is_pending(&mut self) -> bool {
        match self.running.as_mut().map(Running::poll) {
            Some(Ok(None)) => return true,
            Some(Ok(Some(ended))) => (self.measures, self.over_time) = ended,
            Some(Err(error)) => self.failure = Some(with_causes(&error)),
            None => {}
        }
        self.running = None;
        false
    }
}

/// Fails if the load of a plan is invalid, or if this machine cannot run its users and a server for them.
pub fn check(plan: &TrialPlan, watchfire: &Path) -> Result<(), DriverError> {
    let Some(load) = plan.load.as_ref().filter(|load| load.command.is_none()) else {
        return Ok(());
    };
    let checked = run_to_end(command(watchfire, load, &[NO_SERVER.to_owned()]).arg("--check"));
    let checked = checked.map_err(|error| with_causes(&error)).and_then(|output| {
        let size: Value = serde_json::from_slice(&output).map_err(|error| error.to_string())?;
        let number = |key: &str| size[key].as_u64().unwrap_or(0);
        requirements::check(number("users"), number("processes"))
    });
    checked.map_err(|problem| DriverError::Users { trial: plan.name.clone(), problem })
}

fn command(program: &Path, load: &definition::Load, targets: &[String]) -> Command {
    let mut command = Command::new(program);
    command.arg("load").arg(&load.file);
    targets.iter().for_each(|target| {
        command.args(["--target", target]);
    });
    for (key, value) in &load.set {
        command.args(["--set", &format!("{key}={value}")]);
    }
    command
}

/// The figures of users that have ended.
type Ended = (BTreeMap<String, f64>, Option<LoadOverTime>);

/// Users that have started.
enum Running {
    Ours(Box<Users>),
    /// The users of another load generator.
    Others(Box<OtherUsers>),
}

impl Running {
    fn poll(&mut self) -> Result<Option<Ended>, NodeError> {
        match self {
            Running::Ours(users) => users.poll(),
            Running::Others(users) => Ok(users.poll()?.map(|measures| (measures, None))),
        }
    }
}

/// The process of the users.
struct Users {
    process: Process,
    json: PathBuf,
    phases: Phases,
    samples: Samples,
}

impl Users {
    /// Starts the users of a scenario at these servers.
    fn start(
        program: &Path,
        site: &Site,
        load: &definition::Load,
        targets: &[String],
        seed: u64,
        watched: Watched,
    ) -> Result<Users, NodeError> {
        let servers = watched.servers.clone();
        let phases = Phases::before_users(watched);
        let json = site.folder.join("load.json");
        let mut command = command(program, load, targets);
        command.args(["--seed", &seed.to_string(), "--events", "--json"]).arg(&json);
        Ok(Users {
            process: Process::start(site, command, "load")?,
            json,
            phases,
            samples: Samples::new(servers),
        })
    }

    /// The figures, once all users have ended.
    fn poll(&mut self) -> Result<Option<Ended>, NodeError> {
        for line in self.process.lines()? {
            let event: Value = serde_json::from_str(&line).map_err(|_| self.unexpected(line))?;
            self.samples.note_began(event["at"].as_f64().unwrap_or(0.0));
            self.phases.note(&event, self.process.id());
        }
        self.samples.take();
        let Some(status) = self.process.has_ended()? else { return Ok(None) };
        if !status.success() && status.code() != Some(THRESHOLD_BROKEN) {
            return Err(self.process.ended_with(status));
        }
        let text = fs::read_to_string(&self.json).map_err(NodeError::file(&self.json))?;
        let results: Value =
            serde_json::from_str(&text).map_err(|error| self.unexpected(error.to_string()))?;
        let measures = measures(&results, self.process.usage().cpu, &self.phases.done);
        let server = std::mem::take(&mut self.samples.taken);
        Ok(Some((measures, Some(LoadOverTime { users: connected(&results), server }))))
    }

    fn unexpected(&self, problem: String) -> NodeError {
        NodeError::Unexpected { program: self.process.program().to_owned(), problem }
    }
}
