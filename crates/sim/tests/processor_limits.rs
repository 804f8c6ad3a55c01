//! Where links are fast and processors are not, as with many processes on one machine, everyone is served
//! as fast as everyone else; the seeder is to be spared nevertheless.

use watchfire_sim::Scenario;

const ONE_DESK: &str = r#"
seed = 1
time_max = "1m"
[file]
size = "300MiB"
[network]
latency = "50us"
window_max = "1MiB"
queue_max = "50ms"
[processors]
cores = 2
shared = true
message = "30us"
send = "1GB"
receive = "500MB"
[[peers]]
role = "seeder"
up = "10Gbit"
down = "10Gbit"
[[peers]]
role = "leecher"
count = 8
up = "10Gbit"
down = "10Gbit"
arrive_within = "100ms"
"#;

#[test]
fn where_processors_are_the_limit_the_seeder_sends_at_most_one_and_a_half_copies() {
    let scenario = Scenario::parse("one-desk.toml", ONE_DESK).expect("a scenario");
    let report = scenario.simulate(&mut |_, _| {});
    let (_, outcome) = &report.runs[0];
    assert_eq!(outcome.unfinished(), 0);
    assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
    let copies = outcome.seeder_copies();
    assert!(copies <= 1.5, "the seeder sent {copies:.2} copies");
    // Where all decide within milliseconds, what is taken back is on its way already; what is given back is not.
    let twice = outcome.duplicates();
    assert!(twice <= 0.005, "{twice:.4} of all bytes came twice");
    // Two cores need 3.8 seconds for what is to be sent and received.
    let last = outcome.completed_at().expect("all have it").as_secs_f64();
    assert!((3.7..4.6).contains(&last), "{last:.2} s");
}

/// Where the seeder's link is a third of all that can be sent, sparing it costs everyone time: 1.14 of the bound.
#[test]
fn a_seeder_with_a_fast_link_is_not_spared() {
    let text = include_str!("../../../examples/swarm/fast-seeder.toml");
    let scenario = Scenario::parse("fast-seeder.toml", text).expect("a scenario");
    let report = scenario.simulate(&mut |_, _| {});
    let (_, outcome) = &report.runs[0];
    assert_eq!(outcome.unfinished(), 0);
    let times = outcome.times_the_bound().expect("all have it");
    assert!(times < 1.13, "{times:.3} of the bound");
}
