//! Fleets of image mirrors: each host runs the real coordinator, lists of hashes and exchange.

use std::collections::BTreeMap;
use std::time::Duration;

use watchfire_sim::{FleetOutcome, FleetPlan, HostOutcome, HostPlan, NetworkLimits};

use super::trial::{Onlooker, access, check_nodes, settings_of, the_fetched, unsupported};
use crate::definition::{Implementation, NodePlan, Object, RandomLayer, TrialPlan};
use crate::drivers::driver::{DriverError, Progress, SIMULATED, object_bytes};
use crate::results::{NodeResult, RunResult, RunTrace, trace_id};

/// As containerd does by default.
const LAYERS_AT_ONCE: usize = 3;
/// Three settings of a mirror.
const CONNECTIONS_MAX: usize = 4096;
const HANDSHAKES_MAX: usize = 256;
const LEASES_PER_LAYER: usize = 4;
/// The time until a registry sends the first byte of an answer.
const REGISTRY_WAIT: Duration = Duration::from_millis(20);
/// How long others take to notice that a host left.
const NOTICED_AFTER: Duration = Duration::from_secs(10);
/// A fleet with more hosts moves larger chunks at a time. It is faster to simulate, and coarser.
const FINE_HOSTS_MAX: usize = 500;
const COARSE_CHUNK_BYTES: u64 = 256 << 10;
/// Most blocks of 1 MiB of an image.
const BYTES_MAX: u64 = 100_000 << 20;

/// Whether the nodes of a plan are hosts with mirrors.
pub fn is_fleet(plan: &TrialPlan) -> bool {
    plan.nodes.iter().any(|node| node.peer.implementation == Implementation::Mirror)
}

/// The registry: the first node that has the image.
fn registry(plan: &TrialPlan, image: usize) -> Option<&NodePlan> {
    plan.nodes.iter().find(|node| node.seeds.contains(&image))
}

fn hosts(plan: &TrialPlan) -> impl Iterator<Item = &NodePlan> {
    plan.nodes.iter().filter(|node| !node.fetches.is_empty())
}

pub fn simulation(plan: &TrialPlan) -> Result<FleetPlan, DriverError> {
    let error = |problem: &str| unsupported(plan, problem);
    check_nodes(plan)?;
    let image = the_fetched(plan)?;
    if plan.nodes.iter().any(|node| node.peer.implementation != Implementation::Mirror) {
        return Err(error("it simulates one program, and the nodes run several"));
    }
    let registry = registry(plan, image).ok_or_else(|| error("no node has the image"))?;
    let alone = |node: &NodePlan| node.peer.settings.get("fleet").is_some_and(|is| is == "false");
    let has_content = |node: &NodePlan| node.seeds.contains(&image);
    if plan.nodes.iter().filter(|node| has_content(node)).count() > 1 || hosts(plan).any(alone) {
        return Err(error("its mirrors are one fleet, with one registry"));
    }
    if hosts(plan).any(|host| host.returns_at.is_some()) {
        return Err(error("its hosts do not return"));
    }
    if registry.leaves_at.is_some() || registry.returns_at.is_some() {
        return Err(error("its registry stays"));
    }
    for host in hosts(plan) {
        if settings_of(plan, host)?.noticed_after.is_some() {
            return Err(error("noticed_after is a setting of its registry"));
        }
    }
    let layers = missing_layers(plan, image)?;
    if layers.is_empty() || layers.iter().sum::<u64>() > BYTES_MAX {
        return Err(error("no layer is missing, or more than 100,000 MiB are"));
    }
    let host = |node: &NodePlan| HostPlan {
        access: access(node),
        region: node.region,
        joins_at: Duration::ZERO,
        starts_at: node.arrives_at,
        leaves_at: node.leaves_at,
    };
    let hosts: Vec<HostPlan> = hosts(plan).map(host).collect();
    let mut network = NetworkLimits::default();
    if hosts.len() > FINE_HOSTS_MAX {
        network.chunk_bytes_max = COARSE_CHUNK_BYTES;
    }
    Ok(FleetPlan {
        seed: plan.seed,
        layers,
        layers_at_once: LAYERS_AT_ONCE,
        registry: access(registry),
        registry_region: registry.region,
        registry_wait: REGISTRY_WAIT,
        hosts,
        paths: plan.paths.clone(),
        network,
        connections_max: CONNECTIONS_MAX,
        handshakes_max: HANDSHAKES_MAX,
        leases_per_layer: LEASES_PER_LAYER,
        noticed_after: settings_of(plan, registry)?.noticed_after.unwrap_or(NOTICED_AFTER),
        time_max: plan.time_max,
    })
}

