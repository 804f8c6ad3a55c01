//! The load generator: scenarios, simulated users, reports.
//!
//! A [`Scenario`] is read and checked once; [`run_load`] lets its users arrive when they are due,
//! whatever the server does, and measures every step from when it was due. It meets the server
//! over the network, as a stranger would.
//!
//! Not in here: anything of our server. What it is to know of Phoenix Channels it knows as a client.

mod agent;
mod arrivals;
mod broadcast;
mod clock;
mod dice;
mod engine;
mod failure;
mod frame;
mod gates;
mod histogram;
mod http;
mod link;
mod report;
mod results;
mod run;
mod scenario;
mod source;
mod stop;
mod tally;
mod worker;

pub use agent::{AgentAddress, parse_token, run_agent};
pub use broadcast::Broadcast;
pub use gates::{Verdict, judge};
pub use histogram::Buckets;
pub use report::{Live, html, json, line, table};
pub use results::{Results, Second, Step};
pub use run::{LoadOptions, WorkerProgram, run_load};
pub use scenario::{Gates, Phase, Scenario, ScenarioError, Spacing, StepGate, Target};
pub use source::Source;
pub use stop::Stop;
pub use tally::Counts;
pub use worker::run_worker;
