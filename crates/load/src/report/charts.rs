//! The charts of a report: what happened over time.

use std::time::Duration;

use watchfire_report::{Axis, Chart, Colour, Histogram, Line, Panel, TickFormat};

use super::series::{Part, Series, parts, steps};
use super::table::shortened;
use crate::results::{Results, Second};
use crate::tally::Counts;

/// Steps, and groups of steps, with a chart of their own; the table has all.
const STEPS_DRAWN: usize = 24;
/// Kinds of errors, and statuses of responses, with a line of their own.
const KINDS_DRAWN: usize = 10;
/// Most points of a line; more would not be visible.
const POINTS_MAX: usize = 360;

/// A line: its name, and its value in each interval. A value that is not a number interrupts the line.
type Drawn = (String, Vec<f64>);

/// The charts of a load, by the headings under which they belong.
pub(super) fn charts(results: &Results) -> Vec<(&'static str, Vec<Chart>)> {
    let drawing = Drawing::new(results);
    let times: Vec<_> =
        Series::ALL.into_iter().filter_map(|series| drawing.times(series)).collect();
    let (all, groups) = (steps(results, false), steps(results, true));
    let first = |series: &[Series]| series.iter().take(STEPS_DRAWN).copied().collect::<Vec<_>>();
    let of_each = |series: &[Series]| {
        let mut charts = drawing.rates(series);
        charts.extend(first(series).into_iter().filter_map(|series| drawing.times(series)));
        charts
    };
    let mut over_time = drawing.users();
    over_time.extend(drawing.traffic());
    let mut sections = vec![
        ("Users and traffic over time", over_time),
        ("Times of connections, pages, requests and sessions", times),
        ("Steps over time", of_each(&all)),
        ("Transactions over time", of_each(&groups)),
        ("Responses and errors over time", [drawing.statuses(), drawing.errors()].concat()),
    ];
    sections.retain(|(_, charts)| !charts.is_empty());
    sections
}

/// The parts that all charts of a load have in common.
struct Drawing<'a> {
    results: &'a Results,
    intervals: Vec<Part<'a>>,
    seconds_per_point: usize,
}

