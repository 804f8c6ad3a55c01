//! The outcome as one page that needs nothing else.

use std::fmt::Write as _;

use super::table::{COLUMNS, bound_line, headline, remarks, row, seconds};
use super::{Report, curve};

/// Colours by their meaning, and how the charts use them.
const CHARTS: &str = "
:root { color-scheme: light dark; --ink: #1d1f21; --paper: #fbfaf8; --faint: #8884; --dim: #6b6f76;
  --peer: #c2410c; --other: #6b6f76; --bound: #15803d; --published: #2563eb; --bad: #b91c1c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e6e3; --paper: #16181b; --dim: #9aa0a8;
  --peer: #fb923c; --other: #9aa0a8; --bound: #4ade80; --published: #60a5fa; --bad: #f87171; } }
svg { width: 100%; height: auto; font: 11px system-ui, sans-serif; } svg text { fill: var(--dim); }
.use { fill: none; stroke: var(--dim); stroke-width: 1.2; stroke-dasharray: 1 2; }
.grid { stroke: var(--faint); } .peer { fill: none; stroke: var(--peer); stroke-width: 1.3; }
.other { stroke: var(--other); } .bound, .published { stroke-width: 1.5; stroke-dasharray: 5 3; }
.bound { stroke: var(--bound); } .published { stroke: var(--published); }
";

const PAGE: &str = "
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.dim { color: var(--dim); } .bad { color: var(--bad); } .scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--faint); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; }
th { font-weight: 600; color: var(--dim); }
figure { margin: 1.2rem 0; } figcaption { font-weight: 600; }
";

/// The charts alone, as an SVG that needs nothing else: of many peers it shows some.
pub fn picture(report: &Report) -> String {
    let (charts, width, height) = curve::sketches(report, end(report));
    let name = escape(&report.scenario.name);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"{name}: part of the file that each peer has, over time\"><style>{CHARTS}\
         svg {{ background: var(--paper); }} svg .title {{ font-weight: 600; fill: var(--ink); }}\
         </style>{charts}</svg>\n"
    )
}

/// The whole outcome as one page that needs nothing else.
pub fn html(report: &Report) -> String {
    let name = escape(&report.scenario.name);
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Swarm: {name}</title><style>{CHARTS}{PAGE}</style><h1>{name}</h1><p class=\"dim\">{}</p>",
        escape(&headline(report))
    );
    let mut put = |text: std::fmt::Arguments<'_>| page.write_fmt(text).expect("it is a text");
    put(format_args!("<div class=\"scroll\"><table><tr><th>{}", COLUMNS.join("<th>")));
    for (run, outcome) in &report.runs {
        let cells = row(&run.name, outcome).map(|cell| escape(&cell));
        put(format_args!("<tr><td>{}", cells.join("<td>")));
    }
    for published in &report.scenario.published {
        let (name, time) = (escape(&published.name), seconds(published.time.as_secs_f64()));
        put(format_args!("<tr class=\"dim\"><td>published: {name}<td><td><td>{time}"));
        put(format_args!("{}", "<td>".repeat(COLUMNS.len() - 4)));
    }
    put(format_args!("</table></div>"));
    if let Some((_, outcome)) = report.runs.first() {
        put(format_args!("<p>{}.</p>", escape(&bound_line(outcome))));
    }
    for (run, outcome) in &report.runs {
        for remark in remarks(outcome) {
            put(format_args!("<p class=\"bad\">{}: {}</p>", escape(&run.name), escape(&remark)));
        }
    }
    for note in &report.scenario.notes {
        put(format_args!("<p>{}</p>", escape(note)));
    }
    put(format_args!(
        "<h2>What each peer has, over time</h2>\
         <p class=\"dim\">Dotted: the part of all uplinks that is in use.</p>"
    ));
    let end = end(report);
    for (run, outcome) in &report.runs {
        let chart = curve::svg(&run.name, outcome, &report.scenario.published, end);
        put(format_args!("{chart}"));
    }
    page.push_str("</html>\n");
    page
}

/// Where the time axis of all charts ends: charts of one scenario are to be compared.
fn end(report: &Report) -> f64 {
    let ends = report
        .runs
        .iter()
        .flat_map(|(_, outcome)| [outcome.ended_at.as_secs_f64(), outcome.bound.seconds()]);
    let published = report.scenario.published.iter().map(|one| one.time.as_secs_f64());
    ends.chain(published).fold(0.001, f64::max) * 1.03
}

/// As it can stand in HTML.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    out
}
