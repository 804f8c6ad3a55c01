//! The driver on a simulated clock and network: every node runs the real exchange, and blocks are CIDs
//! and lengths without bytes.
//!
//! It has no processes, so it measures no CPU time and no memory. All nodes run the same program, and a
//! trial has one object: its limits are errors before a trial runs, never silent differences.

mod fleet;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path as FilePath;
use std::time::Duration;

use watchfire_sim::{
    Access, Event, FileShape, NetworkLimits, Observer, Outcome, PeerOutcome, PeerPlan,
    PeerProgress, Plan, Strategy,
};

use self::settings::Settings;
use super::{Driver, DriverError, NodeProgress, NodeState, Progress, object_bytes};
use crate::definition::{
    Implementation, NatKind, NodePlan, Object, ObjectPlan, RandomLayer, TrialPlan,
};
use crate::results::spans::{RunTrace, trace_id};
use crate::results::{NodeResult, RunResult};

/// Bytes per second of a link without a limit: 10 Gbit/s.
const UNLIMITED: u64 = 1_250_000_000;
/// Bytes of a leaf, as `watchfire share` makes them.
const BLOCK_BYTES: u32 = 1 << 20;
const LINKS_MAX: u32 = 1024;
/// Bytes and links of the blocks that kubo makes by default.
const SMALL_BLOCKS: (u32, u32) = (256 << 10, 174);
/// Most blocks of a simulated file.
const BLOCKS_MAX: u64 = 1_000_000;
pub(super) const NAME: &str = "simulated";

/// Simulates trials.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulated;

impl Driver for Simulated {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, plan: &TrialPlan) -> Result<(), DriverError> {
        match fleet::is_fleet(plan) {
            true => fleet::simulation(plan).map(drop),
            false => simulation(plan).map(drop),
        }
    }

    fn run(
        &mut self,
        plan: &TrialPlan,
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<RunResult, DriverError> {
        run(plan, &mut Onlooker { plan, watch, trace: None })
    }
}

/// Passes on what it sees of a simulation.
pub(super) struct Onlooker<'a> {
    pub plan: &'a TrialPlan,
    pub watch: &'a mut dyn FnMut(Progress<'_>),
    pub trace: Option<&'a mut dyn FnMut(&Event)>,
}

impl Observer for Onlooker<'_> {
    fn progress(
        &mut self,
        progress: watchfire_sim::Progress,
        peers: &mut dyn Iterator<Item = PeerProgress>,
    ) {
        let watchfire_sim::Progress { now, part, finished, awaited } = progress;
        let nodes: Vec<NodeProgress<'_>> = self
            .plan
            .nodes
            .iter()
            .zip(peers)
            .map(|(node, peer)| node_progress(node, peer, now))
            .collect();
        (self.watch)(Progress { phase: "simulates", now, part, finished, awaited, nodes: &nodes });
    }

    fn sees_events(&self) -> bool {
        self.trace.is_some()
    }

    fn event(&mut self, event: &Event) {
        if let Some(trace) = &mut self.trace {
            trace(event);
        }
    }
}

fn node_progress(node: &NodePlan, peer: PeerProgress, now: Duration) -> NodeProgress<'_> {
    let state = if !peer.is_online && node.leaves_at.is_some_and(|at| at <= now) {
        NodeState::Left
    } else if !peer.is_online {
        NodeState::Waits
    } else if node.fetches.is_empty() {
        NodeState::Shares
    } else if peer.part >= 1.0 {
        NodeState::Done
    } else {
        NodeState::Fetches
    };
    NodeProgress { name: &node.name, state, part: peer.part, failure: None }
}

pub(super) fn run(plan: &TrialPlan, onlooker: &mut Onlooker<'_>) -> Result<RunResult, DriverError> {
    if fleet::is_fleet(plan) {
        return fleet::run(plan, onlooker);
    }
    let outcome = watchfire_sim::run_observed(&simulation(plan)?, onlooker);
    Ok(result(plan, &outcome))
}

fn unsupported(plan: &TrialPlan, problem: String) -> DriverError {
    DriverError::Unsupported { driver: NAME, trial: plan.name.clone(), problem }
}

