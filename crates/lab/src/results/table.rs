//! Results and verdicts as tables for a terminal.

use std::collections::BTreeSet;

use watchfire_report::Table;
use watchfire_report::units::{number, percent};

use super::{Comparison, Figure, RunResult, Verdict};

/// Most decimals of a value: seconds to the nanosecond.
const DECIMALS_MAX: f64 = 9.0;

/// The medians of all figures, one row for each and one column for each trial. The spread beside a median is the
/// smallest and the largest value.
pub fn results_table(runs: &[RunResult]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let mut text = results_rows(runs).terminal();
    for line in noisy_lines(runs) {
        text += &format!("{line}\n");
    }
    text
}

/// The noise of runs, a line for each trial with noisy ones.
pub(super) fn noisy_lines(runs: &[RunResult]) -> Vec<String> {
    let line = |trial: &&str| {
        let of_trial = || runs.iter().filter(|run| run.trial == **trial);
        let (noisy, all) = (of_trial().filter(|run| run.is_noisy()).count(), of_trial().count());
        let most = of_trial().filter_map(|run| run.noise).fold(0.0, f64::max);
        let text =
            format!("! {trial}: {noisy} of {all} runs were noisy: up to {}", noise_text(most));
        (noisy > 0).then_some(text)
    };
    trials_of(runs).iter().filter_map(line).collect()
}

pub(super) fn noise_text(noise: f64) -> String {
    format!("{} % of the machine's CPU time went to other programs", number(noise * 100.0, 0))
}

/// The names of the trials, in the order of their first runs.
pub(super) fn trials_of(runs: &[RunResult]) -> Vec<&str> {
    let mut trials: Vec<&str> = Vec::new();
    for run in runs {
        if !trials.contains(&run.trial.as_str()) {
            trials.push(&run.trial);
        }
    }
    trials
}

pub(crate) fn results_rows(runs: &[RunResult]) -> Table {
    let trials = trials_of(runs);
    let heads = std::iter::once("figure").chain(trials.iter().copied());
    let mut table = Table::new(heads);
    for figure in Figure::ALL {
        let values = trials
            .iter()
            .map(|trial| figure_spread(figure, 1.0, runs.iter().filter(|run| run.trial == *trial)));
        let row: Vec<String> = values.collect();
        if row.iter().any(|value| value != "-") {
            table.push(std::iter::once(figure.title().to_owned()).chain(row));
        }
    }
    let noise = |trial: &&str| {
        let of_trial = runs.iter().filter(|run| run.trial == **trial);
        spread(&of_trial.filter_map(|run| run.noise).collect::<Vec<f64>>())
    };
    if runs.iter().any(|run| run.noise.is_some()) {
        let name = "noise: CPU time of other programs, share".to_owned();
        table.push(std::iter::once(name).chain(trials.iter().map(noise)));
    }
    let measures: BTreeSet<&String> = runs.iter().flat_map(|run| run.measures.keys()).collect();
    for name in measures {
        let value = |trial: &&str| {
            let of_trial = runs.iter().filter(|run| run.trial == **trial);
            let values: Vec<f64> =
                of_trial.filter_map(|run| run.measures.get(name).copied()).collect();
            spread(&values)
        };
        table.push(std::iter::once(name.clone()).chain(trials.iter().map(value)));
    }
    table
}

/// The verdicts of a comparison, a row for each figure of each trial.
pub fn comparison_table(comparison: &Comparison) -> String {
    comparison_rows(comparison).terminal() + comparison.advice().as_deref().unwrap_or_default()
}

pub(super) fn comparison_rows(comparison: &Comparison) -> Table {
    let mut table =
        Table::new(["trial", "figure", "before", "after", "ratio", "detects", "verdict"]);
    for one in &comparison.figures {
        let value = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), short);
        let ratio = one.ratio.map_or_else(
            || "-".to_owned(),
            |[least, mean, most]| format!("{mean:.3} ({least:.3} to {most:.3})"),
        );
        let detects = one.detects.map_or_else(|| "-".to_owned(), |change| percent(change, 0));
        let verdict = match one.verdict {
            Verdict::Better => "better",
            Verdict::Worse => "WORSE",
            Verdict::WithinNoise => "within noise",
            Verdict::TooFewRuns => "too few runs",
        };
        table.push([
            one.trial.clone(),
            one.figure.clone(),
            value(one.medians[0]),
            value(one.medians[1]),
            ratio,
            detects,
            verdict.to_owned(),
        ]);
    }
    table
}

/// The spread of a figure in multiples of a unit; "-" if a run does not have the figure.
pub(crate) fn figure_spread<'a>(
    figure: Figure,
    unit: f64,
    runs: impl IntoIterator<Item = &'a RunResult>,
) -> String {
    let values = runs.into_iter().map(|run| Some(figure.of(run)? / unit));
    values.collect::<Option<Vec<f64>>>().map_or_else(|| "-".to_owned(), |all| spread(&all))
}

/// The median, with the smallest and the largest value beside it.
pub(crate) fn spread(values: &[f64]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else { return "-".to_owned() };
    let median = sorted[sorted.len() / 2];
    match least == most {
        true => short(median),
        false => format!("{} ({} to {})", short(median), short(*least), short(*most)),
    }
}

/// A value with about three digits.
pub(crate) fn short(value: f64) -> String {
    number(value, decimals(value))
}

/// The decimals with which a value has about three digits.
pub(crate) fn decimals(value: f64) -> usize {
    match value.abs() {
        value if value >= 100.0 || value == 0.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 1.0 => 2,
        value if value >= 0.01 => 3,
        value => (2.0 - value.log10().floor()).min(DECIMALS_MAX) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_runs_there_is_no_table() {
        assert_eq!(results_table(&[]), "");
        assert_eq!(results_table(&[RunResult::default()]).lines().count(), 1, "the head alone");
    }

    #[test]
    fn a_value_has_about_three_digits() {
        assert_eq!(
            [0.0, 0.1234, 1.234, 12.34, 1234.5].map(short),
            ["0", "0.123", "1.23", "12.3", "1,234"]
        );
        assert_eq!(
            [0.012, 0.0012, -0.000_123_4, 1e-7, 1e-300].map(short),
            ["0.012", "0.00120", "-0.000123", "0.000000100", "0.000000000"]
        );
        assert_eq!([f64::INFINITY, f64::NAN].map(short), ["inf", "NaN"]);
        assert_eq!(spread(&[2.0, 1.0, 3.0]), "2.00 (1.00 to 3.00)");
        assert_eq!(spread(&[2.0, 2.0]), "2.00");
    }
}
