//! Trials: each runs a scenario on a cluster, if the two fit each other.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use serde::Deserialize;
use toml::Spanned;
use watchfire_report::scenario::SourceText;

use super::values::{RUNS_MAX, unknown};
use crate::definition::{
    DefinitionError, Experiment, Group, Implementation, NatKind, NodePlan, Peer, Query, Trial,
    groups_addressed,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrialFile {
    name: Option<String>,
    cluster: String,
    scenario: String,
    peer: Option<String>,
    #[serde(default)]
    peers: BTreeMap<String, String>,
    #[serde(default)]
    nat: BTreeMap<String, KindsText>,
}

/// One kind of NAT, or several: a trial for each.
#[derive(Deserialize)]
#[serde(untagged)]
enum KindsText {
    One(String),
    Each(Vec<String>),
}

impl KindsText {
    fn kinds(&self) -> Result<Vec<NatKind>, String> {
        let names = match self {
            KindsText::One(name) => std::slice::from_ref(name),
            KindsText::Each(names) => names,
        };
        let kind = |name: &String| NatKind::from_str(name).map_err(|error| error.to_string());
        let kinds = names.iter().map(kind).collect::<Result<Vec<_>, _>>()?;
        if kinds.is_empty() { Err("needs a kind of NAT".to_owned()) } else { Ok(kinds) }
    }
}

/// The kinds of NAT of each trial that an entry stands for: every combination, the last group's kinds changing first.
fn combinations(
    file: &TrialFile,
    groups: &[Group],
) -> Result<Vec<BTreeMap<String, NatKind>>, String> {
    if let Some(name) = file.nat.keys().find(|name| groups.iter().all(|group| group.name != **name))
    {
        return Err(format!("{:?} has no group {name:?}", file.cluster));
    }
    let mut all = vec![BTreeMap::new()];
    for Group { name, .. } in groups {
        let Some(text) = file.nat.get(name) else { continue };
        let kinds = text.kinds()?;
        if all.len().saturating_mul(kinds.len()) > RUNS_MAX as usize {
            return Err(format!("must make at most {RUNS_MAX} trials"));
        }
        let with = |known: &BTreeMap<String, NatKind>, kind: &NatKind| {
            let mut more = known.clone();
            more.insert(name.clone(), *kind);
            more
        };
        all = all.iter().flat_map(|known| kinds.iter().map(|kind| with(known, kind))).collect();
    }
    Ok(all)
}

/// The name of a trial among the others of its entry.
fn name_of(name: &str, nat: &BTreeMap<String, NatKind>, groups: &[Group]) -> String {
    let kinds = groups.iter().filter_map(|group| nat.get(&group.name));
    let kinds: Vec<&str> = kinds.map(|kind| kind.name()).collect();
    format!("{name}: {}", kinds.join(" to "))
}

/// The trials of the file; without any, each cluster with each scenario.
pub(super) fn check_trials(
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
            nat: BTreeMap::new(),
        };
        return pairs
            .map(trial)
            .map(|trial| fits(&trial, experiment, 0, source).map(|()| trial))
            .collect();
    };
    let mut checked: Vec<Trial> = Vec::new();
    for file in files {
        let (at, file) = (file.span().start, file.into_inner());
        let name = file.name.clone().unwrap_or_else(|| {
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
        let natted = combinations(&file, groups);
        let natted = natted.map_err(|problem| source.error(at, "nat", problem))?;
        let is_one = natted.len() == 1;
        for nat in natted {
            let name = if is_one { name.clone() } else { name_of(&name, &nat, groups) };
            if checked.iter().any(|known| known.name == name) {
                let problem = format!("another trial has the name {name:?}");
                return Err(source.error(at, "name", problem));
            }
            let TrialFile { cluster, scenario, peer, peers, .. } = &file;
            let trial = Trial {
                name,
                cluster: cluster.clone(),
                scenario: scenario.clone(),
                peer: peer.clone(),
                peers: peers.clone(),
                nat,
            };
            fits(&trial, experiment, at, source)?;
            checked.push(trial);
        }
    }
    if checked.is_empty() || checked.len() > RUNS_MAX as usize {
        return Err(source.error_in_file("trials", format!("must be 1 to {RUNS_MAX}")));
    }
    Ok(checked)
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
    queries.extend(scenario.waves.iter().map(|waves| ("waves", waves.nodes.clone())));
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
    if scenario.load.is_none() && !nodes.iter().any(NodePlan::is_awaited) {
        return error("fetch", format!("no node of {:?} fetches and stays", trial.cluster));
    }
    Ok(())
}