/// Checks what every simulation lacks.
fn check_nodes(plan: &TrialPlan) -> Result<(), DriverError> {
    if plan.nodes.iter().any(|node| node.serves) {
        return Err(unsupported(plan, "it has no servers".to_owned()));
    }
    if plan.neighbours == Some(0) {
        return Err(unsupported(plan, "its nodes learn of each other".to_owned()));
    }
    for node in &plan.nodes {
        let name = &node.name;
        let problem = if !node.link_changes.is_empty() {
            format!("the link of {name} changes during the run")
        } else if node.nat != NatKind::Open {
            format!("{name} is behind a NAT")
        } else if node.link.queue.is_some() {
            format!("the link of {name} has a queue")
        } else if node.processors.is_some() {
            format!("the processors of {name} are limited; the setting cores has a model of them")
        } else {
            continue;
        };
        return Err(unsupported(plan, problem));
    }
    Ok(())
}

fn settings_of(plan: &TrialPlan, node: &NodePlan) -> Result<Settings, DriverError> {
    Settings::of(&node.peer)
        .map_err(|problem| unsupported(plan, format!("{}: {problem}", node.name)))
}

fn simulation(plan: &TrialPlan) -> Result<Plan, DriverError> {
    check_nodes(plan)?;
    let strategy = strategy(plan).map_err(|problem| unsupported(plan, problem))?;
    let fetched = the_fetched(plan)?;
    let settings = plan.nodes.iter().map(|node| settings_of(plan, node));
    let settings = settings.collect::<Result<Vec<_>, _>>()?;
    let all = &settings[0];
    let is_alike = |one: &Settings| {
        (one.processors, one.has_small_blocks) == (all.processors, all.has_small_blocks)
    };
    if !settings.iter().all(is_alike) {
        let problem = "its nodes have the same blocks and processors";
        return Err(unsupported(plan, problem.to_owned()));
    }
    let lies = |(node, settings): (&NodePlan, &Settings)| {
        settings.attack.is_some() && !node.fetches.is_empty()
    };
    if plan.nodes.iter().zip(&settings).any(lies) {
        return Err(unsupported(plan, "a node with an attack fetches nothing".to_owned()));
    }
    let peers = plan
        .nodes
        .iter()
        .zip(&settings)
        .map(|(node, settings)| Ok(peer(node, settings, held_bytes(plan, fetched, node)?)));
    Ok(Plan {
        seed: plan.seed,
        file: file(plan, fetched, all.has_small_blocks)?,
        strategy,
        limits: Default::default(),
        peers: peers.collect::<Result<_, DriverError>>()?,
        paths: plan.paths.clone(),
        network: NetworkLimits { processors: all.processors, ..NetworkLimits::default() },
        neighbours: plan.neighbours,
        read_delay: Duration::ZERO,
        breaks_per_second: 0.0,
        time_max: plan.time_max,
    })
}

/// The index of the one object that nodes fetch.
fn the_fetched(plan: &TrialPlan) -> Result<usize, DriverError> {
    let fetched: BTreeSet<usize> =
        plan.nodes.iter().flat_map(|node| &node.fetches).copied().collect();
    match (fetched.first(), fetched.len()) {
        (Some(index), 1) => Ok(*index),
        _ => {
            let problem = "it simulates one object, and nodes fetch several";
            Err(unsupported(plan, problem.to_owned()))
        }
    }
}

/// The shape of the object that nodes fetch.
fn file(
    plan: &TrialPlan,
    fetched: usize,
    has_small_blocks: bool,
) -> Result<FileShape, DriverError> {
    let object = &plan.objects[fetched];
    let bytes = object_bytes(&object.object)
        .map_err(|source| DriverError::Object { object: object.name.clone(), source })?;
    let (block_bytes, links_max) =
        if has_small_blocks { SMALL_BLOCKS } else { (BLOCK_BYTES, LINKS_MAX) };
    if bytes == 0 || bytes.div_ceil(block_bytes.into()) > BLOCKS_MAX {
        let problem = "the object is empty, or larger than 1,000,000 blocks";
        return Err(unsupported(plan, problem.to_owned()));
    }
    Ok(FileShape { bytes, block_bytes, links_max })
}

