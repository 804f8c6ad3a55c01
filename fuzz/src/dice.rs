/// Dice that fall the same way for the same seed (SplitMix64).
pub(crate) struct Dice(u64);

impl Dice {
    /// The dice of one throw of a campaign: each can be repeated without those before it.
    pub fn new(seed: u64, throw: u64) -> Self {
        let mut dice = Dice(seed);
        Dice(dice.next().wrapping_add(throw.wrapping_mul(0xd1b5_4a32_d192_ed03)))
    }

    /// Any number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 when that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.next() % end as u64) as usize }
    }

    /// Yes, once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of several.
    pub fn one_of<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }
}
