//! The plan of a simulated fleet.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::network::{Access, NetworkLimits, Path};

#[derive(Clone, Debug, PartialEq)]
pub struct FleetPlan {
    pub seed: u64,
    /// The bytes of the layers that hosts fetch. Layers that they have already are left out.
    pub layers: Vec<u64>,
    /// Layers that one host fetches at a time.
    pub layers_at_once: usize,
    pub registry: Access,
    pub registry_region: usize,
    /// The time until the registry sends the first byte of an answer.
    pub registry_wait: Duration,
    /// The hosts. The hosts of a region form a fleet of their own.
    pub hosts: Vec<HostPlan>,
    /// The paths between regions: one row for each region, with one path for each.
    pub paths: Vec<Vec<Path>>,
    pub network: NetworkLimits,
    /// Connections of one host. Further ones are rejected.
    pub connections_max: usize,
    /// Inbound handshakes of one host at a time. Further ones are rejected.
    pub handshakes_max: usize,
    /// Segments of one layer that the hosts of a region fetch from the registry at a time.
    pub leases_per_layer: usize,
    /// How long others take to notice that a host left.
    pub noticed_after: Duration,
    /// The simulated time at which the simulation ends, even if a host is unfinished.
    pub time_max: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostPlan {
    pub access: Access,
    pub region: usize,
    /// When it is a member of its fleet.
    pub joins_at: Duration,
    /// When it begins to fetch the image.
    pub starts_at: Duration,
    /// When it leaves without a message; `None` if it stays.
    pub leaves_at: Option<Duration>,
}

/// The least time in which the hosts that start together can have the image.
///
/// The registry must send one copy to each region, the slowest host must receive every byte, and all
/// uplinks together must send a copy to each host. Delays are ignored, and so is the time until an
/// uplink has something to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetBound {
    /// Seconds for the registry to send one copy to each region.
    pub registry: f64,
    /// Seconds for the slowest host to receive one copy.
    pub slowest: f64,
    /// Seconds for all uplinks to send all copies of the largest group of hosts that start together.
    pub everyone: f64,
}

impl FleetBound {
    pub(super) fn of(plan: &FleetPlan, image_bytes: u64) -> Self {
        let bytes = image_bytes as f64;
        let staying = || plan.hosts.iter().filter(|host| host.leaves_at.is_none());
        let mut starts: Vec<Duration> = staying().map(|host| host.starts_at).collect();
        starts.sort_unstable();
        let together =
            starts.chunk_by(|one, next| one == next).map(<[Duration]>::len).max().unwrap_or(0);
        let all: f64 = plan.hosts.iter().map(|host| host.access.up as f64).sum();
        let regions: BTreeSet<usize> = plan.hosts.iter().map(|host| host.region).collect();
        let slowest = staying().map(|host| host.access.down).min().unwrap_or(u64::MAX);
        FleetBound {
            registry: regions.len() as f64 * bytes / plan.registry.up as f64,
            slowest: bytes / slowest as f64,
            everyone: together as f64 * bytes / (all + plan.registry.up as f64),
        }
    }

    /// The largest of the three, in seconds.
    pub const fn seconds(&self) -> f64 {
        self.registry.max(self.slowest).max(self.everyone)
    }
}
