//! Fast links and slow processors, as with many processes on one machine. The seeder is as fast as
//! any other peer, and must still send few copies.

use std::time::Duration;

use watchfire_sim::{NetworkLimits, Processors};
use watchfire_types::Rng;

use crate::{MIB, Swarm, mbit};

/// Eight processes on one machine with two cores.
fn one_desk() -> Swarm {
    let mut swarm = Swarm::new(300 * MIB, mbit(10_000, 10_000), 8, mbit(10_000, 10_000));
    swarm.set_delay(Duration::from_micros(50));
    let mut rng = Rng::from_seed(1);
    for peer in &mut swarm.0.peers[1..] {
        peer.arrives_at = Duration::from_millis(100).mul_f64(rng.fraction());
    }
    swarm.0.network = NetworkLimits {
        window_bytes_max: MIB,
        queue_max: Duration::from_millis(50),
        processors: Some(Processors {
            cores: 2,
            are_shared: true,
            message: Duration::from_micros(30),
            send: 1_000_000_000,
            receive: 500_000_000,
        }),
        ..NetworkLimits::default()
    };
    swarm
}

#[test]
fn where_processors_are_the_limit_the_seeder_sends_at_most_one_and_a_half_copies() {
    let outcome = one_desk().finished();
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
/// more time: 1.14 of the bound. The swarm is `fast-seeder` of `experiments/simulated/swarms.toml`.
#[test]
fn a_seeder_with_a_fast_uplink_uses_it() {
    let mut swarm = Swarm::new(300 * MIB, mbit(400, 1000), 8, mbit(100, 1000));
    swarm.set_delay(Duration::from_micros(200));
    for peer in &mut swarm.0.peers[1..] {
        peer.leaves_when_done = true;
    }
    let times = swarm.finished().times_the_bound().expect("every leecher finished");
    assert!(times < 1.13, "{times:.3} of the bound");
}
