//! An experiment as data: clusters of nodes, scenarios of objects, and the trials that combine them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use watchfire_report::scenario::similar;
use watchfire_sim::Path;
use watchfire_wire::NatKind;

use super::query::Query;

/// Names that an error suggests in place of an unknown one.
const SUGGESTIONS_MAX: usize = 3;

/// Most nodes of a cluster.
pub const NODES_MAX: u32 = 100_000;

/// A file of clusters, scenarios and trials.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The name in reports.
    pub name: String,
    pub seed: u64,
    /// How often each trial runs.
    pub repeat: u32,
    /// Runs of each trial before the first that counts.
    pub warm_up: u32,
    pub notes: Vec<String>,
    /// Files and folders of the repository whose code the experiment measures.
    pub measures: Vec<String>,
    /// A page with its figures is refused after more commits than this in these paths.
    pub stale_after: u32,
    /// Whether the free memory of the machine is filled before each run of real processes.
    pub fill_memory: bool,
    pub targets: Vec<Target>,
    /// The figures on the page; without any, all of them.
    pub figures: Vec<PageFigure>,
    /// Lines of a list of hosts, for the driver `ssh`.
    pub hosts: Vec<String>,
    pub peers: BTreeMap<String, Peer>,
    pub clusters: BTreeMap<String, Cluster>,
    pub scenarios: BTreeMap<String, Scenario>,
    pub trials: Vec<Trial>,
}

/// An experiment has no trial with this name.
#[derive(Debug, thiserror::Error)]
#[error("no trial has the name {name:?}{}", did_you_mean(.similar))]
pub struct UnknownTrial {
    pub name: String,
    /// Names of trials, the most similar first.
    pub similar: Vec<String>,
}

fn did_you_mean(names: &[String]) -> String {
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => format!("; did you mean {last:?}?"),
        Some((last, others)) => {
            let others: Vec<_> = others.iter().map(|name| format!("{name:?}")).collect();
            format!("; did you mean {} or {last:?}?", others.join(", "))
        }
    }
}

/// A cluster with a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    pub name: String,
    pub cluster: String,
    pub scenario: String,
    /// The peer of every node, in place of those of the cluster's groups.
    pub peer: Option<String>,
    /// The peers of some groups, in place of all others.
    pub peers: BTreeMap<String, String>,
    /// The kinds of NAT of some groups, in place of the cluster's.
    pub nat: BTreeMap<String, NatKind>,
}

/// A bound for a figure of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub trial: String,
    /// One of the keys of figures, or the name of a measure, which contains a colon.
    pub figure: String,
    /// The figure is divided by the least one of these trials.
    pub relative_to: Vec<String>,
    pub bound: TargetBound,
}

/// The values that meet a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TargetBound {
    AtMost(f64),
    AtLeast(f64),
}

impl TargetBound {
    pub fn is_met_by(self, value: f64) -> bool {
        match self {
            TargetBound::AtMost(bound) => value <= bound,
            TargetBound::AtLeast(bound) => value >= bound,
        }
    }
}

/// A figure on the page of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct PageFigure {
    /// One of the keys of figures, or the name of a measure, which contains a colon.
    pub figure: String,
    /// The name and the unit on the page.
    pub title: String,
    /// The page has the figure multiplied by this.
    pub times: f64,
}

/// A program that nodes run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub implementation: Implementation,
    pub build: Build,
    /// Settings of the implementation, by name. Each adapter checks its own.
    pub settings: BTreeMap<String, String>,
}

/// The groups whose addresses a setting contains, as `${address of GROUP}`.
pub fn groups_addressed(setting: &str) -> impl Iterator<Item = &str> {
    setting.split(ADDRESS_OF).skip(1).filter_map(|rest| Some(rest.split_once('}')?.0))
}

/// The begin of the address of a group in a setting. The name of the group and `}` follow.
pub const ADDRESS_OF: &str = "${address of ";

/// A program that the lab can drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Implementation {
    /// `watchfire share` and `watchfire get`.
    Watchfire,
    /// kubo, of which `ipfs` is the program.
    Kubo,
    /// nginx at the nodes that hold an object, curl at the others.
    Http,
    /// docker-registry at the nodes that hold an image, skopeo at the others.
    Registry,
    /// The same, and a `watchfire mirror` at each node that pulls.
    Mirror,
    /// Any program, by the commands in its settings.
    Program,
    /// `watchfire serve`, for the users of a load and for programs.
    Server,
    /// Bitswap 1.1, before HAVE. The simulated driver has a model of it.
    GoBitswap,
}

/// The build of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Build {
    /// This program, or the one that is installed.
    #[default]
    Installed,
    /// The program at this path.
    Path(PathBuf),
    /// Built from this git reference of the repository in which the command runs.
    Git(String),
}

