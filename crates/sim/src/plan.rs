//! What one simulation is to be: every peer, its link and its fate, and the file they share.

use std::time::Duration;

use bitswap::{Behaviour, Limits};

use crate::dag::FileShape;
use crate::network::{Access, NetworkLimits, Path};

/// All that one simulation follows from.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides every draw.
    pub seed: u64,
    /// What is shared.
    pub file: FileShape,
    /// How everyone goes about it.
    pub behaviour: Behaviour,
    /// What each exchange may take.
    pub limits: Limits,
    /// Who is there.
    pub peers: Vec<PeerPlan>,
    /// What lies between the regions of two peers; as many rows as regions, and as many in each.
    pub paths: Vec<Vec<Path>>,
    /// What holds for all of the network.
    pub network: NetworkLimits,
    /// Peers that each peer is connected to at first; `None` for everyone.
    pub neighbours: Option<u32>,
    /// How long a store takes to give a block.
    pub read_delay: Duration,
    /// Connections that break every second, of all; they are made anew a second later.
    pub breaks_per_second: f64,
    /// When it ends, whoever still misses something.
    pub time_max: Duration,
}

/// One peer.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerPlan {
    /// Which group it is of.
    pub group: usize,
    /// Its links.
    pub access: Access,
    /// Which row of [`Plan::paths`] is its own.
    pub region: usize,
    /// Whether it has everything from the start.
    pub is_seeder: bool,
    /// When it comes.
    pub arrives_at: Duration,
    /// When it goes, if it does.
    pub leaves_at: Option<Duration>,
    /// When it is back with all it had stored, if it is; after it left.
    pub returns_at: Option<Duration>,
    /// How long the others take to notice that it is gone.
    pub noticed_after: Duration,
    /// Whether it goes as soon as it has everything.
    pub leaves_when_done: bool,
    /// How it deceives, if it does.
    pub lie: Option<Lie>,
}

/// What a liar, who claims to have everything, does when it is asked for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// It sends something else, just as long.
    Forge,
    /// It sends nothing.
    Withhold,
}

impl PeerPlan {
    /// Whether the simulation waits for it to have everything.
    pub fn is_awaited(&self) -> bool {
        let stays = self.leaves_at.is_none() || self.returns_at.is_some();
        !self.is_seeder && self.lie.is_none() && stays
    }
}

/// The least time in which a file can be with everybody, whatever they do (Kumar and Ross, 2006).
///
/// The source must send every byte once, the slowest must receive every byte, and all uplinks together
/// must send as many copies as there are leechers. Delays count for nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Seconds for the source to send one copy.
    pub source: f64,
    /// Seconds for the slowest leecher to receive one.
    pub slowest: f64,
    /// Seconds for all uplinks to send all copies.
    pub everyone: f64,
}

impl Bound {
    /// For a plan: those who are not waited for help, and need no copy.
    pub(crate) fn of(plan: &Plan, file_bytes: u64) -> Bound {
        let bytes = file_bytes as f64;
        let honest = || plan.peers.iter().filter(|peer| peer.lie.is_none());
        let up = |peer: &PeerPlan| peer.access.up as f64;
        let source: f64 = honest().filter(|peer| peer.is_seeder).map(up).sum();
        let all: f64 = honest().map(up).sum();
        let awaited = || plan.peers.iter().filter(|peer| peer.is_awaited());
        let slowest = awaited().map(|peer| peer.access.down).min().unwrap_or(u64::MAX);
        Bound {
            source: bytes / source,
            slowest: bytes / slowest as f64,
            everyone: awaited().count() as f64 * bytes / all,
        }
    }

    /// The largest of the three, in seconds.
    pub const fn seconds(&self) -> f64 {
        self.source.max(self.slowest).max(self.everyone)
    }
}
