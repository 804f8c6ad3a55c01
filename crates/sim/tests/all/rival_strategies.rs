//! The models of other programs, which Watchfire is compared with.

use watchfire_sim::Scenario;

/// Runs a scenario once with each strategy, and checks that every leecher finished.
fn check_every_strategy(text: &str) {
    let runs = "
        [[runs]]
        strategy = 'watchfire'
        [[runs]]
        strategy = 'boxo'
        [[runs]]
        strategy = 'go-bitswap'";
    let scenario = Scenario::parse("rivals.toml", &format!("{text}{runs}")).expect("a scenario");
    let report = scenario.simulate(&mut |_, _| {});
    assert_eq!(report.runs.len(), 3);
    for (run, outcome) in &report.runs {
        let strategy = run.strategy;
        assert_eq!(outcome.unfinished(), 0, "{strategy:?}");
        assert!(outcome.violations.is_empty(), "{strategy:?}: {:?}", outcome.violations);
    }
}

/// The others request all blocks at the same time, more than Watchfire ever requests.
#[test]
fn a_thousand_requests_at_once_violate_no_limit() {
    check_every_strategy(
        r#"
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
        "#,
    );
}
