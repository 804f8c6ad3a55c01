//! Most peers of a page are at home, where the uplink is far slower than the downlink.

use watchfire_sim::{Outcome, Scenario};

fn simulated(text: &str) -> Outcome {
    let scenario = Scenario::parse("slow-uplinks.toml", text).expect("a scenario");
    let mut report = scenario.simulate(&mut |_, _| {});
    let (_, outcome) = report.runs.remove(0);
    assert_eq!(outcome.unfinished(), 0);
    assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
    outcome
}

/// A block takes most of a second on this uplink. If the seeder sent several blocks at a time, or a
/// block to several peers, all peers would wait.
#[test]
fn a_seeder_with_a_slow_uplink_sends_each_block_about_once() {
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
    let times = outcome.times_the_bound().expect("every leecher finished");
    assert!(times <= 1.15, "{times:.3} of the bound");
}

/// The uplinks of all leechers together are as fast as the downlink of one.
#[test]
fn slow_leechers_do_not_delay_a_fast_seeder() {
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
    let times = outcome.times_the_bound().expect("every leecher finished");
    assert!(times <= 1.3, "{times:.3} of the bound");
}
