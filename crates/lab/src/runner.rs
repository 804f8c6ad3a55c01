//! The runs of an experiment: which trial runs when.
//!
//! Trials take turns: every trial runs once, then every trial runs again. So a minute in which the machine is slow
//! falls on all of them. Of a comparison, the two sides of a trial run one after the other, and the side that is
//! first changes with each repeat.

use std::fmt;

use crate::definition::{Experiment, Trial};
use crate::drivers::{Driver, DriverError, Progress, with_causes};
use crate::interruption::is_interrupted;
use crate::results::{Comparison, RunResult, compare, html};

/// A run that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    pub trial: &'a str,
    /// From 0; warm-up runs come first.
    pub repeat: u32,
    pub is_warm_up: bool,
    /// Runs before this one.
    pub done: u32,
    /// All runs, warm-up included.
    pub runs: u32,
    /// Those of the runs that are complete.
    pub results: &'a Results,
}

/// A trial that could not run. Other trials go on.
#[derive(Debug)]
pub struct FailedTrial {
    pub trial: String,
    pub error: DriverError,
}

impl fmt::Display for FailedTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.trial, with_causes(&self.error))
    }
}

/// The results of one side.
#[derive(Debug, Default)]
pub struct Results {
    /// Runs that count and ended by themselves, in the order in which they did.
    pub runs: Vec<RunResult>,
    pub failed: Vec<FailedTrial>,
}

impl Results {
    /// The page about all runs, and about the run that is under way.
    pub fn html(&self, name: &str, notes: &[String], under_way: Option<&RunResult>) -> String {
        html(name, notes, (&self.runs, &self.problems()), under_way)
    }

    /// The failures and the broken rules of all runs.
    pub fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = self.failed.iter().map(ToString::to_string).collect();
        for run in self.runs.iter().filter(|run| !run.is_healthy()) {
            let (trial, seed, unfinished) = (&run.trial, run.seed, run.unfinished());
            if unfinished > 0 {
                let nodes = if unfinished == 1 { "node" } else { "nodes" };
                problems.push(format!("{trial}, seed {seed}: {unfinished} {nodes} did not finish"));
            }
            let of_run = run.problems.iter();
            problems.extend(of_run.map(|problem| format!("{trial}, seed {seed}: {problem}")));
        }
        for RunResult { trial, seed, wire, .. } in &self.runs {
            let lost = wire.as_ref().map_or(0, |wire| wire.overruns);
            if lost > 0 {
                let why = "this machine was too busy for the network";
                problems.push(format!(
                    "{trial}, seed {seed}: {why}, and {lost} packets were lost; use fewer nodes or slower links"
                ));
            }
        }
        problems
    }
}

/// Runs the trials of an experiment, with all its repeats.
pub fn run_all(
    experiment: &Experiment,
    trials: &[&Trial],
    driver: &mut dyn Driver,
    watch: &mut dyn FnMut(Turn<'_>, Progress<'_>),
) -> Results {
    let [results] = run_sides(experiment, trials, [driver], watch);
    results
}

/// Runs the trials of an experiment on two drivers in turns, and compares them.
pub fn compare_all(
    experiment: &Experiment,
    trials: &[&Trial],
    drivers: [&mut dyn Driver; 2],
    watch: &mut dyn FnMut(Turn<'_>, Progress<'_>),
) -> (Comparison, [Results; 2]) {
    let results = run_sides(experiment, trials, drivers, watch);
    (compare(&results[0].runs, &results[1].runs), results)
}

