//! Results as one HTML page: figures, when each node had how much, who sent to whom, and a timeline of each node.

use std::fmt::Write as _;

use watchfire_report::units::{binary_bytes, number};
use watchfire_report::{Axis, Chart, Colour, Line, Marker, Panel, TickFormat, escape, page};

use super::table::{comparison_rows, noise_text, noisy_lines, results_rows, trials_of};
use super::{Comparison, NodeResult, RunResult};

/// Most lines of one chart. If there are more nodes, the chart shows every n-th.
const LINES_MAX: usize = 64;
const POINTS_MAX: usize = 64;
/// Most nodes in a picture with a row for each.
const ROWS_MAX: usize = 128;
const ROW: usize = 14;
const CELL: usize = 14;
const NAMES: usize = 130;
const WIDTH: usize = 760;
const LOAD_TITLE: &str = "Users, and memory and CPU time of their server";

/// The page about the runs of an experiment. Pictures show the first run of each trial.
pub fn html(name: &str, notes: &[String], runs: &[RunResult]) -> String {
    let mut body = notes.iter().map(|note| format!("<p>{}</p>", escape(note))).collect::<String>();
    body += &figures(runs);
    for trial in trials_of(runs) {
        let of_trial: Vec<&RunResult> = runs.iter().filter(|run| run.trial == trial).collect();
        let Some(run) = of_trial.first() else { continue };
        body += &section(run, of_trial.len());
    }
    page(name, &body)
}

/// The page about two sides: the verdicts, then the runs of each side.
pub fn comparison_html(
    name: &str,
    comparison: &Comparison,
    sides: [(&str, &[RunResult]); 2],
) -> String {
    let mut body = comparison_rows(comparison).html();
    if let Some(line) = comparison.advice() {
        let _ = write!(body, "<p class=\"bad\">{}</p>", escape(&line));
    }
    for (side, runs) in sides {
        let _ = write!(body, "<h2>{}</h2>{}", escape(side), figures(runs));
    }
    page(name, &body)
}

/// The table of all figures, and the noise of the runs.
fn figures(runs: &[RunResult]) -> String {
    let mut out = results_rows(runs).html();
    for line in noisy_lines(runs) {
        let _ = write!(out, "<p class=\"bad\">{}</p>", escape(&line));
    }
    out
}

fn section(run: &RunResult, repeats: usize) -> String {
    let mut out = format!(
        "<h2>{}</h2><p class=\"dim\">{}, seed {}, {} nodes, {}; run 1 of {repeats}, which took {} s{}</p>",
        escape(&run.trial),
        escape(&run.driver),
        run.seed,
        run.nodes.len(),
        binary_bytes(run.object_bytes),
        number(run.took_seconds, 2),
        run.noise.map_or_else(String::new, |noise| format!("; {}", noise_text(noise))),
    );
    for note in &run.notes {
        let _ = write!(out, "<p class=\"dim\">{}</p>", escape(note));
    }
    for problem in &run.problems {
        let _ = write!(out, "<p class=\"bad\">{}</p>", escape(problem));
    }
    if let Some(panel) = run.load.as_ref().and_then(|load| load.panel(LOAD_TITLE.to_owned())) {
        let chart = Chart { label: LOAD_TITLE.to_owned(), panels: vec![panel], notes: Vec::new() };
        out += &chart.inline_svg();
    }
    out += &completion(run).inline_svg();
    out += &timeline(run);
    out += &matrix(run);
    out
}

/// The share of its objects that each node had, over time.
fn completion(run: &RunResult) -> Chart {
    let nodes: Vec<&NodeResult> =
        run.nodes.iter().filter(|node| !node.progress.is_empty()).collect();
    let step = nodes.len().div_ceil(LINES_MAX).max(1);
    let drawn: Vec<&&NodeResult> = nodes.iter().step_by(step).collect();
    let opacity = (8.0 / drawn.len().max(1) as f64).sqrt().clamp(0.2, 0.8);
    let lines = drawn.iter().map(|node| {
        let colour = if node.is_awaited { Colour::Orange } else { Colour::Purple };
        Line { opacity, ..Line::left("", colour, points(node)) }
    });
    let bound = run.bound_seconds.map(|at| Marker {
        name: "bound".to_owned(),
        colour: Colour::Green,
        is_on_x: true,
        at,
    });
    Chart {
        label: format!("{}: share of its objects that each node has, over time", run.trial),
        panels: vec![Panel::Lines {
            title: "Share of its objects that each node has".to_owned(),
            x: Axis::up_to("seconds", end(run)),
            left: Axis { step: Some(0.25), ..Axis::up_to("share", 1.0) }
                .with_format(TickFormat::Percent),
            right: None,
            lines: lines.collect(),
            markers: bound.into_iter().collect(),
        }],
        notes: Vec::new(),
    }
}

fn points(node: &NodeResult) -> Vec<(f64, f64)> {
    let step = node.progress.len().div_ceil(POINTS_MAX).max(1);
    let last = node.progress.len().saturating_sub(1);
    let kept = node.progress.iter().enumerate().filter(|(at, _)| at % step == 0 || *at == last);
    std::iter::once((node.arrived_at, 0.0)).chain(kept.map(|(_, point)| *point)).collect()
}

