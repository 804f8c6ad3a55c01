//! The contract of all drivers.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use watchfire_sim::{Bound, BoundPeer};
use watchfire_wire::{PlanError, StartError, Unsupported};

use crate::builds::BuildError;
use crate::definition::{Link, NodePlan, Object, TrialPlan};
use crate::hosts::HostError;
use crate::results::RunResult;

/// The names of drivers, in reports and on the command line.
pub const SIMULATED: &str = "simulated";
pub const PROCESSES: &str = "processes";

/// Fails if a setting is not one of these.
pub fn check_settings<'a>(
    settings: impl IntoIterator<Item = &'a String>,
    known: &[&str],
) -> Result<(), String> {
    match settings.into_iter().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) if known.is_empty() => Err(format!("unknown setting {key:?}: it has none")),
        Some(key) => Err(format!("unknown setting {key:?}; known: {}", known.join(", "))),
    }
}

/// The value of a setting, which is one of these if it is there.
pub fn choice<'a>(
    settings: &'a BTreeMap<String, String>,
    key: &str,
    known: &[&str],
) -> Result<Option<&'a str>, String> {
    match settings.get(key).map(String::as_str) {
        Some(value) if !known.contains(&value) => {
            Err(format!("unknown {key} {value:?}; known: {}", known.join(", ")))
        }
        value => Ok(value),
    }
}

/// An error with its causes.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Runs trials.
pub trait Driver {
    /// The name in reports and on the command line.
    fn name(&self) -> &'static str;

    /// Whether the driver can run a plan. Called for every trial before the first one runs.
    fn check(&self, plan: &TrialPlan) -> Result<(), DriverError>;

    /// Runs a plan to its end, or to its time limit. A node that fails is a result, not an error.
    fn run(
        &mut self,
        plan: &TrialPlan,
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<RunResult, DriverError>;
}

/// Why a driver cannot run a trial.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The plan asks for something that this driver does not have.
    #[error("the driver {driver} cannot run {trial:?}: {problem}")]
    Unsupported { driver: &'static str, trial: String, problem: String },
    /// An object cannot be read.
    #[error("cannot read the object {object:?}")]
    Object { object: String, source: io::Error },
    /// The program of a node cannot be built.
    #[error("cannot build the program of {node}")]
    Build { node: String, source: BuildError },
    /// Another program cannot run the trial.
    #[error("{program} cannot run {trial:?}: {problem}")]
    Program { program: PathBuf, trial: String, problem: String },
    /// Too many runs are under way on this machine.
    #[error("no block of loopback addresses is free for the nodes")]
    Addresses { source: io::Error },
    /// The links, paths or kinds of NAT of a trial make no network.
    #[error("the network of {trial:?} is not possible")]
    WirePlan { trial: String, source: PlanError },
    /// This machine cannot make the network of a trial, or this user may not.
    #[error("cannot make the network of {trial:?} ({})", Unsupported::NOT_SIMULATED)]
    Wire { trial: String, source: StartError },
    /// This machine cannot make a private network.
    #[error("cannot make the private network of {trial:?}")]
    Private { trial: String, source: io::Error },
    /// This machine has too little memory or too few files for the users of a load.
    #[error("cannot run the users of {trial:?}: {problem}")]
    Users { trial: String, problem: String },
    /// A host cannot be used.
    #[error("a host cannot be used")]
    Host { source: HostError },
    /// The lab cannot receive the spans of a node.
    #[error("cannot listen for the spans of {node}")]
    Spans { node: String, source: io::Error },
    /// A folder of the run cannot be created or removed.
    #[error("cannot use the folder {path}")]
    Folder { path: PathBuf, source: io::Error },
}

/// The error of a driver that lacks what a plan asks for.
pub fn unsupported(
    driver: &'static str,
    plan: &TrialPlan,
    problem: impl Into<String>,
) -> DriverError {
    DriverError::Unsupported { driver, trial: plan.name.clone(), problem: problem.into() }
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The present step of the driver, such as "builds" or "fetches".
    pub phase: &'a str,
    /// The time of the run's own clock.
    pub now: Duration,
    /// The share of all bytes that the awaited nodes have.
    pub part: f64,
    /// Awaited nodes that have all their objects.
    pub finished: usize,
    pub awaited: usize,
    /// All nodes, in the order of the plan; empty while the driver does not know them.
    pub nodes: &'a [NodeProgress<'a>],
}

