//! The results of a scenario: as a table, as JSON, as an HTML page and as a picture.

mod chart;
mod html;
mod json;
mod table;

use crate::scenario::{Run, Scenario};
use crate::swarm::Outcome;

pub use html::{html, picture};
pub use json::json;
pub use table::table;

/// A scenario and the outcome of each of its runs.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was simulated.
    pub scenario: Scenario,
    /// Each run, in the scenario's order, and its outcome.
    pub runs: Vec<(Run, Outcome)>,
}

/// When a share of the awaited peers had the whole file, in seconds; `None` when fewer ever had it.
fn finish(outcome: &Outcome, part: f64) -> Option<f64> {
    let finishes = outcome.finishes();
    let awaited = finishes.len() + outcome.unfinished();
    let at = ((awaited as f64 * part).ceil() as usize).max(1) - 1;
    finishes.get(at).map(|at| at.as_secs_f64())
}

#[cfg(test)]
mod tests;
