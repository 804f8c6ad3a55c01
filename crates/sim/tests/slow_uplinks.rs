//! Most who share a page are at home, and send far more slowly than they receive.

use watchfire_sim::{Outcome, Scenario};

fn simulated(text: &str) -> Outcome {
    let scenario = Scenario::parse("slow-uplinks.toml", text).expect("a scenario");
    let mut report = scenario.simulate(&mut |_, _| {});
    let (_, outcome) = report.runs.remove(0);
    assert_eq!(outcome.unfinished(), 0);
    assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
    outcome
}

/// A block takes its uplink most of a second: if several were under way at a time, or one to several peers, all would
/// wait for each other.
#[test]
fn who_has_a_slow_uplink_sends_each_block_once() {
    let outcome = simulated(
        r#"
        seed = 1
        time_max = "10m"
        [file]
        size = "60MiB"
        [network]
        latency = "10ms"
        [[peers]]
        role = "seeder"
        up = "10Mbit"
        down = "100Mbit"
        [[peers]]
        role = "leecher"
        count = 16
        up = "100Mbit"
        down = "100Mbit"
        "#,
    );
    let copies = outcome.seeder_copies();
    assert!(copies <= 1.1, "the seeder sent {copies:.2} copies");
    let times = outcome.times_the_bound().expect("all have it");
    assert!(times <= 1.15, "{times:.3} of the bound");
}

/// All others together send no more than one of them receives.
#[test]
fn those_with_slow_uplinks_do_not_keep_a_fast_one_waiting() {
    let outcome = simulated(
        r#"
        seed = 1
        time_max = "10m"
        [file]
        size = "60MiB"
        block = "256KiB"
        [network]
        latency = "10ms"
        [[peers]]
        role = "seeder"
        up = "500Mbit"
        down = "500Mbit"
        [[peers]]
        role = "leecher"
        count = 10
        up = "1Mbit"
        down = "10Mbit"
        "#,
    );
    let times = outcome.times_the_bound().expect("all have it");
    assert!(times <= 1.3, "{times:.3} of the bound");
}
