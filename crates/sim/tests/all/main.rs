//! The promises of this crate, through its public API: a file for each topic, one program for all.

mod faults;
mod fleet;
mod links;
mod processor_limits;
mod rival_strategies;

use std::time::Duration;

use watchfire_bitswap::Limits;
use watchfire_sim::{
    Access, FileShape, NetworkLimits, Outcome, Path, PeerPlan, Plan, Strategy, run,
};

const MIB: u64 = 1 << 20;

/// Links in Mbit per second.
const fn mbit(up: u64, down: u64) -> Access {
    Access { up: up * 125_000, down: down * 125_000 }
}

/// A swarm of one seeder and equal leechers, 10 ms from each other.
struct Swarm(Plan);

impl Swarm {
    fn new(bytes: u64, seeder: Access, leechers: usize, leecher: Access) -> Swarm {
        let peer = |access, is_seeder| PeerPlan {
            access,
            region: 0,
            is_seeder,
            held_bytes: 0,
            arrives_at: Duration::ZERO,
            leaves_at: None,
            returns_at: None,
            noticed_after: Duration::ZERO,
            leaves_when_done: false,
            attack: None,
        };
        let mut peers = vec![peer(seeder, true)];
        peers.extend(vec![peer(leecher, false); leechers]);
        let mut swarm = Swarm(Plan {
            seed: 1,
            file: FileShape { bytes, block_bytes: 1 << 20, links_max: 1024 },
            strategy: Strategy::Watchfire,
            limits: Limits::default(),
            peers,
            paths: Vec::new(),
            network: NetworkLimits::default(),
            neighbours: None,
            read_delay: Duration::ZERO,
            breaks_per_second: 0.0,
            time_max: Duration::from_secs(600),
        });
        swarm.set_delay(Duration::from_millis(10));
        swarm
    }

    fn set_delay(&mut self, delay: Duration) {
        self.0.paths = vec![vec![Path { delay, jitter: Duration::ZERO, loss: 0.0 }]];
    }

    /// The outcome, in which every leecher finished and no rule was violated.
    fn finished(self) -> Outcome {
        let outcome = run(&self.0, &mut |_| {});
        assert_eq!(outcome.unfinished(), 0);
        assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
        outcome
    }
}
