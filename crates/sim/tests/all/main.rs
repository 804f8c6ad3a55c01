//! The promises of this crate, through its public API: a file for each topic, one program for all.

mod examples;
mod faults;
mod fleet;
mod links;
mod processor_limits;
mod rival_strategies;

use watchfire_sim::{Outcome, Scenario};

/// The outcome of the last run of a scenario, in which every leecher finished and no rule was violated.
fn simulated(name: &str, text: &str) -> Outcome {
    let scenario = Scenario::parse(name, text).expect("a scenario");
    let mut report = scenario.simulate(&mut |_, _| {});
    let (_, outcome) = report.runs.pop().expect("there is a run");
    assert_eq!(outcome.unfinished(), 0);
    assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
    outcome
}
