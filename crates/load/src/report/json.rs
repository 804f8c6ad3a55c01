use std::time::Duration;

use serde_json::{Value, json};
use watchfire_report::Histogram;

use crate::results::Results;
use crate::thresholds::Verdict;

/// The results as JSON. Times are in seconds, sizes in bytes.
pub fn json(results: &Results, verdicts: &[Verdict]) -> Value {
    let steps = results.steps.iter().map(|step| {
        json!({
            "name": step.name,
            "group": step.is_group,
            "done": step.done(),
            "unanswered": step.unanswered,
            "last_done_at": step.last_done_at.as_secs_f64(),
            "since_due": times(&step.due),
            "since_begun": times(&step.begun),
        })
    });
    let errors = results.errors.iter();
    let errors =
        errors.map(|((step, kind), count)| json!({ "step": step, "kind": kind, "count": count }));
    let verdicts = verdicts.iter().map(|verdict| {
        json!({ "threshold": verdict.threshold, "measured": verdict.measured, "kept": verdict.is_kept })
    });
    let broadcasts = results.broadcasts().into_iter().map(|broadcast| {
        json!({
            "step": broadcast.step,
            "at": broadcast.at.as_secs_f64(),
            "audience": broadcast.audience,
            "missing": broadcast.missing,
            "times": times(&broadcast.times),
        })
    });
    let by_worker = results.by_worker.iter().map(
        |worker| json!({ "name": worker.name, "state": worker.state, "started": worker.started }),
    );
    json!({
        "scenario": results.name,
        "duration": results.duration.as_secs_f64(),
        "stopped_after": results.stopped_after.map(|after| after.as_secs_f64()),
        "workers": results.workers,
        "counts": results.counts,
        "users_max": results.users_max,
        "connected_max": results.connected_max,
        "start_lateness": times(&results.lateness),
        "delivery": times(&results.delivery),
        "lost": results.lost(),
        "broadcasts": broadcasts.collect::<Value>(),
        "steps": steps.collect::<Value>(),
        "connect": times(&results.stages.connect),
        "page": times(&results.stages.page),
        "session": times(&results.stages.session),
        "statuses": results.statuses,
        "errors": errors.collect::<Value>(),
        "counters": results.counters,
        "matches": results.matches,
        "aborted": results.is_aborted,
        "limits": results.limits(),
        "without_mark": results.without_mark,
        "failed_workers": results.failed_workers,
        "by_worker": by_worker.collect::<Value>(),
        "events": results.events,
        "paused": results.schedule.paused.as_secs_f64(),
        "controller_lateness": times(&results.controller_lateness),
        "thresholds": verdicts.collect::<Value>(),
        "cpu": results.cpu.as_secs_f64(),
        "resident_bytes": { "first": results.resident_bytes.0, "most": results.resident_bytes.1 },
        // Times of an interval are in its first second.
        "interval": results.interval,
        "seconds": (0..results.seconds.len()).map(|at| one_second(at, results)).collect::<Value>(),
    })
}

fn one_second(at: usize, results: &Results) -> Value {
    let second = &results.seconds[at];
    let in_interval = results.times_from(at).cloned().unwrap_or_default();
    let steps = in_interval.steps.iter().filter_map(|(step, snapshot)| {
        let name = results.steps.get(usize::from(*step))?.name.clone();
        Some((name, times(&Histogram::from(snapshot))))
    });
    json!({
        "users": second.users,
        "connected": second.connected,
        "counts": second.counts,
        "errors": second.errors,
        "statuses": second.statuses,
        "connect": times(&Histogram::from(&in_interval.stages.connect)),
        "page": times(&Histogram::from(&in_interval.stages.page)),
        "session": times(&Histogram::from(&in_interval.stages.session)),
        "steps": steps.collect::<serde_json::Map<_, _>>(),
    })
}

fn times(histogram: &Histogram) -> Value {
    let seconds = |duration: Duration| duration.as_secs_f64();
    let [p50, p90, p95, p99, p999] =
        [0.5, 0.9, 0.95, 0.99, 0.999].map(|share| seconds(histogram.quantile(share)));
    json!({
        "count": histogram.len(),
        "mean": seconds(histogram.mean()),
        "p50": p50,
        "p90": p90,
        "p95": p95,
        "p99": p99,
        "p999": p999,
        "max": seconds(histogram.max()),
    })
}
