use std::fmt::Write as _;

use watchfire_report::units::{self, binary_bytes};
use watchfire_report::{Table, escape, page};

use super::charts::charts;
use super::intervals;
use super::table::{
    broadcasts, counters, generator, lateness, steps, stopped, traffic, users, without_mark,
};
use crate::results::Results;
use crate::thresholds::Verdict;

/// Broadcasts with a row of their own; the JSON has all.
const BROADCASTS_SHOWN: usize = 100;

/// The results, also of a load that goes on, as one page that needs no other file.
pub fn html(results: &Results, verdicts: &[Verdict]) -> String {
    let mut body = format!(
        "<p class=\"dim\">{} s of arrivals, measured by watchfire load from the time each step was due</p>",
        results.duration.as_secs_f64()
    );
    body += &verdict_list(verdicts);
    for (heading, charts) in charts(results) {
        body += &format!("<h2>{heading}</h2>{}", watchfire_report::charts(&charts));
    }
    body += &summary(results);
    body += &format!("<h2>Steps, since they were due</h2>{}", steps(results).html());
    if let Some(table) = broadcasts(results, BROADCASTS_SHOWN) {
        body += &format!("<h2>Broadcasts</h2>{}", table.html());
    }
    body += &error_table(results);
    body += &interval_tables(results);
    page(&results.name, &body)
}

fn verdict_list(verdicts: &[Verdict]) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let broken = verdicts.iter().filter(|verdict| !verdict.is_kept).count();
    let (class, sentence) = match (verdicts.len(), broken) {
        (1, 0) => ("good", "The threshold is kept.".to_owned()),
        (all, 0) => ("good", format!("All {all} thresholds are kept.")),
        (all, _) => ("bad", format!("{broken} of {all} thresholds are broken.")),
    };
    // A reader who asks only whether all is well sees the charts next.
    let open = if broken > 0 { " open" } else { "" };
    let mut out = format!("<details{open}><summary class=\"{class}\">{sentence}</summary><table>");
    for verdict in verdicts {
        let (class, word) = if verdict.is_kept { ("good", "kept") } else { ("bad", "broken") };
        let (threshold, measured) = (escape(&verdict.threshold), escape(&verdict.measured));
        write!(out, "<tr><td>{threshold}<td>{measured}<td class=\"{class}\">{word}")
            .expect("writing to a string cannot fail");
    }
    out + "</table></details>"
}

fn summary(results: &Results) -> String {
    let counts = &results.counts;
    let mut rows = vec![
        ("Users", users(results)),
        (
            "At the same time",
            format!("{} users, {} websockets", results.users_max, results.connected_max),
        ),
        ("Start lateness", lateness(&results.lateness)),
        ("Traffic", traffic(results)),
        (
            "Deliveries",
            format!("{} messages, {}", counts.deliveries, binary_bytes(counts.delivery_bytes)),
        ),
        ("Generator", generator(results)),
    ];
    rows.extend(counters(results).map(|counters| ("Sessions", counters)));
    rows.splice(0..0, stopped(results).map(|stopped| ("Stopped", stopped)));
    rows.extend(results.limits().into_iter().map(|limit| ("Stopped by", limit.to_owned())));
    let lost = results.events.iter().filter(|event| event.kind == "agent_lost");
    rows.extend(lost.map(|event| ("Lost", event.text.clone())));
    rows.extend(without_mark(results).map(|text| ("Operator's page", text)));
    rows.extend(results.failed_workers.iter().map(|cause| ("Missing", cause.clone())));
    let rows = rows.iter().map(|(name, value)| format!("<dt>{name}<dd>{}", escape(value)));
    format!("<h2>Summary</h2><dl>{}</dl>", rows.collect::<String>())
}

fn error_table(results: &Results) -> String {
    if results.errors.is_empty() {
        return "<h2>Errors</h2><p class=\"good\">None.</p>".into();
    }
    let mut table = Table::new(["step and error", "count"]);
    for ((step, kind), count) in &results.errors {
        table.push([format!("{step}: {kind}"), units::count(*count)]);
    }
    format!("<h2>Errors</h2>{}", table.html())
}

/// The tables of intervals, as in a report of Tsung.
fn interval_tables(results: &Results) -> String {
    let tables = [
        intervals::times(results, false),
        intervals::times(results, true),
        Some(intervals::counters(results)),
        Some(intervals::throughput(results)),
        intervals::statuses(results),
    ];
    let tables: String = tables.iter().flatten().map(Table::html).collect();
    format!(
        "<h2>Means and rates</h2><p class=\"dim\">The highest and the lowest of all intervals of \
         10 s. A page is the steps between two think times; a request is any step.</p>{tables}"
    )
}
