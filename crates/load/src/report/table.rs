use std::fmt::Write as _;
use std::time::Duration;

use watchfire_report::units::{binary_bytes, count, duration};
use watchfire_report::{Histogram, Table};

use crate::broadcast::Broadcast;
use crate::results::Results;
use crate::thresholds::Verdict;

/// Broadcasts with a line of their own; the JSON has all.
const BROADCASTS_SHOWN: usize = 20;
/// Characters of a name in a table; the JSON has all.
const NAME_CHARACTERS_MAX: usize = 50;

/// The results as plain text.
pub fn table(results: &Results, verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    let counts = &results.counts;
    let mut row = |name: &str, value: String| {
        writeln!(out, "{name:<18} {value}").expect("writing to a string cannot fail");
    };
    if let Some(stopped) = stopped(results) {
        row("STOPPED", stopped);
    }
    if results.is_aborted {
        row("ENDED", "by a session of the scenario".to_owned());
    }
    for event in results.events.iter().filter(|event| event.kind == "agent_lost") {
        row("LOST", format!("after {:.0} s: {}", event.at, event.text));
    }
    row("users", users(results));
    row(
        "at the same time",
        format!("{} users, {} websockets", results.users_max, results.connected_max),
    );
    row("start lateness", lateness(&results.lateness));
    row("traffic", traffic(results));
    if counts.deliveries > 0 {
        let size = binary_bytes(counts.delivery_bytes);
        row("deliveries", format!("{} messages, {size}", counts.deliveries));
    }
    if counts.deliveries_due > 0 {
        row("lost", format!("{} of {} messages", results.lost(), counts.deliveries_due));
    }
    if let Some(counters) = counters(results) {
        row("sessions", counters);
    }
    row("generator", generator(results));
    if let Some(text) = without_mark(results) {
        row("operator's page", text);
    }
    out.push('\n');
    out += &steps(results).terminal();
    if let Some(table) = broadcasts(results, BROADCASTS_SHOWN) {
        out.push('\n');
        out += &table.terminal();
    }
    let unreported = results.counts.broadcasts_unreported;
    if unreported > 0 {
        writeln!(out, "and {unreported} more broadcasts, counted as deliveries only")
            .expect("writing to a string cannot fail");
    }
    out.push('\n');
    write_errors(results, &mut out);
    for verdict in verdicts {
        let word = if verdict.is_kept { "kept" } else { "BROKEN" };
        writeln!(out, "{word:<7} {} (measured {})", verdict.threshold, verdict.measured)
            .expect("writing to a string cannot fail");
    }
    out
}

/// The time at which the load was stopped, if it was.
pub(super) fn stopped(results: &Results) -> Option<String> {
    let after = results.stopped_after?;
    Some(format!(
        "after {} of {}; all results cover this time",
        duration(after),
        duration(results.duration)
    ))
}

/// The server's figures are on the operator's page only, so a reader must know when this load is not marked there.
pub(super) fn without_mark(results: &Results) -> Option<String> {
    let cause = results.without_mark.as_ref()?;
    Some(format!("the server's figures have no mark of this load: {cause}"))
}

pub(super) fn traffic(results: &Results) -> String {
    let [read, written] = [results.counts.bytes_in, results.counts.bytes_out].map(binary_bytes);
    format!("{read} in, {written} out")
}

pub(super) fn users(results: &Results) -> String {
    let counts = &results.counts;
    let mut text = format!("{} started, ", counts.started);
    let parts = [
        (counts.finished, "finished"),
        (counts.failed, "failed"),
        (counts.turned_away, "turned away because users_max was reached"),
        (counts.cut_off, "cut off at the end of the load"),
        (results.missing_users(), "planned and not started"),
    ];
    let parts = parts.iter().filter(|(count, name)| *count > 0 || *name == "finished");
    let parts: Vec<_> = parts.map(|(count, name)| format!("{count} {name}")).collect();
    text.push_str(&parts.join(", "));
    text
}

/// The events of sessions, such as matches; `None` without any.
pub(super) fn counters(results: &Results) -> Option<String> {
    let counters = results.counters.iter().map(|(name, count)| format!("{count} {name}"));
    let counters: Vec<_> = counters.collect();
    (!counters.is_empty()).then(|| counters.join(", "))
}