/// The bytes of the layers that each host lacks.
fn missing_layers(plan: &TrialPlan, image: usize) -> Result<Vec<u64>, DriverError> {
    let layers = |index: usize| match &plan.objects[index].object {
        Object::RandomImage(layers) => Ok(layers),
        _ => Err(unsupported(plan, "its mirrors pull a random image")),
    };
    let missing = |host: &NodePlan| -> Result<Vec<&RandomLayer>, DriverError> {
        let own = host.seeds.iter().map(|index| layers(*index));
        let own = own.collect::<Result<Vec<_>, _>>()?;
        let is_missing = |layer: &&RandomLayer| !own.iter().any(|layers| layers.contains(layer));
        Ok(layers(image)?.iter().filter(is_missing).collect())
    };
    let mut all = hosts(plan).map(missing);
    let first = all.next().unwrap_or_else(|| Ok(Vec::new()))?;
    for other in all {
        if other? != first {
            return Err(unsupported(plan, "its hosts have the same layers"));
        }
    }
    Ok(first.into_iter().map(|layer| layer.bytes).collect())
}

pub fn run(plan: &TrialPlan, onlooker: &mut Onlooker<'_>) -> Result<RunResult, DriverError> {
    let simulation = simulation(plan)?;
    if onlooker.trace.is_some() {
        return Err(unsupported(plan, "mirrors have no trace of events"));
    }
    let outcome = watchfire_sim::run_fleet(&simulation, &mut |progress| {
        let watchfire_sim::Progress { now, part, finished, awaited } = progress;
        let phase = "simulates";
        (onlooker.watch)(Progress { phase, now, part, finished, awaited, nodes: &[] });
    });
    let image = &plan.objects[the_fetched(plan)?];
    let object_bytes = object_bytes(&image.object)
        .map_err(|source| DriverError::Object { object: image.name.clone(), source })?;
    Ok(result(plan, &outcome, object_bytes))
}

fn result(plan: &TrialPlan, outcome: &FleetOutcome, object_bytes: u64) -> RunResult {
    let mut hosts = outcome.hosts.iter();
    let node = |node: &NodePlan| match node.fetches.is_empty() {
        true => registry_result(node, outcome),
        false => {
            hosts.next().map_or_else(NodeResult::default, |host| host_result(node, host, outcome))
        }
    };
    let nodes: Vec<NodeResult> = plan
        .nodes
        .iter()
        .filter(|node| !node.fetches.is_empty() || !node.seeds.is_empty())
        .map(node)
        .collect();
    let first = outcome.hosts.first().map(|host| host.started_at);
    let is_together = outcome.hosts.iter().all(|host| Some(host.started_at) == first);
    RunResult {
        trial: plan.name.clone(),
        driver: SIMULATED.to_owned(),
        seed: plan.seed,
        object_bytes,
        // It is about the hosts that start together.
        bound_seconds: is_together.then(|| outcome.bound.seconds()),
        took_seconds: outcome.ended_at.as_secs_f64(),
        nodes,
        measures: measures(outcome),
        problems: outcome.violations.clone(),
        trace: RunTrace { id: trace_id((&plan.name, plan.seed)), ..RunTrace::default() },
        ..RunResult::default()
    }
}