fn run_sides<const SIDES: usize>(
    experiment: &Experiment,
    trials: &[&Trial],
    drivers: [&mut dyn Driver; SIDES],
    watch: &mut dyn FnMut(Turn<'_>, Progress<'_>),
) -> [Results; SIDES] {
    let mut results = [const { Results { runs: Vec::new(), failed: Vec::new() } }; SIDES];
    let mut skipped: Vec<&str> = Vec::new();
    for (driver, results) in drivers.iter().zip(&mut results) {
        for trial in trials {
            if let Err(error) = driver.check(&experiment.plan(trial, 0)) {
                skipped.push(&trial.name);
                results.failed.push(FailedTrial { trial: trial.name.clone(), error });
            }
        }
    }
    let trials: Vec<&&Trial> =
        trials.iter().filter(|trial| !skipped.contains(&trial.name.as_str())).collect();
    let repeats = experiment.warm_up + experiment.repeat;
    let runs = repeats * (trials.len() * SIDES) as u32;
    let mut done = 0;
    for repeat in 0..repeats {
        let is_warm_up = repeat < experiment.warm_up;
        for trial in &trials {
            let plan = experiment.plan(trial, repeat);
            for turn in 0..SIDES {
                if is_interrupted() {
                    return results;
                }
                let side = (turn + repeat as usize) % SIDES;
                let (trial, results) = (trial.name.as_str(), &mut results[side]);
                let turn = Turn { trial, repeat, is_warm_up, done, runs, results };
                let ran = drivers[side].run(&plan, &mut |progress| watch(turn, progress));
                done += 1;
                // The signal may have ended nodes too.
                let is_whole = |run: &RunResult| !is_interrupted() || run.is_healthy();
                match ran {
                    Ok(run) if !is_warm_up && is_whole(&run) => results.runs.push(run),
                    Ok(_) => {}
                    Err(_) if is_interrupted() => {}
                    Err(error) => {
                        let trial = trial.to_owned();
                        results.failed.push(FailedTrial { trial, error });
                    }
                }
            }
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::TrialPlan;
    use crate::drivers::Simulated;
    use crate::results::Verdict;

    const TEXT: &str = "
        repeat = 3
        warm_up = 1
        [peers]
        old = { implementation = 'go-bitswap' }
        [clusters.c]
        latency = '10ms'
        groups = [
          { name = 'source', link = { up = '100Mbit', down = '100Mbit' } },
          { name = 'peers', count = 3, link = { up = '100Mbit', down = '100Mbit' } },
        ]
        [scenarios.s]
        objects.file = { random = '4MiB' }
        seed = { source = 'file' }
        fetch = { peers = 'file' }
        [[trials]]
        cluster = 'c'
        scenario = 's'
        [[trials]]
        name = 'old'
        cluster = 'c'
        scenario = 's'
        peer = 'old'
    ";

    /// A driver that notes the order of its runs.
    struct Noted<'a>(char, &'a std::cell::RefCell<String>);

    impl Driver for Noted<'_> {
        fn name(&self) -> &'static str {
            "noted"
        }

        fn check(&self, plan: &TrialPlan) -> Result<(), DriverError> {
            Simulated.check(plan)
        }

        fn run(
            &mut self,
            plan: &TrialPlan,
            watch: &mut dyn FnMut(Progress<'_>),
        ) -> Result<RunResult, DriverError> {
            self.1.borrow_mut().push(self.0);
            Simulated.run(plan, watch)
        }
    }

    #[test]
    fn every_trial_runs_once_before_any_runs_again() {
        let experiment = Experiment::parse("one.toml", TEXT).unwrap();
        let trials: Vec<&Trial> = experiment.trials.iter().collect();
        let mut order = Vec::new();
        let mut watch = |turn: Turn<'_>, _: Progress<'_>| {
            let is_new = order.last().is_none_or(|(done, _)| *done != turn.done);
            if is_new {
                order.push((turn.done, turn.trial.to_owned()));
            }
        };
        let results = run_all(&experiment, &trials, &mut Simulated, &mut watch);
        assert_eq!((results.runs.len(), results.failed.len()), (6, 0));
        let names: Vec<_> = order.iter().map(|(_, trial)| trial.as_str()).collect();
        assert_eq!(names, ["c, s", "old"].repeat(4));
    }

    #[test]
    fn the_sides_of_a_comparison_take_turns() {
        let experiment = Experiment::parse("one.toml", TEXT).unwrap();
        let order = std::cell::RefCell::new(String::new());
        let (mut a, mut b) = (Noted('a', &order), Noted('b', &order));
        let trials = [&experiment.trials[0]];
        let (comparison, results) =
            compare_all(&experiment, &trials, [&mut a, &mut b], &mut |_, _| {});
        assert_eq!(*order.borrow(), "abbaabba");
        assert_eq!(results.map(|results| results.runs.len()), [3, 3]);
        assert!(!comparison.figures.is_empty() && !comparison.is_worse());
        let noise = |figure: &crate::results::FigureVerdict| figure.verdict == Verdict::WithinNoise;
        assert!(comparison.figures.iter().all(noise), "the same side twice is equal");
    }

    #[test]
    fn a_trial_that_cannot_run_does_not_stop_the_others() {
        let text = TEXT.replace("'go-bitswap'", "'http'");
        let experiment = Experiment::parse("one.toml", &text).unwrap();
        let trials: Vec<&Trial> = experiment.trials.iter().collect();
        let results = run_all(&experiment, &trials, &mut Simulated, &mut |_, _| {});
        assert_eq!((results.runs.len(), results.failed.len()), (3, 1));
        assert_eq!(results.failed[0].trial, "old");
    }
}
