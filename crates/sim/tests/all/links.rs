//! Swarms of peers with equal links, and of peers at home, where the uplink is far slower than the downlink.

use crate::{MIB, Swarm, mbit};

/// A block takes most of a second on this uplink. If the seeder sent several blocks at a time, or a
/// block to several peers, all peers would wait.
#[test]
fn a_seeder_with_a_slow_uplink_sends_each_block_about_once() {
    let outcome = Swarm::new(60 * MIB, mbit(10, 100), 16, mbit(100, 100)).finished();
    let copies = outcome.seeder_copies();
    assert!(copies <= 1.1, "the seeder sent {copies:.2} copies");
    let times = outcome.times_the_bound().expect("every leecher finished");
    assert!(times <= 1.15, "{times:.3} of the bound");
}

/// The uplinks of all leechers together are as fast as the downlink of one.
#[test]
fn slow_leechers_do_not_delay_a_fast_seeder() {
    let mut swarm = Swarm::new(60 * MIB, mbit(500, 500), 10, mbit(1, 10));
    swarm.0.file.block_bytes = 256 << 10;
    let outcome = swarm.finished();
    let times = outcome.times_the_bound().expect("every leecher finished");
    assert!(times <= 1.3, "{times:.3} of the bound");
}

/// All uplinks stay busy only if peers avoid long queues, and request early the blocks that only
/// the seeder has. The swarm is `equal-32` of `experiments/simulated/swarms.toml`.
#[test]
fn no_peer_waits_in_a_long_queue_while_other_uplinks_are_idle() {
    let outcome = Swarm::new(300 * MIB, mbit(100, 100), 32, mbit(100, 100)).finished();
    let times = outcome.times_the_bound().expect("every leecher finished");
    assert!(times <= 1.16, "{times:.3} of the bound");
    let copies = outcome.seeder_copies();
    assert!(copies <= 1.05, "the seeder sent {copies:.2} copies");
}
