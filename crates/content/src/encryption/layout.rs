use super::{IndexError, PrivateError};

/// The length of the header: magic, record length, zeros, and a commitment to the key.
pub const HEADER_BYTES: usize = 64;
/// The length of a record: one leaf of the default profile.
pub const RECORD_BYTES: u32 = 1 << 20;
/// The smallest supported record length.
pub const RECORD_BYTES_MIN: u32 = 1 << 12;
/// The bytes of the authentication tag of a record.
pub const TAG_BYTES: u64 = 16;
/// The longest content in bytes, within the range of JavaScript numbers and record numbers.
pub const CONTENT_BYTES_MAX: u64 = 1 << 50;

/// Shorter content is padded to this length, because the size of a short text reveals much.
const CONTENT_BYTES_MIN: u64 = 4096;

/// How the content is divided into records.
///
/// The content is the index, the files, and zeros up to a [`padded`] length. A record has
/// `record_bytes` bytes of ciphertext, the last one perhaps fewer. The first record includes the
/// header, so its content is shorter. So record n begins at byte n × `record_bytes` of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    record_bytes: u32,
    content_bytes: u64,
}

/// Returns the length that content of `bytes` is padded to, by the Padmé scheme. It reveals only
/// the order of magnitude and a few more bits. The overhead is at most 12 %, and 3 % from 1 MB on.
pub const fn padded(bytes: u64) -> u64 {
    if bytes <= CONTENT_BYTES_MIN {
        return CONTENT_BYTES_MIN;
    }
    let exponent = bytes.ilog2();
    let kept_bits = exponent.ilog2() + 1;
    let mask = (1_u64 << (exponent - kept_bits)) - 1;
    (bytes + mask) & !mask
}

impl Layout {
    /// Creates the layout of content of `bytes` before padding, with the default record length.
    pub fn for_content(bytes: u64) -> Result<Self, PrivateError> {
        Layout::with_record_bytes(bytes, RECORD_BYTES)
    }

    /// Creates the layout of content of `bytes` before padding. `record_bytes` must be a power of
    /// two from 4 KiB to 1 MiB.
    pub fn with_record_bytes(bytes: u64, record_bytes: u32) -> Result<Self, PrivateError> {
        assert!(is_record_bytes(record_bytes), "records of {record_bytes} bytes");
        let max = CONTENT_BYTES_MAX;
        if bytes > max {
            return Err(PrivateError::TooLarge { max });
        }
        let layout = Layout { record_bytes, content_bytes: padded(bytes) };
        if layout.records() > 1 << 32 {
            return Err(PrivateError::TooLarge { max });
        }
        Ok(layout)
    }

    /// Creates the layout of a page of `sealed_bytes`.
    pub(crate) fn from_sealed_bytes(
        sealed_bytes: u64,
        record_bytes: u32,
    ) -> Result<Self, PrivateError> {
        let wrong = PrivateError::Length { sealed_bytes };
        let records = sealed_bytes.div_ceil(record_bytes.into());
        let overhead = HEADER_BYTES as u64 + records.saturating_mul(TAG_BYTES);
        let Some(content_bytes) = sealed_bytes.checked_sub(overhead) else { return Err(wrong) };
        let layout = Layout { record_bytes, content_bytes };
        // A page of another length is truncated.
        let is_content = content_bytes <= padded(CONTENT_BYTES_MAX)
            && padded(content_bytes) == content_bytes
            && layout.records() == records
            && records <= 1 << 32;
        if is_content { Ok(layout) } else { Err(wrong) }
    }

    /// Returns the length of the content with padding.
    pub const fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Returns the length of a full record, including the header of the first one.
    pub const fn record_bytes(&self) -> u32 {
        self.record_bytes
    }

    /// Returns the number of records, at least one.
    pub const fn records(&self) -> u64 {
        let (first, other) = (self.first_bytes(), self.other_bytes());
        1 + self.content_bytes.saturating_sub(first).div_ceil(other)
    }

    /// Returns the length of the page: header, content and tags.
    pub const fn sealed_bytes(&self) -> u64 {
        self.content_bytes + HEADER_BYTES as u64 + self.records() * TAG_BYTES
    }

