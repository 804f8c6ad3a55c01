//! What is compared with what.

use std::fmt;

use clap::ValueEnum;

use super::case::Case;
use super::contender::Contender;
use super::uplinks::Uplinks;

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Story {
    /// From one to one, ours and kubo in every pairing.
    Pair,
    /// From one to 8 and to 32, as fast as the machine can.
    Crowd,
    /// From one to 8 when uplinks are what is scarce.
    Uplinks,
}

impl Story {
    pub const ALL: [Story; 3] = [Story::Pair, Story::Crowd, Story::Uplinks];

    pub fn title(self) -> &'static str {
        match self {
            Story::Pair => "A file from one to one, and kubo on either side",
            Story::Crowd => "A file from one to many, as fast as the machine can",
            Story::Uplinks => "A file from one to many over slow uplinks",
        }
    }

    pub fn contenders(self) -> &'static [Contender] {
        use Contender::*;
        match self {
            Story::Pair => &[KuboStar, WatchfireFromKubo, KuboFromWatchfire, WatchfireStar, Http],
            Story::Crowd => {
                &[WatchfireMesh, KuboStar, WatchfireStar, KuboMesh, Http, KuboStarLarge, Disk]
            }
            Story::Uplinks => &[WatchfireMesh, KuboMesh, WatchfireFew, Http],
        }
    }

    /// The contenders that have a line in the picture.
    pub fn drawn(self) -> impl Iterator<Item = Contender> {
        let is_drawn = |contender: &Contender| {
            !matches!(contender, Contender::KuboStarLarge | Contender::Disk)
        };
        self.contenders().iter().copied().filter(is_drawn)
    }

    /// Part of the whole time that is its.
    pub fn share_of_time(self) -> f64 {
        match self {
            Story::Pair => 0.08,
            Story::Crowd => 0.66,
            Story::Uplinks => 0.26,
        }
    }

    /// One round: contenders take turns, and smaller crowds come first.
    pub fn cases(self, crowds: &[usize], uplinks: Uplinks, only: &[Contender]) -> Vec<Case> {
        let crowds: &[usize] = match self {
            Story::Pair => &[1],
            Story::Crowd => crowds,
            Story::Uplinks => &crowds[..crowds.len().min(1)],
        };
        let uplinks = (self == Story::Uplinks).then_some(uplinks);
        let mut cases = Vec::new();
        for leechers in crowds.iter().copied() {
            let told = self.contenders().iter().copied();
            let told = told.filter(|one| only.is_empty() || only.contains(one));
            cases.extend(told.map(|contender| Case { contender, leechers, uplinks }));
        }
        cases
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().expect("no story is hidden").get_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPLINKS: Uplinks = Uplinks { seeder_mbit: 1.0, leecher_mbit: 1.0 };

    #[test]
    fn slow_uplinks_are_shown_with_the_smallest_crowd() {
        let cases = Story::Uplinks.cases(&[8, 32], UPLINKS, &[]);
        assert!(cases.iter().all(|case| case.leechers == 8 && case.uplinks.is_some()));
        let cases = Story::Crowd.cases(&[8, 32], UPLINKS, &[]);
        assert!(cases.iter().all(|case| case.uplinks.is_none()));
        assert_eq!(cases.len(), 2 * Story::Crowd.contenders().len());
    }

    #[test]
    fn contenders_can_be_chosen() {
        let cases = Story::Crowd.cases(&[8, 32], UPLINKS, &[Contender::Http]);
        let told: Vec<usize> = cases.iter().map(|case| case.leechers).collect();
        assert_eq!(told, [8, 32]);
    }

    #[test]
    fn the_stories_share_all_of_the_time() {
        let sum: f64 = Story::ALL.iter().map(|story| story.share_of_time()).sum();
        assert!((sum - 1.0).abs() < 1e-9);
    }
}
