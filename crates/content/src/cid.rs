//! Content identifiers (CIDs): the hash and the codec of some bytes.
//!
//! Versions 0 and 1 are supported, with the hash functions sha2-256 and identity. A CID with
//! another hash function is rejected with the code of the function, because it cannot be verified.
//!
//! - As bytes, a CID has one encoding: [`Cid::encode`] restores the bytes that [`Cid::decode`]
//!   read.
//! - As text, version 0 is bare base58btc (`Qm…`). Version 1 is written in lower-case base32 (`b…`),
//!   and also read in base58btc (`z…`), base36 (`k…`), base16 (`f…`), and in the upper case of all but
//!   base58btc (`B…`, `K…`, `F…`). Two texts can be the same CID, so compare CIDs, not texts.
//!
//! The crate `cid` has no part in this: it stores each digest inline, at its longest. With identity
//! digests of 128 bytes its CID has 160 bytes, ours at most 56, and a wantlist has thousands of them.

mod error;
mod multihash;
mod prefix;
mod text;

use std::fmt;
use std::str::FromStr;

use multibase::Base;

use crate::varint;

pub use error::CidError;
pub use multihash::{HashFunction, IDENTITY_BYTES_MAX, Multihash};
pub use prefix::Prefix;

/// The longest CID in bytes: three varints and the longest identity digest, rounded up to the limit
/// of other Bitswap peers in a wantlist.
pub const CID_BYTES_MAX: usize = 168;

/// The longest text of a CID: [`CID_BYTES_MAX`] in base32, with its prefix.
pub const CID_TEXT_CHARS_MAX: usize = 1 + (CID_BYTES_MAX * 8).div_ceil(5);

/// The codec of the bytes of a CID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Codec(pub u64);

impl Codec {
    pub const RAW: Codec = Codec(0x55);
    /// A node of links and data, as UnixFS uses it.
    pub const DAG_PB: Codec = Codec(0x70);
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Codec::RAW => f.write_str("raw"),
            Codec::DAG_PB => f.write_str("dag-pb"),
            Codec(code) => write!(f, "codec {code:#x}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// A bare sha2-256 multihash of a dag-pb node.
    V0,
    /// A version, a codec and a multihash.
    V1,
}

/// A content identifier: the hash and the codec of some bytes.
///
/// ```
/// use watchfire_content::{Cid, Codec, Multihash};
///
/// let cid = Cid::v1(Codec::RAW, Multihash::sha2_256(b""));
/// let text = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku";
/// assert_eq!(cid.to_string(), text);
/// assert_eq!(text.parse(), Ok(cid));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cid {
    version: Version,
    codec: Codec,
    hash: Multihash,
}

impl Cid {
    /// Creates the version 0 CID of the dag-pb node whose sha2-256 hash is `digest`.
    pub const fn v0(digest: [u8; 32]) -> Self {
        Cid { version: Version::V0, codec: Codec::DAG_PB, hash: Multihash::Sha2_256(digest) }
    }

    /// Creates a version 1 CID.
    pub const fn v1(codec: Codec, hash: Multihash) -> Self {
        Cid { version: Version::V1, codec, hash }
    }

    pub const fn version(&self) -> Version {
        self.version
    }

    pub const fn codec(&self) -> Codec {
        self.codec
    }

    pub const fn hash(&self) -> &Multihash {
        &self.hash
    }

