//! Swarms: every node runs the real exchange, and blocks are CIDs and lengths without bytes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path as FilePath;
use std::time::Duration;

use watchfire_sim::{FileShape, NetworkLimits, Outcome, PeerOutcome, PeerPlan, Plan, Strategy};

use super::settings::Settings;
use super::trial::{Onlooker, access, check_nodes, settings_of, the_fetched, unsupported};
use crate::definition::{Implementation, NodePlan, Object, ObjectPlan, RandomLayer, TrialPlan};
use crate::drivers::driver::{DriverError, SIMULATED, object_bytes};
use crate::results::{NodeResult, RunResult, RunTrace, trace_id};

/// Most blocks of a simulated file.
const BLOCKS_MAX: u64 = 1_000_000;

pub fn run(plan: &TrialPlan, onlooker: &mut Onlooker<'_>) -> Result<RunResult, DriverError> {
    let outcome = watchfire_sim::run_observed(&simulation(plan)?, onlooker);
    Ok(result(plan, &outcome))
}

pub fn simulation(plan: &TrialPlan) -> Result<Plan, DriverError> {
    check_nodes(plan)?;
    let strategy = strategy(plan).map_err(|problem| unsupported(plan, problem))?;
    let fetched = the_fetched(plan)?;
    let settings = plan.nodes.iter().map(|node| settings_of(plan, node));
    let settings = settings.collect::<Result<Vec<_>, _>>()?;
    let all = &settings[0];
    let is_alike = |one: &Settings| (one.processors, one.blocks) == (all.processors, all.blocks);
    if !settings.iter().all(is_alike) {
        let problem = "its nodes have the same blocks and processors";
        return Err(unsupported(plan, problem.to_owned()));
    }
    let lies = |(node, settings): (&NodePlan, &Settings)| {
        settings.attack.is_some() && !node.fetches.is_empty()
    };
    if plan.nodes.iter().zip(&settings).any(lies) {
        return Err(unsupported(plan, "a node with an attack fetches nothing"));
    }
    let peers = plan
        .nodes
        .iter()
        .zip(&settings)
        .map(|(node, settings)| Ok(peer(node, settings, held_bytes(plan, fetched, node)?)));
    Ok(Plan {
        seed: plan.seed,
        file: file(plan, fetched, all.blocks)?,
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

/// The shape of the object that nodes fetch.
fn file(
    plan: &TrialPlan,
    fetched: usize,
    (block_bytes, links_max): (u32, u32),
) -> Result<FileShape, DriverError> {
    let object = &plan.objects[fetched];
    let bytes = object_bytes(&object.object)
        .map_err(|source| DriverError::Object { object: object.name.clone(), source })?;
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
        driver: SIMULATED.to_owned(),
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
