//! A verdict about two sides of an experiment: better, worse, or within noise.
//!
//! **Without it**, a change is judged by two numbers, and on a shared machine two runs of the same commit
//! differ by 10 % and more. A figure that grew by 5 % is then refused although nothing changed, and a loss of
//! 5 % is accepted once a month.
//!
//! Both sides run the same trials in turns: repeat 1 of the one, repeat 1 of the other, repeat 2, and so on.
//! Two runs with the same seed ran next to each other, and the machine was in the same state. So they are a pair,
//! and the value of a pair is the logarithm of the ratio. A machine that slows down for a minute slows both
//! runs of a pair, and the ratio stays.
//!
//! **Many figures.** A comparison has dozens of figures. If each alone had a false verdict once in twenty times, most
//! comparisons of a program with itself would have one. So the question is about all figures together: how large
//! is the largest difference, if the two programs are equal? Then it does not matter which run of a pair belongs to
//! which side. All ways to exchange the sides of some pairs are as likely as the one that happened, and each
//! shows a largest difference, measured in standard errors of its figure. A figure is worse if its own difference is
//! larger than the largest ones in all but 2.5 % of these ways (a permutation test, with the correction of Westfall
//! and Young). The same holds for better, so 5 % of all comparisons of equal programs have a verdict, whatever the shape
//! of the noise is, and however much figures depend on each other.
//!
//! **How many pairs.** n pairs can be exchanged in 2^n ways. One of 32 is more than 2.5 %, so five pairs decide nothing,
//! and six ([`PAIRS_MIN`]) only if no other way comes close. With ten ([`PAIRS_ADVISED`]), 25 of 1,024 ways may. An
//! example: six pairs with the ratios 1.09, 1.12, 1.10, 1.08, 1.11, 1.10 are worse, if this is the only figure. With
//! 0.96, 1.15, 1.02, 1.20, 0.99, 1.05 they are noise, although the mean is 1.06.
//!
//! A difference below the least change of its [`Figure`], which is 2 %, or 5 % for CPU time and memory, is never a
//! verdict, and does not count in the other ways. Together with the noise it gives the smallest change that
//! these runs can detect, which stands beside each verdict.
//!
//! A run that did not finish has no value. Its pair counts like one with ten times more.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use watchfire_types::Rng;

use super::figure::{Figure, more_is_better};
use super::run_result::RunResult;

/// Least pairs of runs for a verdict: 2^-6 is the first that is below `FALSE_VERDICTS_MAX`.
pub const PAIRS_MIN: usize = 6;
/// Pairs that find a change of 10 % in a figure whose pairs differ by 5 % (one standard deviation).
pub const PAIRS_ADVISED: usize = 10;
/// The part of all comparisons of equal programs in which a figure may be called worse. As many are called better.
const FALSE_VERDICTS_MAX: f64 = 0.025;
/// The smallest relative change of a measure that is reported.
const MEASURE_CHANGE: f64 = 0.05;
/// Of more pairs, only some of the ways to exchange them are tried.
const PAIRS_EXCHANGED_MAX: usize = 12;
/// The logarithm of the ratio of a pair in which only one run has a value above 0.
const ONE_IS_MISSING: f64 = std::f64::consts::LN_10;

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
    /// Second side divided by the first: the smallest of all pairs, the mean, and the largest.
    pub ratio: Option<[f64; 3]>,
    /// The smallest relative change that these runs tell from noise; `None` if they are too few.
    pub detects: Option<f64>,
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

impl Comparison {
    /// Whether a figure is worse.
    pub fn is_worse(&self) -> bool {
        self.has(Verdict::Worse)
    }

    /// Whether a figure differs, and the runs are too few to say more.
    pub fn is_undecided(&self) -> bool {
        self.has(Verdict::TooFewRuns)
    }

    /// How many repeats decide something, if these do not.
    pub fn advice(&self) -> Option<String> {
        self.is_undecided().then(|| {
            format!(
                "! these runs are too few to decide anything: {PAIRS_MIN} repeats are the least for a \
                 verdict, and {PAIRS_ADVISED} find most changes of 10 %; use --repeat {PAIRS_ADVISED}\n"
            )
        })
    }

