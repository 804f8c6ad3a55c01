//! The ways of others, which ours is compared with.

use sim::Scenario;

/// They ask for all they want at once, and more than we ever ask for.
#[test]
fn those_who_ask_for_a_thousand_blocks_at_once_break_no_promise() {
    let text = r#"
        seed = 1
        time_max = "1m"
        [file]
        size = "20MiB"
        block = "16KiB"
        [network]
        latency = "1ms"
        [[peers]]
        role = "seeder"
        up = "1Gbit"
        down = "1Gbit"
        [[peers]]
        role = "leecher"
        count = 1
        up = "1Gbit"
        down = "1Gbit"
        [[runs]]
        behaviour = "kubo12"
        [[runs]]
        behaviour = "old11"
        "#;
    let scenario = Scenario::parse("others.toml", text).expect("a scenario");
    let report = scenario.simulate(&mut |_, _| {});
    assert_eq!(report.runs.len(), 2);
    for (_, outcome) in &report.runs {
        assert_eq!(outcome.unfinished(), 0);
        assert!(outcome.broken.is_empty(), "{:?}", outcome.broken);
    }
}
