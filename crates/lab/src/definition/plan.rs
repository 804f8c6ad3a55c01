//! One trial, node by node.

use std::collections::BTreeSet;
use std::time::Duration;

use watchfire_sim::Path;
use watchfire_types::Rng;
use watchfire_wire::NatKind;

use super::experiment::{
    Cluster, Experiment, FaultKind, Group, Link, Load, Object, Peer, Scenario, Trial,
};
use super::query::Query;

/// The number that divides the random choices about nodes from others of the same seed.
const NODES_PURPOSE: u64 = 0x1ab;

/// One run of a trial: every node, and all that happens to it. Drivers run this, and read nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialPlan {
    pub name: String,
    pub seed: u64,
    pub nodes: Vec<NodePlan>,
    pub objects: Vec<ObjectPlan>,
    /// Paths between regions: one row for each region, with one path for each.
    pub paths: Vec<Vec<Path>>,
    pub neighbours: Option<u32>,
    /// Whether all programs have one network namespace of their own.
    pub private_network: bool,
    /// The users of the nodes that serve.
    pub load: Option<Load>,
    /// Whether the free memory of the machine is filled before the clock starts.
    pub fill_memory: bool,
    pub time_max: Duration,
}

/// An object of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectPlan {
    pub name: String,
    pub object: Object,
}

/// A node of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePlan {
    pub name: String,
    pub group: String,
    pub labels: BTreeSet<String>,
    /// Its row in [`TrialPlan::paths`].
    pub region: usize,
    pub link: Link,
    pub nat: NatKind,
    pub peer: Peer,
    pub processors: Option<f64>,
    /// Objects that it has from the start, as indices of [`TrialPlan::objects`].
    pub seeds: BTreeSet<usize>,
    /// Objects that it fetches, as indices of [`TrialPlan::objects`].
    pub fetches: BTreeSet<usize>,
    /// Whether it is a server for the users of a load, or for programs.
    pub serves: bool,
    /// Whether it is a server for the users of a load.
    pub has_users: bool,
    /// When it begins to fetch.
    pub arrives_at: Duration,
    pub leaves_at: Option<Duration>,
    /// When it returns with its content after it left; `None` if it does not.
    pub returns_at: Option<Duration>,
    /// Changes of its link, the earliest first.
    pub link_changes: Vec<(Duration, Link)>,
    /// Routers that replace the one before, the earliest first.
    pub router_changes: Vec<(Duration, NatKind)>,
}

impl NodePlan {
    /// Whether the trial waits until the node has its objects.
    pub fn is_awaited(&self) -> bool {
        !self.fetches.is_empty() && (self.leaves_at.is_none() || self.returns_at.is_some())
    }
}

impl Experiment {
    /// The nodes of a cluster, without a scenario.
    ///
    /// # Panics
    ///
    /// If no cluster has the name.
    pub fn nodes(&self, cluster: &str) -> Vec<NodePlan> {
        nodes(&self.clusters[cluster], &|group: &Group| self.peers[&group.peer].clone())
    }

    /// Expands a trial. The same experiment and repeat give the same plan.
    ///
    /// # Panics
    ///
    /// If the trial is not one of this experiment.
    pub fn plan(&self, trial: &Trial, repeat: u32) -> TrialPlan {
        let seed = self.seed.wrapping_add(u64::from(repeat));
        let (cluster, scenario) =
            (&self.clusters[&trial.cluster], &self.scenarios[&trial.scenario]);
        let peer = |group: &Group| {
            let of_trial = trial.peers.get(&group.name).or(trial.peer.as_ref());
            self.peers[of_trial.unwrap_or(&group.peer)].clone()
        };
        let mut rng = Rng::for_purpose(seed, NODES_PURPOSE);
        let mut nodes = nodes(cluster, &peer);
        for node in &mut nodes {
            scenario.give_objects(node);
            node.nat = trial.nat.get(&node.group).copied().unwrap_or(node.nat);
            let users = scenario.load.as_ref().map(|load| &load.on);
            node.has_users = users.is_some_and(|query| query.applies_to(&node.labels));
            node.serves = node.has_users
                || scenario.serve.as_ref().is_some_and(|query| query.applies_to(&node.labels));
            node.arrives_at = scenario.arrive_within.mul_f64(rng.fraction());
        }
        scenario.apply_waves(&mut nodes);
        scenario.apply_churn(&mut nodes, &mut rng);
        scenario.apply_faults(&mut nodes);
        let objects = scenario.objects.iter();
        let objects =
            objects.map(|(name, object)| ObjectPlan { name: name.clone(), object: object.clone() });
        TrialPlan {
            name: trial.name.clone(),
            seed,
            nodes,
            objects: objects.collect(),
            paths: cluster.paths.clone(),
            neighbours: cluster.neighbours,
            private_network: cluster.private_network,
            load: scenario.load.clone(),
            fill_memory: self.fill_memory,
            time_max: scenario.time_max,
        }
    }
}

