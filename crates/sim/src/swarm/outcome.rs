//! The outcome of a simulation.

use std::time::Duration;

use watchfire_bitswap::Totals;

use crate::plan::Bound;

#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub blocks: u32,
    pub bytes: u64,
    /// The least possible time.
    pub bound: Bound,
    pub peers: Vec<PeerOutcome>,
    pub ended_at: Duration,
    /// Limits and rules that were violated. Empty in a healthy simulation.
    pub violations: Vec<String>,
    /// Times that a peer dropped a malicious one.
    pub malicious_dropped: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PeerOutcome {
    pub is_seeder: bool,
    pub is_awaited: bool,
    pub arrived_at: Duration,
    /// When it had all blocks; `None` if it never had them, or had them from the start.
    pub finished_at: Option<Duration>,
    pub received_at: Vec<Duration>,
    /// The totals of its exchanges, one for each arrival.
    pub totals: Vec<Totals>,
    /// Bytes that it sent, including messages without blocks.
    pub sent_bytes: u64,
    /// Bytes that it received, including messages without blocks.
    pub received_bytes: u64,
}

impl Outcome {
    pub fn awaited(&self) -> impl Iterator<Item = &PeerOutcome> {
        self.peers.iter().filter(|peer| peer.is_awaited)
    }

    /// The number of awaited peers that never had all blocks.
    pub fn unfinished(&self) -> usize {
        self.awaited().filter(|peer| peer.finished_at.is_none()).count()
    }

    /// When each finished awaited peer had all blocks, since the start of the simulation, in order.
    pub fn finishes(&self) -> Vec<Duration> {
        let mut finishes: Vec<_> = self.awaited().filter_map(|peer| peer.finished_at).collect();
        finishes.sort_unstable();
        finishes
    }

    /// When the last awaited peer had all blocks; `None` if one is unfinished.
    pub fn completed_at(&self) -> Option<Duration> {
        if self.unfinished() > 0 { None } else { self.finishes().last().copied() }
    }

    /// [`completed_at`](Self::completed_at) divided by the bound.
    pub fn times_the_bound(&self) -> Option<f64> {
        Some(self.completed_at()?.as_secs_f64() / self.bound.seconds())
    }

    /// Bytes of duplicate blocks, relative to the bytes of useful ones.
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

    /// The sum of one count over all exchanges.
    pub fn sum(&self, of: impl Fn(&Totals) -> u64) -> u64 {
        self.peers.iter().map(|peer| peer.sum(&of)).sum()
    }
}

impl PeerOutcome {
    /// The sum of one count over its exchanges.
    pub fn sum(&self, of: impl Fn(&Totals) -> u64) -> u64 {
        self.totals.iter().map(of).sum()
    }
}
