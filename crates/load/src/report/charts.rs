//! The charts of a report: what happened over time.

use watchfire_report::{Axis, Chart, Colour, Line, Panel, TickFormat};

use super::series::{Series, steps};
use super::table::shortened;
use crate::results::{Results, Second};
use crate::tally::Counts;

/// Steps, and groups of steps, with a chart of their own; the table has all.
const STEPS_DRAWN: usize = 24;
/// Kinds of errors, and statuses of responses, with a line of their own.
const KINDS_DRAWN: usize = 10;
/// Most points of a line; more would not be visible.
const POINTS_MAX: usize = 360;

/// A line: its name, and its value in some seconds.
type Drawn<'a> = (String, Box<dyn Fn(&[Second]) -> Option<f64> + 'a>);

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
    intervals: Vec<&'a [Second]>,
    seconds_per_point: usize,
}

impl<'a> Drawing<'a> {
    fn new(results: &'a Results) -> Drawing<'a> {
        let seconds_per_point = results.seconds.len().div_ceil(POINTS_MAX).max(1);
        let intervals = results.seconds.chunks(seconds_per_point).collect();
        Drawing { results, intervals, seconds_per_point }
    }

    fn chart(&self, title: &str, y: Axis, lines: Vec<Drawn<'_>>) -> Chart {
        let lines = lines.into_iter().zip(Colour::ALL).map(|((name, value), colour)| {
            // A point is drawn in the middle of its interval; an interval without a value interrupts
            // the line.
            let x = |index: usize| (index as f64 + 0.5) * self.seconds_per_point as f64;
            let points = self.intervals.iter().enumerate();
            let points = points.map(|(at, seconds)| (x(at), value(seconds).unwrap_or(f64::NAN)));
            Line::left(name, colour, points.collect())
        });
        // A line that is always 0 would only cover others.
        let is_seen = |line: &Line| line.points.iter().any(|(_, y)| *y > 0.0);
        let mut lines: Vec<Line> = lines.collect();
        if lines.iter().any(is_seen) {
            lines.retain(is_seen);
        }
        let x = Axis::up_to("seconds", self.results.seconds.len().max(1) as f64);
        Chart {
            label: format!("{title} over time"),
            panels: vec![Panel::lines(title, x, y, lines)],
            notes: Vec::new(),
        }
    }

    fn users(&self) -> Vec<Chart> {
        let lines = vec![
            most("users", |second| second.users),
            most("websockets", |second| second.connected),
        ];
        let per_second = vec![
            rate_of("started", |counts| counts.started),
            rate_of("finished", |counts| counts.finished),
            rate_of("failed", |counts| counts.failed),
            rate_of("turned away", |counts| counts.turned_away),
        ];
        let y = Axis::new("at the same time");
        vec![
            self.chart("Users and websockets", y, lines),
            self.chart("Users", Axis::new("per second"), per_second),
        ]
    }

    fn traffic(&self) -> Vec<Chart> {
        let results = self.results;
        let series = |name: &str, series: Series| -> Drawn<'a> {
            rate(name, move |seconds| series.count(results, seconds))
        };
        let lines = vec![
            series("requests", Series::Request),
            series("pages", Series::Page),
            series("connections", Series::Connect),
            rate_of("deliveries", |counts| counts.deliveries),
        ];
        let most = |of: fn(&Counts) -> u64| {
            results.seconds.iter().map(|second| of(&second.counts)).max().unwrap_or(0)
        };
        let most = most(|counts| counts.bytes_in).max(most(|counts| counts.bytes_out));
        let (divisor, unit) = match most {
            10_000_000.. => (1e6, "MB per second"),
            10_000.. => (1e3, "kB per second"),
            _ => (1.0, "bytes per second"),
        };
        let bytes = |name: &str, of: fn(&Counts) -> u64| -> Drawn<'a> {
            let (name, rate) = rate_of(name, of);
            (name, Box::new(move |seconds| Some(rate(seconds)? / divisor)))
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
        let results = self.results;
        if series.count(results, &results.seconds) == 0 {
            return None;
        }
        let quantile = |name: &str, share: f64| -> Drawn<'a> {
            let value = move |seconds: &[Second]| {
                let times = series.of(results, seconds);
                (!times.is_empty()).then(|| times.quantile(share).as_secs_f64())
            };
            (name.to_owned(), Box::new(value))
        };
        let mean = move |seconds: &[Second]| {
            let times = series.of(results, seconds);
            (!times.is_empty()).then(|| times.mean().as_secs_f64())
        };
        let lines = vec![
            quantile("max", 1.0),
            quantile("p99", 0.99),
            quantile("p50", 0.5),
            ("mean".to_owned(), Box::new(mean) as Box<_>),
        ];
        let label = match series {
            Series::Connect => "to connect",
            Series::Session => "to the end",
            _ => "since due",
        };
        let y = Axis::new(label).with_format(TickFormat::Duration);
        Some(self.chart(&shortened(series.name(results)), y, lines))
    }

    /// How often steps were done: five in a chart.
    fn rates(&self, series: &[Series]) -> Vec<Chart> {
        let results = self.results;
        let lines = series.iter().take(STEPS_DRAWN).map(|series| {
            let series = *series;
            rate(&legend(series.name(results)), move |seconds| series.count(results, seconds))
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
            let of = move |second: &Second| second.errors_by_kind.get(&key).copied().unwrap_or(0);
            let name = legend(&results.error_kinds[kind]);
            rate(&name, move |seconds| seconds.iter().map(of).sum())
        });
        self.in_fives("Errors", lines.collect())
    }

    fn statuses(&self) -> Vec<Chart> {
        let mut statuses: Vec<_> = self.results.statuses.iter().collect();
        statuses.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let lines = statuses.into_iter().take(KINDS_DRAWN).map(|(status, _)| {
            let status = *status;
            let of = move |second: &Second| second.statuses.get(&status).copied().unwrap_or(0);
            rate(&status.to_string(), move |seconds| seconds.iter().map(of).sum())
        });
        self.in_fives("HTTP responses by status", lines.collect())
    }

    /// Rates in charts of as many lines as there are colours.
    fn in_fives(&self, title: &str, lines: Vec<Drawn<'_>>) -> Vec<Chart> {
        let mut charts = Vec::new();
        let mut lines = lines.into_iter().peekable();
        while lines.peek().is_some() {
            let some = lines.by_ref().take(Colour::ALL.len()).collect();
            charts.push(self.chart(title, Axis::new("per second"), some));
        }
        charts
    }
}

fn most<'a>(name: &str, of: fn(&Second) -> u64) -> Drawn<'a> {
    let value =
        move |seconds: &[Second]| seconds.iter().map(of).max().map(|highest| highest as f64);
    (name.to_owned(), Box::new(value))
}

fn rate<'a>(name: &str, of: impl Fn(&[Second]) -> u64 + 'a) -> Drawn<'a> {
    (name.to_owned(), Box::new(move |seconds| Some(of(seconds) as f64 / seconds.len() as f64)))
}

fn rate_of<'a>(name: &str, of: fn(&Counts) -> u64) -> Drawn<'a> {
    rate(name, move |seconds| seconds.iter().map(|second| of(&second.counts)).sum())
}

/// A name that leaves room for four others in a legend.
fn legend(name: &str) -> String {
    match name.char_indices().nth(16) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
