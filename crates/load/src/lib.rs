//! The load generator: scenarios, simulated users, reports.
//!
//! A [`Scenario`] is parsed and checked once. [`run_load`] starts its users on schedule,
//! independently of the server, and measures every step from the time it was due. It connects to
//! the server over the network like any client.
//!
//! The crate has no code of the server. It implements the client side of Phoenix Channels.

mod agent;
mod arrivals;
mod broadcast;
mod clock;
mod cookies;
mod echo;
mod engine;
mod failure;
mod frame;
mod http;
mod report;
mod results;
mod run;
mod sampling;
mod scenario;
mod source;
mod stop_flag;
mod tally;
mod thresholds;
mod worker;
mod workers;

pub use agent::{AgentAddress, parse_token, run_agent};
pub use broadcast::Broadcast;
#[doc(hidden)]
pub use echo::echo;
pub use report::{Live, html, json, line, table};
pub use results::{Results, Second, Step};
pub use run::{LoadOptions, WorkerProgram, run_load};
pub use scenario::{Phase, Scenario, ScenarioError, Spacing, StepThresholds, Target, Thresholds};
pub use source::Source;
pub use stop_flag::StopFlag;
pub use tally::Counts;
pub use thresholds::{Verdict, judge};
pub use worker::run_worker;
