//! Standing clusters: nodes that outlive the command that started them.
//!
//! A benchmark of a change should not wait for a new cluster, and an upgrade is only seen where old and new
//! programs run beside each other. So nodes stay, scenarios run on them one after another, and between two
//! scenarios the program of some nodes is replaced: the hot swap.
//!
//! The folder of a standing cluster is one of a run, with the file `cluster.json` in it (see
//! [`Record`]). It is written when all nodes run: a command that is killed before that leaves a folder that the
//! next one sweeps. Each command that changes the cluster holds the lock of the folder, and another one fails
//! meanwhile. The addresses stay taken because the nodes inherit the port that says so.
//!
//! A node that ended, or a machine that restarted, is seen by comparing the process's number and start with
//! the record. A swap starts such a node again, with its store and its identity.

mod node;
mod record;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::host::{
    Addresses, Instruments, Network, NodeError, ProcessId, STANDING, Site, Workspace, wire,
};
use super::program::{Program, STOP_TIMEOUT};
use super::run::{self, World};
use crate::builds::{BuildError, Builds};
use crate::definition::{Build, DefinitionError, Experiment, NodePlan, Query, TrialPlan};
use crate::drivers::driver::{self, Driver, DriverError, Progress};
use crate::results::RunResult;
use node::{Attached, Kind};
use record::{NodeRecord, Record};

const NAME: &str = "standing";
/// The interval in which a node is asked whether it has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// Why a standing cluster cannot do what it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StandingError {
    #[error("no standing cluster has the name {name:?}{}", choices(.known))]
    Unknown { name: String, known: Vec<String> },
    #[error("a standing cluster has the name {name:?} already; end it with lab down {name}")]
    Exists { name: String },
    #[error("another command uses the cluster {name:?}; try again when it has ended")]
    Busy { name: String },
    #[error("no cluster of the file has the name {name:?}{}", choices(.known))]
    Cluster { name: String, known: Vec<String> },
    #[error("cannot choose a cluster of {file}: it has {}; name one with --cluster", .known.join(", "))]
    Several { file: PathBuf, known: Vec<String> },
    #[error(
        "cannot use the record {path}: {problem}; remove this file, and the next lab command ends the nodes of the cluster"
    )]
    Record { path: PathBuf, problem: String },
    #[error("{node} cannot stand: {problem}")]
    Unsupported { node: String, problem: String },
    #[error("the query {query} selects no node of {name:?}")]
    Nobody { name: String, query: String },
    #[error("cannot start {node}")]
    Node { node: String, source: NodeError },
    #[error("cannot build the program of {node}")]
    Build { node: String, source: BuildError },
    #[error("cannot use the folder {path}")]
    Folder { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error(transparent)]
    Driver(#[from] DriverError),
}

fn choices(names: &[String]) -> String {
    match names {
        [] => "; start one with lab up".to_owned(),
        names => format!("; known: {}", names.join(", ")),
    }
}

/// A node of a standing cluster as it is now.
#[derive(Clone, Debug)]
pub struct StandingNode {
    pub name: String,
    pub program: PathBuf,
    pub commit: Option<String>,
    pub address: std::net::Ipv4Addr,
    /// CPU time and resident memory; `None` if the node has ended.
    pub usage: Option<(Duration, u64)>,
}

/// A standing cluster, which this command alone uses.
pub struct Standing {
    workspace: Workspace,
    runs: PathBuf,
    record: Record,
    experiment: Experiment,
    nodes: Vec<NodePlan>,
    watchfire: PathBuf,
    builds: Builds,
}

