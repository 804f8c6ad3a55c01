//! The text encodings of CIDs, by the crate `multibase`. They are written in base58btc and lower-case
//! base32, and read also in base16, base36 and upper case.
//!
//! The crate's error does not say which character is wrong, and it reads base36 in mixed case. So the
//! characters are compared with the alphabet first.

use multibase::Base;

use super::CidError;

/// Decodes the digits of `text` that begin at byte `start`. Base36 and base58 take quadratic time.
pub(super) fn decode(base: Base, text: &str, start: usize) -> Result<Vec<u8>, CidError> {
    let is_digit: fn(char) -> bool = match base {
        Base::Base16Lower => |c| matches!(c, '0'..='9' | 'a'..='f'),
        Base::Base16Upper => |c| matches!(c, '0'..='9' | 'A'..='F'),
        Base::Base32Lower => |c| matches!(c, 'a'..='z' | '2'..='7'),
        Base::Base32Upper => |c| matches!(c, 'A'..='Z' | '2'..='7'),
        Base::Base36Lower => |c| matches!(c, '0'..='9' | 'a'..='z'),
        Base::Base36Upper => |c| matches!(c, '0'..='9' | 'A'..='Z'),
        Base::Base58Btc => |c| c.is_ascii_alphanumeric() && !matches!(c, '0' | 'O' | 'I' | 'l'),
        other => return Err(CidError::Base { found: other.code() }),
    };
    let mut digits = text.char_indices().skip_while(|&(at, _)| at < start);
    match digits.find(|&(_, c)| !is_digit(c)) {
        Some((at, found)) => Err(CidError::Character { at, found }),
        None => base.decode(&text[start..]).map_err(|_| CidError::Padding),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_examples_are_encoded_and_decoded() {
        assert_eq!(Base::Base32Lower.encode(b"foobar"), "mzxw6ytboi");
        assert_eq!(Base::Base58Btc.encode(b"Hello World!"), "2NEpo7TZRRrLZSi2U");
        assert_eq!(Base::Base58Btc.encode(b"\0\0\x28\x7f\xb4\xcd"), "11233QC4");
        assert_eq!(decode(Base::Base58Btc, "11233QC4", 0).unwrap(), b"\0\0\x28\x7f\xb4\xcd");
    }

    #[test]
    fn base36_and_base16_are_read() {
        let base16 = |text| decode(Base::Base16Lower, text, 0);
        assert_eq!(decode(Base::Base36Lower, "00zz", 0).unwrap(), [0, 0, 5, 15]);
        assert_eq!(base16("00fF10"), Err(CidError::Character { at: 3, found: 'F' }));
        assert_eq!(base16("00ff10").unwrap(), [0, 255, 16]);
        assert_eq!(base16("00f"), Err(CidError::Padding));
    }

    #[test]
    fn bytes_of_every_length_are_decoded_again() {
        for len in 0..70_u8 {
            let bytes: Vec<u8> = (0..len).map(|i| i.wrapping_mul(37).wrapping_sub(2)).collect();
            for base in [Base::Base32Lower, Base::Base58Btc, Base::Base36Lower] {
                assert_eq!(decode(base, &base.encode(&bytes), 0).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn an_invalid_character_is_reported_with_its_position() {
        let cases = [
            (Base::Base32Lower, "abc1", 3, '1'),
            (Base::Base32Lower, "aB", 1, 'B'),
            (Base::Base36Lower, "aB", 1, 'B'),
            (Base::Base36Upper, "Ab", 1, 'b'),
            (Base::Base58Btc, "Ql", 1, 'l'),
            (Base::Base58Btc, "aé", 1, 'é'),
        ];
        for (base, text, at, found) in cases {
            assert_eq!(decode(base, text, 0), Err(CidError::Character { at, found }));
        }
    }

    #[test]
    fn non_canonical_base32_is_rejected() {
        let base32 = |text| decode(Base::Base32Lower, text, 0);
        assert_eq!(base32("mzxw6ytbo"), Err(CidError::Padding), "one digit too many");
        assert_eq!(base32("mzxw6ytboj"), Err(CidError::Padding), "an unused bit is set");
    }
}
