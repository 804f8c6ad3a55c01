//! The results of a scenario: as a table, as JSON, as an HTML page and as an SVG.

mod chart;
mod json;
mod table;

use std::fmt::Write as _;

use watchfire_report::{escape, page};

use crate::scenario::Report;
use crate::swarm::Outcome;

pub use json::json;
pub use table::table;

use chart::chart;
use table::{bound_line, headline, remarks, runs, seconds};

/// The chart alone, as a self-contained SVG. Of many peers it shows a sample.
pub fn picture(report: &Report) -> String {
    chart(report).svg()
}

/// The whole report as a self-contained HTML page.
pub fn html(report: &Report) -> String {
    let mut body = format!("<p class=\"dim\">{}</p>", escape(&headline(report)));
    let mut put = |text: std::fmt::Arguments<'_>| {
        body.write_fmt(text).expect("writing to a String cannot fail");
    };
    put(format_args!("{}", runs(report).html()));
    if let Some((_, outcome)) = report.runs.first() {
        put(format_args!("<p>{}.</p>", escape(&bound_line(outcome))));
    }
    for published in &report.scenario.published {
        let (name, time) = (escape(&published.name), seconds(published.time.as_secs_f64()));
        put(format_args!("<p class=\"dim\">published: {name}: {time}</p>"));
    }
    for (run, outcome) in &report.runs {
        for remark in remarks(outcome) {
            put(format_args!("<p class=\"bad\">{}: {}</p>", escape(&run.name), escape(&remark)));
        }
    }
    for note in &report.scenario.notes {
        put(format_args!("<p>{}</p>", escape(note)));
    }
    put(format_args!("<h2>Share of the file that each peer has, over time</h2>"));
    body += &chart(report).inline_svg();
    page(&report.scenario.name, &body)
}

/// When a share of the awaited peers had the whole file, in seconds; `None` if fewer finished.
fn finish(outcome: &Outcome, share: f64) -> Option<f64> {
    let finishes = outcome.finishes();
    let awaited = finishes.len() + outcome.unfinished();
    let at = ((awaited as f64 * share).ceil() as usize).max(1) - 1;
    finishes.get(at).map(|at| at.as_secs_f64())
}

#[cfg(test)]
mod tests;