impl Standing {
    /// Starts the nodes of a cluster in a file. `watchfire` is the program of nodes that name no build.
    pub fn up(
        name: &str,
        file: &Path,
        cluster: Option<&str>,
        runs: &Path,
        watchfire: PathBuf,
        builds: Builds,
    ) -> Result<Standing, StandingError> {
        if records(runs)?.iter().any(|(known, _)| known.name == name) {
            return Err(StandingError::Exists { name: name.to_owned() });
        }
        let text = fs::read_to_string(file).map_err(folder(file))?;
        let experiment = parse(file, &text)?;
        let names: Vec<String> = experiment.clusters.keys().cloned().collect();
        let cluster = match (cluster, &names[..]) {
            (Some(cluster), names) if names.iter().any(|known| known == cluster) => cluster,
            (Some(cluster), _) => {
                return Err(StandingError::Cluster { name: cluster.to_owned(), known: names });
            }
            (None, [only]) => only,
            (None, _) => {
                return Err(StandingError::Several { file: file.to_owned(), known: names });
            }
        };
        let nodes = experiment.nodes(cluster);
        for node in &nodes {
            check(node)?;
        }
        let workspace = Workspace::create(runs)?;
        let addresses = Addresses::take().map_err(|source| DriverError::Addresses { source })?;
        addresses.hand_on().map_err(|source| DriverError::Addresses { source })?;
        let record = Record {
            name: name.to_owned(),
            file: std::path::absolute(file).map_err(folder(file))?,
            cluster: cluster.to_owned(),
            text,
            block: addresses.block(),
            nodes: Vec::new(),
        };
        let runs = runs.to_owned();
        let mut standing =
            Standing { workspace, runs, record, experiment, nodes, watchfire, builds };
        for index in 0..standing.nodes.len() {
            let at = standing.workspace.node_folder(&standing.nodes[index].name);
            fs::create_dir(&at).map_err(folder(&at))?;
            let site = Site::new(standing.workspace.id.clone(), addresses.of(index), at);
            let build = standing.nodes[index].peer.build.clone();
            let (program, commit) = standing.program(index, &build)?;
            let node = standing.start(index, &site, program, commit)?;
            standing.record.nodes.push(node);
        }
        standing.save()?;
        standing.workspace.set_kept(true);
        Ok(standing)
    }

    /// Opens a standing cluster for this command alone.
    pub fn open(
        name: &str,
        runs: &Path,
        watchfire: PathBuf,
        builds: Builds,
    ) -> Result<Standing, StandingError> {
        let at = find(name, runs)?;
        let workspace = Workspace::open(&at).map_err(folder(&at))?;
        let workspace = workspace.ok_or_else(|| StandingError::Busy { name: name.to_owned() })?;
        let record = Record::read(&at).map_err(unusable(&at))?;
        let experiment = parse(&record.file, &record.text)?;
        let is_known = experiment.clusters.contains_key(&record.cluster);
        let nodes = if is_known { experiment.nodes(&record.cluster) } else { Vec::new() };
        let recorded = record.nodes.iter().map(|node| &node.name);
        if !is_known || !recorded.eq(nodes.iter().map(|node| &node.name)) {
            let problem = format!("its nodes are not those of its cluster {:?}", record.cluster);
            return Err(unusable(&at)(problem));
        }
        let runs = runs.to_owned();
        Ok(Standing { workspace, runs, record, experiment, nodes, watchfire, builds })
    }

    /// Ends the nodes of a cluster, and removes its folder, also when its nodes have ended.
    pub fn down(name: &str, runs: &Path) -> Result<(), StandingError> {
        let at = find(name, runs)?;
        let workspace = Workspace::open(&at).map_err(folder(&at))?;
        let mut workspace =
            workspace.ok_or_else(|| StandingError::Busy { name: name.to_owned() })?;
        // From here on the folder is that of a run: if this is killed, the next command goes on.
        fs::remove_file(at.join(STANDING)).map_err(folder(&at))?;
        workspace.set_kept(false);
        Ok(())
    }

    /// The standing clusters with their nodes.
    pub fn list(runs: &Path) -> Result<Vec<(String, Vec<StandingNode>)>, StandingError> {
        let node = |node: NodeRecord| StandingNode {
            usage: node.process.usage().map(|(usage, memory)| (usage.cpu, memory)),
            name: node.name,
            program: node.program,
            commit: node.commit,
            address: node.address,
        };
        let clusters = records(runs)?.into_iter();
        Ok(clusters
            .map(|(record, _)| (record.name, record.nodes.into_iter().map(node).collect()))
            .collect())
    }

    /// The scenarios of a file on this cluster.
    pub fn experiment(&self, name: &str, text: &str) -> Result<Experiment, DefinitionError> {
        Experiment::parse_scenarios(name, text, &self.record.cluster, &self.experiment)
    }