/// Figures that only a simulated fleet has.
fn measures(outcome: &FleetOutcome) -> BTreeMap<String, f64> {
    let copies = outcome.registry_copies().into_iter().reduce(f64::max);
    let all = [
        ("registry: copies of missing layers to one region, most", copies),
        ("hosts: median, times the bound", outcome.times_the_bound(0.5)),
        ("hosts: last, times the bound", outcome.times_the_bound(1.0)),
        ("hosts: connections of one, most", Some(outcome.connections_max as f64)),
        ("hosts: rejected connections", Some(outcome.rejected_connections as f64)),
        ("coordinators: of one layer, most", Some(outcome.coordinators_max as f64)),
        (
            "coordinators: requests in one second, most",
            Some(outcome.requests_per_second_max.into()),
        ),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn registry_result(node: &NodePlan, outcome: &FleetOutcome) -> NodeResult {
    NodeResult {
        name: node.name.clone(),
        group: node.group.clone(),
        is_seeder: true,
        content_sent_bytes: Some(outcome.registry_bytes.iter().sum()),
        sent_bytes: Some(outcome.registry_traffic.0),
        received_bytes: Some(outcome.registry_traffic.1),
        duplicate_bytes: Some(0),
        messages: Some(0),
        ..NodeResult::default()
    }
}

fn host_result(node: &NodePlan, host: &HostOutcome, outcome: &FleetOutcome) -> NodeResult {
    let seconds = |at: Duration| at.as_secs_f64();
    let share = |blocks: usize| blocks as f64 / outcome.blocks.max(1) as f64;
    let ends =
        |(first, last)| [(seconds(first), share(1)), (seconds(last), share(host.received_blocks))];
    NodeResult {
        name: node.name.clone(),
        group: node.group.clone(),
        is_awaited: host.is_awaited,
        arrived_at: seconds(host.started_at),
        first_byte_at: host.received_at.map(|(first, _)| seconds(first)),
        finished_at: host.finished_at.map(seconds),
        left_at: node.leaves_at.filter(|at| *at <= outcome.ended_at).map(seconds),
        // A thousand hosts with a time for each block would be most of a result.
        progress: host.received_at.map(ends).into_iter().flatten().collect(),
        content_sent_bytes: Some(host.totals.bytes_out),
        sent_bytes: Some(host.traffic.0),
        received_bytes: Some(host.traffic.1),
        duplicate_bytes: Some(host.totals.duplicate_bytes),
        messages: Some(host.totals.messages_in),
        ..NodeResult::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Simulated;
    use super::*;
    use crate::definition::assert_refused;
    use crate::drivers::driver::{Driver, with_causes};

    const TEXT: &str = "
        [peers.mirror]
        implementation = 'mirror'
        [clusters.c]
        latency = '1ms'
        groups = [
          { name = 'registry', peer = 'mirror', link = { up = '1Gbit', down = '1Gbit' } },
          { name = 'hosts', count = 20, peer = 'mirror', link = { up = '1Gbit', down = '1Gbit' } },
        ]
        [scenarios.s]
        objects.one = { image = { layers = 3, size = '60MiB' } }
        objects.two = { image = { layers = 3, size = '60MiB', base = 'one', shared_layers = 1 } }
        seed = { registry = 'one' }
        fetch = { hosts = 'one' }
        [[trials]]
        cluster = 'c'
        scenario = 's'
    ";

    fn run(text: &str) -> Result<RunResult, DriverError> {
        Simulated.run(&TrialPlan::first_of(text), &mut |_| {})
    }

    fn registry_sent(result: &RunResult) -> f64 {
        result.nodes[0].content_sent_bytes.unwrap() as f64 / f64::from(1 << 20)
    }

    #[test]
    fn the_registry_of_an_experiment_sends_one_copy_to_its_hosts() {
        let result = run(TEXT).unwrap();
        assert!(result.is_healthy() && result.nodes.len() == 21, "{:?}", result.problems);
        let sent = registry_sent(&result);
        assert!((59.9..63.0).contains(&sent), "{sent} MiB of 60");
        assert_eq!(result.measures["coordinators: of one layer, most"], 1.0);
        assert!(result.measures["hosts: last, times the bound"] > 1.0);
        assert_eq!(result.nodes[20].progress.last().unwrap().1, 1.0);
        assert_eq!(result, run(TEXT).unwrap(), "the same seed");
    }

    #[test]
    fn hosts_fetch_the_layers_that_their_own_image_lacks_in_waves() {
        let text = TEXT
            .replace("seed = { registry = 'one' }", "seed = { registry = 'two', hosts = 'one' }")
            .replace("fetch = { hosts = 'one' }", "fetch = { hosts = 'two' }")
            + "[[scenarios.s.waves]]\nnodes = 'hosts'\ncount = 4\ninterval = '5s'\n";
        let result = run(&text).unwrap();
        let (sent, last) = (registry_sent(&result), result.nodes[20].arrived_at);
        assert!((27.9..29.0).contains(&sent), "{sent} MiB of 60, the two smaller layers");
        assert_eq!((last, result.bound_seconds), (15.0, None));
    }

    #[test]
    fn a_fleet_that_cannot_be_simulated_names_the_reason() {
        let changes = [
            ("count = 20,", "count = 20, nat = 'symmetric',", "behind a NAT"),
            ("'mirror'\n", "'mirror'\n        settings = { fleet = false }\n", "one fleet"),
            ("{ image = { layers = 3, size = '60MiB' } }", "{ random = '1MiB' }", "random image"),
            ("'registry', peer = 'mirror'", "'registry'", "several"),
        ];
        let ran = |text: &str| run(text).map(drop).map_err(|error| with_causes(&error));
        assert_refused(&TEXT.replace("objects.two =", "#"), &changes, ran);
    }
}
