//! p2plab's definitions, field by field.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::definition::Query;

/// Most clusters, scenarios and pairs.
const DEFINITIONS_MAX: usize = 1000;

/// All that was read.
#[derive(Debug, Default)]
pub struct Definitions {
    pub clusters: Vec<(String, Cluster)>,
    pub scenarios: Vec<(String, Scenario)>,
    /// Pairs of a cluster and a scenario, by index.
    pub trials: Vec<(usize, usize)>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    pub groups: Vec<Group>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Group {
    #[serde(default = "one")]
    pub size: u32,
    #[serde(default)]
    pub instance_type: String,
    #[serde(default)]
    pub region: String,
    #[serde(default)]
    pub labels: Vec<String>,
    pub peer: Option<Peer>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Peer {
    #[serde(default)]
    pub git_reference: String,
    #[serde(default)]
    pub transports: Vec<String>,
    #[serde(default)]
    pub muxers: Vec<String>,
    #[serde(default, alias = "securityOptions")]
    pub security_transports: Vec<String>,
    #[serde(default)]
    pub routing: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    pub objects: BTreeMap<String, Object>,
    pub seed: BTreeMap<String, String>,
    pub benchmark: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Object {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(alias = "reference")]
    pub source: String,
    pub layout: Option<String>,
    pub chunker: Option<String>,
    pub raw_leaves: Option<bool>,
    pub hash_func: Option<String>,
    pub max_links: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    objects: Value,
    #[serde(default)]
    seed: BTreeMap<String, String>,
    benchmark: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct ExperimentFile {
    trials: Vec<TrialFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrialFile {
    cluster: Value,
    scenario: Value,
}

const fn one() -> u32 {
    1
}

impl Definitions {
    pub fn add_cluster(&mut self, name: &str, value: &Value) -> Result<usize, String> {
        let cluster: Cluster = read(value)?;
        if cluster.groups.is_empty() {
            return Err("groups is empty".to_owned());
        }
        if let Some(group) = cluster.groups.iter().find(|group| group.size == 0) {
            return Err(format!("size of a group in {:?} must be at least 1", group.region));
        }
        add(&mut self.clusters, name, cluster)
    }

    pub fn add_scenario(&mut self, name: &str, value: &Value) -> Result<usize, String> {
        let file: ScenarioFile = read(value)?;
        let scenario = Scenario {
            objects: read(&merged(file.objects)?)?,
            seed: file.seed,
            benchmark: file.benchmark,
        };
        for (query, object) in scenario.seed.iter().chain(&scenario.benchmark) {
            Query::parse(query).map_err(|error| error.to_string())?;
            if !scenario.objects.contains_key(object) {
                return Err(format!("{query:?} names the unknown object {object:?}"));
            }
        }
        add(&mut self.scenarios, name, scenario)
    }

    /// Adds the trials of an experiment. Equal clusters and scenarios are added once.
    pub fn add_experiment(&mut self, value: &Value) -> Result<(), String> {
        let experiment: ExperimentFile = read(value)?;
        for trial in experiment.trials {
            let cluster = self.add_cluster("cluster", &trial.cluster)?;
            let scenario = self.add_scenario("scenario", &trial.scenario)?;
            if self.trials.len() >= DEFINITIONS_MAX {
                return Err(format!("it has more than {DEFINITIONS_MAX} trials"));
            }
            if !self.trials.contains(&(cluster, scenario)) {
                self.trials.push((cluster, scenario));
            }
        }
        Ok(())
    }

    /// Combines each cluster with each scenario, unless an experiment named the pairs.
    pub fn pair(&mut self) -> Result<(), String> {
        for (is_empty, what) in
            [(self.clusters.is_empty(), "cluster"), (self.scenarios.is_empty(), "scenario")]
        {
            if is_empty {
                return Err(format!("no {what} was given"));
            }
        }
        if self.trials.is_empty() {
            let scenarios = self.scenarios.len();
            let pairs = (0..self.clusters.len())
                .flat_map(|cluster| (0..scenarios).map(move |scenario| (cluster, scenario)));
            self.trials = pairs.take(DEFINITIONS_MAX).collect();
        }
        Ok(())
    }
}

/// Adds a definition under a name that no other has. An equal one is found instead.
fn add<T: PartialEq>(all: &mut Vec<(String, T)>, name: &str, one: T) -> Result<usize, String> {
    if let Some(known) = all.iter().position(|(_, known)| *known == one) {
        return Ok(known);
    }
    if all.len() >= DEFINITIONS_MAX {
        return Err(format!("more than {DEFINITIONS_MAX} definitions"));
    }
    let mut unique = name.to_owned();
    let mut number = 1;
    while all.iter().any(|(known, _)| *known == unique) {
        number += 1;
        unique = format!("{name}-{number}");
    }
    all.push((unique, one));
    Ok(all.len() - 1)
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}

/// Objects as one map. Experiments in CUE have a list of maps.
fn merged(objects: Value) -> Result<Value, String> {
    let Value::Array(parts) = objects else { return Ok(objects) };
    let mut all = Map::new();
    for part in parts {
        let Value::Object(part) = part else { return Err("objects is not a list of maps".into()) };
        all.extend(part);
    }
    Ok(Value::Object(all))
}
