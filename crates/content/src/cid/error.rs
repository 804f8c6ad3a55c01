use crate::multibase::BaseError;
use crate::varint::VarintError;

/// Why bytes or text are not a CID that we can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidError {
    /// There is no text.
    #[error("the text is empty")]
    Empty,
    /// More than any CID has.
    #[error("{len} long, and a CID has at most {max}")]
    TooLong {
        /// Bytes or characters that came.
        len: usize,
        /// Most that are accepted.
        max: usize,
    },
    /// The first character names no base that is read here.
    #[error("{found:?} is neither of the bases b (base32) and z (base58), nor is this a Qm… CID")]
    Base {
        /// The first character.
        found: char,
    },
    /// A character that the base has not.
    #[error("{found:?} at byte {at} is not in the alphabet")]
    Character {
        /// The byte of the text where it is.
        at: usize,
        /// The character.
        found: char,
    },
    /// Bits are left over after the last byte that no encoder would have written.
    #[error("the text ends in bits that belong to no byte")]
    Padding,
    /// One of the numbers is not a varint.
    #[error(transparent)]
    Varint(#[from] VarintError),
    /// Neither version 0 nor 1, or version 0 where only 1 may stand.
    #[error("version {version} cannot stand here")]
    Version {
        /// The version that came.
        version: u64,
    },
    /// The hash function is neither sha2-256 nor identity, so nothing could be verified.
    #[error("hash function {code:#x} is not supported, only sha2-256 (0x12) and identity (0x0)")]
    Hash {
        /// The function's code in the multicodec table.
        code: u64,
    },
    /// The digest is not as long as the function's digests are.
    #[error("a digest of {len} bytes is not what hash function {code:#x} makes")]
    DigestLength {
        /// The function's code in the multicodec table.
        code: u64,
        /// Bytes of the digest, as declared.
        len: u64,
    },
    /// The bytes end inside the digest.
    #[error("the bytes end inside the digest")]
    Truncated,
    /// Bytes follow where the CID has ended.
    #[error("{extra} bytes follow the CID")]
    TrailingBytes {
        /// How many.
        extra: usize,
    },
}

impl From<BaseError> for CidError {
    fn from(error: BaseError) -> Self {
        match error {
            BaseError::Character { at, found } => CidError::Character { at, found },
            BaseError::Padding => CidError::Padding,
        }
    }
}
