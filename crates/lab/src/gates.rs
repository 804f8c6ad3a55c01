//! Whether a load passed: each threshold of the scenario against what was measured.

use std::time::Duration;

use crate::results::Results;
use crate::scenario::{Gates, StepGate};

/// One threshold, and how it went.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The threshold, such as `join p99 ≤ 200ms`.
    pub gate: String,
    /// What was measured.
    pub measured: String,
    /// It holds.
    pub is_kept: bool,
}

/// Judge every threshold, in the scenario's order.
pub fn judge(gates: &Gates, results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let counts = &results.counts;
    let errors = results.errors_total();
    let mut at_most = |name: &str, max: Option<u64>, measured: u64| {
        if let Some(max) = max {
            verdicts.push(verdict(
                format!("{name} ≤ {max}"),
                measured.to_string(),
                measured <= max,
            ));
        }
    };
    at_most("errors", gates.errors_max, errors);
    at_most("missing users", gates.missing_users_max, results.missing_users());
    if let Some(max) = gates.errors_percent_max {
        let percent = 100.0 * errors as f64 / counts.started.max(1) as f64;
        verdicts.push(verdict(
            format!("errors ≤ {max} %"),
            format!("{percent:.3} %"),
            percent <= max,
        ));
    }
    if let Some(min) = gates.connected_min {
        let most = results.connected_max;
        verdicts.push(verdict(format!("connected ≥ {min}"), most.to_string(), most >= min));
    }
    if let Some(max) = gates.start_lateness_p99_max {
        let p99 = results.lateness.quantile(0.99);
        verdicts.push(within("start lateness p99", max, p99));
    }
    judge_broadcasts(gates, results, &mut verdicts);
    // Nobody was there to be late: the load was not what it should be.
    for (name, gate) in &gates.steps {
        verdicts.extend(judge_step(name, gate, results));
    }
    verdicts
}

fn judge_broadcasts(gates: &Gates, results: &Results, verdicts: &mut Vec<Verdict>) {
    if gates.broadcasts_missing_max.is_none() && gates.broadcasts_last_max.is_none() {
        return;
    }
    let broadcasts = results.broadcasts();
    let none = || (!broadcasts.is_empty()).then_some(()).ok_or("no broadcast was sent");
    if let Some(max) = gates.broadcasts_missing_max {
        let missing: u64 = broadcasts.iter().map(|broadcast| broadcast.missing).sum();
        let measured = none().map_or_else(str::to_owned, |()| missing.to_string());
        let is_kept = none().is_ok() && missing <= max;
        verdicts.push(verdict(format!("broadcasts missing ≤ {max}"), measured, is_kept));
    }
    if let Some(max) = gates.broadcasts_last_max {
        let last = broadcasts.iter().map(|broadcast| broadcast.times.max()).max();
        let measured = none().map_or_else(str::to_owned, |()| time(last.unwrap_or_default()));
        let is_kept = last.is_some_and(|last| last <= max);
        verdicts.push(verdict(format!("broadcasts last ≤ {}", time(max)), measured, is_kept));
    }
}

fn judge_step(name: &str, gate: &StepGate, results: &Results) -> Vec<Verdict> {
    let Some(step) = results.steps.iter().find(|step| step.name == name) else { return Vec::new() };
    let quantiles = [
        ("p50", gate.p50_max, 0.5),
        ("p95", gate.p95_max, 0.95),
        ("p99", gate.p99_max, 0.99),
        ("p99.9", gate.p999_max, 0.999),
        ("max", gate.max, 1.0),
    ];
    let mut verdicts = Vec::new();
    for (quantile, max, share) in quantiles {
        let Some(max) = max else { continue };
        let gate = format!("{name} {quantile}");
        verdicts.push(match step.due.is_empty() {
            // A step that nobody got done has not been fast.
            true => verdict(format!("{gate} ≤ {}", time(max)), "never done".into(), false),
            false => within(&gate, max, step.due.quantile(share)),
        });
    }
    if let Some(min) = gate.count_min {
        let count = step.due.len();
        verdicts.push(verdict(format!("{name} done ≥ {min}"), count.to_string(), count >= min));
    }
    verdicts
}

fn within(name: &str, max: Duration, measured: Duration) -> Verdict {
    verdict(format!("{name} ≤ {}", time(max)), time(measured), measured <= max)
}

fn verdict(gate: String, measured: String, is_kept: bool) -> Verdict {
    Verdict { gate, measured, is_kept }
}

/// A time with three digits, such as `1.23 ms`.
pub(crate) fn time(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    let (value, unit) = match micros {
        _ if micros < 1e3 => (micros, "µs"),
        _ if micros < 1e6 => (micros / 1e3, "ms"),
        _ => (micros / 1e6, "s"),
    };
    let decimals = if value >= 99.95 { 0 } else { usize::from(value < 9.995) + 1 };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_with_three_digits() {
        let cases = [
            (0, "0.00 µs"),
            (1_234, "1.23 µs"),
            (12_345, "12.3 µs"),
            (123_456, "123 µs"),
            (1_234_567, "1.23 ms"),
            (12_000_000_000, "12.0 s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(time(Duration::from_nanos(nanos)), text);
        }
    }
}
