//! One run, from its objects to its result.

mod clock;
mod load;
mod program_costs;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::host::{Instruments, Network, Workspace};
use super::nodes::{
    TrialNode, choose_dials, places, prepare_fetchers, start_seeders, start_servers,
};
use super::program::{Content, Program, Totals, content};
use crate::definition::TrialPlan;
use crate::drivers::driver::{DriverError, Progress, bound_seconds};
use crate::memory_filler::{MemoryFiller, MemoryRelease};
use crate::results::spans::Receiver;
use crate::results::{NodeResult, RunResult, RunTrace, Transfer, trace_id};
use clock::Clock;
use load::Load;

/// Where a run happens.
pub struct World<'a> {
    /// The name of the driver.
    pub driver: &'static str,
    /// The program of each node, in the order of the plan.
    pub programs: &'a [Box<dyn Program>],
    pub network: Network,
    /// The program that makes the users of a load.
    pub watchfire: &'a Path,
    /// The folder of the objects.
    pub workspace: &'a Workspace,
    pub instruments: Instruments<'a>,
}

pub fn run(
    plan: &TrialPlan,
    World { driver, programs, mut network, watchfire, workspace, instruments }: World<'_>,
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<RunResult, DriverError> {
    let mut phase = |phase: &str| watch(Progress::before(phase, plan));
    // A run that failed may have left some.
    let _ = instruments.spans.map(Receiver::take);
    phase("writes objects");
    let objects = workspace.folder.join("objects");
    let folder = |source| DriverError::Folder { path: objects.clone(), source };
    fs::create_dir(&objects).map_err(folder)?;
    let contents = plan.objects.iter().map(|object| content(object, plan.seed, &objects));
    let contents = contents.collect::<Result<Vec<_>, _>>()?;
    phase("starts nodes with content");
    let mut nodes = places(plan, workspace, &network, instruments)?;
    // Servers start only if their users can run.
    if let Network::Loopback(_) | Network::Private(..) = &network {
        load::check(plan, watchfire)?;
    }
    start_servers(&mut nodes, programs);
    let tickets = start_seeders(&mut nodes, programs, &contents);
    phase("prepares nodes that fetch");
    prepare_fetchers(&mut nodes, programs, &tickets);
    let order = choose_dials(plan, &mut nodes);
    let _release = fill_memory(plan, workspace, &mut phase)?;
    network.start_clock();
    let clock = Clock::start(plan, order, &mut nodes);
    let mut load =
        plan.load.as_ref().map(|load| Load::start(plan, load, &nodes, &network, watchfire));
    let took = clock.run(&mut nodes, programs, &network, load.as_mut(), watch);
    let noise = clock.noise();
    let on_wire = network.figures(nodes.len());
    let mut result = RunResult { noise, ..finish(plan, nodes, &contents, took, &clock) };
    if let Some((figures, bytes)) = on_wire {
        for (node, (sent, received)) in result.nodes.iter_mut().zip(bytes) {
            (node.sent_bytes, node.received_bytes) = (Some(sent), Some(received));
        }
        result.wire = Some(figures);
    }
    result.driver = driver.to_owned();
    result.notes.extend(network.note(plan));
    let (exported, cut) = instruments.spans.map(Receiver::take).unwrap_or_default();
    let clock_started_at = Some(clock.started_at_unix);
    result.trace = RunTrace { id: trace_id(&workspace.id), clock_started_at, exported, cut };
    add_servers(plan, &mut result);
    if let Some(load) = load {
        result.measures.extend(load.measures);
        result.load = load.over_time;
        result.problems.extend(load.failure.map(|failure| format!("load: {failure}")));
    }
    Ok(result)
}

/// Adds the figures of the servers, which are neither seeders nor leechers.
fn add_servers(plan: &TrialPlan, result: &mut RunResult) {
    let serving = plan.nodes.iter().zip(&result.nodes).filter(|(node, _)| node.serves);
    for (node, measured) in serving {
        let mut add = |name: &str, value: Option<f64>| {
            let name = format!("{}: {name}", node.name);
            result.measures.extend(value.map(|value| (name, value)));
        };
        add("CPU-seconds", measured.cpu_seconds);
        add("peak memory, bytes", measured.peak_memory_bytes.map(|bytes| bytes as f64));
    }
}

/// The figures that programs told: sums over the nodes, and the largest of each peak.
fn program_figures(totals: &[Totals]) -> BTreeMap<String, f64> {
    let mut figures: BTreeMap<String, f64> = BTreeMap::new();
    let name = |name: &str| format!("program: {name}");
    for (figure, value) in totals.iter().flat_map(|totals| &totals.figures) {
        *figures.entry(name(figure)).or_insert(0.0) += value;
    }
    for (figure, value) in totals.iter().flat_map(|totals| &totals.peaks) {
        let most = figures.entry(name(figure)).or_insert(*value);
        *most = most.max(*value);
    }
    figures
}

/// Fills the free memory, and releases it as programs need it until the end of the run.
fn fill_memory(
    plan: &TrialPlan,
    workspace: &Workspace,
    phase: &mut dyn FnMut(&str),
) -> Result<Option<MemoryRelease>, DriverError> {
    if !plan.fill_memory {
        return Ok(None);
    }
    phase("fills the memory");
    let filler = MemoryFiller::in_folder(&workspace.folder);
    let release = filler.and_then(|filler| filler.fill());
    release
        .map(Some)
        .map_err(|source| DriverError::Folder { path: workspace.folder.clone(), source })
}

/// Reads the figures of all nodes, and ends them one after another. So of each pair that exchanged content, the
/// first one to end still has the other as a peer, and tells the bytes of both directions.
fn finish(
    plan: &TrialPlan,
    mut nodes: Vec<TrialNode<'_>>,
    contents: &[Content],
    took: Duration,
    clock: &Clock,
) -> RunResult {
    let mut by_kind = Vec::new();
    for node in &mut nodes {
        node.result.prepared = node.prepared.map(|times| clock.before(times));
        by_kind.push(node.read_usage());
    }
    let totals: Vec<Totals> = nodes.iter_mut().map(TrialNode::end).collect();
    let results = nodes.into_iter().zip(&totals).map(|(node, totals)| NodeResult {
        content_sent_bytes: totals.content_sent_bytes,
        sent_bytes: totals.sent_bytes,
        received_bytes: totals.received_bytes,
        duplicate_bytes: totals.duplicate_bytes,
        messages: totals.messages,
        ..node.result
    });
    let nodes: Vec<NodeResult> = results.collect();
    let problem = |node: &NodeResult| Some(format!("{}: {}", node.name, node.failure.as_ref()?));
    let fetched: BTreeSet<usize> =
        plan.nodes.iter().flat_map(|node| &node.fetches).copied().collect();
    let object_bytes = fetched.iter().map(|object| contents[*object].bytes).sum();
    let from_hosts: Vec<Option<u64>> = totals.iter().map(|one| one.from_hosts_bytes).collect();
    let mut measures = program_figures(&totals);
    measures.extend(program_costs::measures(&nodes, &by_kind, &from_hosts, object_bytes));
    RunResult {
        trial: plan.name.clone(),
        seed: plan.seed,
        object_bytes,
        bound_seconds: bound_seconds(plan, object_bytes),
        took_seconds: took.as_secs_f64(),
        measures,
        problems: nodes.iter().filter_map(problem).collect(),
        nodes,
        transfers: transfers(&totals),
        ..RunResult::default()
    }
}

/// The content that went between nodes, where their programs tell it.
fn transfers(totals: &[Totals]) -> Vec<Transfer> {
    let by_identity: BTreeMap<&str, usize> = totals
        .iter()
        .enumerate()
        .filter_map(|(index, totals)| Some((totals.identity.as_deref()?, index)))
        .collect();
    let mut bytes: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (own, totals) in totals.iter().enumerate() {
        for (other, sent, received) in &totals.with {
            let Some(other) = by_identity.get(other.as_str()) else { continue };
            for (pair, count) in [((own, *other), *sent), ((*other, own), *received)] {
                let known = bytes.entry(pair).or_insert(0);
                *known = (*known).max(count);
            }
        }
    }
    let is_used = |(_, bytes): &((usize, usize), u64)| *bytes > 0;
    let transfer = |((from, to), bytes)| Transfer { from, to, bytes };
    bytes.into_iter().filter(is_used).map(transfer).collect()
}