/// The bytes of the fetched image that a node has, because its own images have the same blobs. They count as the
/// first bytes of the fetched one.
fn held_bytes(plan: &TrialPlan, fetched: usize, node: &NodePlan) -> Result<u64, DriverError> {
    let blobs = |index: usize| -> Result<BTreeMap<String, u64>, DriverError> {
        let ObjectPlan { name, object } = &plan.objects[index];
        let error = |source| DriverError::Object { object: name.clone(), source };
        match object {
            Object::Image(layout) => image_blobs(layout).map_err(error),
            Object::RandomImage(layers) => {
                let blob = |layer: &RandomLayer| (format!("{layer:?}"), layer.bytes);
                Ok(layers.iter().map(blob).collect())
            }
            Object::Random { .. } | Object::Path(_) => Ok(BTreeMap::new()),
        }
    };
    if node.seeds.is_empty() || node.fetches.is_empty() {
        return Ok(0);
    }
    let wanted = blobs(fetched)?;
    let mut held = BTreeMap::new();
    for own in &node.seeds {
        held.extend(blobs(*own)?);
    }
    Ok(wanted.iter().filter(|(digest, _)| held.contains_key(*digest)).map(|(_, len)| len).sum())
}

/// The blobs of a layout by digest, with their bytes.
fn image_blobs(layout: &FilePath) -> io::Result<BTreeMap<String, u64>> {
    let blob = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.file_name().to_string_lossy().into_owned(), entry.metadata()?.len()))
    };
    fs::read_dir(layout.join("blobs/sha256"))?.map(blob).collect()
}

fn strategy(plan: &TrialPlan) -> Result<Strategy, String> {
    let mut programs = plan.nodes.iter().map(|node| node.peer.implementation);
    let first = programs.next().ok_or("it has no node")?;
    if programs.any(|program| program != first) {
        return Err("it simulates one program, and the nodes run several".to_owned());
    }
    match first {
        Implementation::Watchfire => Ok(Strategy::Watchfire),
        Implementation::Kubo => Ok(Strategy::Boxo),
        Implementation::GoBitswap => Ok(Strategy::GoBitswap),
        Implementation::Http => Err("it has no HTTP".to_owned()),
        Implementation::Program => Err("it has no other programs".to_owned()),
        Implementation::Server => Err("it has no servers".to_owned()),
        Implementation::Registry | Implementation::Mirror => {
            Err("it has no registry without mirrors".to_owned())
        }
    }
}

fn access(node: &NodePlan) -> Access {
    Access { up: node.link.up.unwrap_or(UNLIMITED), down: node.link.down.unwrap_or(UNLIMITED) }
}

fn peer(node: &NodePlan, settings: &Settings, held_bytes: u64) -> PeerPlan {
    PeerPlan {
        access: access(node),
        region: node.region,
        held_bytes,
        is_seeder: node.fetches.is_empty() && !node.seeds.is_empty() && settings.attack.is_none(),
        arrives_at: node.arrives_at,
        leaves_at: node.leaves_at,
        returns_at: node.returns_at,
        noticed_after: settings.noticed_after.unwrap_or_default(),
        leaves_when_done: settings.leaves_when_done && !node.fetches.is_empty(),
        attack: settings.attack,
    }
}

fn result(plan: &TrialPlan, outcome: &Outcome) -> RunResult {
    let nodes = plan.nodes.iter().zip(&outcome.peers);
    RunResult {
        trial: plan.name.clone(),
        driver: NAME.to_owned(),
        seed: plan.seed,
        object_bytes: outcome.bytes,
        bound_seconds: Some(outcome.bound.seconds()),
        took_seconds: outcome.ended_at.as_secs_f64(),
        nodes: nodes.map(|(node, peer)| node_result(node, peer, outcome)).collect(),
        measures: measures(plan, outcome),
        problems: outcome.violations.clone(),
        trace: RunTrace { id: trace_id((&plan.name, plan.seed)), ..RunTrace::default() },
        ..RunResult::default()
    }
}

/// How often nodes dropped one that lies, if any does.
fn measures(plan: &TrialPlan, outcome: &Outcome) -> BTreeMap<String, f64> {
    let lies = plan.nodes.iter().any(|node| node.peer.settings.contains_key("attack"));
    let dropped = ("liars: dropped, times".to_owned(), outcome.malicious_dropped.into());
    lies.then_some(dropped).into_iter().collect()
}

