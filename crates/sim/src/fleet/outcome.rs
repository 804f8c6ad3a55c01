//! The outcome of a simulated fleet.

use std::time::Duration;

use watchfire_bitswap::Totals;

use super::plan::FleetBound;

#[derive(Clone, Debug, PartialEq)]
pub struct FleetOutcome {
    /// Bytes of the layers that a host fetches.
    pub bytes: u64,
    pub blocks: usize,
    /// The least possible time.
    pub bound: FleetBound,
    pub hosts: Vec<HostOutcome>,
    /// Bytes of layers that the registry sent to each region.
    pub registry_bytes: Vec<u64>,
    /// All bytes that the registry sent and received.
    pub registry_traffic: (u64, u64),
    /// The most reports and announcements that one host received in one second.
    pub requests_per_second_max: u32,
    /// The most connections that one host had.
    pub connections_max: usize,
    /// Connections that were rejected because a host had too many.
    pub rejected_connections: u64,
    /// Layers that two or more hosts of one region coordinated, and how many hosts at most.
    pub coordinators_max: usize,
    pub ended_at: Duration,
    /// Broken rules. Empty in a healthy simulation.
    pub violations: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HostOutcome {
    /// When it began to fetch the image.
    pub started_at: Duration,
    pub finished_at: Option<Duration>,
    pub is_awaited: bool,
    /// When it got the first block and the last one.
    pub received_at: Option<(Duration, Duration)>,
    pub received_blocks: usize,
    /// The totals of its exchange with other hosts.
    pub totals: Totals,
    /// All bytes that it sent and received.
    pub traffic: (u64, u64),
}

impl FleetOutcome {
    /// How long the awaited hosts that finished took, from the start of each, in order.
    pub fn times(&self) -> Vec<Duration> {
        let times = self.hosts.iter().filter(|host| host.is_awaited);
        let mut times: Vec<Duration> =
            times.filter_map(|host| Some(host.finished_at? - host.started_at)).collect();
        times.sort_unstable();
        times
    }

    /// The number of awaited hosts that never had the image.
    pub fn unfinished(&self) -> usize {
        self.hosts.iter().filter(|host| host.is_awaited && host.finished_at.is_none()).count()
    }

    /// The time of a host divided by the bound: 0.5 for the median host, 1 for the last. `None` if that
    /// host did not finish.
    pub fn times_the_bound(&self, share: f64) -> Option<f64> {
        let times = self.times();
        let awaited = times.len() + self.unfinished();
        let at = ((awaited as f64 * share).ceil() as usize).max(1) - 1;
        Some(times.get(at)?.as_secs_f64() / self.bound.seconds())
    }

    /// Copies that the registry sent to each region. Regions exchange nothing else.
    pub fn registry_copies(&self) -> Vec<f64> {
        self.registry_bytes.iter().map(|bytes| *bytes as f64 / self.bytes as f64).collect()
    }
}
