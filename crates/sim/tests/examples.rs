//! The scenarios in `examples/swarm` are valid.

use std::path::Path;

use watchfire_sim::Scenario;

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
