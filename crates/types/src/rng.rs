use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// Keeps the streams of different purposes apart.
const PURPOSE_FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

/// A generator of pseudo-random numbers: the same seed gives the same numbers, on every machine.
///
/// The algorithm is SplitMix64, as in the web client. It is fast and has 8 bytes of
/// state. It is not for secrets: one output reveals all others.
///
/// ```
/// let mut rng = watchfire_types::Rng::from_seed(7);
/// let same = rng.clone().next_u64();
/// assert_eq!(rng.next_u64(), same);
/// assert!(rng.below(6) < 6);
/// ```
#[derive(Clone, Debug)]
pub struct Rng(SplitMix64);

impl Rng {
    /// A generator that derives all its numbers from `seed`.
    pub fn from_seed(seed: u64) -> Self {
        Rng(SplitMix64::seed_from_u64(seed))
    }

    /// A generator for one purpose. Its numbers do not depend on those drawn for other purposes.
    pub fn for_purpose(seed: u64, purpose: u64) -> Self {
        let mut rng = Rng::from_seed(seed ^ purpose.wrapping_mul(PURPOSE_FACTOR));
        Rng::from_seed(rng.next_u64())
    }

    /// A number of 64 uniformly distributed bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 (included) to 1 (excluded).
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number below `end`, by multiplication.
    ///
    /// # Panics
    ///
    /// When `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is no number below 0");
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// A position in a list of `len` entries, by remainder; 0 when the list is empty.
    ///
    /// It differs from [`Rng::below`] because published simulation results depend on both.
    pub fn index(&mut self, len: usize) -> usize {
        if len == 0 { 0 } else { (self.next_u64() % len as u64) as usize }
    }

    /// A number from `min` to `max` (included); `min` when `max` is less.
    pub fn between(&mut self, min: u64, max: u64) -> u64 {
        let choices = u128::from(max.saturating_sub(min)) + 1;
        min + ((u128::from(self.next_u64()) * choices) >> 64) as u64
    }

    /// True with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// True once in `times` calls on average; always when `times` is 0 or 1.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.index(times) == 0
    }

    /// Shuffles `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_equal_those_of_the_reference_implementation() {
        let mut rng = Rng::from_seed(1_477_776_061_723_855_037);
        let drawn = [rng.next_u64(), rng.next_u64()];
        assert_eq!(drawn, [1_985_237_415_132_408_290, 2_979_275_885_539_914_483]);
    }

    #[test]
    fn each_seed_and_each_purpose_has_its_own_numbers() {
        let draw = |mut rng: Rng| [rng.next_u64(), rng.next_u64()];
        assert_eq!(draw(Rng::from_seed(7)), draw(Rng::from_seed(7)));
        assert_ne!(draw(Rng::from_seed(7)), draw(Rng::from_seed(8)));
        assert_ne!(draw(Rng::for_purpose(7, 1)), draw(Rng::for_purpose(7, 2)));
    }

    #[test]
    fn every_number_within_the_bounds_is_drawn_and_no_other() {
        let mut rng = Rng::from_seed(1);
        for _ in 0..3 {
            let below: Vec<u64> = (0..1000).map(|_| rng.below(3)).collect();
            let index: Vec<u64> = (0..1000).map(|_| rng.index(3) as u64).collect();
            let between: Vec<u64> = (0..1000).map(|_| rng.between(7, 9) - 7).collect();
            for drawn in [below, index, between] {
                assert!((0..3).all(|n| drawn.contains(&n)) && drawn.iter().all(|n| *n < 3));
            }
        }
        assert_eq!(rng.index(0), 0);
        rng.between(0, u64::MAX);
        let mean = (0..10_000).map(|_| rng.fraction()).sum::<f64>() / 10_000.0;
        assert!((0.48..0.52).contains(&mean), "{mean}");
    }

    #[test]
    fn shuffling_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Rng::from_seed(3).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
