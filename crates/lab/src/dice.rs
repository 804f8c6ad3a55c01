//! Chance that can be thrown again: all of it follows from one seed.

/// A stream of numbers that a seed decides (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Evenly from `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// With a mean of 1, and no memory.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Evenly from `min..=max`.
    pub(crate) fn between(&mut self, min: u64, max: u64) -> u64 {
        let choices = u128::from(max.saturating_sub(min)) + 1;
        min + ((u128::from(self.word()) * choices) >> 64) as u64
    }

    /// One of several by weight: the index; the weights' sum must not be zero.
    pub(crate) fn weighted(&mut self, weights: impl Iterator<Item = f64> + Clone) -> usize {
        let mut left = self.unit() * weights.clone().sum::<f64>();
        let mut chosen = 0;
        for (index, weight) in weights.enumerate() {
            if weight > 0.0 {
                chosen = index;
                if left < weight {
                    break;
                }
                left -= weight;
            }
        }
        chosen
    }
}

/// One number for one question: what user `a` draws for purpose `b` needs no memory.
pub(crate) fn drawn(seed: u64, a: u64, b: u64) -> u64 {
    let mut dice = Dice::new(seed ^ a.wrapping_mul(0xd6e8_feb8_6659_fd93));
    let mixed = dice.word() ^ b.wrapping_mul(0xa076_1d64_78bd_642f);
    Dice::new(mixed).word()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_throws_the_same() {
        let throw = |seed| {
            let mut dice = Dice::new(seed);
            [dice.word(), dice.word()]
        };
        assert_eq!(throw(7), throw(7));
        assert_ne!(throw(7), throw(8));
        assert_eq!(drawn(1, 2, 3), drawn(1, 2, 3));
        assert_ne!(drawn(1, 2, 3), drawn(1, 3, 2));
    }

    #[test]
    fn weights_decide_how_often_and_zero_means_never() {
        let mut dice = Dice::new(1);
        let mut thrown = [0_u32; 3];
        for _ in 0..10_000 {
            thrown[dice.weighted([1.0, 0.0, 3.0].into_iter())] += 1;
        }
        assert_eq!(thrown[1], 0);
        assert!((2300..2700).contains(&thrown[0]), "{thrown:?}");
    }

    #[test]
    fn draws_stay_within_their_bounds() {
        let mut dice = Dice::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| dice.between(3, 5)).collect();
        assert!(
            drawn.iter().all(|n| (3..=5).contains(n)) && drawn.contains(&3) && drawn.contains(&5)
        );
        let mean = (0..10_000).map(|_| dice.exponential()).sum::<f64>() / 10_000.0;
        assert!((0.95..1.05).contains(&mean), "{mean}");
        dice.between(0, u64::MAX);
    }
}