    fn has(&self, verdict: Verdict) -> bool {
        self.figures.iter().any(|figure| figure.verdict == verdict)
    }
}

/// Compares the runs of two sides. Two runs of a trial with the same seed are a pair.
pub fn compare(first: &[RunResult], second: &[RunResult]) -> Comparison {
    let sides = [by_trial(first), by_trial(second)];
    let seeds: BTreeSet<u64> = first.iter().chain(second).map(|run| run.seed).collect();
    let mut all = Vec::new();
    for trial in sides[0].keys().filter(|trial| sides[1].contains_key(*trial)) {
        let runs = sides.each_ref().map(|side| &side[trial]);
        let mut add = |figure: &str, least_change, of: &dyn Fn(&RunResult) -> Option<f64>| {
            // A run that is missing on one side, as after an interrupt, says nothing about it.
            let pair = |seed| Some([of(runs[0].get(seed)?), of(runs[1].get(seed)?)]);
            let pairs = seeds.iter().map(|seed| pair(seed).unwrap_or_default()).collect();
            all.extend(Paired::new(trial, figure, least_change, pairs));
        };
        for figure in Figure::ALL {
            add(figure.title(), figure.least_change(), &|run| figure.of(run));
        }
        let names: BTreeSet<&String> = runs
            .iter()
            .flat_map(|runs| runs.values())
            .flat_map(|run| run.measures.keys())
            .collect();
        for name in names {
            add(name, MEASURE_CHANGE, &|run| run.measures.get(name).copied());
        }
    }
    judge(all)
}

fn by_trial(runs: &[RunResult]) -> BTreeMap<&str, BTreeMap<u64, &RunResult>> {
    let mut trials: BTreeMap<&str, BTreeMap<u64, &RunResult>> = BTreeMap::new();
    for run in runs {
        trials.entry(&run.trial).or_default().insert(run.seed, run);
    }
    trials
}

/// A figure of a trial on both sides.
struct Paired {
    trial: String,
    figure: String,
    /// The logarithm of the smallest ratio that is reported.
    least_change: f64,
    /// The values of each seed.
    values: Vec<[Option<f64>; 2]>,
    /// The logarithm of the ratio of each seed, 0 without a pair. A positive one is worse.
    logs: Vec<f64>,
    pairs: usize,
    squares: f64,
}

impl Paired {
    /// `None` if neither side has the figure.
    fn new(
        trial: &str,
        figure: &str,
        least_change: f64,
        values: Vec<[Option<f64>; 2]>,
    ) -> Option<Paired> {
        let direction = if more_is_better(figure) { -1.0 } else { 1.0 };
        let log = |pair: &[Option<f64>; 2]| match *pair {
            [Some(one), Some(other)] if one > 0.0 && other > 0.0 => {
                Some(direction * (other / one).ln())
            }
            // 0 has no logarithm. It counts as ten times less than the other value.
            [Some(one), Some(_)] if one > 0.0 => Some(-direction * ONE_IS_MISSING),
            [Some(_), Some(other)] if other > 0.0 => Some(direction * ONE_IS_MISSING),
            [Some(_), Some(_)] => Some(0.0),
            // A run without a value did not finish, which is worse in either direction.
            [Some(_), None] => Some(ONE_IS_MISSING),
            [None, Some(_)] => Some(-ONE_IS_MISSING),
            [None, None] => None,
        };
        let logs: Vec<Option<f64>> = values.iter().map(log).collect();
        let pairs = logs.iter().flatten().count();
        let logs: Vec<f64> = logs.into_iter().map(Option::unwrap_or_default).collect();
        (pairs > 0).then(|| Paired {
            trial: trial.to_owned(),
            figure: figure.to_owned(),
            least_change: least_change.ln_1p(),
            values,
            squares: logs.iter().map(|log| log * log).sum(),
            logs,
            pairs,
        })
    }

