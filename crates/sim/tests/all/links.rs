//! Swarms of peers with equal links, and of peers at home, where the uplink is far slower than the downlink.

use crate::simulated;

/// A block takes most of a second on this uplink. If the seeder sent several blocks at a time, or a
/// block to several peers, all peers would wait.
#[test]
fn a_seeder_with_a_slow_uplink_sends_each_block_about_once() {
    let outcome = simulated(
        "slow-uplinks.toml",
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
        "slow-uplinks.toml",
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

/// All uplinks stay busy only if peers avoid long queues, and request early the blocks that only
/// the seeder has.
#[test]
fn no_peer_waits_in_a_long_queue_while_other_uplinks_are_idle() {
    let text = include_str!("../../../../examples/swarm/equal-32.toml");
    let outcome = simulated("equal-32.toml", text);
    let times = outcome.times_the_bound().expect("every leecher finished");
    assert!(times <= 1.16, "{times:.3} of the bound");
    let copies = outcome.seeder_copies();
    assert!(copies <= 1.05, "the seeder sent {copies:.2} copies");
}