fn node_result(node: &NodePlan, peer: &PeerOutcome, outcome: &Outcome) -> NodeResult {
    let seconds = |at: Duration| at.as_secs_f64();
    let received = &peer.received_at;
    let share = |index: usize| (index + 1) as f64 / f64::from(outcome.blocks.max(1));
    let has_left = |at: &Duration| *at <= outcome.ended_at && node.returns_at.is_none();
    let left_at = node.leaves_at.filter(has_left);
    NodeResult {
        name: node.name.clone(),
        group: node.group.clone(),
        is_seeder: peer.is_seeder,
        is_awaited: node.is_awaited(),
        arrived_at: seconds(peer.arrived_at),
        first_byte_at: received.first().copied().map(seconds),
        finished_at: peer.finished_at.map(seconds),
        left_at: left_at.map(seconds),
        progress: received
            .iter()
            .enumerate()
            .map(|(at, time)| (seconds(*time), share(at)))
            .collect(),
        content_sent_bytes: Some(peer.sum(|totals| totals.bytes_out)),
        sent_bytes: Some(peer.sent_bytes),
        received_bytes: Some(peer.received_bytes),
        duplicate_bytes: Some(peer.sum(|totals| totals.duplicate_bytes)),
        messages: Some(peer.sum(|totals| totals.messages_in)),
        ..NodeResult::default()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::definition::Experiment;
    use crate::results::Figure;

    pub(in crate::drivers) const TEXT: &str = "
        [peers]
        kubo = { implementation = 'kubo' }
        nginx = { implementation = 'http' }
        [clusters.c]
        latency = '10ms'
        groups = [
          { name = 'source', link = { up = '100Mbit', down = '100Mbit' } },
          { name = 'peers', count = 4, link = { up = '100Mbit', down = '100Mbit' } },
        ]
        [scenarios.s]
        objects.file = { random = '10MiB' }
        seed = { source = 'file' }
        fetch = { peers = 'file' }
        [[trials]]
        cluster = 'c'
        scenario = 's'
    ";

    fn run(text: &str) -> Result<RunResult, DriverError> {
        let experiment = Experiment::parse("one.toml", text).unwrap();
        Simulated.run(&experiment.plan(&experiment.trials[0], 0), &mut |_| {})
    }

    #[test]
    fn every_node_of_a_trial_gets_the_object() {
        let result = run(TEXT).unwrap();
        assert_eq!((result.nodes.len(), result.unfinished()), (5, 0));
        let bound = result.bound_seconds.unwrap();
        let last = result.nodes.iter().filter_map(|node| node.finished_at).fold(0.0, f64::max);
        assert!(last > bound, "{last} > {bound}");
        let peer = &result.nodes[1];
        assert!(peer.first_byte_at < peer.finished_at);
        assert!(peer.received_bytes >= Some(10 << 20));
        assert_eq!(peer.progress.last().map(|(_, share)| *share), Some(1.0));
    }

    #[test]
    fn a_plan_that_cannot_be_simulated_names_the_reason() {
        for (old, new, problem) in [
            ("scenario = 's'", "scenario = 's'\npeer = 'nginx'", "has no HTTP"),
            ("count = 4,", "count = 4, peer = 'kubo',", "several"),
            ("count = 4,", "count = 4, processors = 0.5,", "processors of peers-1"),
            (
                "nginx = {",
                "watchfire = { settings = { colour = 'red' } }\nnginx = {",
                "source: unknown setting \"colour\"",
            ),
            (
                "nginx = {",
                "watchfire = { settings = { attack = 'forge' } }\nnginx = {",
                "a node with an attack fetches nothing",
            ),
            ("count = 4,", "count = 4, nat = 'symmetric',", "peers-1 is behind a NAT"),
            (
                "count = 4, link = {",
                "count = 4, link = { queue = '64KiB',",
                "the link of peers-1 has a queue",
            ),
            (
                "seed = { source = 'file' }\n        fetch = {",
                "objects.other = { random = '1B' }\nseed = { source = 'file', peers-1 = 'other' }
                 fetch = { source = 'other',",
                "one object",
            ),
            ("{ random = '10MiB' }", "{ path = '/nowhere' }", "cannot read the object"),
        ] {
            let text = TEXT.replacen(old, new, 1);
            assert_ne!(text, TEXT, "{old} is there");
            let error = run(&text).expect_err(new).to_string();
            assert!(error.contains(problem), "{new}: {error}");
        }
    }

    #[test]
    fn every_experiment_for_the_simulator_can_be_simulated() {
        let experiments = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let mut trials = 0;
        for folder in ["simulated", "calibration", "gate/simulated"] {
            for file in experiments.join(folder).read_dir().unwrap() {
                let file = file.unwrap().path();
                let text = fs::read_to_string(&file).unwrap();
                let experiment = Experiment::parse(&file.display().to_string(), &text);
                let experiment = experiment.unwrap_or_else(|error| panic!("{error}"));
                for trial in &experiment.trials {
                    let checked = Simulated.check(&experiment.plan(trial, 0));
                    checked.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
                    trials += 1;
                }
            }
        }
        assert!(trials >= 31, "{trials} trials");
    }

    #[test]
    fn a_node_that_lies_is_dropped_and_not_awaited() {
        let text = TEXT
            .replace("[peers]", "[peers]\nliar = { settings = { attack = 'forge' } }")
            .replace("groups = [", "groups = [ { name = 'liars', count = 2, peer = 'liar' },")
            .replace("{ source = 'file' }", "{ source = 'file', liars = 'file' }");
        let result = run(&text).unwrap();
        assert!(result.is_healthy(), "{:?}", result.problems);
        assert_eq!(result.awaited().count(), 4);
        assert!(result.measures["liars: dropped, times"] >= 2.0, "{:?}", result.measures);
        assert!(run(TEXT).unwrap().measures.is_empty());
    }

    #[test]
    fn a_node_that_gets_leaves_and_processors_take_time() {
        let with = |settings: &str| {
            let peer = format!("[peers]\nwatchfire = {{ settings = {{ {settings} }} }}");
            run(&TEXT.replace("[peers]", &peer)).unwrap()
        };
        let last = |result: &RunResult| Figure::CompletionLast.of(result).unwrap();
        let usual = run(TEXT).unwrap();
        let sent = |result: &RunResult| Figure::SeederCopies.of(result).unwrap();
        assert!(sent(&with("command = 'get'")) > sent(&usual));
        // 50 MiB at 5 MB a second, on one machine.
        let slow = with("send = '5MB', receive = '5MB', shared = true");
        assert!(last(&slow) > 10.0 && last(&usual) < 5.0, "{} {}", last(&slow), last(&usual));
        assert!(
            last(&with("profile = 'kubo-default'")) < last(&usual),
            "small blocks are passed on sooner"
        );
    }

    #[test]
    fn a_node_does_not_fetch_the_blobs_that_its_other_image_has() {
        let folder =
            std::env::temp_dir().join(format!("watchfire-lab-images-{}", std::process::id()));
        let image = |name: &str, blobs: &[&str]| {
            let layout = folder.join(name);
            fs::create_dir_all(layout.join("blobs/sha256")).unwrap();
            fs::write(layout.join("oci-layout"), "{}").unwrap();
            for blob in blobs {
                fs::write(layout.join("blobs/sha256").join(blob), vec![0; 2 << 20]).unwrap();
            }
        };
        image("v1", &["base", "old"]);
        image("v2", &["base", "new"]);
        let text = TEXT
            .replace(
                "objects.file = { random = '10MiB' }",
                "objects.v1 = { image = 'v1' }\nobjects.v2 = { image = 'v2' }",
            )
            .replace("{ source = 'file' }", "{ source = 'v2', peers = 'v1' }")
            .replace("{ peers = 'file' }", "{ peers = 'v2' }");
        let mut experiment = Experiment::parse("images.toml", &text).unwrap();
        experiment.resolve_paths(&folder);
        let result = Simulated.run(&experiment.plan(&experiment.trials[0], 0), &mut |_| {});
        fs::remove_dir_all(&folder).unwrap();
        let result = result.unwrap();
        assert!(result.object_bytes >= 4 << 20 && result.unfinished() == 0);
        for node in result.awaited() {
            let received = node.received_bytes.unwrap();
            assert!((2 << 20..3 << 20).contains(&received), "{received} of 4 MiB were missing 2");
        }
    }

    #[test]
    fn the_progress_names_each_node() {
        let experiment = Experiment::parse("one.toml", TEXT).unwrap();
        let plan = experiment.plan(&experiment.trials[0], 0);
        let mut last = Vec::new();
        let mut watch = |progress: Progress<'_>| {
            last = progress
                .nodes
                .iter()
                .map(|node| (node.name.to_owned(), node.state, node.part))
                .collect();
        };
        Simulated.run(&plan, &mut watch).unwrap();
        assert_eq!(last[0], ("source".to_owned(), NodeState::Shares, 1.0));
        assert_eq!(last[4], ("peers-4".to_owned(), NodeState::Done, 1.0));
    }

    #[test]
    fn the_same_plan_has_the_same_result() {
        assert_eq!(run(TEXT).unwrap(), run(TEXT).unwrap());
    }
}
