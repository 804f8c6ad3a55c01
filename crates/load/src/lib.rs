//! The load generator: scenarios, simulated users, reports.
//!
//! A [`Scenario`] is parsed and checked once. [`run_load`] starts its users on schedule,
//! independently of the server, and measures every step from the time it was due. It connects to
//! the server over the network like any client.
//!
//! The crate has no code of the server. It implements the client side of Phoenix Channels.
//!
//! Its modules import only those in the lines below their own:
//!
//! ```text
//! run                        decides how many workers a load needs
//! controller                 divides the arrivals among workers that may come and go, and collects their results
//! agent                      agents on other machines, and how they and a controller meet
//! workers                    the controller's side of each worker, over a pipe or through an agent
//! secure                     encrypted connections between those that know a token
//! worker                     one engine that a controller starts, and the lines that both exchange
//! engine                     all users of one process, in one thread
//! plan                       how arrivals are divided among workers, and changed while the load runs
//! report                     results as tables, charts, JSON, CSV and HTML
//! thresholds                 whether the results keep the thresholds of the scenario
//! results                    the figures of all workers
//! tally                      the figures of one worker, in one second
//! phases                     when the phases of a load begin and end
//! arrivals, failure, source  when users are due; why they fail; the text of the scenario
//! overrides                  values in place of those in a scenario
//! scenario                   the users' arrivals and sessions, read from TOML or from Tsung's XML
//! broadcast, clock, cookies, frame, http, open_files, order, sampling, tls
//! ```

mod agent;
mod arrivals;
mod broadcast;
mod clock;
mod controller;
mod cookies;
mod engine;
mod failure;
mod frame;
mod http;
mod open_files;
mod order;
mod overrides;
mod phases;
mod plan;
mod report;
mod results;
mod run;
mod sampling;
mod scenario;
mod secure;
mod source;
mod tally;
mod thresholds;
mod tls;
mod worker;
mod workers;

pub use agent::{AgentAddress, is_same, join_load, parse_token, run_agent};
pub use broadcast::Broadcast;
pub use controller::Control;
pub use engine::StopFlag;
pub use phases::{PhaseChange, PhaseEvent};
pub use report::{Live, csv, html, json, line, status, table};
pub use results::{LoadEvent, Results, Schedule, Second, Step, Times, WorkerResults, WorkerState};
pub use run::{LoadOptions, Swarm, run_load, workers_here};
pub use scenario::{Phase, Scenario, ScenarioError, Spacing, StepThresholds, Target, Thresholds};
pub use source::Source;
pub use tally::{Counts, Match, Stages};
pub use thresholds::{Verdict, judge};
#[doc(hidden)]
pub use worker::echo;
pub use worker::{WorkerProgram, run_worker};
