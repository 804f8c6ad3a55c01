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
mod values;

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;
use watchfire_report::scenario::SourceText;

use self::clusters::{ClusterFile, check_cluster};
use self::figures::{FigureFile, TargetFile, check_figures, check_targets};
use self::peers::{PeerFile, check_peer};
use self::scenarios::{ScenarioFile, check_scenario};
use self::trials::{TrialFile, check_trials};
use self::values::{OURS, RUNS_MAX, one};
use super::experiment::{Build, Experiment, Implementation, Peer};
use crate::definition::DefinitionError;

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
        check_some("clusters", &experiment.clusters, &source)?;
        check_some("scenarios", &experiment.scenarios, &source)?;
        experiment.trials = check_trials(trials, &experiment, &source)?;
        experiment.targets = check_targets(targets, &experiment, &source)?;
        Ok(experiment)
    }

    /// Parses a file for its clusters. It has no trials, and needs no scenario.
    pub fn parse_clusters(name: &str, text: &str) -> Result<Experiment, DefinitionError> {
        let source = SourceText { name, text };
        let experiment = source.parse::<ExperimentFile>()?.check(&source)?;
        check_some("clusters", &experiment.clusters, &source)?;
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
        check_some("scenarios", &experiment.scenarios, &source)?;
        experiment.peers = defined.peers.clone();
        experiment.clusters.clear();
        if let Some((name, cluster)) = defined.clusters.get_key_value(cluster) {
            experiment.clusters.insert(name.clone(), cluster.clone());
        }
        experiment.trials = check_trials(None, &experiment, &source)?;
        Ok(experiment)
    }
}

fn check_some<T>(
    key: &str,
    parts: &BTreeMap<String, T>,
    source: &SourceText<'_>,
) -> Result<(), DefinitionError> {
    let error = || source.error_in_file(key, "at least one is needed");
    if parts.is_empty() { Err(error()) } else { Ok(()) }
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
        let peers = std::mem::take(&mut self.peers).into_iter();
        let peers = peers.map(|(name, peer)| Ok((name, check_peer(peer, source)?)));
        let mut peers = peers.collect::<Result<BTreeMap<_, _>, DefinitionError>>()?;
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
