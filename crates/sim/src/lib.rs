//! Swarms of exchanges, and fleets of image mirrors, on a simulated clock and network, from one seed.
//!
//! Each peer runs the [`watchfire_bitswap::Exchange`] of a real node. Only the clock, the network
//! and the disk are simulated, and blocks are CIDs and lengths without bytes.
//!
//! - A [`Scenario`] is read from a file, and compares request strategies on one swarm. Its
//!   [`Report`] is a table, a chart, or JSON.
//! - A [`Plan`] describes one simulation, peer by peer. [`run`] runs it: the same plan has the same
//!   [`Outcome`] on every machine.
//! - A [`FleetScenario`] does the same for hosts that fetch a container image as `watchfire-mirror` does.
//! - A [`Network`] moves messages as TCP would over access links. It does not know swarms.
//!
//! Its modules import only those in the lines below their own:
//!
//! ```text
//! fleet, report             fleets of mirrors; the results of swarms as tables, charts, HTML and JSON
//! scenario                  a swarm as a file
//! swarm                     the peers of one simulation
//! plan                      one simulation, peer by peer
//! dag, network, strategies  a file without bytes; links and processors; how peers request blocks
//! schedule                  the simulated clock
//! ```
//!
//! ```
//! let text = "
//!     [file]
//!     size = '1MiB'
//!     block = '256KiB'
//!     [[peers]]
//!     role = 'seeder'
//!     up = '10Mbit'
//!     down = '10Mbit'
//!     [[peers]]
//!     role = 'leecher'
//!     up = '10Mbit'
//!     down = '10Mbit'
//! ";
//! let scenario = watchfire_sim::Scenario::parse("pair.toml", text)?;
//! let report = scenario.simulate(&mut |_, _| {});
//! assert_eq!(report.runs[0].1.unfinished(), 0);
//! assert!(report.runs[0].1.times_the_bound() >= Some(1.0));
//! # Ok::<(), watchfire_sim::ScenarioError>(())
//! ```

#![allow(missing_docs, reason = "only the crate `watchfire` is documented item by item")]

mod dag;
mod fleet;
mod network;
mod plan;
mod report;
mod scenario;
mod schedule;
mod strategies;
mod swarm;

pub use dag::{FakeBlock, FileShape};
pub use fleet::{
    FleetBound, FleetOutcome, FleetPlan, FleetReport, FleetScenario, HostOutcome, HostPlan,
    fleet_json, fleet_picture, fleet_table, run_fleet,
};
pub use network::{Access, Arrival, Host, Network, NetworkLimits, Path, Processors};
pub use plan::{Attack, Bound, BoundPeer, PeerPlan, Plan};
pub use report::{html, json, picture, table};
pub use scenario::{Published, Report, Run, Scenario, ScenarioError};
pub use strategies::Strategy;
pub use swarm::{
    Event, EventKind, Observer, Outcome, PeerOutcome, PeerProgress, Progress, UplinkUse, run,
    run_observed,
};