    /// Replaces the program of the nodes that a query selects, one node after another, while the others
    /// run on. A node keeps its folder, its address and its identity. Returns the names of the nodes.
    pub fn swap(&mut self, query: &Query, build: &Build) -> Result<Vec<String>, StandingError> {
        let chosen = (0..self.nodes.len())
            .filter(|index| query.applies_to(&self.nodes[*index].labels))
            .collect::<Vec<_>>();
        let Some(first) = chosen.first() else {
            let (name, query) = (self.record.name.clone(), query.to_string());
            return Err(StandingError::Nobody { name, query });
        };
        let (program, commit) = self.program(*first, build)?;
        for index in &chosen {
            let node = &self.record.nodes[*index];
            stop(&node.process);
            let site = self.site(*index);
            // The last node that ended gave the addresses back.
            let error = |source| DriverError::Addresses { source };
            let addresses = Addresses::take_block(self.record.block).map_err(error)?;
            addresses.as_ref().map_or(Ok(()), Addresses::hand_on).map_err(error)?;
            let node = self.start(*index, &site, program.clone(), commit.clone())?;
            self.record.nodes[*index] = node;
            self.save()?;
        }
        Ok(chosen.iter().map(|index| self.nodes[*index].name.clone()).collect())
    }

    fn save(&self) -> Result<(), StandingError> {
        let at = &self.workspace.folder;
        self.record.write(at).map_err(folder(at))
    }

    fn site(&self, index: usize) -> Site {
        let node = &self.record.nodes[index];
        let folder = self.workspace.node_folder(&node.name);
        Site::new(self.workspace.id.clone(), node.address, folder)
    }

    fn start(
        &self,
        index: usize,
        site: &Site,
        program: PathBuf,
        commit: Option<String>,
    ) -> Result<NodeRecord, StandingError> {
        let name = self.nodes[index].name.clone();
        let started = check(&self.nodes[index])?.start(site, &program);
        let (process, peer) =
            started.map_err(|source| StandingError::Node { node: name.clone(), source })?;
        Ok(NodeRecord { name, program, commit, address: site.address, peer, process })
    }

    /// The program of a build, and its commit if the lab builds it.
    fn program(
        &self,
        index: usize,
        build: &Build,
    ) -> Result<(PathBuf, Option<String>), StandingError> {
        let node = &self.nodes[index].name;
        let error = |source| StandingError::Build { node: node.clone(), source };
        match build {
            Build::Installed => Ok((self.watchfire.clone(), None)),
            Build::Path(path) => Ok((path.clone(), None)),
            Build::Git(reference) => {
                let program = self.builds.program(reference).map_err(error)?;
                Ok((program, Some(self.builds.commit(reference).map_err(error)?)))
            }
        }
    }
}

fn folder(path: &Path) -> impl Fn(io::Error) -> StandingError {
    let path = path.to_owned();
    move |source| StandingError::Folder { path: path.clone(), source }
}

/// The error of a record in a folder.
fn unusable<P: ToString>(folder: &Path) -> impl Fn(P) -> StandingError {
    let path = folder.join(STANDING);
    move |problem| StandingError::Record { path: path.clone(), problem: problem.to_string() }
}

fn parse(file: &Path, text: &str) -> Result<Experiment, DefinitionError> {
    let mut experiment = Experiment::parse_clusters(&file.display().to_string(), text)?;
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    experiment.resolve_paths(file.parent().unwrap_or(Path::new("/")));
    Ok(experiment)
}

/// How a node runs, if it can stand here.
fn check(node: &NodePlan) -> Result<Kind, StandingError> {
    let unsupported =
        |problem: String| StandingError::Unsupported { node: node.name.clone(), problem };
    if node.link.up.or(node.link.down).is_some() || node.processors.is_some() {
        return Err(unsupported("its link and its processors cannot be limited".to_owned()));
    }
    Kind::of(&node.peer).map_err(unsupported)
}

