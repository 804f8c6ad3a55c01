use crate::varint::VarintError;

/// An error in the bytes or the text of a CID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidError {
    #[error("the text is empty")]
    Empty,
    #[error("a CID of length {len} exceeds the limit of {max}")]
    TooLong {
        /// The length in bytes or characters.
        len: usize,
        max: usize,
    },
    /// The multibase prefix is not supported.
    #[error(
        "a CID begins with b (base32), k (base36), z (base58), f (base16) or Qm, not with {found:?}"
    )]
    Base {
        /// The first character.
        found: char,
    },
    /// A character is not in the alphabet of the base.
    #[error("invalid character {found:?} at byte {at}")]
    Character {
        /// Its byte offset in the text.
        at: usize,
        found: char,
    },
    /// The unused bits at the end of the text are too many or not 0.
    #[error("the text has extra bits at its end")]
    Padding,
    /// A number is not a varint.
    #[error(transparent)]
    Varint(#[from] VarintError),
    /// The version is not supported, or not allowed in this form.
    #[error("version {version} is not supported here")]
    Version { version: u64 },
    /// The hash function is not supported, so the content could not be verified.
    #[error("hash function {code:#x} is not supported, only sha2-256 (0x12) and identity (0x0)")]
    Hash {
        /// The function's code in the multicodec table.
        code: u64,
    },
    #[error("a digest of {len} bytes is invalid for hash function {code:#x}")]
    DigestLength {
        /// The function's code in the multicodec table.
        code: u64,
        /// The declared length of the digest in bytes.
        len: u64,
    },
    /// The bytes end within the digest.
    #[error("the digest is truncated")]
    Truncated,
    #[error("{extra} bytes follow the CID")]
    TrailingBytes {
        /// The number of bytes.
        extra: usize,
    },
}
