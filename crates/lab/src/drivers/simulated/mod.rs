//! The driver on a simulated clock and network: every node runs the real exchange, and blocks are CIDs
//! and lengths without bytes.
//!
//! It has no processes, so it measures no CPU time and no memory. All nodes run the same program, and a
//! trial has one object: its limits are errors before a trial runs, never silent differences.
//!
//! Its modules import only those in the lines below their own:
//!
//! ```text
//! fleet, swarm    hosts with mirrors; peers of one file
//! trial           what every simulation reads of a trial
//! settings        settings of peers
//! ```

mod fleet;
mod settings;
mod swarm;
mod trial;

use super::driver::{Driver, DriverError, Progress, SIMULATED};
use crate::definition::TrialPlan;
use crate::results::RunResult;

pub use trial::Onlooker;

/// Simulates trials.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulated;

impl Driver for Simulated {
    fn name(&self) -> &'static str {
        SIMULATED
    }

    fn check(&self, plan: &TrialPlan) -> Result<(), DriverError> {
        match fleet::is_fleet(plan) {
            true => fleet::simulation(plan).map(drop),
            false => swarm::simulation(plan).map(drop),
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

pub fn run(plan: &TrialPlan, onlooker: &mut Onlooker<'_>) -> Result<RunResult, DriverError> {
    match fleet::is_fleet(plan) {
        true => fleet::run(plan, onlooker),
        false => swarm::run(plan, onlooker),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::definition::{Experiment, assert_refused};
    use crate::drivers::driver::{NodeState, with_causes};
    use crate::results::Figure;

    /// A file that five nodes spread.
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
        Simulated.run(&TrialPlan::first_of(text), &mut |_| {})
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
        let changes = [
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
        ];
        let ran = |text: &str| run(text).map(drop).map_err(|error| with_causes(&error));
        assert_refused(TEXT, &changes, ran);
    }

    #[test]
    fn every_experiment_for_the_simulator_can_be_simulated() {
        let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
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
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
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
        experiment.resolve_paths(folder);
        let result = Simulated.run(&experiment.plan(&experiment.trials[0], 0), &mut |_| {});
        let result = result.unwrap();
        assert!(result.object_bytes >= 4 << 20 && result.unfinished() == 0);
        for node in result.awaited() {
            let received = node.received_bytes.unwrap();
            assert!((2 << 20..3 << 20).contains(&received), "{received} of 4 MiB were missing 2");
        }
    }

    #[test]
    fn the_progress_names_each_node() {
        let plan = TrialPlan::first_of(TEXT);
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
}
