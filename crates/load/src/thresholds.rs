//! Compares the results of a load with the thresholds of its scenario.

use std::time::Duration;

use watchfire_report::units::duration;

use crate::order::{MISSING, RECEIVED, REPEATED};
use crate::results::{Results, Step};
use crate::scenario::{StepThresholds, Thresholds};

/// One threshold, and whether it was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The threshold, such as `join p99 ≤ 200ms`.
    pub threshold: String,
    pub measured: String,
    pub is_kept: bool,
}

/// Checks every threshold, in the order of the scenario.
pub fn judge(thresholds: &Thresholds, results: &Results) -> Vec<Verdict> {
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
    at_most("errors", thresholds.errors_max, errors);
    at_most("lost messages", thresholds.lost_max, results.lost());
    at_most("missing users", thresholds.missing_users_max, results.missing_users());
    if let Some(max) = thresholds.errors_percent_max {
        let percent = 100.0 * errors as f64 / counts.started.max(1) as f64;
        verdicts.push(verdict(
            format!("errors ≤ {max} %"),
            format!("{percent:.3} %"),
            percent <= max,
        ));
    }
    if let Some(min) = thresholds.connected_min {
        let most = results.connected_max;
        verdicts.push(verdict(format!("connected ≥ {min}"), most.to_string(), most >= min));
    }
    if let Some(max) = thresholds.start_lateness_p99_max {
        let p99 = results.lateness.quantile(0.99);
        verdicts.push(within("start lateness p99", max, p99));
    }
    judge_order(thresholds, results, &mut verdicts);
    judge_broadcasts(thresholds, results, &mut verdicts);
    for (name, threshold) in &thresholds.steps {
        verdicts.extend(judge_step(name, threshold, results));
    }
    verdicts
}

/// Without a message, nothing is known about the order.
fn judge_order(thresholds: &Thresholds, results: &Results, verdicts: &mut Vec<Verdict>) {
    let count = |name: &str| results.counters.get(name).copied().unwrap_or(0);
    let received = count(RECEIVED);
    for (name, max) in
        [(MISSING, thresholds.in_order_missing_max), (REPEATED, thresholds.in_order_repeated_max)]
    {
        let Some(max) = max else { continue };
        let measured = match received {
            0 => "nothing was received".to_owned(),
            _ => count(name).to_string(),
        };
        verdicts.push(verdict(
            format!("{name} ≤ {max}"),
            measured,
            received > 0 && count(name) <= max,
        ));
    }
    if let Some(min) = thresholds.in_order_received_min {
        verdicts.push(verdict(
            format!("{RECEIVED} ≥ {min}"),
            received.to_string(),
            received >= min,
        ));
    }
}

fn judge_broadcasts(thresholds: &Thresholds, results: &Results, verdicts: &mut Vec<Verdict>) {
    if thresholds.broadcasts_missing_max.is_none() && thresholds.broadcasts_last_max.is_none() {
        return;
    }
    let broadcasts = results.broadcasts();
    let check_sent = || (!broadcasts.is_empty()).then_some(()).ok_or("no broadcast was sent");
    if let Some(max) = thresholds.broadcasts_missing_max {
        let missing: u64 = broadcasts.iter().map(|broadcast| broadcast.missing).sum();
        let measured = check_sent().map_or_else(str::to_owned, |()| missing.to_string());
        let is_kept = check_sent().is_ok() && missing <= max;
        verdicts.push(verdict(format!("broadcasts missing ≤ {max}"), measured, is_kept));
    }
    if let Some(max) = thresholds.broadcasts_last_max {
        let last = broadcasts.iter().map(|broadcast| broadcast.times.max()).max();
        let measured =
            check_sent().map_or_else(str::to_owned, |()| duration(last.unwrap_or_default()));
        let is_kept = last.is_some_and(|last| last <= max);
        verdicts.push(verdict(format!("broadcasts last ≤ {}", duration(max)), measured, is_kept));
    }
}

fn judge_step(name: &str, threshold: &StepThresholds, results: &Results) -> Vec<Verdict> {
    let Some(step) = results.steps.iter().find(|step| step.name == name) else { return Vec::new() };
    let quantiles = [
        ("p50", threshold.p50_max, 0.5),
        ("p95", threshold.p95_max, 0.95),
        ("p99", threshold.p99_max, 0.99),
        ("p99.9", threshold.p999_max, 0.999),
        ("max", threshold.max, 1.0),
    ];
    let mut verdicts = Vec::new();
    for (quantile, max, share) in quantiles {
        let Some(max) = max else { continue };
        let threshold = format!("{name} {quantile}");
        let measured = step.due.quantile(share);
        verdicts.push(if step.done() == 0 {
            // A step that was never done counts as broken.
            verdict(format!("{threshold} ≤ {}", duration(max)), "never done".into(), false)
        } else if is_unanswered(step, share) {
            let measured = format!("at least {}: timed out", duration(measured));
            verdict(format!("{threshold} ≤ {}", duration(max)), measured, false)
        } else {
            within(&threshold, max, measured)
        });
    }
    if let Some(min) = threshold.count_min {
        let count = step.done();
        verdicts.push(verdict(format!("{name} done ≥ {min}"), count.to_string(), count >= min));
    }
    verdicts
}

/// Whether a quantile is the time of a step without an answer: more steps had none than are slower than
/// the quantile. Its true value is not known, only that it is longer.
fn is_unanswered(step: &Step, share: f64) -> bool {
    let slower = (step.due.len() as f64 * (1.0 - share)).floor() as u64;
    step.unanswered > slower
}

fn within(name: &str, max: Duration, measured: Duration) -> Verdict {
    verdict(format!("{name} ≤ {}", duration(max)), duration(measured), measured <= max)
}

fn verdict(threshold: String, measured: String, is_kept: bool) -> Verdict {
    Verdict { threshold, measured, is_kept }
}