/// Checks that each change of a file (a part of it, and its replacement) has an error with a text.
#[cfg(test)]
pub fn assert_refused(
    file: &str,
    changes: &[(&str, &str, &str)],
    error: impl Fn(&str) -> Result<(), String>,
) {
    for (old, new, problem) in changes {
        let text = file.replacen(old, new, 1);
        assert_ne!(text, file, "{old} is there");
        let error = error(&text).expect_err(new);
        assert!(error.contains(problem), "{new}: {error}");
    }
}

#[cfg(test)]
impl TrialPlan {
    /// The first run of the first trial of a file.
    pub fn first_of(text: &str) -> TrialPlan {
        let experiment = Experiment::parse("test.toml", text).unwrap();
        experiment.plan(&experiment.trials[0], 0)
    }
}

fn nodes(cluster: &Cluster, peer: &dyn Fn(&Group) -> Peer) -> Vec<NodePlan> {
    let of_group = |group: &Group| -> Vec<NodePlan> {
        let node = |name: String| {
            let mut labels = group.labels.clone();
            let region = format!("region={}", cluster.regions[group.region]);
            labels.extend([name.clone(), group.name.clone(), region]);
            NodePlan {
                name,
                group: group.name.clone(),
                labels,
                region: group.region,
                link: group.link,
                nat: group.nat,
                peer: peer(group),
                processors: group.processors,
                seeds: BTreeSet::new(),
                fetches: BTreeSet::new(),
                serves: false,
                has_users: false,
                arrives_at: Duration::ZERO,
                leaves_at: None,
                returns_at: None,
                link_changes: Vec::new(),
                router_changes: Vec::new(),
            }
        };
        group.node_names().map(node).collect()
    };
    cluster.groups.iter().flat_map(of_group).collect()
}

impl Scenario {
    fn give_objects(&self, node: &mut NodePlan) {
        let index = |name: &String| self.objects.keys().position(|known| known == name);
        let of = |rules: &[(Query, String)]| -> BTreeSet<usize> {
            let of_node = rules.iter().filter(|(query, _)| query.applies_to(&node.labels));
            of_node.filter_map(|(_, object)| index(object)).collect()
        };
        let (seeds, fetches) = (of(&self.seed), of(&self.fetch));
        // A rule for all nodes also names those that have the object from the start.
        node.fetches = fetches.difference(&seeds).copied().collect();
        node.seeds = seeds;
    }

    fn apply_waves(&self, nodes: &mut [NodePlan]) {
        for waves in &self.waves {
            let of_waves = nodes.iter_mut().filter(|node| waves.nodes.applies_to(&node.labels));
            let of_waves: Vec<&mut NodePlan> = of_waves.collect();
            let all = of_waves.len() as u64;
            for (number, node) in (0..).zip(of_waves) {
                let wave: u64 = number * u64::from(waves.count) / all;
                node.arrives_at += waves.interval * wave as u32;
            }
        }
    }

