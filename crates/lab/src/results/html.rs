//! Results as one HTML page: the trials side by side, their figures, and of each trial when each node had how much, and
//! who sent to whom.

use std::fmt::Write as _;

use watchfire_report::units::{binary_bytes, number};
use watchfire_report::{
    Axis, Bar, BarLimit, Chart, Colour, Line, Marker, Panel, TickFormat, charts, escape, page,
};

use super::figure::Figure;
use super::run_result::{NodeResult, RunResult};
use super::table::{
    comparison_rows, figures_of, noise_text, noisy_lines, range_of, results_rows, short, shown,
    shown_name, trials_of,
};
use super::verdict::Comparison;

/// Most figures with a picture of their own; the table has all.
const FIGURES_DRAWN: usize = 12;
/// Characters of a name beside a bar.
const NAME_CHARACTERS_MAX: usize = 26;

/// Most lines of one chart. If there are more nodes, the chart shows every n-th.
const LINES_MAX: usize = 64;
const POINTS_MAX: usize = 64;
/// Most nodes in a picture with a row for each.
const ROWS_MAX: usize = 128;
const CELL: usize = 14;
const WIDTH: usize = 760;
const LOAD_TITLE: &str = "Users, and memory and CPU time of their server";

/// The page about the runs of an experiment, and about the run that is under way. Pictures of one trial show its first
/// run.
pub(crate) fn html(
    name: &str,
    notes: &[String],
    (runs, problems): (&[RunResult], &[String]),
    under_way: Option<&RunResult>,
) -> String {
    let (all, bad) = (runs.len(), runs.iter().filter(|run| !run.is_healthy()).count());
    let mut body = match bad {
        0 if all == 0 => String::new(),
        0 => format!("<p class=\"good\">All {all} runs ended as they should.</p>"),
        _ => format!("<p class=\"bad\">{bad} of {all} runs had problems.</p>"),
    };
    body += &bad_lines(problems);
    body += &bad_lines(&noisy_lines(runs));
    if let Some(run) = under_way {
        let trial = escape(&run.trial);
        body += &format!("<h2>{trial}: the run under way</h2>{}", bad_lines(&run.problems));
        body += &pictures(run);
    }
    if all == 0 {
        return page(name, &body);
    }
    body += &charts(&side_by_side(runs));
    body += &format!(
        "<h2>Figures: the median, and the smallest to the largest</h2>{}",
        results_rows(runs).html()
    );
    body += &notes.iter().map(|note| format!("<p>{}</p>", escape(note))).collect::<String>();
    for trial in trials_of(runs) {
        let of_trial: Vec<&RunResult> = runs.iter().filter(|run| run.trial == trial).collect();
        let Some(run) = of_trial.first() else { continue };
        body += &section(run, of_trial.len());
    }
    page(name, &body)
}

/// A chart for each figure: the medians of all trials, and the range of their runs.
fn side_by_side(runs: &[RunResult]) -> Vec<Chart> {
    let trials = trials_of(runs);
    if trials.len() < 2 {
        return Vec::new();
    }
    let bound = |name: &str, trial: &str| {
        let run = runs.iter().find(|run| run.trial == trial)?;
        let value = run.bound_seconds?;
        if name == Figure::TimesTheBound.title() {
            return Some(BarLimit { value: 1.0, label: String::new() });
        }
        let label = format!("bound {}", short(value));
        (name == Figure::CompletionLast.title()).then_some(BarLimit { value, label })
    };
    let chart = |(name, values): (&str, Vec<Vec<f64>>)| {
        let of_trials = trials.iter().zip(&values).zip(Colour::ALL.iter().cycle());
        let bars = of_trials.map(|((trial, values), colour)| {
            let Some([least, median, most]) = range_of(values) else {
                return Bar { text: Some("-".to_owned()), ..Bar::new(cut(trial), *colour, 0.0) };
            };
            Bar {
                text: Some(shown(name, median)),
                range: (least < most).then_some([least, most]),
                limit: bound(name, trial),
                ..Bar::new(cut(trial), *colour, median)
            }
        });
        bar_chart(shown_name(name).to_owned(), bars.collect())
    };
    let mut figures = figures_of(runs);
    figures.retain(|(_, trials)| trials.iter().flatten().any(|value| *value > 0.0));
    figures.into_iter().take(FIGURES_DRAWN).map(chart).collect()
}

