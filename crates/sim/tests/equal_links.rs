//! What nearly every peer of a large swarm is: one among others like it.

use watchfire_sim::Scenario;

/// Uplinks are in use to the end only where those who wait for a crowded peer ask another instead, and where what the
/// seeder has not sent yet is asked for in time.
#[test]
fn nobody_waits_in_a_long_line_while_others_have_nothing_to_send() {
    let text = include_str!("../../../examples/swarm/equal-32.toml");
    let scenario = Scenario::parse("equal-32.toml", text).expect("a scenario");
    let report = scenario.simulate(&mut |_, _| {});
    let (_, outcome) = report.runs.last().expect("there is a run");
    assert_eq!(outcome.unfinished(), 0);
    assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
    let times = outcome.times_the_bound().expect("all have it");
    assert!(times <= 1.16, "{times:.3} of the bound");
    let copies = outcome.seeder_copies();
    assert!(copies <= 1.05, "the seeder sent {copies:.2} copies");
}