fn end(run: &RunResult) -> f64 {
    let finished = run.nodes.iter().filter_map(|node| node.finished_at);
    finished.fold(run.bound_seconds.unwrap_or(0.0), f64::max).max(0.001) * 1.03
}

/// A bar for each node that fetches: pale until its first byte, full until it has all.
fn timeline(run: &RunResult) -> String {
    let nodes: Vec<&NodeResult> =
        run.nodes.iter().filter(|node| !node.is_seeder).take(ROWS_MAX).collect();
    if nodes.is_empty() {
        return String::new();
    }
    let (end, height) = (end(run), nodes.len() * ROW + 8);
    let x = |at: f64| NAMES as f64 + at / end * (WIDTH - NAMES - 10) as f64;
    let title = "A timeline of each node: pale until its first byte, full until it has all";
    let mut out = format!("<p class=\"dim\">{title}, on the time axis above</p>");
    out += &opened(title, height);
    for (row, node) in nodes.iter().enumerate() {
        let y = row * ROW;
        let finished = node.finished_at.unwrap_or(end);
        let first = node.first_byte_at.unwrap_or(finished);
        let colour = if node.finished_at.is_some() { "var(--good)" } else { "var(--bad)" };
        for (from, to, opacity) in [(node.arrived_at, first, 0.25), (first, finished, 0.85)] {
            let (left, width) = (x(from), (x(to) - x(from)).max(0.5));
            let _ = write!(
                out,
                "<rect x=\"{left:.1}\" y=\"{}\" width=\"{width:.1}\" height=\"{}\" fill=\"{colour}\" \
                 opacity=\"{opacity}\"><title>{}: first byte {first:.3} s, all {finished:.3} s</title></rect>",
                y + 2,
                ROW - 4,
                escape(&node.name),
            );
        }
        out += &label(&node.name, y);
    }
    out + "</svg>"
}

/// A square for each pair of nodes: the darker, the more content went from the row to the column.
fn matrix(run: &RunResult) -> String {
    let most = run.transfers.iter().map(|transfer| transfer.bytes).max().unwrap_or(0);
    if most == 0 || run.nodes.len() > ROWS_MAX {
        return String::new();
    }
    let title = "Content that each node (row) sent to each other one (column)";
    let mut out = format!("<p class=\"dim\">{title}</p>");
    out += &opened(title, run.nodes.len() * CELL + 4);
    for (row, node) in run.nodes.iter().enumerate() {
        out += &label(&node.name, row * CELL);
    }
    let cell = CELL.min((WIDTH - NAMES) / run.nodes.len().max(1));
    for transfer in &run.transfers {
        let (x, y) = (NAMES + transfer.to * cell, transfer.from * CELL);
        let _ = write!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"var(--bad)\" opacity=\"{:.3}\">\
             <title>{} to {}: {}</title></rect>",
            cell.saturating_sub(1).max(1),
            CELL - 1,
            (transfer.bytes as f64 / most as f64).max(0.08),
            escape(&run.nodes[transfer.from].name),
            escape(&run.nodes[transfer.to].name),
            binary_bytes(transfer.bytes),
        );
    }
    out + "</svg>"
}

fn opened(title: &str, height: usize) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{}\" font-size=\"10\" font-family=\"system-ui, sans-serif\">",
        escape(title)
    )
}

fn label(name: &str, y: usize) -> String {
    let short: String = name.chars().take(22).collect();
    format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"var(--dim)\">{}</text>",
        NAMES - 8,
        y + ROW - 4,
        escape(&short)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Transfer;

    fn run() -> RunResult {
        let node = |name: &str, finished_at| NodeResult {
            name: name.to_owned(),
            is_awaited: true,
            first_byte_at: Some(0.5),
            finished_at,
            progress: vec![(0.5, 0.1), (1.0, 1.0)],
            ..NodeResult::default()
        };
        let source =
            NodeResult { name: "<source>".to_owned(), is_seeder: true, ..NodeResult::default() };
        RunResult {
            trial: "a & b".to_owned(),
            driver: "processes".to_owned(),
            object_bytes: 1 << 20,
            nodes: vec![source, node("one", Some(1.0)), node("two", None)],
            transfers: vec![Transfer { from: 0, to: 1, bytes: 1000 }],
            problems: vec!["two: it <broke>".to_owned()],
            ..RunResult::default()
        }
    }

    #[test]
    fn the_page_has_each_picture_and_escapes_names() {
        let page = html("an experiment", &["a <note>".to_owned()], &[run()]);
        for part in [
            "a &lt;note&gt;",
            "<h2>a &amp; b</h2>",
            "two: it &lt;broke&gt;",
            "A timeline of each node",
            "&lt;source&gt; to one: 1000 B",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert!(!page.contains("<source>") && !page.contains("<broke>"));
    }

    #[test]
    fn a_run_without_nodes_has_a_page() {
        let page = html("empty", &[], &[RunResult::default()]);
        assert!(page.contains("0 nodes"), "{page}");
    }
}
