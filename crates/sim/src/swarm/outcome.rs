//! The outcome of a simulation.

use std::time::Duration;

use watchfire_bitswap::Totals;

use crate::plan::Bound;

/// The outcome of one simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Blocks of the file.
    pub blocks: u32,
    /// Bytes of all of them.
    pub bytes: u64,
    /// The least possible time.
    pub bound: Bound,
    /// Each peer, as in the plan.
    pub peers: Vec<PeerOutcome>,
    /// When it ended.
    pub ended_at: Duration,
    /// Limits and rules that were violated. Empty in a healthy simulation.
    pub violations: Vec<String>,
    /// Honest peers that others dropped.
    pub honest_dropped: u32,
    /// Times that a peer dropped a malicious one.
    pub malicious_dropped: u32,
    /// What left over all uplinks, from begin to end.
    pub uplink_use: Vec<UplinkUse>,
    /// Things that happened on the network.
    pub steps: u64,
}

/// What left over all uplinks in one stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UplinkUse {
    /// When it ended. It began with the end of the last one.
    pub until: Duration,
    /// Bytes that seeders sent.
    pub seeder_bytes: u64,
    /// Bytes that others sent.
    pub other_bytes: u64,
    /// Bytes that the uplinks of seeders who are here could have sent.
    pub seeder_bytes_max: u64,
    /// Bytes that those of the others could have.
    pub other_bytes_max: u64,
}

impl UplinkUse {
    /// This one, and the next.
    pub(super) const fn and(self, next: UplinkUse) -> UplinkUse {
        UplinkUse {
            until: next.until,
            seeder_bytes: self.seeder_bytes + next.seeder_bytes,
            other_bytes: self.other_bytes + next.other_bytes,
            seeder_bytes_max: self.seeder_bytes_max + next.seeder_bytes_max,
            other_bytes_max: self.other_bytes_max + next.other_bytes_max,
        }
    }
}

/// The outcome of one peer.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerOutcome {
    /// Which group it is of.
    pub group: usize,
    /// Whether it had everything from the start.
    pub is_seeder: bool,
    /// Whether the simulation waited for it.
    pub is_awaited: bool,
    /// When it arrives.
    pub arrived_at: Duration,
    /// When it had everything; `None` if it never had, or had from the start.
    pub finished_at: Option<Duration>,
    /// When it got each block.
    pub received_at: Vec<Duration>,
    /// What its exchange did; one for each time that it arrived.
    pub totals: Vec<Totals>,
    /// Bytes that it sent, of all kinds.
    pub sent_bytes: u64,
    /// Bytes that it received, of all kinds.
    pub received_bytes: u64,
}

impl Outcome {
    /// The awaited peers.
    pub fn awaited(&self) -> impl Iterator<Item = &PeerOutcome> {
        self.peers.iter().filter(|peer| peer.is_awaited)
    }

    /// How many awaited peers never had all blocks.
    pub fn unfinished(&self) -> usize {
        self.awaited().filter(|peer| peer.finished_at.is_none()).count()
    }

    /// When each that was waited for had everything, from the simulation's begin; the first one first.
    pub fn finishes(&self) -> Vec<Duration> {
        let mut finishes: Vec<_> = self.awaited().filter_map(|peer| peer.finished_at).collect();
        finishes.sort_unstable();
        finishes
    }

    /// When the last of them had everything; `None` if one never had.
    pub fn completed_at(&self) -> Option<Duration> {
        if self.unfinished() > 0 { None } else { self.finishes().last().copied() }
    }

    /// That time, in bounds.
    pub fn times_the_bound(&self) -> Option<f64> {
        Some(self.completed_at()?.as_secs_f64() / self.bound.seconds())
    }

    /// Bytes of blocks that came to somebody who had no use for them, as a part of those that came and
    /// were of use.
    pub fn duplicates(&self) -> f64 {
        let useful = self.sum(|totals| totals.bytes_in).max(1);
        self.sum(|totals| totals.duplicate_bytes) as f64 / useful as f64
    }

    /// Copies of the file that its seeders sent.
    pub fn seeder_copies(&self) -> f64 {
        let seeders = self.peers.iter().filter(|peer| peer.is_seeder);
        let bytes: u64 = seeders.map(|peer| peer.sum(|totals| totals.bytes_out)).sum();
        bytes as f64 / self.bytes as f64
    }

    /// What all exchanges together did, by one of their counts.
    pub fn sum(&self, of: impl Fn(&Totals) -> u64) -> u64 {
        self.peers.iter().map(|peer| peer.sum(&of)).sum()
    }
}

impl PeerOutcome {
    /// What its exchanges did, by one of their counts.
    pub fn sum(&self, of: impl Fn(&Totals) -> u64) -> u64 {
        self.totals.iter().map(of).sum()
    }
}