impl<'a> Drawing<'a> {
    fn new(results: &'a Results) -> Drawing<'a> {
        let intervals = parts(results, results.seconds_shown().len().div_ceil(POINTS_MAX).max(1));
        let seconds_per_point = intervals.first().map_or(1, |first| first.seconds.len());
        Drawing { results, intervals, seconds_per_point }
    }

    fn chart(&self, title: &str, y: Axis, lines: Vec<Drawn>) -> Chart {
        let lines = lines.into_iter().zip(Colour::ALL).map(|((name, values), colour)| {
            // A point is drawn in the middle of its interval.
            let x = |index: usize| (index as f64 + 0.5) * self.seconds_per_point as f64;
            let points = values.into_iter().enumerate().map(|(at, value)| (x(at), value));
            Line::left(name, colour, points.collect())
        });
        // A line that is always 0 would only cover others.
        let is_seen = |line: &Line| line.points.iter().any(|(_, y)| *y > 0.0);
        let mut lines: Vec<Line> = lines.collect();
        if lines.iter().any(is_seen) {
            lines.retain(is_seen);
        }
        let x = Axis::up_to("seconds", self.results.seconds_shown().len().max(1) as f64);
        Chart {
            label: format!("{title} over time"),
            panels: vec![Panel::lines(title, x, y, lines)],
            notes: Vec::new(),
        }
    }

    fn users(&self) -> Vec<Chart> {
        let lines = vec![
            self.most("users", |second| second.users),
            self.most("websockets", |second| second.connected),
        ];
        let per_second = vec![
            self.rate_of("started", |counts| counts.started),
            self.rate_of("finished", |counts| counts.finished),
            self.rate_of("failed", |counts| counts.failed),
            self.rate_of("turned away", |counts| counts.turned_away),
        ];
        let y = Axis::new("at the same time");
        vec![
            self.chart("Users and websockets", y, lines),
            self.chart("Users", Axis::new("per second"), per_second),
        ]
    }

    fn traffic(&self) -> Vec<Chart> {
        let results = self.results;
        let series =
            |name: &str, series: Series| self.rate(name, |part| series.count(results, part.times));
        let lines = vec![
            series("requests", Series::Request),
            series("pages", Series::Page),
            series("connections", Series::Connect),
            self.rate_of("deliveries", |counts| counts.deliveries),
        ];
        let most = |of: fn(&Counts) -> u64| {
            results.seconds.iter().map(|second| of(&second.counts)).max().unwrap_or(0)
        };
        let most = most(|counts| counts.bytes_in).max(most(|counts| counts.bytes_out));
        let (divisor, unit) = match most {
            10_485_760.. => (1_048_576.0, "MiB per second"),
            10_240.. => (1024.0, "KiB per second"),
            _ => (1.0, "bytes per second"),
        };
        let bytes = |name: &str, of: fn(&Counts) -> u64| {
            let (name, rates) = self.rate_of(name, of);
            (name, rates.into_iter().map(|rate| rate / divisor).collect())
        };
        let throughput = vec![
            bytes("received", |counts| counts.bytes_in),
            bytes("sent", |counts| counts.bytes_out),
        ];
        vec![
            self.chart("Requests and messages", Axis::new("per second"), lines),
            self.chart("Network", Axis::new(unit), throughput),
        ]
    }

    /// The mean and quantiles of times; `None` without any.
    fn times(&self, series: Series) -> Option<Chart> {
        let times = self.intervals.iter().map(|part| series.of(self.results, part.times));
        let times: Vec<_> = times.collect();
        if times.iter().all(Histogram::is_empty) {
            return None;
        }
        let line = |name: &str, of: fn(&Histogram) -> Duration| -> Drawn {
            let values = times.iter().map(|times| match times.is_empty() {
                true => f64::NAN,
                false => of(times).as_secs_f64(),
            });
            (name.to_owned(), values.collect())
        };
        let lines = vec![
            line("max", Histogram::max),
            line("p99", |times| times.quantile(0.99)),
            line("p50", |times| times.quantile(0.5)),
            line("mean", Histogram::mean),
        ];
        let label = match series {
            Series::Connect => "to connect",
            Series::Session => "to the end",
            _ => "since due",
        };
        let y = Axis::new(label).with_format(TickFormat::Duration);
        Some(self.chart(&shortened(series.name(self.results)), y, lines))
    }

    /// How often steps were done: five in a chart.
    fn rates(&self, series: &[Series]) -> Vec<Chart> {
        let results = self.results;
        let lines = series.iter().take(STEPS_DRAWN).map(|series| {
            let name = legend(series.name(results));
            self.rate(&name, |part| series.count(results, part.times))
        });
        self.in_fives("Done", lines.collect())
    }

    fn errors(&self) -> Vec<Chart> {
        let results = self.results;
        let mut totals = vec![0_u64; results.error_kinds.len()];
        for (kind, count) in results.seconds.iter().flat_map(|second| &second.errors_by_kind) {
            totals[usize::from(*kind)] += count;
        }
        let mut kinds: Vec<_> = (0..totals.len()).collect();
        kinds.sort_by_key(|kind| std::cmp::Reverse(totals[*kind]));
        let lines = kinds.into_iter().take(KINDS_DRAWN).map(|kind| {
            let key = kind as u16;
            let of = |second: &Second| second.errors_by_kind.get(&key).copied().unwrap_or(0);
            let name = legend(&results.error_kinds[kind]);
            self.rate(&name, |part| part.seconds.iter().map(of).sum())
        });
        self.in_fives("Errors", lines.collect())
    }

    fn statuses(&self) -> Vec<Chart> {
        let mut statuses: Vec<_> = self.results.statuses.iter().collect();
        statuses.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let lines = statuses.into_iter().take(KINDS_DRAWN).map(|(status, _)| {
            let of = |second: &Second| second.statuses.get(status).copied().unwrap_or(0);
            self.rate(&status.to_string(), |part| part.seconds.iter().map(of).sum())
        });
        self.in_fives("HTTP responses by status", lines.collect())
    }

    /// Rates in charts of as many lines as there are colours.
    fn in_fives(&self, title: &str, lines: Vec<Drawn>) -> Vec<Chart> {
        let mut charts = Vec::new();
        let mut lines = lines.into_iter().peekable();
        while lines.peek().is_some() {
            let some = lines.by_ref().take(Colour::ALL.len()).collect();
            charts.push(self.chart(title, Axis::new("per second"), some));
        }
        charts
    }

    fn most(&self, name: &str, of: fn(&Second) -> u64) -> Drawn {
        let highest = |part: &Part<'_>| part.seconds.iter().map(of).max().unwrap_or(0) as f64;
        (name.to_owned(), self.intervals.iter().map(highest).collect())
    }

    fn rate(&self, name: &str, of: impl Fn(Part<'_>) -> u64) -> Drawn {
        let rate = |part: &Part<'_>| of(*part) as f64 / part.seconds.len() as f64;
        (name.to_owned(), self.intervals.iter().map(rate).collect())
    }

    fn rate_of(&self, name: &str, of: fn(&Counts) -> u64) -> Drawn {
        self.rate(name, |part| part.seconds.iter().map(|second| of(&second.counts)).sum())
    }
}

/// A name that leaves room for four others in a legend.
fn legend(name: &str) -> String {
    match name.char_indices().nth(16) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
