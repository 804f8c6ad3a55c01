use std::fmt::Write as _;
use std::time::Duration;

use crate::broadcast::Broadcast;
use crate::gates::{Verdict, time};
use crate::histogram::Buckets;
use crate::results::Results;

/// Broadcasts with a line of their own; the JSON has all.
const BROADCASTS_SHOWN: usize = 20;

/// The whole outcome as plain text.
pub fn table(results: &Results, verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    let counts = &results.counts;
    let mut row = |name: &str, value: String| {
        writeln!(out, "{name:<18} {value}").expect("a text takes everything");
    };
    if let Some(stopped) = stopped(results) {
        row("STOPPED", stopped);
    }
    row("users", users(results));
    row(
        "at one time",
        format!("{} users, {} websockets", results.users_max, results.connected_max),
    );
    row("start lateness", lateness(&results.lateness));
    let (read, written) = (bytes(counts.bytes_in), bytes(counts.bytes_out));
    row("traffic", format!("{read} in, {written} out"));
    if counts.deliveries > 0 {
        let size = bytes(counts.delivery_bytes);
        row("deliveries", format!("{} messages, {size}", counts.deliveries));
    }
    if !results.delivery.is_empty() {
        row("delivery time", quantiles(&results.delivery));
    }
    row("generator", generator(results));
    out.push('\n');
    write_steps(results, &mut out);
    write_broadcasts(results, &mut out);
    write_errors(results, &mut out);
    for verdict in verdicts {
        let word = if verdict.is_kept { "kept" } else { "BROKEN" };
        writeln!(out, "{word:<7} {} (measured {})", verdict.gate, verdict.measured)
            .expect("a text takes everything");
    }
    out
}

/// When the load was stopped, if it was.
pub(super) fn stopped(results: &Results) -> Option<String> {
    let after = results.stopped_after?;
    Some(format!("after {} of {}: all below is of that time", time(after), time(results.duration)))
}

pub(super) fn users(results: &Results) -> String {
    let counts = &results.counts;
    let mut text = format!("{} asked for, {} started, ", counts.asked, counts.started);
    let parts = [
        (counts.finished, "finished"),
        (counts.failed, "failed"),
        (counts.turned_away, "turned away: all places taken"),
        (counts.cut, "cut off by the load's end"),
    ];
    let parts = parts.iter().filter(|(count, what)| *count > 0 || *what == "finished");
    let parts: Vec<_> = parts.map(|(count, what)| format!("{count} {what}")).collect();
    text.push_str(&parts.join(", "));
    text
}

/// Whether the generator kept its own schedule, said out loud when it did not.
pub(super) fn lateness(lateness: &Buckets) -> String {
    let p99 = lateness.quantile(0.99);
    let mut text = quantiles(lateness);
    if p99 > Duration::from_millis(50) {
        text.push_str("  THE GENERATOR DID NOT KEEP UP");
    }
    text
}

fn quantiles(buckets: &Buckets) -> String {
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| time(buckets.quantile(share)));
    format!("p50 {p50}, p99 {p99}, max {max}")
}

pub(super) fn generator(results: &Results) -> String {
    let (first, most) = results.resident_bytes;
    let each = |total: f64, count: u64| total / count.max(1) as f64;
    let cpu = each(results.cpu.as_secs_f64() * 1e3, results.counts.started);
    // What few users hold drowns in what the engine holds anyway.
    let memory = match results.users_max {
        users @ 1000.. => {
            format!(" ({:.0} bytes a user)", each(most.saturating_sub(first) as f64, users))
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
        bytes(most),
    )
}

fn write_steps(results: &Results, out: &mut String) {
    const SHARES: [f64; 5] = [0.5, 0.95, 0.99, 0.999, 1.0];
    let width = results.steps.iter().map(|step| step.name.chars().count()).max().unwrap_or(0);
    let width = width.clamp(18, 50);
    let mut line = |name: &str, cells: [String; 8]| {
        let [count, mean, p50, p95, p99, p999, max, begun] = cells;
        let name: String = name.chars().take(width).collect();
        writeln!(
            out,
            "{name:<width$} {count:>9} {mean:>9} {p50:>9} {p95:>9} {p99:>9} {p999:>9} {max:>9} \
             {begun:>13}"
        )
        .expect("a text takes everything");
    };
    let head = ["done", "mean", "p50", "p95", "p99", "p99.9", "max", "p99 if begun"];
    line("step, since due", head.map(str::to_owned));
    for step in results.steps.iter().filter(|step| !step.due.is_empty()) {
        let [p50, p95, p99, p999, max] = SHARES.map(|share| time(step.due.quantile(share)));
        let count = step.due.len().to_string();
        let (mean, begun) = (time(step.due.mean()), time(step.begun.quantile(0.99)));
        line(&step.name, [count, mean, p50, p95, p99, p999, max, begun]);
    }
    out.push('\n');
}

fn write_broadcasts(results: &Results, out: &mut String) {
    let broadcasts = results.broadcasts();
    if broadcasts.is_empty() {
        return;
    }
    let mut line = |name: &str, cells: [String; 7]| {
        let [at, audience, heard, missing, p50, p99, last] = cells;
        let name: String = name.chars().take(30).collect();
        writeln!(
            out,
            "{name:<30} {at:>9} {audience:>9} {heard:>9} {missing:>9} {p50:>9} {p99:>9} {last:>9}"
        )
        .expect("a text takes everything");
    };
    let head = ["at", "listened", "heard", "missing", "p50", "p99", "last"];
    line("broadcast", head.map(str::to_owned));
    for broadcast in broadcasts.iter().take(BROADCASTS_SHOWN) {
        line(&broadcast.step, broadcast_cells(broadcast));
    }
    if broadcasts.len() > 1 {
        line(&format!("all {}", broadcasts.len()), broadcast_cells(&Broadcast::all(&broadcasts)));
    }
    let untold = results.counts.broadcasts_untold;
    if untold > 0 {
        writeln!(out, "and {untold} more, counted as deliveries only").expect("it is a text");
    }
    out.push('\n');
}

/// When, how many listened, heard, and did not; how long it took to half, most and the last.
pub(super) fn broadcast_cells(broadcast: &Broadcast) -> [String; 7] {
    let times = &broadcast.times;
    let [p50, p99, last] = [0.5, 0.99, 1.0].map(|share| time(times.quantile(share)));
    let at = if broadcast.at.is_zero() { String::new() } else { time(broadcast.at) };
    let [audience, heard, missing] =
        [broadcast.audience, times.len(), broadcast.missing].map(|count| count.to_string());
    [at, audience, heard, missing, p50, p99, last]
}

fn write_errors(results: &Results, out: &mut String) {
    let mut line = |text: String| writeln!(out, "{text}").expect("a text takes everything");
    for ((step, kind), count) in &results.errors {
        line(format!("{count:>9} x {step}: {kind}"));
    }
    for why in &results.broken {
        line(format!("  a part of the load is missing: {why}"));
    }
    if !results.errors.is_empty() || !results.broken.is_empty() {
        line(String::new());
    }
    for limit in results.limits() {
        line(format!("stopped by a limit of this machine: {limit}\n"));
    }
}

/// A size such as `1.5 MB`.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "kB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_in_their_unit() {
        assert_eq!(bytes(999), "999 bytes");
        assert_eq!(bytes(1_500), "1.5 kB");
        assert_eq!(bytes(2_000_000_000), "2.0 GB");
    }
}
