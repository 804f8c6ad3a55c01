//! The models of other programs, which Watchfire is compared with.

use std::time::Duration;

use watchfire_sim::Strategy;

use crate::{MIB, Swarm, mbit};

/// The others request all blocks at the same time, more than Watchfire ever requests.
#[test]
fn a_thousand_requests_at_once_violate_no_limit() {
    for strategy in [Strategy::Watchfire, Strategy::Boxo, Strategy::GoBitswap] {
        let mut swarm = Swarm::new(20 * MIB, mbit(1000, 1000), 1, mbit(1000, 1000));
        swarm.set_delay(Duration::from_millis(1));
        swarm.0.file.block_bytes = 16 << 10;
        swarm.0.strategy = strategy;
        swarm.finished();
    }
}
