//! Unsigned variable-length integers, by the crate `unsigned-varint`: seven bits per byte, least
//! significant first.
//!
//! Only the shortest encoding of a number is accepted, so a decoded number encodes to the same
//! bytes again.
//!
//! ```
//! use watchfire_content::varint;
//!
//! let mut bytes = Vec::new();
//! varint::encode(300, &mut bytes);
//! assert_eq!(bytes, [0xac, 0x02]);
//! assert_eq!(varint::decode(&bytes), Ok((300, 2)));
//! assert!(varint::decode(&[0x80, 0x00]).is_err(), "zero in two bytes");
//! ```

use unsigned_varint::decode::Error;

/// The longest encoding of a number, in bytes.
pub const VARINT_BYTES_MAX: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VarintError {
    #[error("a varint is truncated")]
    Truncated,
    #[error("a varint is not in its shortest form")]
    NotShortest,
    /// The number has more than 64 bits, or more than its field allows.
    #[error("a varint is too large")]
    TooLarge,
}

/// Appends `value` to `bytes`.
pub fn encode(value: u64, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(unsigned_varint::encode::u64(value, &mut [0; VARINT_BYTES_MAX]));
}

/// Returns the length of the encoding of `value`.
pub const fn encoded_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Decodes the number at the start of `bytes`. Returns it with its encoded length.
pub fn decode(bytes: &[u8]) -> Result<(u64, usize), VarintError> {
    let (value, rest) = unsigned_varint::decode::u64(bytes).map_err(|error| match error {
        Error::Insufficient => VarintError::Truncated,
        Error::NotMinimal => VarintError::NotShortest,
        _ => VarintError::TooLarge,
    })?;
    let len = bytes.len() - rest.len();
    // The crate drops the bits of a tenth byte after the 64th bit.
    if len == VARINT_BYTES_MAX && bytes[len - 1] > 1 {
        return Err(VarintError::TooLarge);
    }
    Ok((value, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_number_has_the_declared_length_and_is_decoded_again() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                encode(value, &mut bytes);
                assert_eq!(bytes.len(), encoded_len(value), "{value}");
                bytes.push(0xff);
                assert_eq!(decode(&bytes), Ok((value, bytes.len() - 1)));
            }
        }
    }

    #[test]
    fn a_number_has_only_one_encoding() {
        assert_eq!(decode(&[0x80, 0x00]), Err(VarintError::NotShortest));
        assert_eq!(decode(&[0xac, 0x82, 0x00]), Err(VarintError::NotShortest));
    }

    #[test]
    fn truncated_and_endless_numbers_are_rejected() {
        assert_eq!(decode(&[]), Err(VarintError::Truncated));
        assert_eq!(decode(&[0x80]), Err(VarintError::Truncated));
        assert_eq!(decode(&[0xff; 40]), Err(VarintError::TooLarge));
        let mut past_the_last_bit = [0x80; 10];
        past_the_last_bit[9] = 2;
        assert_eq!(decode(&past_the_last_bit), Err(VarintError::TooLarge));
    }
}
