/// `SplitMix64`: small, fast and even; not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// A number below `n`; the bias for an `n` of 32 bits is less than one in four billion.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((u128::from(mix(self.0)) * n as u128) >> 64) as usize
    }
}

/// Spread all bits of a number over all bits.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_comes_up_about_as_often() {
        let mut dice = Dice::new(7);
        let mut sides = [0; 6];
        (0..60_000).for_each(|_| sides[dice.below(6)] += 1);
        assert!(sides.iter().all(|times| (9_500..10_500).contains(times)), "{sides:?}");
    }
}
