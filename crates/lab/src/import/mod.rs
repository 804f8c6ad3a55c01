//! p2plab's definitions as an experiment: its clusters, scenarios and experiments as JSON.
//!
//! [`import`] reads clusters with scenarios, or experiments, and returns the text of an experiment
//! file with notes about all that has no counterpart here. Nothing is dropped in silence: an unknown field is an
//! error, and a known one without a counterpart is a note. p2plab writes experiments in CUE, which `cue export`
//! turns into JSON.

mod p2plab;
mod text;

use std::collections::BTreeMap;

use serde_json::Value;

pub use text::{Imported, Substitute};

/// Why a definition cannot be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    #[error("cannot read CUE: run cue export {file} > {name}.json, and import {name}.json")]
    Cue { file: String, name: String },
    #[error("{file}: {cause}")]
    Json { file: String, cause: serde_json::Error },
    #[error("{file}: {problem}")]
    Definition { file: String, problem: String },
    #[error("nothing to run: {problem}")]
    Incomplete { problem: String },
}

/// A file to import: its name, and its text.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

/// Imports clusters, scenarios and experiments. Each cluster is combined with each scenario; an experiment names
/// its own pairs.
pub fn import(
    sources: &[Source<'_>],
    substitutes: &BTreeMap<String, Substitute>,
) -> Result<Imported, ImportError> {
    let mut read = p2plab::Definitions::default();
    for source in sources {
        let definition =
            |problem: String| ImportError::Definition { file: source.name.to_owned(), problem };
        let name = stem(source.name);
        if source.name.ends_with(".cue") {
            return Err(ImportError::Cue { file: source.name.to_owned(), name });
        }
        let value: Value = serde_json::from_str(source.text)
            .map_err(|error| ImportError::Json { file: source.name.to_owned(), cause: error })?;
        match value.as_object() {
            Some(object) if object.contains_key("experiment") => {
                read.add_experiment(&object["experiment"]).map_err(definition)?;
            }
            Some(object) if object.contains_key("groups") => {
                read.add_cluster(&name, &value).map_err(definition)?;
            }
            Some(object) if object.contains_key("objects") => {
                read.add_scenario(&name, &value).map_err(definition)?;
            }
            _ => {
                let problem =
                    "it is neither a cluster (groups), a scenario (objects) nor an experiment";
                return Err(definition(problem.to_owned()));
            }
        }
    }
    read.pair().map_err(|problem| ImportError::Incomplete { problem })?;
    Ok(text::write(&read, substitutes))
}

/// The name of a definition: that of its file, without folder and ending.
fn stem(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or_default();
    name.split('.').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{Experiment, Object};

    fn imported(sources: &[(&str, &str)]) -> (Experiment, Vec<String>) {
        let sources: Vec<_> = sources.iter().map(|(name, text)| Source { name, text }).collect();
        let substitutes = [("app".to_owned(), Substitute::Bytes(5 << 20))].into();
        let imported = import(&sources, &substitutes).unwrap();
        let experiment = Experiment::parse("imported.toml", &imported.text);
        (experiment.unwrap_or_else(|error| panic!("{error}\n{}", imported.text)), imported.notes)
    }

    const CLUSTER: &str = r#"{ "groups": [
        { "size": 1, "instanceType": "a1.large", "region": "west", "labels": ["fresh"] },
        { "size": 2, "instanceType": "a1.large", "region": "east",
          "peer": { "gitReference": "HEAD", "transports": ["quic"], "muxers": ["mplex"],
                    "securityOptions": [], "routing": "nil" } }
    ] }"#;

    const SCENARIO: &str = r#"{
        "objects": { "app": { "type": "oci", "source": "registry.example/app:1" } },
        "seed": { "region=east": "app" },
        "benchmark": { "(not 'region=east')": "app" }
    }"#;

    #[test]
    fn a_cluster_and_a_scenario_become_a_trial() {
        let (experiment, notes) = imported(&[("d/three.json", CLUSTER), ("app.json", SCENARIO)]);
        assert_eq!(experiment.trials[0].name, "three, app");
        let plan = experiment.plan(&experiment.trials[0], 0);
        assert_eq!(plan.nodes.len(), 3);
        assert_eq!(plan.objects[0].object, Object::Random { bytes: 5 << 20 });
        assert!(plan.nodes[0].labels.contains("fresh") && plan.nodes[0].is_awaited());
        assert_eq!(plan.nodes[1].peer.settings["transport"], "quic");
        for part in ["a1.large", "gitReference", "mplex", "registry.example/app:1"] {
            assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
        }
    }

    #[test]
    fn the_region_and_the_instance_type_of_a_node_are_labels() {
        let scenario = r#"{
            "objects": { "app": { "type": "oci", "source": "registry.example/app:1" } },
            "seed": { "west": "app" },
            "benchmark": { "(and east 'a1.large')": "app" }
        }"#;
        let (experiment, _) = imported(&[("three.json", CLUSTER), ("regions.json", scenario)]);
        let plan = experiment.plan(&experiment.trials[0], 0);
        let awaited: Vec<_> = plan.nodes.iter().map(|node| node.is_awaited()).collect();
        assert_eq!(awaited, [false, true, true]);
    }

    #[test]
    fn an_exported_experiment_names_its_trials() {
        let group = |size: u32, label: &str| {
            format!(
                r#"{{"size": {size}, "instanceType": "a", "region": "west", "labels": [{label}]}}"#
            )
        };
        let trial = |size: u32, source: &str| {
            let (leechers, seeder) = (group(size, ""), group(1, r#""source""#));
            let app = format!(r#"{{"app": {{"type": "oci", "source": "{source}"}}}}"#);
            format!(
                r#"{{"cluster": {{"groups": [{leechers}, {seeder}]}}, "scenario": {{"objects": [{app}],
                "seed": {{"source": "app"}}, "benchmark": {{"(not source)": "app"}}}}}}"#
            )
        };
        let trials =
            [trial(4, "one"), trial(2, "one"), trial(2, "two"), trial(4, "one")].join(", ");
        // Fields beside it, such as an exported definition, are not part of the experiment.
        let exported =
            format!(r#"{{"small": {{"size": 2}}, "experiment": {{"trials": [{trials}]}}}}"#);
        let (experiment, notes) = imported(&[("all.json", &exported)]);
        let sizes = experiment.trials.iter().map(|trial| experiment.plan(trial, 0).nodes.len());
        assert_eq!(sizes.collect::<Vec<_>>(), [5, 3, 3]);
        assert!(notes.iter().any(|note| note.contains("two")), "{notes:?}");
    }

    #[test]
    fn a_definition_that_is_not_valid_names_its_problem() {
        let error = |name: &str, text: &str| {
            import(&[Source { name, text }], &BTreeMap::new()).unwrap_err().to_string()
        };
        for (name, text, problem) in [
            ("a.json", "{", "EOF"),
            ("a.json", "[]", "neither a cluster"),
            ("a.json", r#"{"groups": []}"#, "groups is empty"),
            ("a.json", r#"{"groups": [{"size": 0}]}"#, "size"),
            ("a.json", r#"{"groups": [{"size": 1, "colour": "red"}]}"#, "unknown field `colour`"),
            ("a.json", SCENARIO, "no cluster"),
            ("a.json", CLUSTER, "no scenario"),
            ("a.json", r#"{"experiment": {}}"#, "missing field `trials`"),
            ("d/a.cue", "a: 1", "run cue export d/a.cue > a.json"),
        ] {
            let error = error(name, text);
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
