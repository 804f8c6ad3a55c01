//! The picture of a page: when the nodes had all, what it cost, and the figures of a load that the experiment chooses.

use watchfire_report::{Axis, Bar, Chart, Colour, Line, Panel};

use super::targets::median_of;
use crate::definition::{Experiment, PageFigure, Trial};
use crate::results::{Figure, RunResult};

/// For each cluster the nodes that have all over time, the users of loads and the use of their servers, and bars for the figures of its trials.
pub fn picture(experiment: &Experiment, runs: &[RunResult]) -> Chart {
    let label = format!("{}: how long it takes, and what it costs", experiment.name);
    let mut panels = Vec::new();
    for cluster in experiment.clusters.keys() {
        let of_cluster = experiment.trials.iter().filter(|trial| trial.cluster == *cluster);
        let drawn = |(trial, colour): (&Trial, &Colour)| {
            typical(runs, &trial.name).map(|run| (run, *colour))
        };
        let drawn: Vec<_> = of_cluster.zip(Colour::ALL.iter().cycle()).filter_map(drawn).collect();
        panels.extend(curves(cluster, &drawn));
        panels.extend(drawn.iter().filter_map(|(run, _)| {
            run.load.as_ref()?.panel(format!("{}: users, and use of the server", run.trial))
        }));
        for (title, figure, decimals) in [
            ("CPU-seconds per leecher", Figure::LeecherCpu, 2),
            ("seconds until the last node has all", Figure::CompletionLast, 2),
        ] {
            let bar = |(run, colour): &(&RunResult, Colour)| {
                let value = figure.of(run)?;
                Some(Bar { name: run.trial.clone(), colour: *colour, value, limit: None })
            };
            let bars: Vec<Bar> = drawn.iter().filter_map(bar).collect();
            if !bars.is_empty() {
                panels.push(Panel::Bars { title: format!("{cluster}: {title}"), decimals, bars });
            }
        }
        let chosen = |figure| chosen(experiment, runs, cluster, figure);
        panels.extend(experiment.figures.iter().filter_map(chosen));
    }
    Chart { label, panels, notes: Vec::new() }
}

/// The bars of a figure that the experiment chooses for its page; `None` if there is nothing to see.
fn chosen(
    experiment: &Experiment,
    runs: &[RunResult],
    cluster: &str,
    figure: &PageFigure,
) -> Option<Panel> {
    let trials = experiment.trials.iter().filter(|trial| trial.cluster == cluster);
    let bar = |(trial, colour): (&Trial, &Colour)| {
        let value = median_of(&figure.figure, runs, &trial.name)? * figure.times;
        Some(Bar { name: trial.name.clone(), colour: *colour, value, limit: None })
    };
    let bars: Vec<Bar> = trials.zip(Colour::ALL.iter().cycle()).filter_map(bar).collect();
    let title = format!("{cluster}: {}", figure.title);
    bars.iter().any(|bar| bar.value > 0.0).then_some(Panel::Bars { title, decimals: 2, bars })
}

/// The curves of the first trials, one for each colour; `None` if there is nothing to see.
fn curves(cluster: &str, drawn: &[(&RunResult, Colour)]) -> Option<Panel> {
    let count = drawn.iter().map(|(run, _)| run.awaited().count()).max()?;
    if count < 2 {
        return None;
    }
    let line = |(run, colour): &(&RunResult, Colour)| Line::left(&run.trial, *colour, curve(run));
    let lines = drawn.iter().take(Colour::ALL.len()).map(line);
    let title = format!("{cluster}: nodes that have all, of {count}");
    Some(Panel::lines(
        title,
        Axis::new("seconds"),
        Axis::up_to("nodes", count as f64),
        lines.collect(),
    ))
}

/// The number of nodes that have all over time, as a step function.
fn curve(run: &RunResult) -> Vec<(f64, f64)> {
    let mut finishes: Vec<f64> = run.awaited().filter_map(|node| node.finished_at).collect();
    finishes.sort_by(f64::total_cmp);
    let steps = finishes.iter().enumerate();
    let steps = steps.flat_map(|(index, at)| [(*at, index as f64), (*at, index as f64 + 1.0)]);
    std::iter::once((0.0, 0.0)).chain(steps).collect()
}

/// The run of a trial whose last completion is the median.
fn typical<'a>(runs: &'a [RunResult], trial: &str) -> Option<&'a RunResult> {
    let mut runs: Vec<&RunResult> = runs.iter().filter(|run| run.trial == trial).collect();
    let last = |run: &RunResult| Figure::CompletionLast.of(run).unwrap_or(f64::INFINITY);
    runs.sort_by(|a, b| last(a).total_cmp(&last(b)));
    runs.get(runs.len().saturating_sub(1) / 2).copied()
}
