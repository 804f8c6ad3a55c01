use std::fmt::Write as _;
use std::time::Duration;

use super::chart::{Chart, Line, POINTS_MAX, escape};
use super::table::{broadcast_cells, bytes, generator, lateness, stopped, users};
use crate::broadcast::Broadcast;
use crate::gates::{Verdict, time};
use crate::histogram::Buckets;
use crate::results::{Results, Second};

/// Broadcasts with a row of their own; the JSON has all.
const BROADCASTS_SHOWN: usize = 100;
/// Steps with a chart of their own; the table has all.
const STEPS_DRAWN: usize = 24;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1d1f21; --paper: #fbfaf8; --faint: #8884; --dim: #6b6f76;
  --c0: #c2410c; --c1: #2563eb; --c2: #15803d; --c3: #a21caf; --bad: #b91c1c; --good: #15803d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e6e3; --paper: #16181b; --dim: #9aa0a8;
  --c0: #fb923c; --c1: #60a5fa; --c2: #4ade80; --c3: #e879f9; --bad: #f87171; --good: #4ade80; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.dim { color: var(--dim); } .bad { color: var(--bad); font-weight: 600; } .good { color: var(--good); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--faint); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; }
th { font-weight: 600; color: var(--dim); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; }
dt { color: var(--dim); } dd { margin: 0; }
figure { margin: 1.2rem 0; } figcaption { font-weight: 600; }
figcaption span { font-weight: 400; margin-left: 1rem; color: var(--dim); white-space: nowrap; }
figcaption i { display: inline-block; width: .9rem; height: .2rem; margin-right: .35rem; vertical-align: middle; }
svg { width: 100%; height: auto; font: 11px system-ui, sans-serif; } svg text { fill: var(--dim); }
.grid { stroke: var(--faint); } .line { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
path.c0 { stroke: var(--c0); } path.c1 { stroke: var(--c1); } path.c2 { stroke: var(--c2); } path.c3 { stroke: var(--c3); }
i.c0 { background: var(--c0); } i.c1 { background: var(--c1); } i.c2 { background: var(--c2); } i.c3 { background: var(--c3); }
";

/// The whole outcome as one page that needs nothing else.
pub fn html(results: &Results, verdicts: &[Verdict]) -> String {
    let name = escape(&results.name);
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Load: {name}</title><style>{STYLE}</style><h1>{name}</h1>"
    );
    let mut put = |text: String| page.push_str(&text);
    put(format!(
        "<p class=\"dim\">{} s of arrivals, measured by watchfire load from when each step was due</p>",
        results.duration.as_secs_f64()
    ));
    put(verdict_list(verdicts));
    put(summary(results));
    put(step_table(results));
    put(broadcast_table(results));
    put(error_table(results));
    put("<h2>Over time</h2>".into());
    charts(results).iter().for_each(|chart| put(chart.svg()));
    page.push_str("</html>\n");
    page
}

fn verdict_list(verdicts: &[Verdict]) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let mut out = String::from("<h2>Thresholds</h2><div class=\"scroll\"><table>");
    for verdict in verdicts {
        let (class, word) = if verdict.is_kept { ("good", "kept") } else { ("bad", "broken") };
        let (gate, measured) = (escape(&verdict.gate), escape(&verdict.measured));
        write!(out, "<tr><td>{gate}<td>{measured}<td class=\"{class}\">{word}")
            .expect("it is a text");
    }
    out + "</table></div>"
}

fn summary(results: &Results) -> String {
    let counts = &results.counts;
    let mut rows = vec![
        ("Users", users(results)),
        (
            "At one time",
            format!("{} users, {} websockets", results.users_max, results.connected_max),
        ),
        ("Start lateness", lateness(&results.lateness)),
        ("Traffic", format!("{} in, {} out", bytes(counts.bytes_in), bytes(counts.bytes_out))),
        ("Deliveries", format!("{} messages, {}", counts.deliveries, bytes(counts.delivery_bytes))),
        ("Generator", generator(results)),
    ];
    rows.splice(0..0, stopped(results).map(|stopped| ("Stopped", stopped)));
    rows.extend(results.limits().into_iter().map(|limit| ("Stopped by", limit.to_owned())));
    rows.extend(results.broken.iter().map(|why| ("Missing", why.clone())));
    let rows = rows.iter().map(|(name, value)| format!("<dt>{name}<dd>{}", escape(value)));
    format!("<h2>In all</h2><dl>{}</dl>", rows.collect::<String>())
}