    /// Whether the hash of `bytes` matches.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        self.hash.is_of(bytes)
    }

    /// Returns the CID without its digest, which Bitswap sends with a block.
    pub fn prefix(&self) -> Prefix {
        Prefix { version: self.version, codec: self.codec, hash: self.hash.function() }
    }

    /// Decodes a CID from all of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, CidError> {
        if bytes.len() > CID_BYTES_MAX {
            return Err(CidError::TooLong { len: bytes.len(), max: CID_BYTES_MAX });
        }
        let (cid, rest) = Self::decode_start(bytes)?;
        match rest.len() {
            0 => Ok(cid),
            extra => Err(CidError::TrailingBytes { extra }),
        }
    }

    /// Decodes the CID at the start of `bytes`, and returns the remaining bytes.
    pub fn decode_start(bytes: &[u8]) -> Result<(Self, &[u8]), CidError> {
        let (version, codec, hash) = if bytes.starts_with(&multihash::SHA2_256_START) {
            (Version::V0, Codec::DAG_PB, bytes)
        } else {
            let (version, rest) = read_number(bytes)?;
            if version != 1 {
                return Err(CidError::Version { version });
            }
            let (codec, rest) = read_number(rest)?;
            (Version::V1, Codec(codec), rest)
        };
        let (hash, rest) = Multihash::decode(hash)?;
        Ok((Cid { version, codec, hash }, rest))
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        self.encode_into(&mut bytes);
        bytes
    }

    pub fn encode_into(&self, bytes: &mut Vec<u8>) {
        if self.version == Version::V1 {
            varint::encode(1, bytes);
            varint::encode(self.codec.0, bytes);
        }
        self.hash.encode_into(bytes);
    }

    /// Returns the length of the encoded CID.
    pub fn encoded_len(&self) -> usize {
        let before = match self.version {
            Version::V0 => 0,
            Version::V1 => 1 + varint::encoded_len(self.codec.0),
        };
        before + self.hash.encoded_len()
    }

    pub fn parse(text: &str) -> Result<Self, CidError> {
        let max = CID_TEXT_CHARS_MAX;
        // Checked first, because base58 takes quadratic time.
        if text.len() > max {
            return Err(CidError::TooLong { len: text.len(), max });
        }
        let Some(base) = text.chars().next() else { return Err(CidError::Empty) };
        if text.len() == V0_TEXT_CHARS && text.starts_with("Qm") {
            return Self::decode(&text::decode(Base::Base58Btc, text, 0)?);
        }
        let base = match base {
            'b' => Base::Base32Lower,
            'B' => Base::Base32Upper,
            'f' => Base::Base16Lower,
            'F' => Base::Base16Upper,
            'k' => Base::Base36Lower,
            'K' => Base::Base36Upper,
            'z' => Base::Base58Btc,
            found => return Err(CidError::Base { found }),
        };
        let cid = Self::decode(&text::decode(base, text, 1)?)?;
        match cid.version {
            // The text of version 0 has no multibase prefix.
            Version::V0 => Err(CidError::Version { version: 0 }),
            Version::V1 => Ok(cid),
        }
    }
}

/// The length of a version 0 CID in base58, which has 34 bytes that begin with 0x12 0x20.
const V0_TEXT_CHARS: usize = 46;

/// Decodes the number at the start of `bytes`, and returns the remaining bytes.
fn read_number(bytes: &[u8]) -> Result<(u64, &[u8]), CidError> {
    let (number, len) = varint::decode(bytes)?;
    // Codes in a CID have at most 63 bits, which is nine bytes.
    if len > 9 {
        return Err(CidError::Varint(varint::VarintError::TooLarge));
    }
    Ok((number, &bytes[len..]))
}

impl FromStr for Cid {
    type Err = CidError;

    fn from_str(text: &str) -> Result<Self, CidError> {
        Self::parse(text)
    }
}

impl fmt::Display for Cid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self.version {
            Version::V0 => Base::Base58Btc.encode(self.encode()),
            Version::V1 => multibase::encode(Base::Base32Lower, self.encode()),
        })
    }
}