/// The lateness of starts, with a warning if the generator was late.
pub(super) fn lateness(lateness: &Histogram) -> String {
    let p99 = lateness.quantile(0.99);
    let mut text = quantiles(lateness);
    if p99 > Duration::from_millis(50) {
        text.push_str("  THE GENERATOR DID NOT KEEP UP");
    }
    text
}

fn quantiles(buckets: &Histogram) -> String {
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| duration(buckets.quantile(share)));
    format!("p50 {p50}, p99 {p99}, max {max}")
}

pub(super) fn generator(results: &Results) -> String {
    let (first, most) = results.resident_bytes;
    let each = |total: f64, count: u64| total / count.max(1) as f64;
    let cpu = each(results.cpu.as_secs_f64() * 1e3, results.counts.started);
    // With few users the memory of the engine itself would dominate.
    let memory = match results.users_max {
        users @ 1000.. => {
            format!(" ({} a user)", binary_bytes(most.saturating_sub(first) / users))
        }
        _ => String::new(),
    };
    let workers = match results.workers {
        1 => "1 process".to_owned(),
        workers => format!("{workers} processes"),
    };
    format!(
        "{workers}, {:.2} s CPU ({cpu:.3} ms a user), {} of memory{memory}",
        results.cpu.as_secs_f64(),
        binary_bytes(most),
    )
}

/// The times of each step. All but the last column count from when the step was due.
pub(super) fn steps(results: &Results) -> Table {
    let heads = ["step", "done", "mean", "p50", "p95", "p99", "p99.9", "max", "p99 since begun"];
    let mut table = Table::new(heads);
    let mut push = |name: &str, done: u64, due: &Histogram, begun: Option<&Histogram>| {
        let quantiles = [0.5, 0.95, 0.99, 0.999, 1.0].map(|share| duration(due.quantile(share)));
        let begun = begun.map_or(String::new(), |begun| duration(begun.quantile(0.99)));
        let first = [shortened(name), count(done), duration(due.mean())];
        table.push(first.into_iter().chain(quantiles).chain([begun]));
    };
    for step in results.steps.iter().filter(|step| !step.due.is_empty()) {
        push(&step.name, step.done(), &step.due, Some(&step.begun));
    }
    if !results.delivery.is_empty() {
        let delivery = &results.delivery;
        push("delivery of messages with ${now}", delivery.len(), delivery, None);
    }
    table
}

/// The first broadcasts one by one, then all together; `None` when none was sent.
pub(super) fn broadcasts(results: &Results, shown: usize) -> Option<Table> {
    let broadcasts = results.broadcasts();
    if broadcasts.is_empty() {
        return None;
    }
    let heads =
        ["broadcast", "sent at", "audience", "received", "missing", "p50", "p99", "last receiver"];
    let mut table = Table::new(heads);
    let mut push = |name: &str, broadcast: &Broadcast| {
        let times = &broadcast.times;
        let quantiles = [0.5, 0.99, 1.0].map(|share| duration(times.quantile(share)));
        let at = if broadcast.at.is_zero() { String::new() } else { duration(broadcast.at) };
        let counts = [broadcast.audience, times.len(), broadcast.missing].map(count);
        table.push([shortened(name), at].into_iter().chain(counts).chain(quantiles));
    };
    for broadcast in broadcasts.iter().take(shown) {
        push(&broadcast.step, broadcast);
    }
    if broadcasts.len() > 1 {
        push(&format!("all {}", broadcasts.len()), &Broadcast::all(&broadcasts));
    }
    Some(table)
}

pub(super) fn shortened(name: &str) -> String {
    name.chars().take(NAME_CHARACTERS_MAX).collect()
}

fn write_errors(results: &Results, out: &mut String) {
    let mut line = |text: String| writeln!(out, "{text}").expect("writing to a string cannot fail");
    for ((step, kind), count) in &results.errors {
        line(format!("{count:>9} x {step}: {kind}"));
    }
    for cause in &results.failed_workers {
        line(format!("  a worker failed: {cause}"));
    }
    if !results.errors.is_empty() || !results.failed_workers.is_empty() {
        line(String::new());
    }
    for limit in results.limits() {
        line(format!("stopped by a limit of this machine: {limit}\n"));
    }
}
