//! Results and verdicts as tables for a terminal.

use std::collections::BTreeSet;

use watchfire_report::Table;
use watchfire_report::units::{binary_bytes, number, percent};

use super::figure::Figure;
use super::run_result::RunResult;
use super::verdict::{Comparison, Verdict, median};

/// The end of the name of a figure in bytes.
const BYTES: &str = ", bytes";
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

/// The figures that a run has, by their names, with the values of each trial.
pub(super) fn figures_of(runs: &[RunResult]) -> Vec<(&str, Vec<Vec<f64>>)> {
    let trials = trials_of(runs);
    let values = |needs_all: bool, of: &dyn Fn(&RunResult) -> Option<f64>| -> Vec<Vec<f64>> {
        let of_trial = |trial: &&str| {
            let all: Vec<_> = runs.iter().filter(|run| run.trial == **trial).map(of).collect();
            if needs_all && all.contains(&None) {
                Vec::new()
            } else {
                all.into_iter().flatten().collect()
            }
        };
        trials.iter().map(of_trial).collect()
    };
    let figure = |figure: Figure| (figure.title(), values(true, &|run| figure.of(run)));
    let mut figures = Vec::from(Figure::ALL.map(figure));
    figures.push(("noise: CPU time of other programs, share", values(false, &|run| run.noise)));
    let measures: BTreeSet<&String> = runs.iter().flat_map(|run| run.measures.keys()).collect();
    figures.extend(
        measures
            .into_iter()
            .map(|name| (name.as_str(), values(false, &|run| run.measures.get(name).copied()))),
    );
    figures.retain(|(_, trials)| trials.iter().any(|values| !values.is_empty()));
    figures
}

pub(crate) fn results_rows(runs: &[RunResult]) -> Table {
    let mut table = Table::new(std::iter::once("figure").chain(trials_of(runs)));
    for (name, trials) in figures_of(runs) {
        let values = trials.iter().map(|values| spread_of(name, values));
        table.push(std::iter::once(shown_name(name).to_owned()).chain(values));
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
        let value = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| shown(&one.figure, value))
        };
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
            shown_name(&one.figure).to_owned(),
            value(one.medians[0]),
            value(one.medians[1]),
            ratio,
            detects,
            verdict.to_owned(),
        ]);
    }
    table
}

/// The spread of a figure; "-" if a run does not have the figure.
pub(crate) fn figure_spread<'a>(
    figure: Figure,
    runs: impl IntoIterator<Item = &'a RunResult>,
) -> String {
    let values = runs.into_iter().map(|run| figure.of(run));
    let values = values.collect::<Option<Vec<f64>>>().unwrap_or_default();
    spread_of(figure.title(), &values)
}

/// The name of a figure. Bytes have their unit beside each value.
pub(crate) fn shown_name(name: &str) -> &str {
    name.strip_suffix(BYTES).unwrap_or(name)
}

/// A value of a figure.
pub(super) fn shown(name: &str, value: f64) -> String {
    match name.ends_with(BYTES) {
        true if value.abs() < 1024.0 => format!("{} B", short(value)),
        true => {
            format!("{}{}", if value < 0.0 { "-" } else { "" }, binary_bytes(value.abs() as u64))
        }
        false => short(value),
    }
}

/// The median, with the smallest and the largest value beside it.
pub(crate) fn spread(values: &[f64]) -> String {
    spread_of("", values)
}

fn spread_of(name: &str, values: &[f64]) -> String {
    let Some([least, median, most]) = range_of(values) else { return "-".to_owned() };
    let [least, median, most] = [least, median, most].map(|value| shown(name, value));
    if least == most { median } else { format!("{median} ({least} to {most})") }
}

/// The smallest value, the median, and the largest value; `None` without any.
pub(crate) fn range_of(values: &[f64]) -> Option<[f64; 3]> {
    let median = median(values.iter().copied())?;
    let (least, most) = (f64::INFINITY, f64::NEG_INFINITY);
    Some([
        values.iter().copied().fold(least, f64::min),
        median,
        values.iter().copied().fold(most, f64::max),
    ])
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
    fn the_median_of_an_even_number_of_values_is_between_the_two_in_the_middle() {
        assert_eq!(range_of(&[4.0, 1.0]), Some([1.0, 2.5, 4.0]));
        assert_eq!(range_of(&[9.0, 1.0, 4.0]), Some([1.0, 4.0, 9.0]));
        assert_eq!(range_of(&[]), None);
    }

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
        assert_eq!(spread(&[1.0001, 1.0002]), "1.00", "values that a reader cannot tell apart");
        let memory = "memory, bytes";
        assert_eq!([memory, "s"].map(shown_name), ["memory", "s"]);
        assert_eq!(
            [0.25, 643.0, 1024.0, -3_145_728.0].map(|value| shown(memory, value)),
            ["0.250 B", "643 B", "1.0 KiB", "-3.0 MiB"]
        );
    }
}
