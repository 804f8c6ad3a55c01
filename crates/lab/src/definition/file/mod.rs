//! The format of an experiment file, and its checks. docs/reference/experiments.md describes it.

mod clusters;
mod figures;
mod objects;
mod paths;
mod peers;
mod scenarios;
#[cfg(test)]
mod tests;
mod trials;

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;
use watchfire_report::scenario::SourceText;

use self::clusters::{ClusterFile, check_cluster};
use self::figures::{FigureFile, TargetFile, check_figures, check_targets};
use self::peers::{PeerFile, check_peer};
use self::scenarios::{ScenarioFile, check_scenario};
use self::trials::{TrialFile, check_trials};
use super::{Build, DefinitionError, Experiment, Implementation, Peer};

/// Most trials, repeats and warm-up runs of an experiment.
const RUNS_MAX: u32 = 1000;
const NAME_PROBLEM: &str =
    "must be 1 to 64 letters, digits, '-', '_' or '.', and begin with a letter or a digit";
/// The peer of a group that names none.
const OURS: &str = "watchfire";
/// The age of a page, in commits, if its experiment does not say it.
const STALE_AFTER: u32 = 60;

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

/// Values as text, for the command line of a program.
fn texts(values: BTreeMap<String, toml::Value>) -> BTreeMap<String, String> {
    let text = |value: toml::Value| match value {
        toml::Value::String(text) => text,
        value => value.to_string(),
    };
    values.into_iter().map(|(key, value)| (key, text(value))).collect()
}

/// Whether a group or an object may have this name: it becomes the name of a file.
fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_part)
}

/// An error about a name that nothing has.
fn unknown<T>(kind: &str, name: &str, known: &BTreeMap<String, T>) -> String {
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    format!("no {kind} has the name {name:?}; known: {}", names.join(", "))
}