/// Nodes, and the network between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub groups: Vec<Group>,
    /// Regions in the order in which the groups name them.
    pub regions: Vec<String>,
    /// Paths between regions: one row for each region, with one path for each.
    pub paths: Vec<Vec<Path>>,
    /// Nodes that each node is connected to at first; `None` for all, 0 for the nodes that only have content.
    pub neighbours: Option<u32>,
    /// Whether all programs of a trial have one network namespace of their own.
    pub private_network: bool,
}

/// Nodes with the same settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub name: String,
    pub count: u32,
    pub labels: BTreeSet<String>,
    /// An index of [`Cluster::regions`].
    pub region: usize,
    pub link: Link,
    pub nat: NatKind,
    /// A name of [`Experiment::peers`].
    pub peer: String,
    /// The processors of each node, as a share of one; `None`: not limited.
    pub processors: Option<f64>,
}

/// The link of a node to the network. `None` means that it is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Bytes per second.
    pub up: Option<u64>,
    /// Bytes per second.
    pub down: Option<u64>,
    /// Bytes that wait in each direction; `None` for the usual queue.
    pub queue: Option<u64>,
}

/// Objects, the nodes that have them, and the nodes that fetch them.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    pub objects: BTreeMap<String, Object>,
    /// The nodes that have an object before the clock starts.
    pub seed: Vec<(Query, String)>,
    /// The nodes that fetch an object while the clock runs.
    pub fetch: Vec<(Query, String)>,
    /// Nodes begin to fetch at random times within this duration.
    pub arrive_within: Duration,
    pub waves: Vec<Waves>,
    pub churn: Vec<Churn>,
    pub faults: Vec<Fault>,
    pub load: Option<Load>,
    /// The nodes that are servers of the trial's programs.
    pub serve: Option<Query>,
    pub time_max: Duration,
}

/// Simulated users, as `watchfire load` makes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// A scenario of the load generator.
    pub file: PathBuf,
    /// The command of another load generator; `None` for `watchfire load`.
    pub command: Option<String>,
    /// How many users there are, for the figures of one user.
    pub users: Option<u32>,
    /// The nodes that are servers. Users take turns at them.
    pub on: Query,
    /// Values in place of those in the file, by their keys for `watchfire load --set`.
    pub set: BTreeMap<String, String>,
    /// Further values for a short check.
    pub quick: BTreeMap<String, String>,
}

/// Content that nodes exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// Random bytes from the experiment's seed.
    Random { bytes: u64 },
    /// A file, or a folder with all that is in it.
    Path(PathBuf),
    /// An OCI image in a local layout.
    Image(PathBuf),
    /// An OCI image with these layers, which is made before the run.
    RandomImage(Vec<RandomLayer>),
}

/// A layer of random files. Layers with equal values have the same content in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RandomLayer {
    /// The object of which it is a layer, and its place there.
    pub image: String,
    pub index: u32,
    /// Its compressed bytes.
    pub bytes: u64,
}

/// Nodes begin to fetch one wave after another, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Waves {
    pub nodes: Query,
    pub count: u32,
    pub interval: Duration,
}

/// A part of the nodes leaves, and may return.
#[derive(Clone, Debug, PartialEq)]
pub struct Churn {
    pub nodes: Query,
    /// The share of these nodes that leaves.
    pub part: f64,
    /// They leave at random times within this duration after they arrived.
    pub within: Duration,
    /// How long after that they return; `None`: they do not.
    pub returns_after: Option<Duration>,
}

/// A change during a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub at: Duration,
    pub nodes: Query,
    pub kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The nodes end without a word to others, and do not return.
    Kill,
    /// The links of the nodes get these rates.
    Link(Link),
    /// Each of the nodes gets another router, with another public address.
    Router(NatKind),
}

impl Group {
    /// The names of its nodes.
    pub fn node_names(&self) -> impl Iterator<Item = String> {
        (1..=self.count).map(|number| match self.count {
            1 => self.name.clone(),
            _ => format!("{}-{number}", self.name),
        })
    }
}

impl Experiment {
    pub fn trial(&self, name: &str) -> Result<&Trial, UnknownTrial> {
        self.trials.iter().find(|trial| trial.name == name).ok_or_else(|| {
            let known = self.trials.iter().map(|trial| &*trial.name);
            let similar = similar(name, known, SUGGESTIONS_MAX);
            let similar = similar.into_iter().map(str::to_owned).collect();
            UnknownTrial { name: name.to_owned(), similar }
        })
    }

    /// Makes relative paths of objects and programs relative to a folder.
    pub fn resolve_paths(&mut self, folder: &std::path::Path) {
        let resolve = |path: &mut PathBuf| *path = folder.join(&*path);
        for scenario in self.scenarios.values_mut() {
            if let Some(load) = &mut scenario.load {
                resolve(&mut load.file);
            }
            for object in scenario.objects.values_mut() {
                match object {
                    Object::Path(path) | Object::Image(path) => resolve(path),
                    Object::Random { .. } | Object::RandomImage(_) => {}
                }
            }
        }
        for peer in self.peers.values_mut() {
            if let Build::Path(path) = &mut peer.build {
                resolve(path);
            }
        }
    }
}
