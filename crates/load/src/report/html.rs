use std::fmt::Write as _;

use watchfire_report::{
    Axis, Chart, Colour, Histogram, Line, Panel, Snapshot, Table, TickFormat, escape, page, units,
};

use super::table::{broadcasts, bytes, counters, generator, lateness, steps, stopped, users};
use crate::results::{Results, Second};
use crate::thresholds::Verdict;

/// Broadcasts with a row of their own; the JSON has all.
const BROADCASTS_SHOWN: usize = 100;
/// Steps with a chart of their own; the table has all.
const STEPS_DRAWN: usize = 24;
/// Most points of a line; more would not be visible.
const POINTS_MAX: usize = 360;

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
    body += "<h2>Over time</h2>";
    body.extend(charts(results).iter().map(Chart::inline_svg));
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

fn charts(results: &Results) -> Vec<Chart> {
    let seconds_per_point = results.seconds.len().div_ceil(POINTS_MAX).max(1);
    let intervals: Vec<&[Second]> = results.seconds.chunks(seconds_per_point).collect();
    let line = |(name, colour): (&str, Colour), value: &dyn Fn(&[Second]) -> Option<f64>| {
        // A point is drawn in the middle of its interval; an interval without a value interrupts
        // the line.
        let x = |index: usize| (index as f64 + 0.5) * seconds_per_point as f64;
        let points = intervals.iter().enumerate();
        let points = points.map(|(at, interval)| (x(at), value(interval).unwrap_or(f64::NAN)));
        Line::left(name, colour, points.collect())
    };
    let most = |of: fn(&Second) -> u64| {
        move |interval: &[Second]| interval.iter().map(of).max().map(|most| most as f64)
    };
    let rate = |of: fn(&Second) -> u64| {
        move |interval: &[Second]| {
            Some(interval.iter().map(of).sum::<u64>() as f64 / interval.len() as f64)
        }
    };
    let end = results.seconds.len().max(1) as f64;
    let chart = |title: &str, y: Axis, lines: Vec<Line>| Chart {
        label: format!("{title} over time"),
        panels: vec![Panel::lines(title, Axis::up_to("seconds", end), y, lines)],
        notes: Vec::new(),
    };
    let [orange, blue, green, purple, _] = Colour::ALL;
    let mut charts = vec![
        chart(
            "Users and websockets",
            Axis::new("at the same time"),
            vec![
                line(("users", orange), &most(|second| second.users)),
                line(("websockets", blue), &most(|second| second.connected)),
            ],
        ),
        chart(
            "Users",
            Axis::new("per second"),
            vec![
                line(("started", orange), &rate(|second| second.counts.started)),
                line(("finished", blue), &rate(|second| second.counts.finished)),
                line(("turned away", green), &rate(|second| second.counts.turned_away)),
                line(("errors", purple), &rate(|second| second.errors)),
            ],
        ),
        chart(
            "Messages",
            Axis::new("per second"),
            vec![
                line(
                    ("steps", orange),
                    &rate(|second| second.steps.values().map(Snapshot::len).sum()),
                ),
                line(("deliveries", blue), &rate(|second| second.counts.deliveries)),
            ],
        ),
    ];
    let drawn = results.steps.iter().enumerate().filter(|(_, step)| step.done() > 0);
    for (index, step) in drawn.take(STEPS_DRAWN) {
        let quantile = |share: f64| {
            move |interval: &[Second]| {
                let mut all = Histogram::new();
                let measured =
                    interval.iter().filter_map(|second| second.steps.get(&(index as u16)));
                measured.for_each(|times| all.merge(times));
                (!all.is_empty()).then(|| all.quantile(share).as_secs_f64())
            }
        };
        let lines = [(("max", orange), 1.0), (("p99", blue), 0.99), (("p50", green), 0.5)];
        let lines = lines.map(|(name, share)| line(name, &quantile(share)));
        let y = Axis::new("since due").with_format(TickFormat::Duration);
        charts.push(chart(&step.name, y, lines.into()));
    }
    charts
}
