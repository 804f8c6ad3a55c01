//! The outcome as a table for a terminal.

use std::fmt::Write as _;

use super::{Report, finish};
use crate::swarm::Outcome;

/// What is told of each run.
pub(super) const COLUMNS: [&str; 9] =
    ["run", "first", "half", "last", "x bound", "unfinished", "twice", "seeder sent", "messages"];

/// One run's row.
pub(super) fn row(name: &str, outcome: &Outcome) -> [String; 9] {
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
        format!("{:.2} %", outcome.duplicates() * 100.0),
        format!("{:.2} copies", outcome.seeder_copies()),
        format!("{messages} a peer"),
    ]
}

pub(super) fn seconds(seconds: f64) -> String {
    format!("{seconds:.2} s")
}

/// What the scenario is, in a line.
pub(super) fn headline(report: &Report) -> String {
    let Some((_, outcome)) = report.runs.first() else { return String::new() };
    let seeders = outcome.peers.iter().filter(|peer| peer.is_seeder).count();
    let awaited = outcome.awaited().count();
    let others = outcome.peers.len() - seeders - awaited;
    let mut line = format!(
        "{:.1} MiB in {} blocks, from {seeders} to {awaited} peers",
        outcome.bytes as f64 / f64::from(1 << 20),
        outcome.blocks
    );
    if others > 0 {
        write!(line, " beside {others} who leave or lie").expect("it is a text");
    }
    write!(line, "; seed {}", report.scenario.seed).expect("it is a text");
    line
}

/// What the bound is, and why.
pub(super) fn bound_line(outcome: &Outcome) -> String {
    let bound = outcome.bound;
    format!(
        "No faster than {}: the seeder's uplink needs {}, the slowest downlink {}, all uplinks together {}",
        seconds(bound.seconds()),
        seconds(bound.source),
        seconds(bound.slowest),
        seconds(bound.everyone)
    )
}

/// What is not in the table and must be known.
pub(super) fn remarks(outcome: &Outcome) -> Vec<String> {
    let mut remarks = Vec::new();
    if outcome.healthy_dropped > 0 {
        remarks.push(format!("{} times a healthy peer was dropped", outcome.healthy_dropped));
    }
    if outcome.liars_dropped > 0 {
        remarks.push(format!("{} times a liar was dropped", outcome.liars_dropped));
    }
    let others = outcome.broken.iter().filter(|what| !what.contains("which is healthy"));
    remarks.extend(others.take(5).map(|what| format!("broken promise: {what}")));
    remarks
}

/// The whole outcome for people at a terminal.
pub fn table(report: &Report) -> String {
    let mut out = format!("{}\n{}\n", report.scenario.name, headline(report));
    if let Some((_, outcome)) = report.runs.first() {
        out.push_str(&bound_line(outcome));
        out.push('\n');
    }
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(report.runs.iter().map(|(run, outcome)| row(&run.name, outcome)));
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    for row in &rows {
        out.push('\n');
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let written = match column {
                0 => write!(out, "  {cell:<width$}"),
                _ => write!(out, "  {cell:>width$}"),
            };
            written.expect("it is a text");
        }
    }
    out.push('\n');
    for published in &report.scenario.published {
        let time = seconds(published.time.as_secs_f64());
        writeln!(out, "  published: {}: {time}", published.name).expect("it is a text");
    }
    for (run, outcome) in &report.runs {
        for remark in remarks(outcome) {
            writeln!(out, "  {}: {remark}", run.name).expect("it is a text");
        }
    }
    for note in &report.scenario.notes {
        writeln!(out, "\n{note}").expect("it is a text");
    }
    out
}
