//! A swarm of peers with equal links.

use watchfire_sim::Scenario;

/// All uplinks stay busy only if peers avoid long queues, and request early the blocks that only
/// the seeder has.
#[test]
fn no_peer_waits_in_a_long_queue_while_other_uplinks_are_idle() {
    let text = include_str!("../../../../examples/swarm/equal-32.toml");
    let scenario = Scenario::parse("equal-32.toml", text).expect("a scenario");
    let report = scenario.simulate(&mut |_, _| {});
    let (_, outcome) = report.runs.last().expect("there is a run");
    assert_eq!(outcome.unfinished(), 0);
    assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
    let times = outcome.times_the_bound().expect("every leecher finished");
    assert!(times <= 1.16, "{times:.3} of the bound");
    let copies = outcome.seeder_copies();
    assert!(copies <= 1.05, "the seeder sent {copies:.2} copies");
}