fn bar_chart(title: String, bars: Vec<Bar>) -> Chart {
    let label = title.clone();
    Chart { label, panels: vec![Panel::Bars { title, decimals: 0, bars }], ..Chart::default() }
}

fn cut(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
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
        let table = results_rows(runs).html();
        let _ = write!(body, "<h2>{}</h2>{}{table}", escape(side), bad_lines(&noisy_lines(runs)));
    }
    page(name, &body)
}

fn bad_lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("<p class=\"bad\">{}</p>", escape(line))).collect()
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
    out + &pictures(run)
}

fn pictures(run: &RunResult) -> String {
    let load = run.load.as_ref().and_then(|load| load.panel(LOAD_TITLE.to_owned()));
    let load = load.map(|panel| Chart {
        label: LOAD_TITLE.to_owned(),
        panels: vec![panel],
        ..Chart::default()
    });
    let has_nodes = run.awaited().next().is_some();
    let nodes = has_nodes.then(|| [completion(run), finishes(run)]).into_iter().flatten();
    charts(&load.into_iter().chain(nodes).collect::<Vec<_>>()) + &matrix(run)
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
    let last =
        run.nodes.iter().filter_map(|node| node.finished_at.or(Some(node.progress.last()?.0)));
    last.fold(run.bound_seconds.unwrap_or(0.0), f64::max).max(0.001) * 1.03
}

/// A bar for each node that fetches, with a line at its first byte.
fn finishes(run: &RunResult) -> Chart {
    let bar = |node: &NodeResult| {
        let limit = node.first_byte_at.map(|value| BarLimit { value, label: String::new() });
        match node.finished_at {
            Some(at) => Bar {
                limit,
                text: Some(format!("{} s", short(at))),
                ..Bar::new(cut(&node.name), Colour::Green, at)
            },
            None => Bar {
                limit,
                text: Some(match node.progress.last() {
                    Some((_, share)) => format!("not finished, {} %", number(share * 100.0, 0)),
                    None => "not finished".to_owned(),
                }),
                ..Bar::new(cut(&node.name), Colour::Grey, end(run))
            },
        }
    };
    let nodes = run.nodes.iter().filter(|node| !node.is_seeder).take(ROWS_MAX);
    bar_chart(
        "Each node until it has all; the line is its first byte".to_owned(),
        nodes.map(bar).collect(),
    )
}

