//! The driver on processes of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::host::{Instruments, Network, SITES_MAX, Workspace, check_processors, wire};
use super::program::{self, Program};
use super::run::{self, World};
use crate::builds::Builds;
use crate::definition::{Build, Implementation, NodePlan, TrialPlan};
use crate::drivers::driver::{Driver, DriverError, PROCESSES, Progress, unsupported};
use crate::results::RunResult;
use crate::results::spans::Receiver;

/// Most nodes of a run on one machine.
const NODES_MAX: usize = 1000;

/// Runs trials with processes of this machine.
pub struct Processes {
    /// The Watchfire program for peers that name no build.
    pub(super) watchfire: PathBuf,
    /// The folder in which each run has one of its own.
    pub(super) runs: PathBuf,
    pub(super) builds: Builds,
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
    pub(super) fn path(&self, node: &NodePlan) -> Result<PathBuf, DriverError> {
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
        Err(unsupported(PROCESSES, plan, problem))
    }

    /// The program of a node, which is built if it is not in the cache.
    fn program(&self, plan: &TrialPlan, node: &NodePlan) -> Result<Box<dyn Program>, DriverError> {
        let path = self.path(node)?;
        program::program(&node.peer, &path)
            .map_err(|problem| unsupported(PROCESSES, plan, format!("{}: {problem}", node.name)))
    }

    /// Checks the peer of a node without building anything.
    pub(super) fn check_program(
        &self,
        plan: &TrialPlan,
        node: &NodePlan,
    ) -> Result<(), DriverError> {
        if let Build::Git(reference) = &node.peer.build {
            let build_error = |source| DriverError::Build { node: node.name.clone(), source };
            self.builds.commit(reference).map_err(build_error)?;
        }
        let checked = program::program(&node.peer, &self.watchfire);
        checked
            .map_err(|problem| unsupported(PROCESSES, plan, format!("{}: {problem}", node.name)))?;
        Ok(())
    }
}

/// Whether a program of Watchfire can write a profile of itself.
fn has_profiles(program: &Path) -> bool {
    let help = Command::new(program).args(["share", "--help"]).output();
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--cpu-profile"))
}

impl Driver for Processes {
    fn name(&self) -> &'static str {
        PROCESSES
    }

    fn check(&self, plan: &TrialPlan) -> Result<(), DriverError> {
        if plan.nodes.len() > NODES_MAX.min(SITES_MAX) {
            let nodes = plan.nodes.len();
            return Err(unsupported(
                PROCESSES,
                plan,
                format!("{nodes} nodes are more than {NODES_MAX}"),
            ));
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
        check_processors(plan)?;
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
        let instruments =
            Instruments { spans: self.spans.as_ref(), flames: self.flames.as_deref() };
        let network = Network::open(plan)?;
        let world = World {
            driver: PROCESSES,
            programs: &programs,
            network,
            watchfire: &self.watchfire,
            workspace: &workspace,
            instruments,
        };
        run::run(plan, world, watch)
    }
}
