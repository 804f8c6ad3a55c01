//! A verdict about two sides of an experiment: better, worse, or within noise.
//!
//! **Without it**, a change is judged by two numbers, and on a shared machine two runs of the same commit
//! differ by 10 % and more. A figure that grew by 5 % is then refused although nothing changed, and a loss of
//! 5 % is accepted once a month.
//!
//! Both sides run the same trials in turns: repeat 1 of the one, repeat 1 of the other, repeat 2, and so on.
//! Two runs next to each other have the same seed, and the machine is in the same state. So they are a pair,
//! and the value of a pair is the logarithm of the ratio. A machine that slows down for a minute slows both
//! runs of a pair, and the ratio stays.
//!
//! The verdict is about the mean of these values. Its interval is a bootstrap: draw as many pairs as there
//! are, with repetition, take the mean, and do this 2,000 times. The interval holds the middle 95 % of these
//! means. An example: five pairs with the ratios 1.09, 1.12, 1.10, 1.08, 1.11 have the interval 1.09 to 1.11,
//! which is worse. With 0.96, 1.15, 1.02, 1.20, 0.99 it is 0.99 to 1.12: within noise, although the mean is
//! 1.06.
//!
//! A verdict other than "within noise" needs an interval that ends beyond the least change of its
//! [`Figure`], which is 2 %, or 5 % for CPU time and memory. It also needs [`PAIRS_MIN`] pairs: with fewer, a
//! bootstrap has too few different draws, and says "too few runs". Equal values need no repeats.
//!
//! A side where a run did not finish has no value there. If one side has a figure in fewer runs than the
//! other, that side is worse, whatever the values of the rest.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use watchfire_types::Rng;

use super::figure::more_is_better;
use super::{Figure, RunResult};

/// Least pairs of runs for a verdict.
const PAIRS_MIN: usize = 3;
/// The smallest relative change of a measure that is reported.
const MEASURE_CHANGE: f64 = 0.05;
const DRAWS: usize = 2000;
/// The share of all draws that is left out at each end.
const TAIL: f64 = 0.025;

/// The verdict about all figures of all trials.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub figures: Vec<FigureVerdict>,
}

/// The verdict about one figure of a trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureVerdict {
    pub trial: String,
    /// The title of a [`Figure`], or the name of a measure.
    pub figure: String,
    /// The medians of the two sides; `None` for a side without a value.
    pub medians: [Option<f64>; 2],
    /// Second side divided by the first: the lower end, the mean and the upper end.
    pub ratio: Option<[f64; 3]>,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Better,
    Worse,
    WithinNoise,
    TooFewRuns,
}

impl Verdict {
    /// The verdict about a figure of which more is better.
    fn turned(self) -> Verdict {
        match self {
            Verdict::Better => Verdict::Worse,
            Verdict::Worse => Verdict::Better,
            other => other,
        }
    }
}

impl Comparison {
    /// Whether a figure is worse.
    pub fn is_worse(&self) -> bool {
        self.figures.iter().any(|figure| figure.verdict == Verdict::Worse)
    }
}

/// Compares the runs of two sides. Run n of a trial of one side is a pair with run n of the other.
pub fn compare(first: &[RunResult], second: &[RunResult]) -> Comparison {
    let (first, second) = (by_trial(first), by_trial(second));
    let mut figures = Vec::new();
    for (trial, first) in &first {
        let Some(second) = second.get(trial) else { continue };
        for figure in Figure::ALL {
            let values = |runs: &[&RunResult]| -> Vec<Option<f64>> {
                runs.iter().map(|run| figure.of(run)).collect()
            };
            let (first, second) = (values(first), values(second));
            figures.extend(judge(trial, figure.title(), figure.least_change(), &first, &second));
        }
        let names: BTreeSet<&String> =
            first.iter().chain(second).flat_map(|run| run.measures.keys()).collect();
        for name in names {
            let values = |runs: &[&RunResult]| -> Vec<Option<f64>> {
                runs.iter().map(|run| run.measures.get(name).copied()).collect()
            };
            figures.extend(judge(trial, name, MEASURE_CHANGE, &values(first), &values(second)));
        }
    }
    Comparison { figures }
}

fn by_trial(runs: &[RunResult]) -> BTreeMap<&str, Vec<&RunResult>> {
    let mut trials: BTreeMap<&str, Vec<&RunResult>> = BTreeMap::new();
    for run in runs {
        trials.entry(&run.trial).or_default().push(run);
    }
    trials
}

/// `None` if neither side has the figure.
fn judge(
    trial: &str,
    figure: &str,
    least_change: f64,
    first: &[Option<f64>],
    second: &[Option<f64>],
) -> Option<FigureVerdict> {
    let known = |values: &[Option<f64>]| values.iter().flatten().count();
    if known(first) + known(second) == 0 {
        return None;
    }
    let pairs: Vec<[f64; 2]> =
        first.iter().zip(second).filter_map(|(one, other)| Some([(*one)?, (*other)?])).collect();
    let ratio = ratio(&pairs);
    let part = |values: &[Option<f64>]| {
        known(values) * first.len().max(second.len()) / values.len().max(1)
    };
    let verdict = match part(first).cmp(&part(second)) {
        std::cmp::Ordering::Greater => Verdict::Worse,
        std::cmp::Ordering::Less => Verdict::Better,
        std::cmp::Ordering::Equal if more_is_better(figure) => {
            verdict(&pairs, ratio, least_change).turned()
        }
        std::cmp::Ordering::Equal => verdict(&pairs, ratio, least_change),
    };
    Some(FigureVerdict {
        trial: trial.to_owned(),
        figure: figure.to_owned(),
        medians: [median(first), median(second)],
        ratio,
        verdict,
    })
}