    pub const fn content_range(&self, record: u64) -> (u64, u64) {
        let (first, other) = (self.first_bytes(), self.other_bytes());
        let from = if record == 0 { 0 } else { first + (record - 1) * other };
        let to = first + record * other;
        (from, if to < self.content_bytes { to } else { self.content_bytes })
    }

    /// Returns the number of the record that contains this byte of the content.
    pub const fn record_index_at(&self, offset: u64) -> u64 {
        let first = self.first_bytes();
        if offset < first { 0 } else { 1 + (offset - first) / self.other_bytes() }
    }

    /// Returns the range of the ciphertext of a record in the page, with the tag but without the
    /// header.
    pub const fn sealed_range(&self, record: u64) -> (u64, u64) {
        let size = self.record_bytes as u64;
        let (from, to) = (record * size, (record + 1) * size);
        let whole = self.sealed_bytes();
        (if record == 0 { HEADER_BYTES as u64 } else { from }, if to < whole { to } else { whole })
    }

    const fn first_bytes(&self) -> u64 {
        self.other_bytes() - HEADER_BYTES as u64
    }

    const fn other_bytes(&self) -> u64 {
        self.record_bytes as u64 - TAG_BYTES
    }
}

pub(crate) const fn is_record_bytes(bytes: u32) -> bool {
    bytes.is_power_of_two() && bytes >= RECORD_BYTES_MIN && bytes <= RECORD_BYTES
}

/// Returns the sum of the sizes. Fails if it exceeds the limit.
pub(crate) fn sum_of(sizes: impl IntoIterator<Item = u64>) -> Result<u64, IndexError> {
    let max = CONTENT_BYTES_MAX;
    sizes.into_iter().try_fold(0_u64, |sum, bytes| {
        let sum = sum.checked_add(bytes).filter(|sum| *sum <= max);
        sum.ok_or_else(|| IndexError::InvalidSize { path: String::new(), bytes })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_keeps_the_first_bits_of_a_length() {
        assert_eq!((padded(0), padded(4096)), (4096, 4096));
        // 2^12 keeps four bits below the first: steps of 256.
        assert_eq!((padded(4097), padded(4352), padded(4353)), (4352, 4352, 4608));
        assert_eq!(padded(1_000_000), 1_015_808);
        assert_eq!(padded(9), 4096);
        for bytes in [5000, 1 << 20, 123_456_789, 1 << 40, (1 << 50) - 1] {
            let with = padded(bytes);
            assert!(with >= bytes && with - bytes <= bytes * 12 / 100, "{bytes} to {with}");
            assert_eq!(padded(with), with, "a padded length is not padded again");
        }
    }

    #[test]
    fn records_cover_the_content_without_gaps() {
        for bytes in [1, 4096, 5000, 70_000, 1_000_000] {
            let layout = Layout::with_record_bytes(bytes, 4096).unwrap();
            let mut at = 0;
            for record in 0..layout.records() {
                let (from, to) = layout.content_range(record);
                let (sealed_from, sealed_to) = layout.sealed_range(record);
                assert_eq!((from, to - from), (at, sealed_to - sealed_from - TAG_BYTES));
                assert!(from < to, "no record is empty");
                assert_eq!(
                    (layout.record_index_at(from), layout.record_index_at(to - 1)),
                    (record, record)
                );
                at = to;
            }
            assert_eq!(at, layout.content_bytes());
            assert_eq!(Layout::from_sealed_bytes(layout.sealed_bytes(), 4096), Ok(layout));
        }
    }

    #[test]
    fn the_first_record_ends_at_the_end_of_a_leaf() {
        let layout = Layout::for_content(3_000_000).unwrap();
        assert_eq!(layout.sealed_range(0), (64, 1 << 20));
        assert_eq!(layout.sealed_range(1), (1 << 20, 2 << 20));
        assert_eq!(layout.content_range(0), (0, (1 << 20) - 80));
    }

    #[test]
    fn impossible_lengths_are_rejected() {
        let whole = Layout::with_record_bytes(70_000, 4096).unwrap().sealed_bytes();
        for wrong in [0, 63, 64, 80, 4000, whole - 1, whole + 1, whole - 4096, u64::MAX] {
            let error = PrivateError::Length { sealed_bytes: wrong };
            assert_eq!(Layout::from_sealed_bytes(wrong, 4096), Err(error));
        }
        assert!(Layout::for_content(CONTENT_BYTES_MAX + 1).is_err());
    }
}
