//! Fleets of image mirrors on a simulated clock and network.
//!
//! Each host runs the [`watchfire_fleet::Coordinator`], the [`watchfire_fleet::HashList`]s and the
//! [`watchfire_bitswap::Exchange`] of a real mirror. The driver around them belongs to this simulation.

mod host;
mod image;
mod outcome;
mod plan;
mod run;

pub use outcome::{FleetOutcome, HostOutcome};
pub use plan::{FleetBound, FleetPlan, HostPlan};
pub use run::run_fleet;
