//! The plan of one simulation: the shared file, and each peer with its links, arrival and
//! departure.

use std::time::Duration;

use watchfire_bitswap::Limits;

use crate::dag::FileShape;
use crate::network::{Access, NetworkLimits, Path};
use crate::strategies::Strategy;

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub file: FileShape,
    /// How every node requests blocks.
    pub strategy: Strategy,
    pub limits: Limits,
    pub peers: Vec<PeerPlan>,
    /// The paths between regions: one row for each region, with one path for each.
    pub paths: Vec<Vec<Path>>,
    pub network: NetworkLimits,
    /// Peers that each peer is connected to at first; `None` for all.
    pub neighbours: Option<u32>,
    /// The longest time that a store takes to read a block.
    pub read_delay: Duration,
    /// Connections that break per second, in the whole swarm. Their peers redial a second later.
    pub breaks_per_second: f64,
    /// The simulated time at which the simulation ends, even if a peer is unfinished.
    pub time_max: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PeerPlan {
    pub access: Access,
    /// Its row in [`Plan::paths`].
    pub region: usize,
    pub is_seeder: bool,
    /// Bytes from the start of the file that it has before it arrives, in whole leaves.
    pub held_bytes: u64,
    pub arrives_at: Duration,
    pub leaves_at: Option<Duration>,
    /// When it returns with its store after it left; `None` if it does not.
    pub returns_at: Option<Duration>,
    /// How long other peers take to notice that it left.
    pub noticed_after: Duration,
    pub leaves_when_done: bool,
    pub attack: Option<Attack>,
}

/// The response of a malicious peer to a request for a block. It claims to have all blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// It sends other bytes of the same length.
    Forge,
    /// It sends nothing.
    Withhold,
}

impl PeerPlan {
    /// Whether the simulation waits until the peer has all blocks.
    pub fn is_awaited(&self) -> bool {
        let stays = self.leaves_at.is_none() || self.returns_at.is_some();
        !self.is_seeder && self.attack.is_none() && stays
    }
}

/// The least time in which every leecher can receive a file (Kumar and Ross, 2006).
///
/// The seeders must send every byte once, the slowest leecher must receive every byte, and all
/// uplinks together must send one copy for each leecher. Delays are ignored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Seconds for the source to send one copy.
    pub source: f64,
    /// Seconds for the slowest leecher to receive one copy.
    pub slowest: f64,
    /// Seconds for all uplinks to send all copies.
    pub everyone: f64,
}

/// A peer as its bound sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundPeer {
    /// Bytes per second; infinite without a limit.
    pub up: f64,
    /// Bytes per second; infinite without a limit.
    pub down: f64,
    pub is_seeder: bool,
    /// Whether it needs a copy.
    pub is_awaited: bool,
}

impl Bound {
    /// The bound of a plan. Honest peers that are not awaited send, and need no copy.
    pub(crate) fn of(plan: &Plan, file_bytes: u64) -> Bound {
        let honest = plan.peers.iter().filter(|peer| peer.attack.is_none());
        let peers: Vec<BoundPeer> = honest
            .map(|peer| BoundPeer {
                up: peer.access.up as f64,
                down: peer.access.down as f64,
                is_seeder: peer.is_seeder,
                is_awaited: peer.is_awaited(),
            })
            .collect();
        Bound::of_peers(&peers, file_bytes)
    }

    /// The bound of any peers.
    pub fn of_peers(peers: &[BoundPeer], file_bytes: u64) -> Bound {
        let bytes = file_bytes as f64;
        let source: f64 = peers.iter().filter(|peer| peer.is_seeder).map(|peer| peer.up).sum();
        let all: f64 = peers.iter().map(|peer| peer.up).sum();
        let awaited = || peers.iter().filter(|peer| peer.is_awaited);
        let slowest = awaited().map(|peer| peer.down).fold(f64::INFINITY, f64::min);
        Bound {
            source: bytes / source,
            slowest: bytes / slowest,
            everyone: awaited().count() as f64 * bytes / all,
        }
    }

    /// The largest of the three, in seconds.
    pub const fn seconds(&self) -> f64 {
        self.source.max(self.slowest).max(self.everyone)
    }
}
