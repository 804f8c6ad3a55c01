//! The results as CSV: a line for each second.

use std::fmt::Write as _;

use watchfire_report::Histogram;

use super::series::Series;
use crate::results::Results;

const HEADS: &str = "second,users,websockets,users_planned,users_started,users_finished,users_failed,\
                     users_turned_away,users_cut_off,bytes_received,bytes_sent,deliveries,errors";
/// The columns of each kind of times.
const TIMES: [&str; 5] = ["count", "mean", "p50", "p99", "max"];

/// A line for each second. Times are in seconds since a step was due, and empty when there are none. In a load of more than
/// an hour they are of several seconds, and in the line of the first one.
/// A column has the same meaning for each load. The columns of statuses, errors and steps come last.
pub fn csv(results: &Results) -> String {
    let mut out = heads(results);
    for (at, second) in results.seconds.iter().enumerate() {
        let counts = &second.counts;
        let numbers = [
            second.users,
            second.connected,
            counts.due,
            counts.started,
            counts.finished,
            counts.failed,
            counts.turned_away,
            counts.cut_off,
            counts.bytes_in,
            counts.bytes_out,
            counts.deliveries,
            second.errors,
        ];
        let times = results.times_between(at, at + 1);
        write!(out, "{at}").expect(WRITING);
        numbers.iter().for_each(|number| write!(out, ",{number}").expect(WRITING));
        for series in Series::ALL {
            write_times(&series.of(results, times), &mut out);
        }
        for status in results.statuses.keys() {
            let count = second.statuses.get(status).copied().unwrap_or(0);
            write!(out, ",{count}").expect(WRITING);
        }
        for kind in 0..results.error_kinds.len() {
            let count = second.errors_by_kind.get(&(kind as u16)).copied().unwrap_or(0);
            write!(out, ",{count}").expect(WRITING);
        }
        for step in 0..results.steps.len() {
            let series = Series::Step(step as u16);
            write_times(&series.of(results, times), &mut out);
        }
        out.push('\n');
    }
    out
}

const WRITING: &str = "writing to a string cannot fail";

fn heads(results: &Results) -> String {
    let mut out = HEADS.to_owned();
    let mut push = |name: &str| {
        out.push(',');
        out.push_str(&quoted(name));
    };
    let times = |name: &str| TIMES.map(|what| format!("{name} {what}"));
    for series in Series::ALL {
        times(series.name(results)).iter().for_each(|name| push(name));
    }
    results.statuses.keys().for_each(|status| push(&format!("HTTP {status}")));
    results.error_kinds.iter().for_each(|kind| push(&format!("error: {kind}")));
    for step in &results.steps {
        times(&format!("step: {}", step.name)).iter().for_each(|name| push(name));
    }
    out.push('\n');
    out
}

fn write_times(times: &Histogram, out: &mut String) {
    if times.is_empty() {
        out.push_str(",0,,,,");
        return;
    }
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| times.quantile(share).as_secs_f64());
    let mean = times.mean().as_secs_f64();
    write!(out, ",{},{mean},{p50},{p99},{max}", times.len()).expect(WRITING);
}

/// A field in quotes if it needs them.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
