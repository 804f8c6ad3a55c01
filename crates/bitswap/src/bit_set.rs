/// A set of small numbers, one bit each.
///
/// A peer's presences for a thousand wants take 300 bytes.
#[derive(Clone, Debug, Default)]
pub struct BitSet {
    words: Vec<u64>,
    len: usize,
}

impl BitSet {
    /// Whether a number is in the set.
    pub fn has(&self, at: u32) -> bool {
        self.words.get(at as usize / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Adds a number. Returns whether it was not in the set.
    pub fn insert(&mut self, at: u32) -> bool {
        let word = at as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let bit = 1 << (at % 64);
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.len += usize::from(is_new);
        is_new
    }

    /// Removes a number. Returns whether it was in the set.
    pub fn remove(&mut self, at: u32) -> bool {
        let Some(word) = self.words.get_mut(at as usize / 64) else { return false };
        let bit = 1 << (at % 64);
        let was_in = *word & bit != 0;
        *word &= !bit;
        self.len -= usize::from(was_in);
        was_in
    }

    pub const fn len(&self) -> usize {
        self.len
    }

    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bits of 64 numbers, from 64 times `at`.
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.words.get(at).copied().unwrap_or(0)
    }

    pub(crate) const fn words(&self) -> usize {
        self.words.len()
    }

    /// Whether a number of another set is in this one.
    pub(crate) fn has_any(&self, of: &BitSet) -> bool {
        (0..of.words().min(self.words())).any(|at| of.word(at) & self.word(at) != 0)
    }

    /// Whether all numbers of another set are in this one.
    pub(crate) fn has_all(&self, of: &BitSet) -> bool {
        (0..of.words()).all(|at| of.word(at) & !self.word(at) == 0)
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> {
        ones(self.words(), |at| self.word(at))
    }
}

impl FromIterator<u32> for BitSet {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut bits = BitSet::default();
        for at in numbers {
            bits.insert(at);
        }
        bits
    }
}

/// The numbers of a set that is computed word by word, in order.
pub(crate) fn ones(words: usize, word: impl Fn(usize) -> u64) -> impl Iterator<Item = u32> {
    (0..words).flat_map(move |at| {
        let mut rest = word(at);
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(at as u32 * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_the_numbers_that_were_inserted_and_not_removed() {
        let mut bits = BitSet::default();
        assert!(bits.insert(3) && bits.insert(64) && bits.insert(200) && !bits.insert(64));
        assert!(bits.remove(3) && !bits.remove(3) && !bits.remove(9999));
        assert_eq!(bits.iter().collect::<Vec<_>>(), [64, 200]);
        assert_eq!(bits.len(), 2);
        let more = BitSet::from_iter([200, 64, 5]);
        assert!(more.has_all(&bits) && !bits.has_all(&more) && bits.has_all(&BitSet::default()));
        assert!(more.has_any(&bits) && !bits.has_any(&BitSet::from_iter([5])));
        assert!(bits.has(200) && !bits.has(3) && !bits.has(100_000));
    }
}
