//! The header of an archive, and the part of CBOR that it uses.

use crate::{Cid, CidError};

/// The longest header that is read, which is enough for a thousand roots.
pub const CAR_HEADER_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    #[error("it is truncated")]
    Truncated,
    #[error("unexpected byte {found:#04x} at {at}")]
    Unexpected { found: u8, at: usize },
    #[error("its fields are not `roots` and `version`")]
    Fields,
    #[error("version {version} is not supported, only version 1")]
    Version { version: u64 },
    #[error("invalid root: {0}")]
    Root(CidError),
}

impl From<CidError> for HeaderError {
    fn from(cause: CidError) -> Self {
        HeaderError::Root(cause)
    }
}

const UNSIGNED: u8 = 0;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;

const CID_TAG: u64 = 42;

pub(super) fn encode(roots: &[Cid]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(MAP, 2, &mut bytes);
    put_text("roots", &mut bytes);
    put(ARRAY, roots.len() as u64, &mut bytes);
    for root in roots {
        put(TAG, CID_TAG, &mut bytes);
        // The prefix of the multibase "identity", which the format requires.
        put(BYTES, 1 + root.encoded_len() as u64, &mut bytes);
        bytes.push(0);
        root.encode_into(&mut bytes);
    }
    put_text("version", &mut bytes);
    put(UNSIGNED, 1, &mut bytes);
    bytes
}

fn put_text(text: &str, bytes: &mut Vec<u8>) {
    put(TEXT, text.len() as u64, bytes);
    bytes.extend_from_slice(text.as_bytes());
}

/// Encodes the kind of a value and its number in the fewest bytes.
fn put(kind: u8, number: u64, bytes: &mut Vec<u8>) {
    let start = kind << 5;
    let all = number.to_be_bytes();
    match number {
        0..24 => bytes.push(start | number as u8),
        24..0x100 => bytes.extend([start | 24, number as u8]),
        0x100..0x1_0000 => {
            bytes.push(start | 25);
            bytes.extend_from_slice(&all[6..]);
        }
        0x1_0000..0x1_0000_0000 => {
            bytes.push(start | 26);
            bytes.extend_from_slice(&all[4..]);
        }
        _ => {
            bytes.push(start | 27);
            bytes.extend_from_slice(&all);
        }
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Cid>, HeaderError> {
    let mut cbor = Cbor { bytes, at: 0 };
    let (mut roots, mut version) = (None, None);
    for _ in 0..cbor.number_of(MAP)? {
        let len = cbor.number_of(TEXT)?;
        match cbor.take(len)? {
            b"roots" if roots.is_none() => roots = Some(cbor.roots()?),
            b"version" if version.is_none() => version = Some(cbor.number_of(UNSIGNED)?),
            _ => return Err(HeaderError::Fields),
        }
    }
    // The version is checked first, because other versions have other fields.
    match version {
        Some(1) => {}
        Some(version) => return Err(HeaderError::Version { version }),
        None => return Err(HeaderError::Fields),
    }
    match bytes.get(cbor.at) {
        Some(&found) => Err(HeaderError::Unexpected { found, at: cbor.at }),
        None => roots.ok_or(HeaderError::Fields),
    }
}

struct Cbor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cbor<'a> {
    fn take(&mut self, len: u64) -> Result<&'a [u8], HeaderError> {
        let len = usize::try_from(len).map_err(|_| HeaderError::Truncated)?;
        let taken = self.bytes[self.at..].get(..len).ok_or(HeaderError::Truncated)?;
        self.at += len;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, HeaderError> {
        self.take(1).map(|byte| byte[0])
    }

    /// Decodes the number of a value of this kind.
    fn number_of(&mut self, kind: u8) -> Result<u64, HeaderError> {
        let at = self.at;
        let first = self.byte()?;
        let unexpected = HeaderError::Unexpected { found: first, at };
        if first >> 5 != kind {
            return Err(unexpected);
        }
        let more = match first & 0x1f {
            small @ 0..24 => return Ok(small.into()),
            24 => 1,
            25 => 2,
            26 => 4,
            27 => 8,
            _ => return Err(unexpected),
        };
        let number = self.take(more)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let mut shortest = Vec::new();
        put(kind, number, &mut shortest);
        if shortest == self.bytes[at..self.at] { Ok(number) } else { Err(unexpected) }
    }

    fn roots(&mut self) -> Result<Vec<Cid>, HeaderError> {
        let mut roots = Vec::new();
        for _ in 0..self.number_of(ARRAY)? {
            let at = self.at;
            if self.number_of(TAG)? != CID_TAG {
                return Err(HeaderError::Unexpected { found: self.bytes[at], at });
            }
            let len = self.number_of(BYTES)?;
            let at = self.at;
            match self.take(len)?.split_first() {
                Some((0, cid)) => roots.push(Cid::decode(cid)?),
                Some((&found, _)) => return Err(HeaderError::Unexpected { found, at }),
                None => return Err(HeaderError::Truncated),
            }
        }
        Ok(roots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, Multihash};

    fn cid(bytes: &[u8]) -> Cid {
        Cid::v1(Codec::RAW, Multihash::sha2_256(bytes))
    }

    #[test]
    fn any_number_of_roots_is_decoded_again() {
        for count in [0, 1, 23, 24, 256, 1000] {
            let roots: Vec<Cid> = (0..count).map(|i: u32| cid(&i.to_le_bytes())).collect();
            let bytes = encode(&roots);
            assert!(bytes.len() <= CAR_HEADER_BYTES_MAX);
            assert_eq!(decode(&bytes), Ok(roots));
        }
    }

    #[test]
    fn fields_may_be_in_any_order_but_not_repeated() {
        let bytes = encode(&[cid(b"x")]);
        let (map, fields) = bytes.split_at(1);
        let (roots, version) = fields.split_at(fields.len() - 9);
        assert_eq!(decode(&[map, version, roots].concat()), Ok(vec![cid(b"x")]));
        assert_eq!(decode(&[map, roots, roots].concat()), Err(HeaderError::Fields));
        assert_eq!(decode(&[&[0xa1], roots].concat()), Err(HeaderError::Fields));
        assert_eq!(decode(&[&[0xa1], version].concat()), Err(HeaderError::Fields));
    }

    #[test]
    fn version_2_is_rejected_by_its_number() {
        let pragma = b"\xa1\x67version\x02";
        assert_eq!(decode(pragma), Err(HeaderError::Version { version: 2 }));
    }

    #[test]
    fn truncated_and_padded_headers_are_rejected() {
        let bytes = encode(&[cid(b"x")]);
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "{len}");
        }
        let longer = [&bytes[..], &[0]].concat();
        let at = bytes.len();
        assert_eq!(decode(&longer), Err(HeaderError::Unexpected { found: 0, at }));
        let a_billion_roots = b"\xa2\x65roots\x9a\x3b\x9a\xca\x00";
        assert_eq!(decode(a_billion_roots), Err(HeaderError::Truncated));
    }
}