    fn apply_churn(&self, nodes: &mut [NodePlan], rng: &mut Rng) {
        for churn in &self.churn {
            let mut chosen: Vec<usize> = (0..nodes.len())
                .filter(|index| churn.nodes.applies_to(&nodes[*index].labels))
                .collect();
            rng.shuffle(&mut chosen);
            let leaving = (chosen.len() as f64 * churn.part).round() as usize;
            for index in chosen.into_iter().take(leaving) {
                let node = &mut nodes[index];
                let leaves_at = node.arrives_at + churn.within.mul_f64(rng.fraction());
                node.leaves_at = Some(leaves_at);
                node.returns_at = churn.returns_after.map(|after| leaves_at + after);
            }
        }
    }

    fn apply_faults(&self, nodes: &mut [NodePlan]) {
        for fault in &self.faults {
            for node in nodes.iter_mut().filter(|node| fault.nodes.applies_to(&node.labels)) {
                match fault.kind {
                    FaultKind::Kill => (node.leaves_at, node.returns_at) = (Some(fault.at), None),
                    FaultKind::Link(link) => node.link_changes.push((fault.at, link)),
                    FaultKind::Router(kind) => node.router_changes.push((fault.at, kind)),
                }
            }
        }
        for node in nodes {
            node.link_changes.sort_by_key(|(at, _)| *at);
            node.router_changes.sort_by_key(|(at, _)| *at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHURN: &str = "
        [clusters.c]
        groups = [{ name = 'source' }, { name = 'peers', count = 10, labels = ['eu'] }]
        [scenarios.s]
        objects.file = { random = '1MiB' }
        seed = { source = 'file' }
        fetch = { \"(not 'source')\" = 'file' }
        arrive_within = '10s'
        churn = [{ nodes = 'eu', part = 0.3, within = '5s', returns_after = '2s' }]
        faults = [
          { at = '3s', nodes = 'peers-1', kill = true },
          { at = '4s', nodes = 'source', link = { up = '10Mbit' } },
        ]
    ";

    fn plan(repeat: u32) -> TrialPlan {
        let experiment = Experiment::parse("churn.toml", CHURN).unwrap();
        experiment.plan(&experiment.trials[0], repeat)
    }

    #[test]
    fn a_trial_expands_to_nodes_with_their_objects() {
        let plan = plan(0);
        assert_eq!(plan.nodes.len(), 11);
        let source = &plan.nodes[0];
        assert_eq!(
            (source.name.as_str(), source.seeds.len(), source.is_awaited()),
            ("source", 1, false)
        );
        assert_eq!(source.link_changes[0].1.up, Some(1_250_000));
        let fetching = plan.nodes.iter().filter(|node| node.fetches == [0].into());
        assert_eq!(fetching.count(), 10);
        assert!(plan.nodes.iter().all(|node| node.arrives_at < Duration::from_secs(10)));
    }

    #[test]
    fn nodes_arrive_in_waves() {
        let text = CHURN.replace("arrive_within = '10s'", "arrive_within = '1s'")
            + "[[scenarios.s.waves]]\nnodes = 'peers'\ncount = 5\ninterval = '10s'\n";
        let plan = TrialPlan::first_of(&text);
        let arrivals = plan.nodes.iter().skip(1).map(|node| node.arrives_at.as_secs());
        assert_eq!(arrivals.collect::<Vec<_>>(), [0, 0, 10, 10, 20, 20, 30, 30, 40, 40]);
    }

    #[test]
    fn churn_and_faults_name_their_nodes() {
        let plan = plan(0);
        let killed = &plan.nodes[1];
        assert_eq!((killed.leaves_at, killed.returns_at), (Some(Duration::from_secs(3)), None));
        let returning = plan.nodes.iter().filter(|node| node.returns_at.is_some());
        assert!((2..=3).contains(&returning.clone().count()));
        for node in returning {
            let left_for = node.returns_at.unwrap() - node.leaves_at.unwrap();
            assert_eq!(left_for, Duration::from_secs(2));
            assert!(node.is_awaited());
        }
    }

    #[test]
    fn the_same_repeat_has_the_same_plan() {
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
    }
}
