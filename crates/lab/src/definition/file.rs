//! The format of an experiment file, and its checks. docs/reference/experiments.md describes it.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use watchfire_report::scenario::{PathText, SourceText};
use watchfire_report::units::{ByteRateText, BytesText, DurationText, Share};

use super::image::ImageFile;
use super::{
    Build, Churn, Cluster, DefinitionError, Experiment, FIGURES, Fault, FaultKind, Group,
    Implementation, Link, Load, NODES_MAX, NatKind, Object, PageFigure, Path, Peer, Query,
    Scenario, Target, TargetBound, Trial, groups_addressed,
};

/// Most trials, repeats and warm-up runs of an experiment.
const RUNS_MAX: u32 = 1000;
/// Most bytes of an object that is made here.
const RANDOM_BYTES_MAX: u64 = 1 << 40;
const NAME_PROBLEM: &str =
    "must be 1 to 64 letters, digits, '-', '_' or '.', and begin with a letter or a digit";
/// The peer of a group that names none.
const OURS: &str = "watchfire";
/// The age of a page, in commits, if its experiment does not say it.
const STALE_AFTER: u32 = 60;
/// How long a run may take if its scenario does not say it.
const TIME_MAX: Duration = Duration::from_secs(1200);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    name: Option<String>,
    #[serde(default)]
    seed: u64,
    #[serde(default = "one")]
    repeat: u32,
    #[serde(default)]
    warm_up: u32,
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    measures: Vec<String>,
    stale_after: Option<u32>,
    #[serde(default)]
    fill_memory: bool,
    #[serde(default)]
    targets: Vec<Spanned<TargetFile>>,
    #[serde(default)]
    figures: Vec<Spanned<FigureFile>>,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    peers: BTreeMap<String, Spanned<PeerFile>>,
    #[serde(default)]
    clusters: BTreeMap<String, Spanned<ClusterFile>>,
    #[serde(default)]
    scenarios: BTreeMap<String, Spanned<ScenarioFile>>,
    trials: Option<Vec<Spanned<TrialFile>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerFile {
    implementation: Option<Implementation>,
    build: Option<BuildFile>,
    #[serde(default)]
    settings: BTreeMap<String, toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BuildFile {
    git: Option<String>,
    path: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterFile {
    groups: Vec<Spanned<GroupFile>>,
    #[serde(default)]
    latency: DurationText,
    #[serde(default)]
    jitter: DurationText,
    #[serde(default)]
    loss: Share,
    #[serde(default)]
    paths: Vec<Spanned<PathText>>,
    neighbours: Option<u32>,
    #[serde(default)]
    private_network: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    name: String,
    #[serde(default = "one")]
    count: u32,
    #[serde(default)]
    labels: BTreeSet<String>,
    #[serde(default)]
    region: String,
    #[serde(default)]
    link: LinkFile,
    nat: Option<String>,
    peer: Option<String>,
    processors: Option<f64>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    up: Option<ByteRateText>,
    down: Option<ByteRateText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    #[serde(default)]
    objects: BTreeMap<String, Spanned<ObjectFile>>,
    #[serde(default)]
    seed: BTreeMap<String, Spanned<String>>,
    load: Option<Spanned<LoadFile>>,
    serve: Option<Spanned<String>>,
    #[serde(default)]
    fetch: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    arrive_within: DurationText,
    #[serde(default)]
    churn: Vec<Spanned<ChurnFile>>,
    #[serde(default)]
    faults: Vec<Spanned<FaultFile>>,
    time_max: Option<DurationText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ObjectFile {
    random: Option<BytesText>,
    path: Option<PathBuf>,
    /// The path of a layout, or an [`ImageFile`].
    image: Option<toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadFile {
    file: PathBuf,
    command: Option<String>,
    users: Option<NonZeroU32>,
    on: String,
    #[serde(default)]
    set: BTreeMap<String, toml::Value>,
    #[serde(default)]
    quick: BTreeMap<String, toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChurnFile {
    nodes: String,
    part: Share,
    within: DurationText,
    returns_after: Option<DurationText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultFile {
    at: DurationText,
    nodes: String,
    #[serde(default)]
    kill: bool,
    link: Option<LinkFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrialFile {
    name: Option<String>,
    cluster: String,
    scenario: String,
    peer: Option<String>,
    #[serde(default)]
    peers: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetFile {
    trial: String,
    figure: String,
    #[serde(default)]
    relative_to: Vec<String>,
    at_most: Option<f64>,
    at_least: Option<f64>,
}

/// A figure, or the name of one.
#[derive(Deserialize)]
#[serde(untagged)]
enum FigureFile {
    Name(String),
    Figure(NamedFigureFile),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedFigureFile {
    figure: String,
    title: Option<String>,
    times: Option<f64>,
}

const fn one() -> u32 {
    1
}

impl Experiment {
    /// Parses an experiment, and checks that its parts fit together. `name` is the file's name, for
    /// errors.
    ///
    /// ```
    /// let error = watchfire_lab::Experiment::parse("one.toml", "[clusters.c]\ngroups = []");
    /// assert!(error.unwrap_err().to_string().starts_with("one.toml:1: groups: "));
    /// ```
    pub fn parse(name: &str, text: &str) -> Result<Experiment, DefinitionError> {
        let source = SourceText { name, text };
        let mut file: ExperimentFile = source.parse()?;
        let (trials, targets) = (file.trials.take(), std::mem::take(&mut file.targets));
        let mut experiment = file.check(&source)?;
        for (key, is_empty) in [
            ("clusters", experiment.clusters.is_empty()),
            ("scenarios", experiment.scenarios.is_empty()),
        ] {
            if is_empty {
                return Err(source.error_in_file(key, "at least one is needed"));
            }
        }
        experiment.trials = check_trials(trials, &experiment, &source)?;
        experiment.targets = check_targets(targets, &experiment, &source)?;
        Ok(experiment)
    }

    /// Parses a file for its clusters. It has no trials, and needs no scenario.
    pub fn parse_clusters(name: &str, text: &str) -> Result<Experiment, DefinitionError> {
        let source = SourceText { name, text };
        let experiment = source.parse::<ExperimentFile>()?.check(&source)?;
        if experiment.clusters.is_empty() {
            return Err(source.error_in_file("clusters", "at least one is needed"));
        }
        Ok(experiment)
    }

    /// Parses a file for its scenarios. Its trials are each of them on a cluster of another file.
    pub fn parse_scenarios(
        name: &str,
        text: &str,
        cluster: &str,
        defined: &Experiment,
    ) -> Result<Experiment, DefinitionError> {
        let source = SourceText { name, text };
        let mut experiment = source.parse::<ExperimentFile>()?.check(&source)?;
        if experiment.scenarios.is_empty() {
            return Err(source.error_in_file("scenarios", "at least one is needed"));
        }
        experiment.peers = defined.peers.clone();
        experiment.clusters.clear();
        if let Some((name, cluster)) = defined.clusters.get_key_value(cluster) {
            experiment.clusters.insert(name.clone(), cluster.clone());
        }
        experiment.trials = check_trials(None, &experiment, &source)?;
        Ok(experiment)
    }
}

impl ExperimentFile {
    fn check(mut self, source: &SourceText<'_>) -> Result<Experiment, DefinitionError> {
        if !(1..=RUNS_MAX).contains(&self.repeat) {
            let problem = format!("must be at least 1 and at most {RUNS_MAX}");
            return Err(source.error_in_file("repeat", problem));
        }
        if self.warm_up > RUNS_MAX {
            return Err(source.error_in_file("warm_up", format!("must be at most {RUNS_MAX}")));
        }
        let mut peers = BTreeMap::new();
        for (name, peer) in std::mem::take(&mut self.peers) {
            peers.insert(name, check_peer(peer, source)?);
        }
        peers.entry(OURS.to_owned()).or_insert_with(|| Peer {
            implementation: Implementation::Watchfire,
            build: Build::Installed,
            settings: BTreeMap::new(),
        });
        let mut clusters = BTreeMap::new();
        for (name, cluster) in std::mem::take(&mut self.clusters) {
            clusters.insert(name, check_cluster(cluster, &peers, source)?);
        }
        let mut scenarios = BTreeMap::new();
        for (name, scenario) in std::mem::take(&mut self.scenarios) {
            scenarios.insert(name, check_scenario(scenario, source)?);
        }
        Ok(Experiment {
            name: self.name.unwrap_or_else(|| source.name.to_owned()),
            seed: self.seed,
            repeat: self.repeat,
            warm_up: self.warm_up,
            notes: self.notes,
            measures: self.measures,
            stale_after: self.stale_after.unwrap_or(STALE_AFTER),
            fill_memory: self.fill_memory,
            targets: Vec::new(),
            figures: check_figures(self.figures, source)?,
            hosts: self.hosts,
            peers,
            clusters,
            scenarios,
            trials: Vec::new(),
        })
    }
}

fn check_peer(peer: Spanned<PeerFile>, source: &SourceText<'_>) -> Result<Peer, DefinitionError> {
    let (at, peer) = (peer.span().start, peer.into_inner());
    let build = match peer.build {
        None => Build::Installed,
        Some(BuildFile { git: Some(reference), path: None }) => Build::Git(reference),
        Some(BuildFile { git: None, path: Some(path) }) => Build::Path(path),
        Some(_) => return Err(source.error(at, "build", "needs either git or path")),
    };
    let is_dashed = |build: &Build| matches!(build, Build::Git(git) if git.starts_with('-'));
    if is_dashed(&build) {
        return Err(source.error(at, "git", "a git reference does not begin with -"));
    }
    Ok(Peer {
        implementation: peer.implementation.unwrap_or(Implementation::Watchfire),
        build,
        settings: texts(peer.settings),
    })
}

/// Values as text, for the command line of a program.
fn texts(values: BTreeMap<String, toml::Value>) -> BTreeMap<String, String> {
    let text = |value: toml::Value| match value {
        toml::Value::String(text) => text,
        value => value.to_string(),
    };
    values.into_iter().map(|(key, value)| (key, text(value))).collect()
}

fn check_cluster(
    cluster: Spanned<ClusterFile>,
    peers: &BTreeMap<String, Peer>,
    source: &SourceText<'_>,
) -> Result<Cluster, DefinitionError> {
    let (at, file) = (cluster.span().start, cluster.into_inner());
    let mut cluster = Cluster {
        groups: Vec::new(),
        regions: Vec::new(),
        paths: Vec::new(),
        neighbours: file.neighbours,
        private_network: file.private_network,
    };
    if file.groups.is_empty() {
        return Err(source.error(at, "groups", "must contain a group"));
    }
    let (mut count, mut names): (u32, _) = (0, BTreeSet::new());
    for group in &file.groups {
        let (at, group) = (group.span().start, group.get_ref());
        let group = check_group(at, group, &mut cluster, peers, source)?;
        count = count.saturating_add(group.count);
        if count > NODES_MAX {
            let problem = format!("must be at most {NODES_MAX} in all groups together");
            return Err(source.error(at, "count", problem));
        }
        if let Some(name) = group.node_names().find(|name| !names.insert(name.clone())) {
            return Err(source.error(at, "name", format!("another node has the name {name:?}")));
        }
        cluster.groups.push(group);
    }
    let usual = Path { delay: file.latency.0, jitter: file.jitter.0, loss: file.loss.0 };
    cluster.paths = source.paths(usual, &file.paths, &cluster.regions, "no group is")?;
    Ok(cluster)
}

fn check_group(
    at: usize,
    group: &GroupFile,
    cluster: &mut Cluster,
    peers: &BTreeMap<String, Peer>,
    source: &SourceText<'_>,
) -> Result<Group, DefinitionError> {
    let error = |key, problem: String| Err(source.error(at, key, problem));
    if group.count == 0 {
        return error("count", "must be at least 1".to_owned());
    }
    if !is_name(&group.name) {
        return error("name", NAME_PROBLEM.to_owned());
    }
    if cluster.groups.iter().any(|known| known.name == group.name) {
        return error("name", format!("another group has the name {:?}", group.name));
    }
    let peer = group.peer.clone().unwrap_or_else(|| OURS.to_owned());
    if !peers.contains_key(&peer) {
        return error("peer", unknown("peer", &peer, peers));
    }
    if group.processors.is_some_and(|share| !(0.01..=1024.0).contains(&share)) {
        return error("processors", "must be between 0.01 and 1024".to_owned());
    }
    let nat = group.nat.as_deref().map_or(Ok(NatKind::Open), str::parse);
    let nat = nat.map_err(|problem| source.error(at, "nat", problem))?;
    let region = cluster.regions.iter().position(|known| *known == group.region);
    let region = region.unwrap_or_else(|| {
        cluster.regions.push(group.region.clone());
        cluster.regions.len() - 1
    });
    Ok(Group {
        name: group.name.clone(),
        count: group.count,
        labels: group.labels.clone(),
        region,
        link: group.link.link(),
        nat,
        peer,
        processors: group.processors,
    })
}

impl LinkFile {
    fn link(self) -> Link {
        Link { up: self.up.map(|rate| rate.0), down: self.down.map(|rate| rate.0) }
    }
}

fn check_scenario(
    scenario: Spanned<ScenarioFile>,
    source: &SourceText<'_>,
) -> Result<Scenario, DefinitionError> {
    let (at, file) = (scenario.span().start, scenario.into_inner());
    let objects = check_objects(file.objects, source)?;
    let seed = check_rules("seed", file.seed, &objects, source)?;
    let fetch = check_rules("fetch", file.fetch, &objects, source)?;
    if fetch.is_empty() && file.load.is_none() {
        return Err(source.error(at, "fetch", "the scenario needs fetch or load"));
    }
    let query =
        |at, text: &str| Query::parse(text).map_err(|problem| source.error(at, "nodes", problem));
    let load = file.load.map(|load| {
        let (at, load) = (load.span().start, load.into_inner());
        let (on, set, quick) = (query(at, &load.on)?, texts(load.set), texts(load.quick));
        if load.command.is_some() && !(set.is_empty() && quick.is_empty()) {
            return Err(source.error(
                at,
                "load",
                "set and quick are of `watchfire load`, not of a command",
            ));
        }
        let (command, users) = (load.command, load.users.map(NonZeroU32::get));
        Ok(Load { file: load.file, command, users, on, set, quick })
    });
    let serve = file.serve.map(|text| query(text.span().start, text.get_ref()));
    let mut churn = Vec::new();
    for part in &file.churn {
        let (at, part) = (part.span().start, part.get_ref());
        churn.push(Churn {
            nodes: query(at, &part.nodes)?,
            part: part.part.0,
            within: part.within.0,
            returns_after: part.returns_after.map(|span| span.0),
        });
    }
    let mut faults = Vec::new();
    for fault in &file.faults {
        let (at, fault) = (fault.span().start, fault.get_ref());
        let kind = match (fault.kill, fault.link) {
            (true, None) => FaultKind::Kill,
            (false, Some(link)) => FaultKind::Link(link.link()),
            _ => return Err(source.error(at, "faults", "needs either kill = true or link")),
        };
        faults.push(Fault { at: fault.at.0, nodes: query(at, &fault.nodes)?, kind });
    }
    Ok(Scenario {
        objects,
        seed,
        fetch,
        arrive_within: file.arrive_within.0,
        churn,
        faults,
        load: load.transpose()?,
        serve: serve.transpose()?,
        time_max: file.time_max.map_or(TIME_MAX, |span| span.0),
    })
}

/// Whether a group or an object may have this name: it becomes the name of a file.
fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_part)
}

fn check_objects(
    files: BTreeMap<String, Spanned<ObjectFile>>,
    source: &SourceText<'_>,
) -> Result<BTreeMap<String, Object>, DefinitionError> {
    let (mut objects, mut based) = (BTreeMap::new(), Vec::new());
    for (name, object) in files {
        let (at, object) = (object.span().start, object.into_inner());
        if !is_name(&name) {
            let problem = format!("the name of the object {name:?} {NAME_PROBLEM}");
            return Err(source.error(at, "objects", problem));
        }
        match ImageFile::of(object.image.as_ref()) {
            Some(Err(problem)) => return Err(source.error(at, "image", problem)),
            Some(Ok(image)) if object.random.is_none() && object.path.is_none() => {
                let layers = image.layers(&name);
                let layers = layers.map_err(|problem| source.error(at, "image", problem))?;
                objects.insert(name.clone(), Object::RandomImage(layers));
                based.extend(image.has_base().then_some((at, name, image)));
            }
            _ => drop(objects.insert(name, check_object(at, object, source)?)),
        }
    }
    // Images with a base have none of its layers yet, so a base has no base of its own.
    let own = objects.clone();
    for (at, name, image) in based {
        let shared = image.shared(&own);
        let shared = shared.map_err(|problem| source.error(at, "base", problem))?;
        if let Some(Object::RandomImage(layers)) = objects.get_mut(&name) {
            layers[..shared.len()].clone_from_slice(shared);
        }
    }
    Ok(objects)
}

fn check_object(
    at: usize,
    object: ObjectFile,
    source: &SourceText<'_>,
) -> Result<Object, DefinitionError> {
    match (object.random, object.path, object.image) {
        (Some(BytesText(bytes)), None, None) if (1..=RANDOM_BYTES_MAX).contains(&bytes) => {
            Ok(Object::Random { bytes })
        }
        (Some(_), None, None) => Err(source.error(at, "random", "must be between 1B and 1TiB")),
        (None, Some(path), None) => Ok(Object::Path(path)),
        (None, None, Some(toml::Value::String(layout))) => Ok(Object::Image(layout.into())),
        _ => Err(source.error(at, "objects", "needs one of random, path and image")),
    }
}

fn check_rules(
    key: &str,
    rules: BTreeMap<String, Spanned<String>>,
    objects: &BTreeMap<String, Object>,
    source: &SourceText<'_>,
) -> Result<Vec<(Query, String)>, DefinitionError> {
    let mut checked = Vec::new();
    for (query, object) in rules {
        let (at, object) = (object.span().start, object.into_inner());
        let query = Query::parse(&query).map_err(|problem| source.error(at, key, problem))?;
        if !objects.contains_key(&object) {
            return Err(source.error(at, key, unknown("object", &object, objects)));
        }
        checked.push((query, object));
    }
    Ok(checked)
}

/// The trials of the file; without any, each cluster with each scenario.
fn check_trials(
    trials: Option<Vec<Spanned<TrialFile>>>,
    experiment: &Experiment,
    source: &SourceText<'_>,
) -> Result<Vec<Trial>, DefinitionError> {
    let Some(files) = trials else {
        let pairs = experiment.clusters.keys().flat_map(|cluster| {
            experiment.scenarios.keys().map(move |scenario| (cluster, scenario))
        });
        let trial = |(cluster, scenario): (&String, &String)| Trial {
            name: format!("{cluster}, {scenario}"),
            cluster: cluster.clone(),
            scenario: scenario.clone(),
            peer: None,
            peers: BTreeMap::new(),
        };
        return pairs
            .map(trial)
            .map(|trial| fits(&trial, experiment, 0, source).map(|()| trial))
            .collect();
    };
    let mut checked: Vec<Trial> = Vec::new();
    for file in files {
        let (at, file) = (file.span().start, file.into_inner());
        let name = file.name.unwrap_or_else(|| {
            let peer = file.peer.as_ref().map_or(String::new(), |peer| format!(", {peer}"));
            format!("{}, {}{peer}", file.cluster, file.scenario)
        });
        if !experiment.clusters.contains_key(&file.cluster) {
            let problem = unknown("cluster", &file.cluster, &experiment.clusters);
            return Err(source.error(at, "cluster", problem));
        }
        if !experiment.scenarios.contains_key(&file.scenario) {
            let problem = unknown("scenario", &file.scenario, &experiment.scenarios);
            return Err(source.error(at, "scenario", problem));
        }
        let groups = &experiment.clusters[&file.cluster].groups;
        for name in file.peers.keys() {
            if !groups.iter().any(|group| group.name == *name) {
                let problem = format!("{:?} has no group {name:?}", file.cluster);
                return Err(source.error(at, "peers", problem));
            }
        }
        let mut peers = file.peer.iter().chain(file.peers.values());
        if let Some(peer) = peers.find(|peer| !experiment.peers.contains_key(*peer)) {
            return Err(source.error(at, "peer", unknown("peer", peer, &experiment.peers)));
        }
        if checked.iter().any(|known| known.name == name) {
            return Err(source.error(at, "name", format!("another trial has the name {name:?}")));
        }
        let TrialFile { cluster, scenario, peer, peers, .. } = file;
        let trial = Trial { name, cluster, scenario, peer, peers };
        fits(&trial, experiment, at, source)?;
        checked.push(trial);
    }
    if checked.is_empty() || checked.len() > RUNS_MAX as usize {
        return Err(source.error_in_file("trials", format!("must be 1 to {RUNS_MAX}")));
    }
    Ok(checked)
}

fn check_targets(
    targets: Vec<Spanned<TargetFile>>,
    experiment: &Experiment,
    source: &SourceText<'_>,
) -> Result<Vec<Target>, DefinitionError> {
    let mut checked = Vec::new();
    for target in targets {
        let (at, file) = (target.span().start, target.into_inner());
        for (key, name) in std::iter::once(("trial", &file.trial))
            .chain(file.relative_to.iter().map(|name| ("relative_to", name)))
        {
            if !experiment.trials.iter().any(|trial| trial.name == *name) {
                return Err(source.error(at, key, format!("no trial has the name {name:?}")));
            }
        }
        check_figure(at, &file.figure, source)?;
        let bound = match (file.at_most, file.at_least) {
            (Some(bound), None) => TargetBound::AtMost(bound),
            (None, Some(bound)) => TargetBound::AtLeast(bound),
            _ => return Err(source.error(at, "targets", "needs either at_most or at_least")),
        };
        let TargetFile { trial, figure, relative_to, .. } = file;
        checked.push(Target { trial, figure, relative_to, bound });
    }
    Ok(checked)
}

fn check_figure(at: usize, figure: &str, source: &SourceText<'_>) -> Result<(), DefinitionError> {
    if FIGURES.contains(&figure) || figure.contains(':') {
        return Ok(());
    }
    let problem = format!("no figure {figure:?}; known: {}", FIGURES.join(", "));
    Err(source.error(at, "figure", problem))
}

fn check_figures(
    figures: Vec<Spanned<FigureFile>>,
    source: &SourceText<'_>,
) -> Result<Vec<PageFigure>, DefinitionError> {
    let checked = figures.into_iter().map(|figure| {
        let (at, file) = (figure.span().start, figure.into_inner());
        let file = match file {
            FigureFile::Name(figure) => NamedFigureFile { figure, title: None, times: None },
            FigureFile::Figure(file) => file,
        };
        check_figure(at, &file.figure, source)?;
        let times = file.times.unwrap_or(1.0);
        if !(times.is_finite() && times > 0.0) {
            return Err(source.error(at, "times", "must be above 0"));
        }
        let title = file.title.unwrap_or_else(|| file.figure.clone());
        Ok(PageFigure { figure: file.figure, title, times })
    });
    checked.collect()
}

/// Checks that every query of a trial's scenario selects a node of its cluster, and that every object
/// that is fetched is at a node.
fn fits(
    trial: &Trial,
    experiment: &Experiment,
    at: usize,
    source: &SourceText<'_>,
) -> Result<(), DefinitionError> {
    let error = |key, problem: String| match at {
        0 => Err(source.error_in_file(key, problem)),
        at => Err(source.error(at, key, problem)),
    };
    let scenario = &experiment.scenarios[&trial.scenario];
    let nodes = experiment.plan(trial, 0).nodes;
    let rules = |key, rules: &[(Query, String)]| -> Vec<(&'static str, Query)> {
        rules.iter().map(|(query, _)| (key, query.clone())).collect()
    };
    let mut queries = rules("seed", &scenario.seed);
    queries.extend(rules("fetch", &scenario.fetch));
    queries.extend(scenario.churn.iter().map(|churn| ("churn", churn.nodes.clone())));
    queries.extend(scenario.load.iter().map(|load| ("load", load.on.clone())));
    queries.extend(scenario.serve.iter().map(|serve| ("serve", serve.clone())));
    queries.extend(scenario.faults.iter().map(|fault| ("faults", fault.nodes.clone())));
    for (key, query) in queries {
        if !nodes.iter().any(|node| query.applies_to(&node.labels)) {
            let Trial { cluster, scenario, .. } = trial;
            let problem =
                format!("the query {query} of {scenario:?} selects no node of {cluster:?}");
            return error(key, problem);
        }
    }
    for (index, (object, _)) in scenario.objects.iter().enumerate() {
        let is_fetched = nodes.iter().any(|node| node.fetches.contains(&index));
        if is_fetched && !nodes.iter().any(|node| node.seeds.contains(&index)) {
            return error("seed", format!("no node has {object:?}, which others fetch"));
        }
    }
    let is_server = |peer: &Peer| match peer.implementation {
        Implementation::Server => true,
        Implementation::Program => peer.settings.contains_key("serve"),
        _ => false,
    };
    if let Some(node) = nodes.iter().find(|node| node.serves && !is_server(&node.peer)) {
        let problem = format!("the peer of {} is not a server", node.name);
        return error(if node.has_users { "load" } else { "serve" }, problem);
    }
    for node in &nodes {
        let addressed = node.peer.settings.values().flat_map(|text| groups_addressed(text));
        let is_known = |group: &str| nodes.iter().any(|other| other.group == group);
        if let Some(group) = addressed.into_iter().find(|group| !is_known(group)) {
            let problem = format!(
                "the settings of {} need the address of {group:?}, and {:?} has no such group",
                node.name, trial.cluster
            );
            return error("settings", problem);
        }
    }
    if scenario.load.is_none() && !nodes.iter().any(super::NodePlan::is_awaited) {
        return error("fetch", format!("no node of {:?} fetches and stays", trial.cluster));
    }
    Ok(())
}

/// An error about a name that nothing has.
fn unknown<T>(kind: &str, name: &str, known: &BTreeMap<String, T>) -> String {
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    format!("no {kind} has the name {name:?}; known: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
seed = 3
repeat = 2

[peers.old]
implementation = "go-bitswap"
[peers.main]
build = { git = "main" }

[clusters.two-regions]
latency = "5ms"
paths = [{ between = ["eu", "us"], latency = "45ms" }]
[[clusters.two-regions.groups]]
name = "seeder"
region = "eu"
link = { up = "100Mbit", down = "1Gbit" }
[[clusters.two-regions.groups]]
name = "peers"
count = 30
region = "us"
labels = ["new"]
peer = "main"

[scenarios.spread]
objects.file = { random = "10MiB" }
seed = { seeder = "file" }
fetch = { "(not 'seeder')" = "file" }

[[trials]]
cluster = "two-regions"
scenario = "spread"
[[trials]]
cluster = "two-regions"
scenario = "spread"
peer = "old"
"#;

    #[test]
    fn a_file_becomes_an_experiment() {
        let experiment = Experiment::parse("good.toml", GOOD).unwrap();
        let cluster = &experiment.clusters["two-regions"];
        assert_eq!(cluster.paths[0][1].delay, Duration::from_millis(45));
        assert_eq!(cluster.paths[1][1].delay, Duration::from_millis(5));
        assert_eq!(cluster.groups[0].link.up, Some(12_500_000));
        assert_eq!(experiment.peers["main"].build, Build::Git("main".to_owned()));
        let names: Vec<_> = experiment.trials.iter().map(|trial| trial.name.as_str()).collect();
        assert_eq!(names, ["two-regions, spread", "two-regions, spread, old"]);
        let plan = experiment.plan(&experiment.trials[1], 0);
        assert!(
            plan.nodes.iter().all(|node| { node.peer.implementation == Implementation::GoBitswap })
        );
    }

    #[test]
    fn an_error_names_its_line_and_key() {
        let cases: &[(&str, &str, usize, &str, &str)] = &[
            ("repeat = 2", "repeat = 0", 0, "repeat", "at most 1000"),
            ("\"go-bitswap\"", "\"gobitswap\"", 6, "implementation", "did you mean `go-bitswap`?"),
            ("{ git = \"main\" }", "{ git = \"-x\" }", 7, "git", "does not begin with -"),
            (
                "{ git = \"main\" }",
                "{ git = \"a\", path = \"b\" }",
                7,
                "build",
                "either git or path",
            ),
            ("\"us\"]", "\"uss\"]", 12, "between", "uss"),
            ("count = 30", "nat = \"conical\"", 17, "nat", "full-cone"),
            ("count = 30", "count = 0", 17, "count", "at least 1"),
            ("count = 30", "count = 100000", 17, "count", "at most 10000"),
            ("up = \"100Mbit\"", "up = \"0Mbit\"", 16, "up", "invalid rate"),
            ("peer = \"main\"", "peer = \"mian\"", 17, "peer", "known: main, old, watchfire"),
            ("name = \"peers\"", "name = \"seeder\"", 17, "name", "another group"),
            ("name = \"peers\"", "name = \"..\"", 17, "name", "begin with a letter or a digit"),
            ("name = \"seeder\"", "name = \"peers-7\"", 17, "name", "another node"),
            ("repeat = 2", "warm_up = 4294967295", 0, "warm_up", "at most 1000"),
            ("objects.file", "objects.\"/tmp/file\"", 25, "objects", "begin with a letter"),
            ("\"10MiB\"", "\"0B\"", 25, "random", "between 1B"),
            ("seeder = \"file\"", "sower = \"file\"", 29, "seed", "selects no node"),
            ("seeder = \"file\"", "seeder = \"fle\"", 26, "seed", "no object has the name"),
            ("(not 'seeder')", "(nor 'seeder')", 27, "fetch", "unknown operator"),
            ("scenario = \"spread\"", "scenario = \"x\"", 29, "scenario", "known: spread"),
            ("latency = \"5ms\"", "loss = 0.9", 0, "loss", "at most 0.5"),
            ("peer = \"old\"", "", 32, "name", "another trial"),
        ];
        for (old, new, line, key, problem) in cases {
            let text = GOOD.replacen(old, new, 1);
            assert_ne!(text, GOOD, "{old} is there");
            let error = Experiment::parse("bad.toml", &text).expect_err(new);
            let text = error.to_string();
            assert!(text.contains(problem), "{new}: {text}");
            assert_eq!((error.line(), error.key()), (*line, *key), "{new}: {text}");
        }
    }

    #[test]
    fn a_trial_can_have_a_peer_for_each_group() {
        let old = "scenario = \"spread\"\npeer = \"old\"";
        let text = GOOD.replace(old, &format!("{old}\npeers = {{ seeder = \"main\" }}"));
        let experiment = Experiment::parse("good.toml", &text).unwrap();
        let plan = experiment.plan(&experiment.trials[1], 0);
        assert_eq!(plan.nodes[0].peer.implementation, Implementation::Watchfire);
        assert_eq!(plan.nodes[1].peer.implementation, Implementation::GoBitswap);
        let error =
            Experiment::parse("bad.toml", &text.replace("{ seeder = \"main", "{ x = \"main"));
        assert!(error.unwrap_err().to_string().contains("has no group \"x\""));
    }

    #[test]
    fn a_target_names_a_figure_of_a_trial() {
        let target = |trial: &str, figure: &str| {
            let text = format!(
                "{GOOD}[[targets]]\ntrial = \"{trial}\"\nfigure = \"{figure}\"\nat_most = 0.8\n\
                 relative_to = [\"two-regions, spread, old\"]\n"
            );
            Experiment::parse("targets.toml", &text).map(|experiment| experiment.targets)
        };
        let known = target("two-regions, spread", "leecher_cpu").unwrap();
        assert_eq!(known[0].bound, TargetBound::AtMost(0.8));
        let error = target("two-regions", "leecher_cpu").unwrap_err().to_string();
        assert!(error.contains("no trial has the name \"two-regions\""), "{error}");
        let both = format!(
            "{GOOD}[[targets]]\ntrial = \"two-regions, spread\"\nfigure = \"messages\"\nat_most = 1\nat_least = 1\n"
        );
        let error = Experiment::parse("targets.toml", &both).unwrap_err().to_string();
        assert!(error.contains("needs either at_most or at_least"), "{error}");
        let error = Experiment::parse("figures.toml", &format!("figures = ['errors']\n{GOOD}"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("no figure \"errors\""), "{error}");
        let error = target("two-regions, spread", "leecher_cpus").unwrap_err().to_string();
        assert!(error.contains("no figure \"leecher_cpus\"; known: first_byte"), "{error}");
    }

    #[test]
    fn a_load_needs_servers() {
        let text = "
            [peers.server]
            implementation = 'server'
            [clusters.c]
            groups = [{ name = 'one', peer = 'server' }, { name = 'other' }]
            [scenarios.s]
            load = { file = 'lobby.toml', on = 'one' }
        ";
        let experiment = Experiment::parse("load.toml", text).unwrap();
        let plan = experiment.plan(&experiment.trials[0], 0);
        assert_eq!(plan.load.unwrap().file.to_str(), Some("lobby.toml"));
        assert!(plan.nodes[0].serves && !plan.nodes[1].serves);
        let error = Experiment::parse("load.toml", &text.replace("on = 'one'", "on = 'other'"));
        assert!(error.unwrap_err().to_string().contains("the peer of other is not a server"));
        for (settings, is_server) in [("serve = 'node ws.mjs'", true), ("seed = 'a'", false)] {
            let program = format!("implementation = 'program'\nsettings = {{ {settings} }}");
            let text = text.replace("implementation = 'server'", &program);
            assert_eq!(Experiment::parse("load.toml", &text).is_ok(), is_server, "{settings}");
        }
        let other = text.replace("'lobby.toml'", "'users.js', command = 'k6', users = 9");
        let experiment = Experiment::parse("load.toml", &other).unwrap();
        let load = experiment.plan(&experiment.trials[0], 0).load.unwrap();
        assert_eq!((load.command.as_deref(), load.users), (Some("k6"), Some(9)));
        for (users, problem) in
            [("users = 0", "a nonzero u32"), ("set = { seed = 1 }", "not of a command")]
        {
            let error = Experiment::parse("load.toml", &other.replace("users = 9", users));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_load_has_other_values_in_each_scenario_and_in_a_short_check() {
        let text = "
            [peers.server]
            implementation = 'server'
            [clusters.c]
            private_network = true
            groups = [{ name = 'one', peer = 'server' }]
            [scenarios.s.load]
            file = 'room.toml'
            on = 'one'
            set = { 'phases.join.rate' = 1000, 'phases.join.duration' = '80s' }
            quick = { 'phases.join.duration' = '1s' }
        ";
        let mut experiment = Experiment::parse("load.toml", text).unwrap();
        let plan = |experiment: &Experiment| experiment.plan(&experiment.trials[0], 0);
        let value = |plan: super::super::TrialPlan, key: &str| plan.load.unwrap().set[key].clone();
        assert!(plan(&experiment).private_network);
        assert_eq!(value(plan(&experiment), "phases.join.rate"), "1000");
        assert_eq!(value(plan(&experiment), "phases.join.duration"), "80s");
        experiment.shorten(1);
        assert_eq!(value(plan(&experiment), "phases.join.rate"), "1000");
        assert_eq!(value(plan(&experiment), "phases.join.duration"), "1s");
    }

    #[test]
    fn programs_can_have_a_server() {
        let text = "
            [peers.server]
            implementation = 'server'
            [clusters.c]
            groups = [{ name = 'one', peer = 'server' }, { name = 'a' }, { name = 'b' }]
            [scenarios.s]
            objects.file = { random = '1MiB' }
            serve = 'one'
            seed = { a = 'file' }
            fetch = { b = 'file' }
        ";
        let experiment = Experiment::parse("serve.toml", text).unwrap();
        let plan = experiment.plan(&experiment.trials[0], 0);
        assert!(plan.nodes[0].serves && !plan.nodes[1].serves);
        for (query, problem) in [("a", "the peer of a is not a server"), ("x", "selects no node")] {
            let text = text.replace("serve = 'one'", &format!("serve = '{query}'"));
            let error = Experiment::parse("serve.toml", &text).unwrap_err();
            assert_eq!(error.key(), "serve");
            assert!(error.to_string().contains(problem), "{error}");
        }
    }

    #[test]
    fn without_trials_each_cluster_meets_each_scenario() {
        let (head, _) = GOOD.split_once("[[trials]]").unwrap();
        let experiment = Experiment::parse("good.toml", head).unwrap();
        assert_eq!(experiment.trials.len(), 1);
    }

    const CLUSTERED: &str = "
        figures = [{ figure = 'load: a: b', title = 'c', times = 0.5 }, 'messages']
        [peers.server]
        implementation = 'server'
        settings = { 'cluster.nats' = ['nats://${address of broker}:4222'] }
        [peers.broker]
        implementation = 'program'
        settings.serve = 'broker'
        [clusters.c]
        groups = [{ name = 'broker', peer = 'broker' }, { name = 'machines', count = 3, peer = 'server' }]
        [scenarios.s]
        serve = 'broker'
        load = { file = 'lobby.toml', on = 'machines' }
    ";

    #[test]
    fn servers_may_need_backends_and_the_addresses_of_other_groups() {
        let experiment = Experiment::parse("cluster.toml", CLUSTERED).unwrap();
        let plan = experiment.plan(&experiment.trials[0], 0);
        assert!(plan.nodes.iter().all(|node| node.serves));
        let with_users: Vec<_> = plan.nodes.iter().map(|node| node.has_users).collect();
        assert_eq!(with_users, [false, true, true, true]);
        for (old, new, problem) in [
            ("of broker}", "of brokers}", "need the address of \"brokers\""),
            ("serve = 'broker'\n        load", "serve = 'nobody'\n        load", "selects no node"),
            ("settings.serve", "settings.seed", "the peer of broker is not a server"),
        ] {
            let text = CLUSTERED.replace(old, new);
            let error = Experiment::parse("cluster.toml", &text).unwrap_err().to_string();
            assert!(error.contains(problem), "{new}: {error}");
        }
    }

    #[test]
    fn the_figures_of_a_page_are_checked() {
        let experiment = Experiment::parse("cluster.toml", CLUSTERED).unwrap();
        let titles: Vec<_> =
            experiment.figures.iter().map(|one| (one.title.as_str(), one.times)).collect();
        assert_eq!(titles, [("c", 0.5), ("messages", 1.0)]);
        for (old, new, problem) in [
            ("'messages'", "'massages'", "no figure \"massages\""),
            ("times = 0.5", "times = 0", "must be above 0"),
        ] {
            let text = CLUSTERED.replace(old, new);
            let error = Experiment::parse("cluster.toml", &text).unwrap_err().to_string();
            assert!(error.contains(problem), "{new}: {error}");
        }
    }
}
