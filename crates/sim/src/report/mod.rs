//! The results of a scenario: as a table, as JSON, as an HTML page and as an SVG.

mod chart;
mod html;
mod json;
mod table;

use crate::scenario::Report;
use crate::swarm::Outcome;

pub use html::{html, picture};
pub use json::json;
pub use table::table;

/// When a share of the awaited peers had the whole file, in seconds; `None` if fewer finished.
fn finish(outcome: &Outcome, share: f64) -> Option<f64> {
    let finishes = outcome.finishes();
    let awaited = finishes.len() + outcome.unfinished();
    let at = ((awaited as f64 * share).ceil() as usize).max(1) - 1;
    finishes.get(at).map(|at| at.as_secs_f64())
}

#[cfg(test)]
mod tests;