impl fmt::Debug for Cid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::varint::VarintError;

    const EMPTY_RAW: &str = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku";
    const EMPTY_FILE: &str = "QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH";

    #[test]
    fn the_size_of_a_cid_does_not_grow() {
        assert!(size_of::<Cid>() <= 56);
    }

    #[test]
    fn both_versions_are_decoded_from_text_and_bytes() {
        for text in [EMPTY_RAW, EMPTY_FILE] {
            let cid = Cid::parse(text).unwrap();
            assert_eq!(cid.to_string(), text);
            assert_eq!(Cid::decode(&cid.encode()), Ok(cid.clone()));
            assert_eq!(cid.encoded_len(), cid.encode().len());
        }
    }

    #[test]
    fn version_one_is_read_in_base58_and_written_in_base32() {
        let cid = Cid::parse(EMPTY_RAW).unwrap();
        let text = format!("z{}", Base::Base58Btc.encode(cid.encode()));
        assert_eq!(Cid::parse(&text), Ok(cid.clone()));
        assert_eq!(cid.to_string(), EMPTY_RAW);
    }

    #[test]
    fn version_one_is_read_in_base36_base16_and_upper_case() {
        let cid = Cid::parse(EMPTY_RAW).unwrap();
        let hex: String = cid.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        for text in
            [EMPTY_RAW.to_uppercase(), format!("f{hex}"), format!("F{}", hex.to_uppercase())]
        {
            assert_eq!(Cid::parse(&text), Ok(cid.clone()), "{text}");
        }
        let mixed = format!("B{}", &EMPTY_RAW[1..]);
        assert_eq!(Cid::parse(&mixed), Err(CidError::Character { at: 1, found: 'a' }));
        assert_eq!(Cid::parse("Zb2"), Err(CidError::Base { found: 'Z' }));
    }

    #[test]
    fn an_identity_cid_contains_its_bytes() {
        let cid = Cid::v1(Codec::RAW, Multihash::identity(b"hi").unwrap());
        assert_eq!(cid.to_string(), "bafkqaatine");
        assert_eq!("bafkqaatine".parse(), Ok(cid.clone()));
        assert!(cid.is_of(b"hi"));
        assert!(!cid.is_of(b"ho"));
    }

    #[test]
    fn an_unknown_codec_is_preserved() {
        let cid = Cid::v1(Codec(0x71), Multihash::sha2_256(b""));
        assert_eq!(Cid::decode(&cid.encode()).unwrap().codec().to_string(), "codec 0x71");
    }

    #[test]
    fn invalid_text_is_rejected_with_the_cause() {
        let refused = |text: &str| Cid::parse(text).unwrap_err();
        assert_eq!(refused(""), CidError::Empty);
        assert_eq!(refused("hello"), CidError::Base { found: 'h' });
        assert_eq!(refused("b"), CidError::Varint(VarintError::Truncated));
        assert_eq!(refused("bafkR"), CidError::Character { at: 4, found: 'R' });
        assert_eq!(refused(&format!("{EMPTY_RAW}a")), CidError::Padding);
        assert_eq!(refused(&format!("z{EMPTY_FILE}")), CidError::Version { version: 0 });
        assert_eq!(refused(&"b".repeat(271)), CidError::TooLong { len: 271, max: 270 });
        assert_eq!(refused(&EMPTY_FILE[..45]), CidError::Base { found: 'Q' });
    }

    #[test]
    fn invalid_bytes_are_rejected_with_the_cause() {
        let refused = |bytes: &[u8]| Cid::decode(bytes).unwrap_err();
        let blake3 = [&[1, 0x55, 0x1e, 0x20][..], &[0; 32]].concat();
        assert_eq!(refused(&blake3), CidError::Hash { code: 0x1e });
        let short = [&[1, 0x55, 0x12, 0x10][..], &[0; 16]].concat();
        assert_eq!(refused(&short), CidError::DigestLength { code: 0x12, len: 16 });
        assert_eq!(refused(&[0x12, 0x20, 1, 2]), CidError::Truncated);
        assert_eq!(refused(&[2, 0x55, 0, 0]), CidError::Version { version: 2 });
        assert_eq!(refused(&[1, 0x55, 0, 0, 9]), CidError::TrailingBytes { extra: 1 });
        assert_eq!(refused(&[1, 0xd5, 0x00, 0, 0]), CidError::Varint(VarintError::NotShortest));
        assert_eq!(refused(&[1; 169]), CidError::TooLong { len: 169, max: 168 });
    }
}
