//! The report as a table for a terminal.

use std::fmt::Write as _;

use watchfire_report::Table;
use watchfire_report::units::{binary_bytes, percent};

use super::{Report, finish};
use crate::swarm::Outcome;

pub(super) fn runs(report: &Report) -> Table {
    let heads = [
        "run",
        "first",
        "half",
        "last",
        "x bound",
        "unfinished",
        "duplicates",
        "seeder sent",
        "messages",
    ];
    let mut table = Table::new(heads);
    for (run, outcome) in &report.runs {
        table.push(row(&run.name, outcome));
    }
    table
}

fn row(name: &str, outcome: &Outcome) -> [String; 9] {
    let time = |part| finish(outcome, part).map_or_else(|| "never".to_owned(), seconds);
    let times = outcome.times_the_bound();
    let messages = outcome.sum(|totals| totals.messages_in) / outcome.peers.len().max(1) as u64;
    [
        name.to_owned(),
        time(0.0),
        time(0.5),
        time(1.0),
        times.map_or_else(|| "-".to_owned(), |times| format!("{times:.2}")),
        outcome.unfinished().to_string(),
        percent(outcome.duplicates(), 2),
        format!("{:.2} copies", outcome.seeder_copies()),
        format!("{messages} per peer"),
    ]
}

pub(super) fn seconds(seconds: f64) -> String {
    format!("{seconds:.2} s")
}

pub(super) fn headline(report: &Report) -> String {
    let Some((_, outcome)) = report.runs.first() else { return String::new() };
    let seeders = outcome.peers.iter().filter(|peer| peer.is_seeder).count();
    let awaited = outcome.awaited().count();
    let others = outcome.peers.len() - seeders - awaited;
    let mut line = format!(
        "{} in {} blocks, from {seeders} to {awaited} peers",
        binary_bytes(outcome.bytes),
        outcome.blocks
    );
    if others > 0 {
        write!(line, " and {others} that leave or attack")
            .expect("writing to a String cannot fail");
    }
    write!(line, "; seed {}", report.scenario.seed).expect("writing to a String cannot fail");
    line
}

/// The least possible time, and what sets it.
pub(super) fn bound_line(outcome: &Outcome) -> String {
    let bound = outcome.bound;
    format!(
        "Bound: no faster than {}. The seeder's uplink needs {}, the slowest downlink {}, all uplinks together {}",
        seconds(bound.seconds()),
        seconds(bound.source),
        seconds(bound.slowest),
        seconds(bound.everyone)
    )
}

/// Violated invariants and dropped peers, which the table does not show.
pub(super) fn remarks(outcome: &Outcome) -> Vec<String> {
    let mut remarks = Vec::new();
    if outcome.honest_dropped > 0 {
        remarks.push(format!("an honest peer was dropped {} times", outcome.honest_dropped));
    }
    if outcome.malicious_dropped > 0 {
        remarks.push(format!("a malicious peer was dropped {} times", outcome.malicious_dropped));
    }
    let others =
        outcome.violations.iter().filter(|violation| !violation.contains("which is healthy"));
    remarks.extend(others.take(5).map(|violation| format!("violated invariant: {violation}")));
    remarks
}

pub fn table(report: &Report) -> String {
    let mut out = format!("{}\n{}\n", report.scenario.name, headline(report));
    if let Some((_, outcome)) = report.runs.first() {
        out.push_str(&bound_line(outcome));
        out.push('\n');
    }
    out.push('\n');
    out += &runs(report).terminal();
    for published in &report.scenario.published {
        let time = seconds(published.time.as_secs_f64());
        writeln!(out, "  published: {}: {time}", published.name)
            .expect("writing to a String cannot fail");
    }
    for (run, outcome) in &report.runs {
        for remark in remarks(outcome) {
            writeln!(out, "  {}: {remark}", run.name).expect("writing to a String cannot fail");
        }
    }
    for note in &report.scenario.notes {
        writeln!(out, "\n{note}").expect("writing to a String cannot fail");
    }
    out
}
