//! The picture of a page: when the nodes had all, what it cost, and the figures of a load that the experiment chooses.

use watchfire_report::{Axis, Bar, Chart, Colour, Line, Panel};

use super::networks;
use super::targets::median_of;
use crate::definition::{Experiment, PageFigure, Trial};
use crate::results::{Figure, RunResult, decimals};

/// For each cluster the nodes that have all over time, the users of loads and the use of their servers, and bars for the figures of its trials.
pub fn picture(experiment: &Experiment, runs: &[RunResult]) -> Chart {
    let label = format!("{}: how long it takes, and what it costs", experiment.name);
    let mut panels = Vec::new();
    for cluster in experiment.clusters.keys() {
        let of_cluster = || experiment.trials.iter().filter(|trial| trial.cluster == *cluster);
        // A table of networks says more than a bar for each of its pairs.
        let trials: Vec<&Trial> = of_cluster().collect();
        if let Some(grid) = networks::grid(experiment, &trials) {
            let has_run = |trial: &&Trial| runs.iter().any(|run| run.trial == trial.name);
            if trials.iter().any(has_run) {
                panels.push(grid.panel(cluster, experiment, runs));
            }
            continue;
        }
        let drawn = |(trial, colour): (&Trial, &Colour)| {
            typical(runs, &trial.name).map(|run| (run, *colour))
        };
        let drawn: Vec<_> =
            of_cluster().zip(Colour::ALL.iter().cycle()).filter_map(drawn).collect();
        panels.extend(curves(cluster, &drawn));
        panels.extend(drawn.iter().filter_map(|(run, _)| {
            run.load.as_ref()?.panel(format!("{}: users, and use of the server", run.trial))
        }));
        for (title, figure) in [
            ("CPU-seconds per leecher", Figure::LeecherCpu),
            ("seconds until the last node has all", Figure::CompletionLast),
        ] {
            let value = |run: &RunResult| median_of(figure.name(), runs, &run.trial);
            panels.extend(bars(format!("{cluster}: {title}"), &drawn, value));
        }
        for PageFigure { figure, title, times } in &experiment.figures {
            let value = |run: &RunResult| Some(median_of(figure, runs, &run.trial)? * times);
            panels.extend(bars(format!("{cluster}: {title}"), &drawn, value));
        }
    }
    Chart { label, panels, notes: Vec::new() }
}

/// A bar for each trial that has a value; `None` without a second trial to compare with, and if no value is above 0.
fn bars(
    title: String,
    drawn: &[(&RunResult, Colour)],
    value: impl Fn(&RunResult) -> Option<f64>,
) -> Option<Panel> {
    if drawn.len() < 2 {
        return None;
    }
    let bar =
        |(run, colour): &(&RunResult, Colour)| Some(Bar::new(&run.trial, *colour, value(run)?));
    let bars: Vec<Bar> = drawn.iter().filter_map(bar).collect();
    // All bars have the decimals that the smallest one needs.
    let above_0 = bars.iter().map(|bar| bar.value).filter(|value| *value > 0.0);
    let decimals = above_0.map(decimals).max()?;
    Some(Panel::Bars { title, decimals, bars })
}

/// The curves of the first trials, one for each colour; `None` if there is nothing to see. Bars say as much about
/// one node, but a trial that stands alone has none.
fn curves(cluster: &str, drawn: &[(&RunResult, Colour)]) -> Option<Panel> {
    let count = drawn.iter().map(|(run, _)| run.awaited().count()).max()?;
    let count_min = if drawn.len() < 2 { 1 } else { 2 };
    if count < count_min {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::{TEXT, runs};
    use super::*;

    /// The titles of the bars of a picture, their decimals, and the names of their trials.
    fn bars_of(experiment: &Experiment, runs: &[RunResult]) -> Vec<(String, usize, Vec<String>)> {
        let bars = |panel| match panel {
            Panel::Bars { title, decimals, bars } => {
                Some((title, decimals, bars.into_iter().map(|bar| bar.name).collect()))
            }
            Panel::Lines { .. } | Panel::Cells { .. } => None,
        };
        picture(experiment, runs).panels.into_iter().filter_map(bars).collect()
    }

    #[test]
    fn a_trial_that_stands_alone_has_a_curve_and_no_bars() {
        let experiment = Experiment::parse("three.toml", TEXT).unwrap();
        let runs = runs(&experiment);
        assert_eq!(bars_of(&experiment, &runs).len(), 1, "two trials");
        assert_eq!(bars_of(&experiment, &runs[..1]), []);
        let mut alone = runs[0].clone();
        alone.nodes.retain(|node| !node.is_awaited || node.name == "peers-1");
        assert_eq!(alone.awaited().count(), 1);
        let panels = picture(&experiment, &[alone]).panels;
        assert!(matches!(&panels[..], [Panel::Lines { .. }]), "{panels:?}");
    }

    #[test]
    fn the_smallest_bar_has_three_digits_too() {
        let text = TEXT.replacen("[peers]", "figures = ['load: join, p99, s']\n[peers]", 1);
        let experiment = Experiment::parse("three.toml", &text).unwrap();
        let mut runs = runs(&experiment);
        let mut chosen = |values: [f64; 2]| {
            for (run, value) in runs.iter_mut().zip(values) {
                run.measures = BTreeMap::from([("load: join, p99, s".to_owned(), value)]);
            }
            bars_of(&experiment, &runs).into_iter().find(|(title, ..)| title.contains("load: join"))
        };
        let (_, decimals, names) = chosen([0.000_42, 1.5]).unwrap();
        assert_eq!((decimals, names), (6, vec!["ours".to_owned(), "old".to_owned()]));
        assert_eq!(chosen([0.0, 2000.0]).unwrap().1, 0);
        assert_eq!(chosen([0.0, 0.0]), None, "there is nothing to see");
    }
}
