//! The text encodings of CIDs. They are written in base58btc and lower-case base32, and read also in
//! base16, base36 and upper case.

const BASE58: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const BASE36: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const BASE16: &[u8; 16] = b"0123456789abcdef";

/// An error in encoded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BaseError {
    /// A character is not in the alphabet.
    Character { at: usize, found: char },
    /// The unused bits at the end are too many or not 0.
    Padding,
}

fn digit_of(alphabet: &[u8], character: u8) -> Option<u8> {
    alphabet.iter().position(|&digit| digit == character).map(|digit| digit as u8)
}

fn digits(
    text: &str,
    alphabet: &'static [u8],
) -> impl DoubleEndedIterator<Item = Result<u8, BaseError>> {
    text.char_indices().map(move |(at, found)| {
        u8::try_from(found)
            .ok()
            .and_then(|character| digit_of(alphabet, character))
            .ok_or(BaseError::Character { at, found })
    })
}

/// Encodes bytes as base58btc in quadratic time. Use it only for short inputs.
pub(crate) fn encode_base58(bytes: &[u8]) -> String {
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    // Digits of the number, least significant first.
    let mut number: Vec<u8> = Vec::with_capacity(bytes.len() * 7 / 5 + 1);
    for &byte in bytes {
        let mut carry = u32::from(byte);
        for digit in &mut number {
            carry += u32::from(*digit) << 8;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            number.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    let leading = std::iter::repeat_n('1', zeros);
    leading.chain(number.iter().rev().map(|&digit| char::from(BASE58[digit as usize]))).collect()
}

/// Decodes base58btc in quadratic time. Use it only for short inputs.
pub(crate) fn decode_base58(text: &str) -> Result<Vec<u8>, BaseError> {
    decode_number(text, BASE58)
}

/// Decodes lower-case base36 in quadratic time. Use it only for short inputs.
pub(crate) fn decode_base36(text: &str) -> Result<Vec<u8>, BaseError> {
    decode_number(text, BASE36)
}

/// Decodes lower-case base16.
pub(crate) fn decode_base16(text: &str) -> Result<Vec<u8>, BaseError> {
    let digits: Vec<u8> = digits(text, BASE16).collect::<Result<_, _>>()?;
    let (bytes, rest) = digits.as_chunks::<2>();
    match rest {
        [] => Ok(bytes.iter().map(|[high, low]| high << 4 | low).collect()),
        _ => Err(BaseError::Padding),
    }
}

/// Decodes a number whose leading zeros are zero bytes.
fn decode_number(text: &str, alphabet: &'static [u8]) -> Result<Vec<u8>, BaseError> {
    let zeros = text.bytes().take_while(|&character| character == alphabet[0]).count();
    let base = alphabet.len() as u32;
    // Bytes of the number, least significant first.
    let mut number: Vec<u8> = Vec::with_capacity(text.len());
    for digit in digits(text, alphabet) {
        let mut carry = u32::from(digit?);
        for byte in &mut number {
            carry += u32::from(*byte) * base;
            *byte = carry as u8;
            carry >>= 8;
        }
        if carry > 0 {
            number.push(carry as u8);
        }
    }
    number.extend(std::iter::repeat_n(0, zeros));
    number.reverse();
    Ok(number)
}

/// Encodes bytes as lower-case base32 without padding.
pub(crate) fn encode_base32(bytes: &[u8], text: &mut String) {
    let (mut held, mut bits) = (0_u32, 0);
    for &byte in bytes {
        held = held << 8 | u32::from(byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(BASE32[(held >> bits & 31) as usize]));
        }
    }
    if bits > 0 {
        text.push(char::from(BASE32[(held << (5 - bits) & 31) as usize]));
    }
}

/// Decodes lower-case base32 without padding.
pub(crate) fn decode_base32(text: &str) -> Result<Vec<u8>, BaseError> {
    let mut bytes = Vec::with_capacity(text.len() * 5 / 8);
    let (mut held, mut bits) = (0_u32, 0);
    for digit in digits(text, BASE32) {
        held = held << 5 | u32::from(digit?);
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    let is_canonical = bits < 5 && held & ((1 << bits) - 1) == 0;
    if is_canonical { Ok(bytes) } else { Err(BaseError::Padding) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base32(bytes: &[u8]) -> String {
        let mut text = String::new();
        encode_base32(bytes, &mut text);
        text
    }

    #[test]
    fn published_examples_are_encoded_and_decoded() {
        assert_eq!(base32(b"foobar"), "mzxw6ytboi");
        assert_eq!(encode_base58(b"Hello World!"), "2NEpo7TZRRrLZSi2U");
        assert_eq!(encode_base58(b"\0\0\x28\x7f\xb4\xcd"), "11233QC4");
        assert_eq!(decode_base58("11233QC4").unwrap(), b"\0\0\x28\x7f\xb4\xcd");
    }

    #[test]
    fn base36_and_base16_are_read() {
        assert_eq!(decode_base36("00zz").unwrap(), [0, 0, 5, 15]);
        assert_eq!(decode_base16("00fF10"), Err(BaseError::Character { at: 3, found: 'F' }));
        assert_eq!(decode_base16("00ff10").unwrap(), [0, 255, 16]);
        assert_eq!(decode_base16("00f"), Err(BaseError::Padding));
    }

    #[test]
    fn bytes_of_every_length_are_decoded_again() {
        for len in 0..70_u8 {
            let bytes: Vec<u8> = (0..len).map(|i| i.wrapping_mul(37).wrapping_sub(2)).collect();
            assert_eq!(decode_base32(&base32(&bytes)).unwrap(), bytes);
            assert_eq!(decode_base58(&encode_base58(&bytes)).unwrap(), bytes);
        }
    }

    #[test]
    fn an_invalid_character_is_reported_with_its_position() {
        assert_eq!(decode_base32("abc1"), Err(BaseError::Character { at: 3, found: '1' }));
        assert_eq!(decode_base32("aB"), Err(BaseError::Character { at: 1, found: 'B' }));
        assert_eq!(decode_base58("Ql"), Err(BaseError::Character { at: 1, found: 'l' }));
        assert_eq!(decode_base58("aé"), Err(BaseError::Character { at: 1, found: 'é' }));
    }

    #[test]
    fn non_canonical_base32_is_rejected() {
        assert_eq!(decode_base32("mzxw6ytbo"), Err(BaseError::Padding), "one digit too many");
        assert_eq!(decode_base32("mzxw6ytboj"), Err(BaseError::Padding), "an unused bit is set");
    }
}
