//! Many peers on a pretend clock and network, from one seed.
//!
//! Each peer is the [`bitswap::Exchange`] that a node has, told what happens and obeyed in what it wants
//! done; only clock, network and disk are pretended, and blocks are names and lengths without bytes.
//!
//! - A [`Scenario`] is read from a file, and compares ways of exchanging on one swarm. Its
//!   [`Report`] is a table, a picture, or JSON.
//! - A [`Plan`] is one simulation, peer by peer, and [`run`] runs it: the same plan has the same
//!   [`Outcome`] on every machine.
//! - A [`Network`] moves messages as TCP would over access links, and knows nothing of swarms.
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
//! let scenario = sim::Scenario::parse("pair.toml", text)?;
//! let report = scenario.simulate(&mut |_, _| {});
//! assert_eq!(report.runs[0].1.unfinished(), 0);
//! assert!(report.runs[0].1.times_the_bound() >= Some(1.0));
//! # Ok::<(), sim::ScenarioError>(())
//! ```

mod dag;
mod dice;
mod network;
mod plan;
mod report;
mod scenario;
mod swarm;

pub use dag::{FileShape, Parcel};
pub use network::{Access, Arrival, Host, Network, NetworkLimits, Path, Processors};
pub use plan::{Bound, Lie, PeerPlan, Plan};
pub use report::{Report, html, json, picture, table};
pub use scenario::{Published, Run, Scenario, ScenarioError};
pub use swarm::{Outcome, PeerOutcome, Progress, Use, run};
