//! The benchmarks of `make bench-swarm`, and the systems of each.

use std::fmt;

use clap::ValueEnum;

use super::case::Case;
use super::system::System;
use super::uplinks::Uplinks;

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Benchmark {
    /// From one to one: Watchfire and kubo in every combination.
    Pair,
    /// From one to 8 and to 32, as fast as the machine can.
    Crowd,
    /// From one to 8 over slow uplinks.
    Uplinks,
}

impl Benchmark {
    pub const ALL: [Benchmark; 3] = [Benchmark::Pair, Benchmark::Crowd, Benchmark::Uplinks];

    pub fn title(self) -> &'static str {
        match self {
            Benchmark::Pair => "A file from one to one, and kubo on either side",
            Benchmark::Crowd => "A file from one to many, as fast as the machine can",
            Benchmark::Uplinks => "A file from one to many over slow uplinks",
        }
    }

    pub fn systems(self) -> &'static [System] {
        use System::*;
        match self {
            Benchmark::Pair => {
                &[KuboStar, WatchfireFromKubo, KuboFromWatchfire, WatchfireStar, Http]
            }
            Benchmark::Crowd => &[
                WatchfireMesh,
                KuboStarLarge,
                WatchfireStar,
                KuboMeshLarge,
                Http,
                KuboStar,
                Disk,
                KuboMesh,
            ],
            Benchmark::Uplinks => &[WatchfireMesh, KuboMesh, WatchfireFew, Http],
        }
    }

    /// The systems that have a line in the picture. Of a crowd, kubo is drawn with the blocks with
    /// which it is faster.
    pub fn drawn(self) -> impl Iterator<Item = System> {
        let hidden: &[System] = match self {
            Benchmark::Crowd => &[System::KuboMesh, System::KuboStar, System::Disk],
            Benchmark::Pair | Benchmark::Uplinks => &[],
        };
        self.systems().iter().copied().filter(|system| !hidden.contains(system))
    }

    /// Its share of the time limit.
    pub fn share_of_time(self) -> f64 {
        match self {
            Benchmark::Pair => 0.08,
            Benchmark::Crowd => 0.66,
            Benchmark::Uplinks => 0.26,
        }
    }

    /// The cases of one round: all systems in turns, for each number of leechers, ascending.
    pub fn cases(self, crowds: &[usize], uplinks: Uplinks, only: &[System]) -> Vec<Case> {
        let crowds: &[usize] = match self {
            Benchmark::Pair => &[1],
            Benchmark::Crowd => crowds,
            Benchmark::Uplinks => &crowds[..crowds.len().min(1)],
        };
        let uplinks = (self == Benchmark::Uplinks).then_some(uplinks);
        let mut cases = Vec::new();
        for leechers in crowds.iter().copied() {
            let systems = self.systems().iter().copied();
            let systems = systems.filter(|one| only.is_empty() || only.contains(one));
            cases.extend(systems.map(|system| Case { system, leechers, uplinks }));
        }
        cases
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().expect("no benchmark is hidden").get_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPLINKS: Uplinks = Uplinks { seeder_mbit: 1.0, leecher_mbit: 1.0 };

    #[test]
    fn uplinks_runs_with_the_first_number_of_leechers() {
        let cases = Benchmark::Uplinks.cases(&[8, 32], UPLINKS, &[]);
        assert!(cases.iter().all(|case| case.leechers == 8 && case.uplinks.is_some()));
        let cases = Benchmark::Crowd.cases(&[8, 32], UPLINKS, &[]);
        assert!(cases.iter().all(|case| case.uplinks.is_none()));
        assert_eq!(cases.len(), 2 * Benchmark::Crowd.systems().len());
    }

    #[test]
    fn systems_can_be_selected() {
        let cases = Benchmark::Crowd.cases(&[8, 32], UPLINKS, &[System::Http]);
        let leechers: Vec<usize> = cases.iter().map(|case| case.leechers).collect();
        assert_eq!(leechers, [8, 32]);
    }

    #[test]
    fn the_shares_of_the_time_limit_add_up_to_one() {
        let sum: f64 = Benchmark::ALL.iter().map(|benchmark| benchmark.share_of_time()).sum();
        assert!((sum - 1.0).abs() < 1e-9);
    }
}
