//! Tables of intervals of ten seconds, as in the reports of Tsung: the highest and the lowest mean, and rates.

use watchfire_report::Table;
use watchfire_report::units::{binary_bytes, byte_rate, count, duration, number};

use super::series::{Part, Series, parts, steps};
use super::table::shortened;
use crate::results::{Results, Second};
use crate::tally::Counts;

/// One of the counts.
type CountOf = fn(&Counts) -> u64;

/// The length of an interval in seconds.
const SECONDS: usize = 10;

/// The intervals of a load. Only a load without a complete one has an incomplete one.
fn intervals(results: &Results) -> Vec<Part<'_>> {
    let mut parts = parts(results, SECONDS);
    let is_cut =
        parts.last().is_some_and(|last| last.seconds.len() < parts[0].seconds.len().max(SECONDS));
    parts.truncate(parts.len() - usize::from(is_cut && parts.len() > 1));
    parts
}

/// The highest rate of an interval, and the mean rate of the load: each in a second.
fn rates(results: &Results, of: impl Fn(Part<'_>) -> u64) -> [f64; 2] {
    let rate = |part: Part<'_>| of(part) as f64 / part.seconds.len().max(1) as f64;
    let highest = intervals(results).into_iter().map(rate).fold(0.0, f64::max);
    [highest, rate(Part { seconds: &results.seconds, times: &results.times })]
}

/// Connections, pages, requests and sessions, or the groups of steps; `None` without any.
pub(super) fn times(results: &Results, of_groups: bool) -> Option<Table> {
    let series = if of_groups { steps(results, true) } else { Series::ALL.to_vec() };
    let first = if of_groups { "transaction" } else { "time of a" };
    let heads = ["highest mean", "lowest mean", "highest rate", "mean rate", "mean", "count"];
    let mut table = Table::new([first].into_iter().chain(heads));
    for one in series {
        let all = one.of(results, &results.times);
        if all.is_empty() {
            continue;
        }
        let means = intervals(results).into_iter().map(|part| one.of(results, part.times));
        let means: Vec<_> =
            means.filter(|times| !times.is_empty()).map(|times| times.mean()).collect();
        let mean = |found: Option<_>| found.map_or_else(String::new, duration);
        let [highest, usual] =
            rates(results, |part| one.count(results, part.times)).map(per_second);
        table.push([
            shortened(one.name(results)),
            mean(means.iter().max().copied()),
            mean(means.iter().min().copied()),
            highest,
            usual,
            duration(all.mean()),
            count(all.len()),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Users, connections and messages, and the events of sessions.
pub(super) fn counters(results: &Results) -> Table {
    let mut table = Table::new(["counter", "highest rate", "mean rate", "total"]);
    let mut push = |name: &str, total: u64, of: &dyn Fn(Part<'_>) -> u64| {
        if total > 0 {
            let [highest, mean] = rates(results, of);
            table.push([name.to_owned(), per_second(highest), per_second(mean), count(total)]);
        }
    };
    let counts: [(&str, CountOf); 6] = [
        ("users started", |counts| counts.started),
        ("users finished", |counts| counts.finished),
        ("users failed", |counts| counts.failed),
        ("users turned away", |counts| counts.turned_away),
        ("users cut off", |counts| counts.cut_off),
        ("messages delivered", |counts| counts.deliveries),
    ];
    for (name, of) in counts {
        let in_part = |part: Part<'_>| part.seconds.iter().map(|second| of(&second.counts)).sum();
        push(name, of(&results.counts), &in_part);
    }
    let connections = |part: Part<'_>| Series::Connect.count(results, part.times);
    push("connections", results.stages.connect.len(), &connections);
    let errors = |part: Part<'_>| part.seconds.iter().map(|second| second.errors).sum();
    push("errors", results.errors_total(), &errors);
    for (name, total) in &results.counters {
        table.push([name.clone(), String::new(), String::new(), count(*total)]);
    }
    table
}

pub(super) fn throughput(results: &Results) -> Table {
    let mut table = Table::new(["network", "highest rate", "mean rate", "total"]);
    let directions: [(&str, CountOf); 2] =
        [("received", |counts| counts.bytes_in), ("sent", |counts| counts.bytes_out)];
    for (name, of) in directions {
        let rates = rates(results, |part| part.seconds.iter().map(|one| of(&one.counts)).sum());
        let [highest, mean] = rates.map(byte_rate);
        table.push([name.to_owned(), highest, mean, binary_bytes(of(&results.counts))]);
    }
    table
}

/// HTTP responses by their status; `None` without any.
pub(super) fn statuses(results: &Results) -> Option<Table> {
    let mut table = Table::new(["HTTP status", "highest rate", "mean rate", "total"]);
    for (status, total) in &results.statuses {
        let of = |second: &Second| second.statuses.get(status).copied().unwrap_or(0);
        let [highest, mean] =
            rates(results, |part| part.seconds.iter().map(of).sum()).map(per_second);
        table.push([status.to_string(), highest, mean, count(*total)]);
    }
    (!table.rows.is_empty()).then_some(table)
}

fn per_second(rate: f64) -> String {
    format!("{}/s", number(rate, if rate < 100.0 { 1 } else { 0 }))
}