fn verdict(pairs: &[[f64; 2]], ratio: Option<[f64; 3]>, least_change: f64) -> Verdict {
    if pairs.iter().all(|[one, other]| one == other) {
        return Verdict::WithinNoise;
    }
    if pairs.len() < PAIRS_MIN {
        return Verdict::TooFewRuns;
    }
    match ratio {
        Some([low, ..]) if low > 1.0 + least_change => Verdict::Worse,
        Some([.., high]) if high < 1.0 / (1.0 + least_change) => Verdict::Better,
        _ => Verdict::WithinNoise,
    }
}

/// The interval of the mean ratio. Pairs in which both values are 0 count as equal; if only one is 0,
/// there is no ratio, and the other counts as the smallest value of its side would: as ten times more.
fn ratio(pairs: &[[f64; 2]]) -> Option<[f64; 3]> {
    let of_pair = |[one, other]: &[f64; 2]| match (*one > 0.0, *other > 0.0) {
        (true, true) => (other / one).ln(),
        (false, false) => 0.0,
        (false, true) => 10_f64.ln(),
        (true, false) => -10_f64.ln(),
    };
    let logs: Vec<f64> = pairs.iter().map(of_pair).collect();
    if logs.is_empty() {
        return None;
    }
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / logs.len() as f64;
    let mut rng = Rng::from_seed(logs.len() as u64);
    let mut draws: Vec<f64> = (0..DRAWS)
        .map(|_| mean(&mut (0..logs.len()).map(|_| logs[rng.index(logs.len())])))
        .collect();
    draws.sort_by(f64::total_cmp);
    let cut = (DRAWS as f64 * TAIL) as usize;
    let ends = [draws[cut], mean(&mut logs.iter().copied()), draws[DRAWS - 1 - cut]];
    Some(ends.map(f64::exp))
}

fn median(values: &[Option<f64>]) -> Option<f64> {
    let mut values: Vec<f64> = values.iter().flatten().copied().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(first: &[f64], second: &[f64]) -> FigureVerdict {
        let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
        judge("t", "last", 0.02, &some(first), &some(second)).unwrap()
    }

    #[test]
    fn of_a_rate_more_is_better() {
        let (one, other) = ([10.0, 11.0, 9.0, 10.5], [11.0, 12.1, 9.9, 11.5]);
        let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
        let rate = |first: &[Option<f64>], second: &[Option<f64>]| {
            judge("t", "load: talk: delivery, a second", 0.02, first, second).unwrap().verdict
        };
        let (one, mut other) = (some(&one), some(&other));
        assert_eq!(rate(&one, &other), Verdict::Better);
        assert_eq!(rate(&other, &one), Verdict::Worse);
        other[3] = None;
        assert_eq!(rate(&one, &other), Verdict::Worse, "a run without a value");
    }

    #[test]
    fn a_steady_loss_is_worse_and_a_steady_gain_is_better() {
        let (one, other) = ([10.0, 11.0, 9.0, 10.5, 10.0], [11.0, 12.1, 9.9, 11.5, 11.0]);
        assert_eq!(of(&one, &other).verdict, Verdict::Worse);
        assert_eq!(of(&other, &one).verdict, Verdict::Better);
        let ratio = of(&one, &other).ratio.unwrap();
        assert!(ratio[0] > 1.09 && ratio[2] < 1.11, "{ratio:?}");
    }

    #[test]
    fn a_difference_that_a_pair_contradicts_is_noise() {
        let verdict = of(&[10.0; 5], &[9.6, 11.5, 10.2, 12.0, 9.9]);
        assert_eq!(verdict.verdict, Verdict::WithinNoise);
        let tiny = of(&[10.0; 5], &[10.1; 5]);
        assert_eq!(tiny.verdict, Verdict::WithinNoise, "1 % is less than the least change");
    }

    #[test]
    fn few_runs_give_no_verdict_unless_they_are_equal() {
        assert_eq!(of(&[10.0], &[11.0]).verdict, Verdict::TooFewRuns);
        assert_eq!(of(&[10.0], &[10.0]).verdict, Verdict::WithinNoise);
        assert_eq!(of(&[0.0; 3], &[0.0; 3]).verdict, Verdict::WithinNoise);
        assert_eq!(of(&[0.0; 3], &[0.5; 3]).verdict, Verdict::Worse);
    }

    #[test]
    fn a_side_that_does_not_finish_is_worse() {
        let judged = |first: &[Option<f64>], second: &[Option<f64>]| {
            judge("t", "last", 0.02, first, second).map(|verdict| verdict.verdict)
        };
        assert_eq!(judged(&[Some(1.0); 3], &[Some(0.5), None, Some(0.5)]), Some(Verdict::Worse));
        assert_eq!(judged(&[None; 3], &[Some(1.0); 3]), Some(Verdict::Better));
        assert_eq!(judged(&[None; 3], &[None; 3]), None);
    }

    /// Of a hundred comparisons of a side with itself under 10 % of noise, at most a few may differ.
    #[test]
    fn the_same_side_twice_is_almost_always_within_noise() {
        let mut rng = Rng::from_seed(7);
        let mut noise = |mean: f64| -> Vec<f64> {
            (0..7).map(|_| mean * (0.9 + 0.2 * rng.fraction())).collect()
        };
        let wrong = (0..100)
            .filter(|_| of(&noise(10.0), &noise(10.0)).verdict != Verdict::WithinNoise)
            .count();
        assert!(wrong <= 5, "{wrong} of 100 differ");
        let found =
            (0..100).filter(|_| of(&noise(10.0), &noise(12.5)).verdict == Verdict::Worse).count();
        assert!(found >= 95, "{found} of 100 losses of 25 % are found");
    }
}
