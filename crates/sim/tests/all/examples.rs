//! The scenarios in `examples/swarm` and `examples/fleet` are valid.

use std::path::Path;

use watchfire_sim::{FleetScenario, Scenario};

#[test]
fn every_example_is_a_valid_scenario() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/swarm");
    let mut count = 0;
    for file in folder.read_dir().expect("the examples") {
        let file = file.expect("an example").path();
        let text = std::fs::read_to_string(&file).expect("UTF-8 text");
        let scenario = Scenario::parse(&file.display().to_string(), &text);
        let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
        for run in &scenario.runs {
            assert!(scenario.plan(run).peers.len() >= 9, "{}", file.display());
        }
        count += 1;
    }
    assert!(count >= 6, "{count} examples");
}

#[test]
fn every_example_of_a_fleet_is_a_valid_scenario() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet");
    let mut count = 0;
    for file in folder.read_dir().expect("the examples") {
        let file = file.expect("an example").path();
        let text = std::fs::read_to_string(&file).expect("UTF-8 text");
        let scenario = FleetScenario::parse(&file.display().to_string(), &text);
        let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
        assert!(scenario.plan().hosts.len() >= 32, "{}", file.display());
        count += 1;
    }
    assert!(count >= 5, "{count} examples");
}