/// Ends a node, and waits until it has ended.
fn stop(process: &ProcessId) {
    for (signal, patience) in [(Signal::TERM, STOP_TIMEOUT), (Signal::KILL, STOP_TIMEOUT)] {
        process.signal(signal);
        let started_at = Instant::now();
        while process.is_running() && started_at.elapsed() < patience {
            std::thread::sleep(PAUSE);
        }
    }
}

/// The records and the folders of all standing clusters, in the order of their names.
fn records(runs: &Path) -> Result<Vec<(Record, PathBuf)>, StandingError> {
    let entries = match fs::read_dir(runs) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(folder(runs))?,
    };
    let mut records = Vec::new();
    for entry in entries {
        let at = entry.map_err(folder(runs))?.path();
        match Record::read(&at) {
            Ok(record) => records.push((record, at)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unusable(&at)(error)),
        }
    }
    records.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    Ok(records)
}

fn find(name: &str, runs: &Path) -> Result<PathBuf, StandingError> {
    let all = records(runs)?;
    let found = all.iter().find(|(known, _)| known.name == name).map(|(_, at)| at.clone());
    found.ok_or_else(|| StandingError::Unknown {
        name: name.to_owned(),
        known: all.into_iter().map(|(record, _)| record.name).collect(),
    })
}

impl Driver for Standing {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, plan: &TrialPlan) -> Result<(), DriverError> {
        let unsupported = |problem: String| Err(driver::unsupported(NAME, plan, problem));
        let returning = plan.nodes.iter().find(|node| node.returns_at.is_some());
        if let Some(node) = returning {
            return unsupported(format!("{} cannot return after it left", node.name));
        }
        if wire::is_needed(plan) {
            return unsupported(
                "the nodes are on loopback, without links, paths or NAT".to_owned(),
            );
        }
        if let Some(node) = self.record.nodes.iter().find(|node| !node.process.is_running()) {
            let (node, name) = (&node.name, &self.record.name);
            let advice = format!("start it again with lab swap --on {name} {node} BUILD");
            return unsupported(format!("{node} has ended; {advice}"));
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
        let mut programs: Vec<Box<dyn Program>> = Vec::new();
        for (node, record) in self.nodes.iter().zip(&self.record.nodes) {
            let kind =
                check(node).map_err(|error| driver::unsupported(NAME, plan, error.to_string()))?;
            programs.push(Box::new(Attached::new(record.clone(), kind)));
        }
        let world = World {
            driver: NAME,
            programs: &programs,
            network: Network::Given((0..self.nodes.len()).map(|index| self.site(index)).collect()),
            watchfire: &self.watchfire,
            workspace: &workspace,
            instruments: Instruments::default(),
        };
        // The nodes do not descend from this command, so their own CPU time would count as that of other programs.
        run::run(plan, world, watch).map(|result| RunResult { noise: None, ..result })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_broken_or_contradicts_itself_is_refused_with_advice() {
        let temporary = tempfile::tempdir().unwrap();
        let runs = temporary.path();
        let at = runs.join("1-1");
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join("lock"), "").unwrap();
        let record = |cluster: &str, groups: &str| Record {
            name: "lab".to_owned(),
            file: "cluster.toml".into(),
            text: format!("[clusters.office]\ngroups = [{groups}]\n"),
            cluster: cluster.to_owned(),
            block: 1,
            nodes: Vec::new(),
        };
        let open = || {
            let builds = Builds::new(runs.to_owned(), runs.join("builds"));
            Standing::open("lab", runs, "watchfire".into(), builds)
                .map(drop)
                .unwrap_err()
                .to_string()
        };
        let advice = "remove this file, and the next lab command ends the nodes of the cluster";
        for cluster in ["office", "another"] {
            record(cluster, "{ name = 'source' }").write(&at).unwrap();
            let error = open();
            let problem = format!("its nodes are not those of its cluster {cluster:?}; {advice}");
            assert!(error.ends_with(&problem), "{error}");
        }
        fs::write(at.join(STANDING), "{").unwrap();
        let listed = Standing::list(runs).unwrap_err().to_string();
        for error in [open(), listed] {
            assert!(error.starts_with("cannot use the record /"), "{error}");
            assert!(error.contains("1-1/cluster.json: EOF while parsing"), "{error}");
            assert!(error.ends_with(advice), "{error}");
        }
    }
}
