//! Chance that can be thrown again: all of it follows from one seed.

/// A stream of numbers that a seed decides (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// Dice for one purpose, which fall the same whatever was thrown for others.
    pub(crate) const fn of(seed: u64, purpose: u64) -> Dice {
        let mut dice = Dice(seed ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Dice(dice.word())
    }

    pub(crate) const fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Evenly from `[0, 1)`.
    pub(crate) const fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Evenly from below `end`, which must not be 0.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is something to choose");
        ((self.word() as u128 * end as u128) >> 64) as u64
    }

    /// Whether something of this probability happens.
    pub(crate) const fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Puts things into any order.
    pub(crate) fn shuffle<T>(&mut self, things: &mut [T]) {
        for at in (1..things.len()).rev() {
            things.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_throws_the_same_and_purposes_do_not_touch() {
        let throw = |mut dice: Dice| [dice.word(), dice.word()];
        assert_eq!(throw(Dice::new(7)), throw(Dice::new(7)));
        assert_ne!(throw(Dice::new(7)), throw(Dice::new(8)));
        assert_ne!(throw(Dice::of(7, 1)), throw(Dice::of(7, 2)));
    }

    #[test]
    fn draws_stay_within_their_bounds_and_reach_them() {
        let mut dice = Dice::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| dice.below(3)).collect();
        assert!(drawn.iter().all(|n| *n < 3) && drawn.contains(&0) && drawn.contains(&2));
        let mean = (0..10_000).map(|_| dice.unit()).sum::<f64>() / 10_000.0;
        assert!((0.48..0.52).contains(&mean), "{mean}");
    }

    #[test]
    fn shuffling_keeps_everything() {
        let mut things: Vec<u32> = (0..100).collect();
        Dice::new(3).shuffle(&mut things);
        assert_ne!(things, (0..100).collect::<Vec<_>>());
        things.sort_unstable();
        assert_eq!(things, (0..100).collect::<Vec<_>>());
    }
}