fn step_table(results: &Results) -> String {
    let mut out = String::from(
        "<h2>Steps</h2><div class=\"scroll\"><table><tr><th>since due<th>done<th>mean<th>p50<th>p95\
         <th>p99<th>p99.9<th>max<th class=\"dim\">p99 since begun",
    );
    let mut row = |name: &str, due: &Buckets, begun: Option<&Buckets>| {
        let cells = [0.5, 0.95, 0.99, 0.999, 1.0].map(|share| time(due.quantile(share)));
        let begun = begun.map_or(String::new(), |begun| time(begun.quantile(0.99)));
        let (name, count, mean) = (escape(name), due.len(), time(due.mean()));
        let cells = cells.join("<td>");
        write!(out, "<tr><td>{name}<td>{count}<td>{mean}<td>{cells}<td class=\"dim\">{begun}")
            .expect("it is a text");
    };
    for step in results.steps.iter().filter(|step| !step.due.is_empty()) {
        row(&step.name, &step.due, Some(&step.begun));
    }
    if !results.delivery.is_empty() {
        row("delivery of messages with ${now}", &results.delivery, None);
    }
    out + "</table></div>"
}

fn broadcast_table(results: &Results) -> String {
    let broadcasts = results.broadcasts();
    if broadcasts.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<h2>Broadcasts</h2><div class=\"scroll\"><table><tr><th>sent by<th>at<th>listened<th>heard\
         <th>missing<th>p50<th>p99<th>last receiver",
    );
    let mut row = |name: &str, broadcast: &Broadcast| {
        let cells = broadcast_cells(broadcast).join("<td>");
        write!(out, "<tr><td>{}<td>{cells}", escape(name)).expect("it is a text");
    };
    for broadcast in broadcasts.iter().take(BROADCASTS_SHOWN) {
        row(&broadcast.step, broadcast);
    }
    if broadcasts.len() > 1 {
        row(&format!("all {}", broadcasts.len()), &Broadcast::all(&broadcasts));
    }
    out + "</table></div>"
}

fn error_table(results: &Results) -> String {
    if results.errors.is_empty() {
        return "<h2>Errors</h2><p class=\"good\">None.</p>".into();
    }
    let mut out = String::from("<h2>Errors</h2><div class=\"scroll\"><table>");
    for ((step, kind), count) in &results.errors {
        let (step, kind) = (escape(step), escape(kind));
        write!(out, "<tr><td>{step}: {kind}<td>{count}").expect("it is a text");
    }
    out + "</table></div>"
}

fn charts(results: &Results) -> Vec<Chart<'_>> {
    let seconds_a_point = results.seconds.len().div_ceil(POINTS_MAX).max(1);
    let stretches: Vec<&[Second]> = results.seconds.chunks(seconds_a_point).collect();
    let line = |name: &str, value: &dyn Fn(&[Second]) -> Option<f64>| {
        let points = stretches.iter().map(|stretch| value(stretch)).collect();
        Line { name: name.to_owned(), points }
    };
    let most = |of: fn(&Second) -> u64| {
        move |stretch: &[Second]| stretch.iter().map(of).max().map(|most| most as f64)
    };
    let rate = |of: fn(&Second) -> u64| {
        move |stretch: &[Second]| {
            Some(stretch.iter().map(of).sum::<u64>() as f64 / stretch.len() as f64)
        }
    };
    let chart = |title, lines, write| Chart { title, lines, seconds_a_point, write };
    let mut charts = vec![
        chart(
            "People",
            vec![
                line("users", &most(|second| second.users)),
                line("websockets", &most(|second| second.connected)),
            ],
            count,
        ),
        chart(
            "Users a second",
            vec![
                line("started", &rate(|second| second.counts.started)),
                line("finished", &rate(|second| second.counts.finished)),
                line("turned away", &rate(|second| second.counts.turned_away)),
                line("errors", &rate(|second| second.errors)),
            ],
            count,
        ),
        chart(
            "Messages a second",
            vec![
                line("steps done", &rate(|second| second.steps.values().map(Buckets::len).sum())),
                line("deliveries", &rate(|second| second.counts.deliveries)),
            ],
            count,
        ),
    ];
    let drawn = results.steps.iter().enumerate().filter(|(_, step)| !step.due.is_empty());
    for (index, step) in drawn.take(STEPS_DRAWN) {
        let quantile = |share: f64| {
            move |stretch: &[Second]| {
                let mut all = Buckets::default();
                let measured =
                    stretch.iter().filter_map(|second| second.steps.get(&(index as u16)));
                measured.for_each(|buckets| all.merge(buckets));
                (!all.is_empty()).then(|| all.quantile(share).as_secs_f64())
            }
        };
        let lines = [("max", 1.0), ("p99", 0.99), ("p50", 0.5)];
        let lines = lines.map(|(name, share)| line(name, &quantile(share)));
        charts.push(chart(&step.name, lines.into(), |seconds| {
            if seconds == 0.0 { "0".into() } else { time(Duration::from_secs_f64(seconds)) }
        }));
    }
    charts
}

fn count(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{} M", value / 1e6),
        _ if value >= 1e4 => format!("{} k", value / 1e3),
        _ => format!("{}", (value * 1000.0).round() / 1000.0),
    }
}
