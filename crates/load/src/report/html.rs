use std::fmt::Write as _;

use watchfire_report::{Chart, Table, escape, page, units};

use super::charts::charts;
use super::intervals;
use super::table::{broadcasts, bytes, counters, generator, lateness, steps, stopped, users};
use crate::results::Results;
use crate::thresholds::Verdict;

/// Broadcasts with a row of their own; the JSON has all.
const BROADCASTS_SHOWN: usize = 100;

/// The results as one page that needs no other file.
pub fn html(results: &Results, verdicts: &[Verdict]) -> String {
    let mut body = format!(
        "<p class=\"dim\">{} s of arrivals, measured by watchfire load from the time each step was due</p>",
        results.duration.as_secs_f64()
    );
    body += &verdict_list(verdicts);
    body += &summary(results);
    body += &format!("<h2>Steps, since they were due</h2>{}", steps(results).html());
    if let Some(table) = broadcasts(results, BROADCASTS_SHOWN) {
        body += &format!("<h2>Broadcasts</h2>{}", table.html());
    }
    body += &error_table(results);
    body += &interval_tables(results);
    for (heading, charts) in charts(results) {
        body += &format!("<h2>{heading}</h2>");
        body.extend(charts.iter().map(figure));
    }
    page(&results.name, &body)
}

fn verdict_list(verdicts: &[Verdict]) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let mut out = String::from("<h2>Thresholds</h2><div class=\"scroll\"><table>");
    for verdict in verdicts {
        let (class, word) = if verdict.is_kept { ("good", "kept") } else { ("bad", "broken") };
        let (threshold, measured) = (escape(&verdict.threshold), escape(&verdict.measured));
        write!(out, "<tr><td>{threshold}<td>{measured}<td class=\"{class}\">{word}")
            .expect("writing to a string cannot fail");
    }
    out + "</table></div>"
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
        ("Traffic", format!("{} in, {} out", bytes(counts.bytes_in), bytes(counts.bytes_out))),
        ("Deliveries", format!("{} messages, {}", counts.deliveries, bytes(counts.delivery_bytes))),
        ("Generator", generator(results)),
    ];
    rows.extend(counters(results).map(|counters| ("Sessions", counters)));
    rows.splice(0..0, stopped(results).map(|stopped| ("Stopped", stopped)));
    rows.extend(results.limits().into_iter().map(|limit| ("Stopped by", limit.to_owned())));
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

/// A chart that a narrow screen scrolls sideways, so that its text stays readable.
fn figure(chart: &Chart) -> String {
    format!("<div class=\"scroll chart\">{}</div>", chart.inline_svg())
}
