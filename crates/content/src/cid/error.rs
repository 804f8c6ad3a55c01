use crate::varint::VarintError;

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
    #[error(
        "a CID begins with b (base32), k (base36), z (base58), f (base16) or Qm, not with {found:?}"
    )]
    Base { found: char },
    #[error("invalid character {found:?} at byte {at}")]
    Character { at: usize, found: char },
    #[error("the text has extra bits at its end")]
    Padding,
    #[error(transparent)]
    Varint(#[from] VarintError),
    #[error("version {version} is not supported here")]
    Version { version: u64 },
    #[error("hash function {code:#x} is not supported, only sha2-256 (0x12) and identity (0x0)")]
    Hash { code: u64 },
    #[error("a digest of {len} bytes is invalid for hash function {code:#x}")]
    DigestLength {
        code: u64,
        /// The declared length of the digest in bytes.
        len: u64,
    },
    #[error("the digest is truncated")]
    Truncated,
    #[error("{extra} bytes follow the CID")]
    TrailingBytes { extra: usize },
}