    /// The mean and its standard error, if the sides of the pairs with a negative sign are exchanged.
    fn mean(&self, signs: &[f64]) -> (f64, f64) {
        let pairs = self.pairs as f64;
        let mean = self.logs.iter().zip(signs).map(|(log, sign)| log * sign).sum::<f64>() / pairs;
        // An exchange changes only signs, so the sum of squares is the same for all. Rounding can
        // make the difference slightly negative.
        let variance = (self.squares / pairs - mean * mean).max(0.0) / (pairs - 1.0).max(1.0);
        (mean, variance.sqrt())
    }

    /// How many standard errors the second side is worse; 0 if the change is smaller than the least.
    fn worse_by(&self, signs: &[f64]) -> f64 {
        let (mean, error) = self.mean(signs);
        if mean < self.least_change { 0.0 } else { mean / error }
    }

    /// The verdict, if differences of equal programs are below this many standard errors.
    fn verdict(self, errors_max: Option<f64>) -> FigureVerdict {
        let (mean, error) = self.mean(&vec![1.0; self.logs.len()]);
        let errors_max = errors_max.filter(|_| self.pairs >= PAIRS_MIN);
        let is_change = |mean: f64, max: f64| mean >= self.least_change && mean / error > max;
        let verdict = match errors_max {
            // Equal values have no noise to be judged by: the simulator repeats a run exactly.
            _ if self.squares == 0.0 => Verdict::WithinNoise,
            None => Verdict::TooFewRuns,
            Some(max) if is_change(mean, max) => Verdict::Worse,
            Some(max) if is_change(-mean, max) => Verdict::Better,
            Some(_) => Verdict::WithinNoise,
        };
        let detects = errors_max.map(|max| (error * max).max(self.least_change).exp_m1());
        let direction = if more_is_better(&self.figure) { -1.0 } else { 1.0 };
        let ratio = |log: f64| (direction * log).exp();
        let paired = self.values.iter().zip(&self.logs);
        let ratios = paired.filter(|(values, _)| **values != [None; 2]).map(|(_, log)| ratio(*log));
        let (least, most) = ratios.fold((f64::INFINITY, 0.0_f64), |(least, most), ratio| {
            (least.min(ratio), most.max(ratio))
        });
        let side = |side: usize| median(self.values.iter().filter_map(|values| values[side]));
        FigureVerdict {
            medians: [side(0), side(1)],
            trial: self.trial,
            figure: self.figure,
            ratio: Some([least, ratio(mean), most]),
            detects,
            verdict,
        }
    }
}

fn judge(figures: Vec<Paired>) -> Comparison {
    let pairs = figures.iter().map(|figure| figure.logs.len()).max().unwrap_or(0);
    let errors_max = errors_of_equal_programs(&figures, pairs);
    Comparison { figures: figures.into_iter().map(|figure| figure.verdict(errors_max)).collect() }
}

/// The largest difference between equal programs, in standard errors, in all but 2.5 % of all ways to exchange the
/// sides of pairs; `None` if there are too few ways.
fn errors_of_equal_programs(figures: &[Paired], pairs: usize) -> Option<f64> {
    let ways = 1_u32 << pairs.min(PAIRS_EXCHANGED_MAX);
    let exceptions = (f64::from(ways) * FALSE_VERDICTS_MAX) as usize;
    let mut rng = Rng::from_seed(pairs as u64);
    let largest = |way: u32| {
        // The first way exchanges nothing.
        let is_exchanged = |pair: usize| match pairs <= PAIRS_EXCHANGED_MAX {
            true => way >> pair & 1 == 1,
            false => way > 0 && rng.chance(0.5),
        };
        let signs = (0..pairs).map(is_exchanged).map(|is| if is { -1.0 } else { 1.0 });
        let signs: Vec<f64> = signs.collect();
        figures.iter().map(|figure| figure.worse_by(&signs)).fold(0.0, f64::max)
    };
    let mut largest: Vec<f64> = (0..ways).map(largest).collect();
    largest.sort_by(|one, other| other.total_cmp(one));
    largest.get(exceptions).copied().filter(|_| exceptions > 0)
}

