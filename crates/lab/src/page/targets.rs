//! The targets of an experiment, and whether its runs meet them.

use watchfire_report::Table;

use crate::definition::{Experiment, Target, TargetBound};
use crate::results::{Figure, RunResult, range_of, short};

/// A row for each target. A figure that no run has misses its target.
pub fn targets_table(experiment: &Experiment, runs: &[RunResult]) -> Table {
    let mut table = Table::new(["target", "measured", "bound", ""]);
    for target in &experiment.targets {
        let value = value(target, runs);
        let is_met = value.is_some_and(|value| target.bound.is_met_by(value));
        table.push([
            name(target),
            value.map_or_else(|| "-".to_owned(), short),
            match target.bound {
                TargetBound::AtMost(bound) => format!("at most {}", short(bound)),
                TargetBound::AtLeast(bound) => format!("at least {}", short(bound)),
            },
            if is_met { "met" } else { "MISSED" }.to_owned(),
        ]);
    }
    table
}

fn name(target: &Target) -> String {
    let figure = match Figure::with_name(&target.figure) {
        Some(figure) => figure.title(),
        None => &target.figure,
    };
    match &target.relative_to[..] {
        [] => format!("{}: {figure}", target.trial),
        others => format!("{}: {figure}, relative to {}", target.trial, others.join(" or ")),
    }
}

fn value(target: &Target, runs: &[RunResult]) -> Option<f64> {
    let of = |trial: &String| median_of(&target.figure, runs, trial);
    let value = of(&target.trial)?;
    if target.relative_to.is_empty() {
        return Some(value);
    }
    let others = target.relative_to.iter().map(of).collect::<Option<Vec<f64>>>()?;
    let least = others.into_iter().fold(f64::INFINITY, f64::min);
    (least > 0.0).then_some(value / least)
}

/// The value of a figure of a run, by the name that experiment files use.
pub fn value_of(name: &str, run: &RunResult) -> Option<f64> {
    match Figure::with_name(name) {
        Some(figure) => figure.of(run),
        None => run.measures.get(name).copied(),
    }
}

pub fn median_of(name: &str, runs: &[RunResult], trial: &str) -> Option<f64> {
    let values = runs.iter().filter(|run| run.trial == trial).map(|run| value_of(name, run));
    range_of(&values.collect::<Option<Vec<f64>>>()?).map(|[_, median, _]| median)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{TEXT, runs};
    use super::*;

    #[test]
    fn a_target_is_a_bound_for_a_figure_or_for_a_ratio_of_two_trials() {
        let experiment = Experiment::parse("three.toml", TEXT).unwrap();
        let table = targets_table(&experiment, &runs(&experiment));
        let ends: Vec<&str> = table.rows.iter().map(|row| row[3].as_str()).collect();
        assert_eq!(ends, ["met", "MISSED"]);
        assert_eq!(table.rows[0][0], "ours: copies from seeders");
        assert_eq!(table.rows[1][0], "ours: completion, last, s, relative to old");
        let table = targets_table(&experiment, &[]);
        assert!(table.rows.iter().all(|row| row[1] == "-" && row[3] == "MISSED"));
    }
}
