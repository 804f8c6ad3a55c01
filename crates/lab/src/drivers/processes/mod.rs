//! The driver on real processes: each node is a program of its own, on this machine.
//!
//! When the trial has links, paths or kinds of NAT, each node is in a network namespace of its own, and a wire connects
//! them (`wire.rs`). Otherwise each has an address of the loopback device, and content moves as fast as this machine can.
//!
//! A run has four steps: objects are written, nodes with content start and say how others request it,
//! nodes that fetch are prepared, and the clock starts. Nothing before that counts, neither time nor CPU.
//! A node that fails is a result: its error is in it, and the others go on.

mod clock;
mod live;
mod load;
mod network;
mod objects;
mod parts;
mod process;
mod process_tree;
mod processors;
mod programs;
mod random_image;
mod records;
mod removal;
mod run;
mod ssh;
mod standing;
mod wire;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Driver, DriverError, NodeProgress, NodeState, Progress};
use crate::builds::Builds;
use crate::definition::{Build, Implementation, NodePlan, TrialPlan};
use crate::results::RunResult;
use crate::results::spans::Receiver;

use network::{Network, SITES_MAX};
use programs::Program;
use records::Records;
use run::World;
pub use ssh::Ssh;
pub use standing::{Standing, StandingError, StandingNode};
pub use workspace::{MARK as LAB_MARK, Workspace};

const NAME: &str = "processes";
/// Most nodes of a run on one machine.
const NODES_MAX: usize = 1000;

/// Runs trials with processes of this machine.
pub struct Processes {
    /// The Watchfire program for peers that name no build.
    watchfire: PathBuf,
    /// The folder in which each run has one of its own.
    runs: PathBuf,
    builds: Builds,
    spans: Option<Receiver>,
    flames: Option<PathBuf>,
}

impl Processes {
    /// A driver whose nodes run this program unless their peer names another build, and whose runs have
    /// folders in `runs`.
    pub fn new(watchfire: PathBuf, runs: PathBuf, builds: Builds) -> Self {
        Processes { watchfire, runs, builds, spans: None, flames: None }
    }

    /// Receives the spans of programs that export them.
    pub fn with_spans(self, receiver: Receiver) -> Self {
        Processes { spans: Some(receiver), ..self }
    }

    /// Lets programs of Watchfire write a flame graph of each node to a folder, which exists.
    pub fn with_flames(self, folder: PathBuf) -> Self {
        Processes { flames: Some(folder), ..self }
    }

    /// The path of the program of a node, which is built if it is not in the cache.
    fn path(&self, node: &NodePlan) -> Result<PathBuf, DriverError> {
        let build_error = |source| DriverError::Build { node: node.name.clone(), source };
        match &node.peer.build {
            Build::Git(reference) => self.builds.program(reference).map_err(build_error),
            Build::Path(path) => Ok(path.clone()),
            Build::Installed => Ok(self.watchfire.clone()),
        }
    }

    /// Fails if the program of a node cannot write the flame graph that it is asked for.
    fn check_flame(&self, plan: &TrialPlan, node: &NodePlan) -> Result<(), DriverError> {
        let is_ours = node.peer.implementation == Implementation::Watchfire;
        if self.flames.is_none() || !is_ours || has_profiles(&self.path(node)?) {
            return Ok(());
        }
        let problem = format!(
            "the program of {} was built without the feature `profiles`, so it has no flame graphs",
            node.name
        );
        Err(unsupported(plan, problem))
    }

    /// The program of a node, which is built if it is not in the cache.
    fn program(&self, plan: &TrialPlan, node: &NodePlan) -> Result<Box<dyn Program>, DriverError> {
        let path = self.path(node)?;
        programs::program(&node.peer, &path)
            .map_err(|problem| unsupported(plan, format!("{}: {problem}", node.name)))
    }

    /// Checks the peer of a node without building anything.
    fn check_program(&self, plan: &TrialPlan, node: &NodePlan) -> Result<(), DriverError> {
        if let Build::Git(reference) = &node.peer.build {
            let build_error = |source| DriverError::Build { node: node.name.clone(), source };
            self.builds.commit(reference).map_err(build_error)?;
        }
        let checked = programs::program(&node.peer, &self.watchfire);
        checked.map_err(|problem| unsupported(plan, format!("{}: {problem}", node.name)))?;
        Ok(())
    }
}

/// Whether a program of Watchfire can write a profile of itself.
fn has_profiles(program: &Path) -> bool {
    let help = Command::new(program).args(["share", "--help"]).output();
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--cpu-profile"))
}

fn unsupported(plan: &TrialPlan, problem: String) -> DriverError {
    DriverError::Unsupported { driver: NAME, trial: plan.name.clone(), problem }
}

impl Driver for Processes {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, plan: &TrialPlan) -> Result<(), DriverError> {
        if plan.nodes.len() > NODES_MAX.min(SITES_MAX) {
            let nodes = plan.nodes.len();
            return Err(unsupported(plan, format!("{nodes} nodes are more than {NODES_MAX}")));
        }
        // The nodes of a peer have the same program.
        let is_first =
            |at: usize| !plan.nodes[..at].iter().any(|other| other.peer == plan.nodes[at].peer);
        for at in (0..plan.nodes.len()).filter(|at| self.flames.is_some() && is_first(*at)) {
            self.check_flame(plan, &plan.nodes[at])?;
        }
        for node in &plan.nodes {
            self.check_program(plan, node)?;
        }
        processors::check(plan)?;
        if wire::is_needed(plan) {
            wire::check(plan)?;
        }
        Ok(())
    }

    fn run(
        &mut self,
        plan: &TrialPlan,
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<RunResult, DriverError> {
        self.check(plan)?;
        let workspace = Workspace::create(&self.runs)?;
        let programs = plan.nodes.iter().map(|node| self.program(plan, node));
        let programs = programs.collect::<Result<Vec<_>, _>>()?;
        let records = Records { spans: self.spans.as_ref(), flames: self.flames.as_deref() };
        let network = Network::open(plan)?;
        let world = World {
            driver: NAME,
            programs: &programs,
            network,
            watchfire: &self.watchfire,
            workspace: &workspace,
            records,
        };
        run::run(plan, world, watch)
    }
}