/// A square for each pair of nodes: the darker, the more content went from the row to the column.
fn matrix(run: &RunResult) -> String {
    let most = run.transfers.iter().map(|transfer| transfer.bytes).max().unwrap_or(0);
    if most == 0 || run.nodes.len() > ROWS_MAX {
        return String::new();
    }
    let title = "Content that each node (row) sent to each other one (column)";
    let longest = run.nodes.iter().map(|node| node.name.chars().count().min(22)).max();
    // A character of the font below is at most 6 wide.
    let names = longest.unwrap_or(0) * 6 + 12;
    let height = names + run.nodes.len() * CELL;
    let mut out = format!(
        "<p class=\"dim\">{title}</p><div class=\"charts\"><div class=\"scroll chart\">\
         <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\" font-size=\"10\" \
         font-family=\"system-ui, sans-serif\">"
    );
    let cell = CELL.min((WIDTH - names) / run.nodes.len().max(1));
    for (at, node) in run.nodes.iter().enumerate() {
        let name: String = escape(&node.name.chars().take(22).collect::<String>());
        let (x, y) = (names + at * cell + cell / 2 + 3, names + at * CELL + CELL - 4);
        let end = names - 8;
        let _ = write!(
            out,
            "<text x=\"{end}\" y=\"{y}\" text-anchor=\"end\" fill=\"var(--dim)\">{name}</text>\
             <text transform=\"translate({x} {end}) rotate(-90)\" fill=\"var(--dim)\">{name}</text>"
        );
    }
    for transfer in &run.transfers {
        let (x, y) = (names + transfer.to * cell, names + transfer.from * CELL);
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
    out + "</svg></div></div>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Transfer;
    use crate::runner::Results;

    fn html(
        name: &str,
        notes: &[String],
        runs: &[RunResult],
        under_way: Option<&RunResult>,
    ) -> String {
        Results { runs: runs.to_vec(), failed: Vec::new() }.html(name, notes, under_way)
    }

    fn run() -> RunResult {
        let node = |name: &str, finished_at| NodeResult {
            name: name.to_owned(),
            is_awaited: true,
            first_byte_at: Some(0.5),
            finished_at,
            progress: vec![(0.5, 0.1), (1.0, finished_at.unwrap_or(0.6))],
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
        let page = html("an experiment", &["a <note>".to_owned()], &[run()], None);
        for part in [
            "1 of 1 runs had problems",
            "a &lt;note&gt;",
            "<h2>a &amp; b</h2>",
            "two: it &lt;broke&gt;",
            "Each node until it has all",
            "\nnot finished, 60 %\n",
            "&lt;source&gt; to one: 1000 B",
            "rotate(-90)\" fill=\"var(--dim)\">&lt;source&gt;<",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert!(!page.contains("<source>") && !page.contains("<broke>"));
    }

    #[test]
    fn a_page_begins_with_the_trials_side_by_side() {
        let trial = |name: &str, seconds: f64| {
            let mut run = RunResult { trial: name.to_owned(), problems: Vec::new(), ..run() };
            run.bound_seconds = Some(0.25);
            for node in run.nodes.iter_mut().filter(|node| node.is_awaited) {
                node.finished_at = Some(seconds);
                node.peak_memory_bytes = Some(3 << 20);
            }
            run
        };
        let mut runs = vec![trial("new", 1.0), trial("new", 1.5), trial("old", 4.0)];
        let charts = side_by_side(&runs);
        let bars = |title: &str| {
            let mut panels = charts.iter().flat_map(|chart| &chart.panels);
            let bars = panels.find_map(|panel| match panel {
                Panel::Bars { title: found, bars, .. } if found == title => Some(bars),
                _ => None,
            });
            bars.expect("a chart").clone()
        };
        let last = bars("completion, last, s");
        assert_eq!(last.iter().map(|bar| bar.range).collect::<Vec<_>>(), [Some([1.0, 1.5]), None]);
        assert_eq!(last[1].limit.as_ref().map(|bound| bound.label.as_str()), Some("bound 0.250"));
        assert_eq!(bars("peak memory of a leecher")[0].text.as_deref(), Some("3.0 MiB"));
        assert!(side_by_side(&runs[..2]).is_empty(), "one trial has nothing beside it");

        let page = html("two", &[], &runs, None);
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
        assert!(at("All 3 runs ended") < at("<svg") && at("<svg") < at("<h2>Figures"), "the order");
        assert!(page.contains("<td>peak memory of a leecher<td>3.0 MiB<td>3.0 MiB"), "{page}");
        runs[0].nodes[1].finished_at = None;
        assert!(html("two", &[], &runs, None).contains("\n-\n"), "a trial that did not finish");
    }

    #[test]
    fn the_page_of_runs_that_go_on_begins_with_the_one_under_way() {
        let page = html("one", &[], &[], Some(&run()));
        assert!(page.contains("<h2>a &amp; b: the run under way</h2>"), "{page}");
        assert!(page.contains("not finished, 60 %") && !page.contains("ended as they should"));
        let page = html("one", &[], &[RunResult { trial: "done".into(), ..run() }], Some(&run()));
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
        assert!(at("the run under way") < at("<h2>done</h2>"));
    }

    #[test]
    fn the_problems_of_all_runs_are_on_the_page() {
        let second = RunResult { seed: 7, problems: vec!["a broken rule".into()], ..run() };
        let page = html("two", &[], &[run(), second], None);
        assert!(page.contains("<p class=\"bad\">a &amp; b, seed 7: a broken rule</p>"), "{page}");
    }

    #[test]
    fn a_run_without_nodes_has_a_page() {
        let page = html("empty", &[], &[RunResult::default()], None);
        assert!(page.contains("0 nodes"), "{page}");
    }
}