impl<'a> Progress<'a> {
    /// The progress before the clock starts.
    pub fn before(phase: &'a str, plan: &TrialPlan) -> Self {
        let awaited = plan.nodes.iter().filter(|node| node.is_awaited()).count();
        Progress { phase, now: Duration::ZERO, part: 0.0, finished: 0, awaited, nodes: &[] }
    }
}

/// A node while a run is under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeProgress<'a> {
    pub name: &'a str,
    pub state: NodeState,
    /// The share of its objects that it has.
    pub part: f64,
    /// Why it failed.
    pub failure: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It has not arrived.
    Waits,
    /// It has content or serves users, and fetches nothing.
    Shares,
    Fetches,
    Done,
    Failed,
    Left,
}

/// The least time in which the links of a plan can carry all copies. A link that changes counts with its highest rates.
/// `None` if links are not limited, and if nodes fetch different objects or have parts of theirs.
pub fn bound_seconds(plan: &TrialPlan, object_bytes: u64) -> Option<f64> {
    let mut fetched = plan.nodes.iter().map(|node| &node.fetches).filter(|all| !all.is_empty());
    let first = fetched.next()?;
    if first.len() > 1 || fetched.any(|other| other != first) {
        return None;
    }
    let rate = |node: &NodePlan, of: fn(&Link) -> Option<u64>| {
        let later = node.link_changes.iter().map(|(_, link)| link);
        let rates = std::iter::once(&node.link).chain(later).map(of);
        rates.map(|rate| rate.map_or(f64::INFINITY, |rate| rate as f64)).fold(0.0, f64::max)
    };
    let peers: Vec<BoundPeer> = plan
        .nodes
        .iter()
        .filter(|node| !node.fetches.is_empty() || !node.seeds.is_disjoint(first))
        .map(|node| BoundPeer {
            up: rate(node, |link| link.up),
            down: rate(node, |link| link.down),
            is_seeder: node.fetches.is_empty(),
            is_awaited: node.is_awaited(),
        })
        .collect();
    let has_part = |node: &NodePlan| !node.fetches.is_empty() && !node.seeds.is_empty();
    let seconds = Bound::of_peers(&peers, object_bytes).seconds();
    (!plan.nodes.iter().any(has_part) && seconds.is_finite() && seconds > 0.0).then_some(seconds)
}

/// The bytes of an object; of a folder or a layout, the bytes of all files in it.
pub fn object_bytes(object: &Object) -> io::Result<u64> {
    // Links are not followed: they may lead back to a folder above.
    fn of_path(path: &Path, metadata: &Metadata) -> io::Result<u64> {
        if !metadata.is_dir() {
            return Ok(metadata.len());
        }
        let of_entry = |entry: io::Result<DirEntry>| {
            let entry = entry?;
            of_path(&entry.path(), &entry.metadata()?)
        };
        fs::read_dir(path)?.map(of_entry).sum()
    }
    let of_all = |path: &Path| of_path(path, &fs::metadata(path)?);
    match object {
        Object::Random { bytes } => Ok(*bytes),
        Object::Path(path) => of_all(path),
        Object::Image(layout) => of_all(&layout.join("blobs")),
        Object::RandomImage(layers) => Ok(layers.iter().map(|layer| layer.bytes).sum()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_links_to_itself_has_the_bytes_of_its_files() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        fs::create_dir_all(folder.join("inner")).unwrap();
        fs::write(folder.join("inner/file"), [0; 1000]).unwrap();
        for link in ["a", "b"] {
            std::os::unix::fs::symlink("..", folder.join("inner").join(link)).unwrap();
        }
        let bytes = object_bytes(&Object::Path(folder.to_owned()));
        // A link has the bytes of the path to which it leads.
        assert_eq!(bytes.unwrap(), 1000 + 2 * 2);
    }
}
