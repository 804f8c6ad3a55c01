//! Fast links and slow processors, as with many processes on one machine. The seeder is as fast as
//! any other peer, and must still send few copies.

use crate::simulated;

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
    let outcome = simulated("one-desk.toml", ONE_DESK);
    let copies = outcome.seeder_copies();
    assert!(copies <= 1.5, "the seeder sent {copies:.2} copies");
    // Within milliseconds, a cancel is too late for most blocks.
    let duplicates = outcome.duplicates();
    assert!(duplicates <= 0.005, "{duplicates:.4} of all bytes are duplicates");
    // Two cores need 3.8 seconds to send and receive all copies.
    let last = outcome.completed_at().expect("every leecher finished").as_secs_f64();
    assert!((3.7..4.6).contains(&last), "{last:.2} s");
}

/// The seeder has a third of all uplink capacity. With few copies from it, all peers would need
/// more time: 1.14 of the bound.
#[test]
fn a_seeder_with_a_fast_uplink_uses_it() {
    let text = include_str!("../../../../examples/swarm/fast-seeder.toml");
    let outcome = simulated("fast-seeder.toml", text);
    let times = outcome.times_the_bound().expect("every leecher finished");
    assert!(times < 1.13, "{times:.3} of the bound");
}
