//! The figures of a case over several rounds.

use super::case::{Case, Outcome};
use crate::report::median;

/// Medians over rounds; memory is the maximum.
#[derive(Clone, Debug)]
pub struct Figures {
    pub case: Case,
    pub rounds: usize,
    /// Seconds until the first, half, and all of the leechers had the file.
    pub first: f64,
    pub half: f64,
    pub last: f64,
    /// CPU-seconds of all processes.
    pub cpu: f64,
    pub seeder_cpu: f64,
    /// Copies of the file that the seeder sent.
    pub copies: f64,
    /// Duplicate bytes as a share of useful bytes.
    pub duplicates: f64,
    pub seeder_peak: f64,
    pub leecher_peak: f64,
    /// The load average of the machine before a round.
    pub load_before: f64,
    /// Seconds until each leecher had the file, in the round with the median end.
    pub finishes: Vec<f64>,
}

impl Figures {
    /// `None` if there is no round.
    pub fn of(case: Case, file_bytes: u64, rounds: &[Outcome]) -> Option<Self> {
        let of = |value: &dyn Fn(&Outcome) -> f64| median(rounds.iter().map(value).collect());
        let most = |value: &dyn Fn(&Outcome) -> u64| rounds.iter().map(value).max();
        let file = file_bytes as f64;
        let at = |outcome: &Outcome, index: usize| outcome.finishes.get(index).copied();
        let half = (case.leechers - 1) / 2;
        let mut by_end: Vec<&Outcome> = rounds.iter().collect();
        by_end.sort_by(|one, other| one.last().total_cmp(&other.last()));
        let typical = by_end.get(by_end.len().saturating_sub(1) / 2)?;
        Some(Figures {
            case,
            rounds: rounds.len(),
            first: of(&|outcome| at(outcome, 0).unwrap_or(f64::NAN)),
            half: of(&|outcome| at(outcome, half).unwrap_or(f64::NAN)),
            last: of(&Outcome::last),
            cpu: of(&Outcome::cpu),
            seeder_cpu: of(&|outcome| outcome.seeder_cpu),
            copies: of(&|outcome| outcome.seeder_sent as f64 / file),
            duplicates: of(&|outcome| {
                outcome.duplicate_bytes as f64 / (file * case.leechers as f64)
            }),
            seeder_peak: most(&|outcome| outcome.seeder_peak)? as f64,
            leecher_peak: most(&|outcome| outcome.leecher_peak)? as f64,
            load_before: of(&|outcome| outcome.load_before),
            finishes: typical.finishes.clone(),
        })
    }

    pub fn cpu_each(&self) -> f64 {
        self.cpu / self.case.leechers as f64
    }

    /// The number of finished leechers over time, as a step function.
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let mut points = vec![(0.0, 0.0)];
        for (index, at) in self.finishes.iter().enumerate() {
            points.extend([(*at, index as f64), (*at, index as f64 + 1.0)]);
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::system::System;

    fn outcome(finishes: &[f64], seeder_sent: u64, peak: u64) -> Outcome {
        Outcome {
            finishes: finishes.to_vec(),
            seeder_cpu: 1.0,
            leechers_cpu: 3.0,
            kernel_cpu: 0.5,
            seeder_sent,
            seeder_sent_on_wire: None,
            duplicate_bytes: 20,
            seeder_peak: peak,
            leecher_peak: peak,
            load_before: 0.5,
        }
    }

    #[test]
    fn figures_are_medians_and_memory_is_the_maximum() {
        let case = Case { system: System::WatchfireMesh, leechers: 2, uplinks: None };
        let rounds = [
            outcome(&[1.0, 5.0], 150, 10),
            outcome(&[2.0, 9.0], 170, 30),
            outcome(&[3.0, 4.0], 110, 20),
        ];
        let figures = Figures::of(case, 100, &rounds).unwrap();
        let medians = [figures.first, figures.half, figures.last, figures.cpu_each()];
        assert_eq!(medians, [2.0, 2.0, 5.0, 2.25]);
        assert_eq!([figures.copies, figures.duplicates, figures.leecher_peak], [1.5, 0.1, 30.0]);
        let steps = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (5.0, 1.0), (5.0, 2.0)];
        assert_eq!(figures.curve(), steps);
        assert!(Figures::of(case, 100, &[]).is_none());
    }
}
