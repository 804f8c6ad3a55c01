use watchfire_content::varint::{self, VarintError};

/// Most leaves of one list. Nodes with more links are exchanged with Bitswap. With sha2-256 links
/// there are none: such a node would be too long for a block.
pub const LEAVES_MAX: u32 = 1 << 16;

/// Why bytes are not valid runs of leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangesError {
    #[error(transparent)]
    Varint(#[from] VarintError),
    /// Runs are empty, or adjacent.
    #[error("cannot read runs of leaves: they are not in their shortest form")]
    Invalid,
    #[error("cannot read runs of leaves: they exceed the longest list")]
    TooManyLeaves,
}

/// A set of leaf indexes, stored as runs. The leaves that a peer has mostly form a few runs.
///
/// ```
/// use watchfire_bitswap::leaves::Ranges;
///
/// let ranges: Ranges = [7, 3, 4, 5].into_iter().collect();
/// assert_eq!(ranges.iter().collect::<Vec<_>>(), [3, 4, 5, 7]);
/// assert_eq!((ranges.len(), ranges.end()), (4, 8));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// The start and length of each run. There is a gap between any two.
    runs: Vec<(u32, u32)>,
}

impl Ranges {
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.runs.iter().flat_map(|&(start, len)| start..start + len)
    }

    pub fn len(&self) -> usize {
        self.runs.iter().map(|&(_, len)| len as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// One more than the largest number; 0 for an empty set.
    pub fn end(&self) -> u32 {
        self.runs.last().map_or(0, |&(start, len)| start + len)
    }

    /// Appends for each run the gap before it and its length.
    pub(super) fn encode_into(&self, bytes: &mut Vec<u8>) {
        for (gap, len) in self.gaps() {
            varint::encode(gap.into(), bytes);
            varint::encode(len.into(), bytes);
        }
    }

    /// Bytes that [`Ranges::encode_into`] appends.
    pub(super) fn encoded_len(&self) -> usize {
        let number = |number: u32| varint::encoded_len(number.into());
        self.gaps().map(|(gap, len)| number(gap) + number(len)).sum()
    }

    fn gaps(&self) -> impl Iterator<Item = (u32, u32)> {
        let mut end = 0;
        self.runs.iter().map(move |&(start, len)| {
            let gap = start - end;
            end = start + len;
            (gap, len)
        })
    }

    /// Reads the runs that fill `bytes`.
    pub(super) fn decode(mut bytes: &[u8]) -> Result<Self, RangesError> {
        let mut runs = Vec::new();
        let mut end = 0_u32;
        while !bytes.is_empty() {
            let (gap, read) = varint::decode(bytes)?;
            bytes = &bytes[read..];
            let (len, read) = varint::decode(bytes)?;
            bytes = &bytes[read..];
            if len == 0 || (gap == 0 && !runs.is_empty()) {
                return Err(RangesError::Invalid);
            }
            let stop = u64::from(end).saturating_add(gap).saturating_add(len);
            let stop = u32::try_from(stop).ok().filter(|stop| *stop <= LEAVES_MAX);
            let stop = stop.ok_or(RangesError::TooManyLeaves)?;
            // Both are at most `stop`, which fits.
            runs.push((end + gap as u32, len as u32));
            end = stop;
        }
        Ok(Ranges { runs })
    }
}

impl FromIterator<u32> for Ranges {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut numbers: Vec<u32> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for number in numbers {
            match runs.last_mut() {
                Some((start, len)) if *start + *len == number => *len += 1,
                _ => runs.push((number, 1)),
            }
        }
        Ranges { runs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchfire_types::Rng;

    #[test]
    fn any_set_survives_encoding_in_the_computed_length() {
        let mut rng = Rng::from_seed(1);
        for round in 0..2000 {
            let (count, end) = (rng.index(200), 1 + rng.index(1 << (round % 17)));
            let mut numbers: Vec<u32> = (0..count).map(|_| rng.index(end) as u32).collect();
            let ranges: Ranges = numbers.iter().copied().collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(ranges.iter().collect::<Vec<_>>(), numbers);
            assert_eq!(ranges.len(), numbers.len());
            let mut bytes = Vec::new();
            ranges.encode_into(&mut bytes);
            assert_eq!(bytes.len(), ranges.encoded_len());
            assert_eq!(Ranges::decode(&bytes), Ok(ranges));
        }
    }

    #[test]
    fn a_complete_list_takes_four_bytes() {
        let all: Ranges = (0..LEAVES_MAX).collect();
        assert_eq!(all.encoded_len(), 4);
        assert_eq!(all.end(), LEAVES_MAX);
    }

    #[test]
    fn runs_that_are_empty_or_adjacent_or_too_long_are_rejected() {
        let decode = |numbers: &[u64]| {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| varint::encode(*number, &mut bytes));
            Ranges::decode(&bytes)
        };
        assert_eq!(decode(&[3, 0]), Err(RangesError::Invalid));
        assert_eq!(decode(&[3, 1, 0, 1]), Err(RangesError::Invalid));
        assert_eq!(decode(&[0, u64::from(LEAVES_MAX) + 1]), Err(RangesError::TooManyLeaves));
        assert_eq!(decode(&[u64::MAX, u64::MAX]), Err(RangesError::TooManyLeaves));
        assert_eq!(decode(&[1 << 31, 1 << 31]), Err(RangesError::TooManyLeaves));
        assert!(matches!(decode(&[3]), Err(RangesError::Varint(_))));
    }
}
