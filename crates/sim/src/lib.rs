//! Swarms of exchanges, and fleets of image mirrors, on a simulated clock and network, from one seed.
//!
//! Each peer runs the [`watchfire_bitswap::Exchange`] of a real node. Only the clock, the network
//! and the disk are simulated, and blocks are CIDs and lengths without bytes.
//!
//! - A [`Plan`] describes one simulation, peer by peer. [`run`] runs it: the same plan has the same
//!   [`Outcome`] on every machine.
//! - A [`FleetPlan`] does the same for hosts that fetch a container image as `watchfire-mirror` does.
//! - A [`Network`] moves messages as TCP would over access links. It does not know swarms.
//!
//! The crate `watchfire-lab` makes plans from the files of experiments.
//!
//! Its modules import only those in the lines below their own:
//!
//! ```text
//! fleet                     fleets of mirrors
//! swarm                     the peers of one simulation
//! plan                      one simulation, peer by peer
//! dag, network, strategies  a file without bytes; links and processors; how peers request blocks
//! schedule                  the simulated clock
//! ```

#![allow(missing_docs, reason = "only the crate `watchfire` is documented item by item")]

mod dag;
mod fleet;
mod network;
mod plan;
mod schedule;
mod strategies;
mod swarm;

pub use dag::{FakeBlock, FileShape};
pub use fleet::{FleetBound, FleetOutcome, FleetPlan, HostOutcome, HostPlan, run_fleet};
pub use network::{Access, Arrival, Host, Network, NetworkLimits, Path, Processors};
pub use plan::{Attack, Bound, BoundPeer, PeerPlan, Plan};
pub use strategies::Strategy;
pub use swarm::{
    Event, EventKind, Observer, Outcome, PeerOutcome, PeerProgress, Progress, run, run_observed,
};