/// Of an even number of values, the mean of the two in the middle.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
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

    /// Figures of 44 runs of one program in the order of the runs, of three trials with a process for each node. The
    /// machine was busy with other work.
    const NOISE: &str = include_str!("noise.csv");

    fn paired(figure: &str, least_change: f64, values: Vec<[Option<f64>; 2]>) -> Option<Paired> {
        Paired::new("t", figure, least_change, values)
    }

    fn of(first: &[f64], second: &[f64]) -> FigureVerdict {
        let values = first.iter().zip(second).map(|(one, other)| [Some(*one), Some(*other)]);
        judge(vec![paired("last", 0.02, values.collect()).unwrap()]).figures.remove(0)
    }

    /// A comparison of the program with itself. Two runs next to each other are a pair, and the sides take turns.
    fn of_equal_programs(pairs: usize, rng: &mut Rng, planted: Option<(usize, f64)>) -> Comparison {
        let mut lines = NOISE.lines().map(|line| line.split('\t'));
        let names = lines.next().unwrap();
        let runs: Vec<Vec<f64>> =
            lines.map(|line| line.map(|value| value.parse().unwrap()).collect()).collect();
        let first = rng.index(2);
        let mut at: Vec<usize> = (first..runs.len() - 1).step_by(2).collect();
        rng.shuffle(&mut at);
        let figure = |(index, name): (usize, &str)| {
            let change = planted.map_or(1.0, |(of, change)| if of == index { change } else { 1.0 });
            let values = at[..pairs].iter().enumerate().map(|(turn, at)| {
                let [one, other] = [at + turn % 2, at + 1 - turn % 2].map(|run| runs[run][index]);
                [Some(one), Some(other * change)]
            });
            let is_of_5 = name.contains("CPU") || name.contains("memory");
            paired(name, if is_of_5 { 0.05 } else { 0.02 }, values.collect())
        };
        judge(names.enumerate().filter_map(figure).collect())
    }

    #[test]
    fn of_200_comparisons_of_a_program_with_itself_5_percent_have_a_verdict() {
        let mut rng = Rng::from_seed(3);
        let (mut worse, mut better) = (0, 0);
        for _ in 0..200 {
            let comparison = of_equal_programs(PAIRS_ADVISED, &mut rng, None);
            worse += usize::from(comparison.is_worse());
            better += usize::from(comparison.has(Verdict::Better));
        }
        assert!(worse <= 10 && better <= 10, "{worse} are worse and {better} better");
        assert!(worse + better > 0, "the noise has no verdict at all");
        let few = of_equal_programs(PAIRS_MIN - 1, &mut rng, None);
        assert!(few.is_undecided() && !few.is_worse() && !few.has(Verdict::Better));
    }

    #[test]
    fn a_change_of_10_percent_is_found_if_the_noise_of_its_figure_is_smaller() {
        let mut rng = Rng::from_seed(4);
        // Pairs of these figures differ by at most 5 % (one standard deviation), of `get`'s CPU time by 10 %.
        let quiet =
            ["hold: bytes", "hold: peak", "get: bytes", "get: peak", "http: copies", "http: peak"];
        let mut found_of = |name: &str, pairs: usize| {
            let mut names = NOISE.lines().next().unwrap().split('\t');
            let index = names.position(|figure| figure.starts_with(name)).unwrap();
            let changes = [(1.1, Verdict::Worse), (1.0 / 1.1, Verdict::Better)].repeat(4);
            let mut is_found = |(change, verdict): &(f64, Verdict)| {
                let planted = of_equal_programs(pairs, &mut rng, Some((index, *change)));
                planted.figures[index].verdict == *verdict
            };
            changes.iter().filter(|change| is_found(change)).count()
        };
        assert_eq!(quiet.map(|name| found_of(name, PAIRS_ADVISED)), [8; 6]);
        assert!(
            found_of("get: CPU-seconds of seeders", 2 * PAIRS_ADVISED) >= 6,
            "more pairs find it"
        );
    }

    #[test]
    fn of_a_rate_more_is_better() {
        let (one, other) =
            ([10.0, 11.0, 9.0, 10.5, 10.0, 10.1], [11.0, 12.1, 9.9, 11.5, 11.1, 11.1]);
        let rate = |first: &[f64; 6], second: &[f64; 6], last: Option<f64>| {
            let mut values: Vec<_> =
                first.iter().zip(second).map(|(one, other)| [Some(*one), Some(*other)]).collect();
            values[5][1] = last.and(values[5][1]);
            let rate = paired("load: talk: delivery, a second", 0.02, values).unwrap();
            judge(vec![rate]).figures.remove(0)
        };
        assert_eq!(rate(&one, &other, Some(0.0)).verdict, Verdict::Better);
        assert!(rate(&one, &other, Some(0.0)).ratio.unwrap()[1] > 1.05);
        assert_eq!(rate(&other, &one, Some(0.0)).verdict, Verdict::Worse);
        let least = rate(&one, &other, None).ratio.unwrap()[0];
        assert!((least - 0.1).abs() < 1e-9, "a run without a value: {least}");
    }

    #[test]
    fn a_steady_loss_is_worse_and_a_steady_gain_is_better() {
        let (one, other) =
            ([10.0, 11.0, 9.0, 10.5, 10.0, 9.9], [11.0, 12.1, 9.9, 11.5, 11.0, 10.8]);
        assert_eq!(of(&one, &other).verdict, Verdict::Worse);
        assert_eq!(of(&other, &one).verdict, Verdict::Better);
        let ratio = of(&one, &other).ratio.unwrap();
        assert!(ratio[0] > 1.09 && ratio[2] < 1.11, "{ratio:?}");
        assert_eq!(of(&one[..5], &other[..5]).verdict, Verdict::TooFewRuns);
    }

    #[test]
    fn a_difference_that_a_pair_contradicts_is_noise() {
        let verdict = of(&[10.0; 6], &[9.6, 11.5, 10.2, 12.0, 9.9, 10.5]);
        assert_eq!(verdict.verdict, Verdict::WithinNoise);
        assert!(verdict.detects.unwrap() > 0.06, "{verdict:?}");
        let tiny = of(&[10.0; 6], &[10.1; 6]);
        assert_eq!(tiny.verdict, Verdict::WithinNoise, "1 % is less than the least change");
    }

    #[test]
    fn few_runs_give_no_verdict_unless_they_are_equal() {
        assert_eq!(of(&[10.0], &[11.0]).verdict, Verdict::TooFewRuns);
        assert_eq!(of(&[10.0], &[10.0]).verdict, Verdict::WithinNoise);
        assert_eq!(of(&[0.0; 3], &[0.0; 3]).verdict, Verdict::WithinNoise);
        assert_eq!(of(&[0.0; 3], &[0.5; 3]).verdict, Verdict::TooFewRuns);
        assert_eq!(of(&[0.0; 6], &[0.5; 6]).verdict, Verdict::Worse);
        assert_eq!(of(&[1.0; 20], &[1.1; 20]).verdict, Verdict::Worse, "not every way is tried");
    }

    #[test]
    fn a_side_that_does_not_finish_is_worse() {
        let judged = |first: Option<f64>, second: Option<f64>| {
            let verdicts =
                paired("last", 0.02, vec![[first, second]; 6]).map(|one| judge(vec![one]));
            verdicts.map(|verdicts| verdicts.figures[0].verdict)
        };
        assert_eq!(judged(Some(1.0), None), Some(Verdict::Worse));
        assert_eq!(judged(None, Some(1.0)), Some(Verdict::Better));
        assert_eq!(judged(None, None), None);
    }

    #[test]
    fn runs_with_the_same_seed_are_a_pair() {
        let run = |seed: u64, value: f64| RunResult {
            trial: "t".to_owned(),
            seed,
            measures: [("m".to_owned(), value)].into(),
            ..RunResult::default()
        };
        let runs = |seeds: std::ops::Range<u64>| seeds.map(|seed| run(seed, seed as f64 + 1.0));
        let (first, second): (Vec<_>, Vec<_>) = (runs(0..9).collect(), runs(1..9).rev().collect());
        let measure = compare(&first, &second).figures.remove(0);
        assert_eq!((measure.ratio, measure.verdict), (Some([1.0; 3]), Verdict::WithinNoise));
    }
}
