use sha2::{Digest, Sha256};

use super::{CidError, read_number};
use crate::varint;

/// The longest identity digest, in bytes.
pub const IDENTITY_BYTES_MAX: usize = 128;

/// The first bytes of every sha2-256 multihash: its code and its length.
pub(super) const SHA2_256_START: [u8; 2] = [0x12, 0x20];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HashFunction {
    /// The digest is the bytes themselves, at most [`IDENTITY_BYTES_MAX`].
    Identity,
    Sha2_256,
}

impl HashFunction {
    /// Returns the code in the multicodec table.
    pub const fn code(self) -> u64 {
        match self {
            HashFunction::Identity => 0x00,
            HashFunction::Sha2_256 => 0x12,
        }
    }

    pub(super) fn from_code(code: u64) -> Result<Self, CidError> {
        match code {
            0x00 => Ok(HashFunction::Identity),
            0x12 => Ok(HashFunction::Sha2_256),
            code => Err(CidError::Hash { code }),
        }
    }
}

/// A digest and its hash function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Multihash {
    /// The bytes themselves.
    Identity(Box<[u8]>),
    /// The SHA-256 hash of the bytes.
    Sha2_256([u8; 32]),
}

impl Multihash {
    /// Computes the SHA-256 hash of `bytes`.
    pub fn sha2_256(bytes: &[u8]) -> Self {
        Multihash::Sha2_256(Sha256::digest(bytes).into())
    }

    /// Creates an identity digest; `None` if `bytes` is longer than [`IDENTITY_BYTES_MAX`].
    pub fn identity(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= IDENTITY_BYTES_MAX).then(|| Multihash::Identity(bytes.into()))
    }

    pub const fn function(&self) -> HashFunction {
        match self {
            Multihash::Identity(_) => HashFunction::Identity,
            Multihash::Sha2_256(_) => HashFunction::Sha2_256,
        }
    }

    pub fn digest(&self) -> &[u8] {
        match self {
            Multihash::Identity(digest) => digest,
            Multihash::Sha2_256(digest) => digest,
        }
    }

    /// Whether this is the hash of `bytes`.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        match self {
            Multihash::Identity(digest) => **digest == *bytes,
            Multihash::Sha2_256(digest) => *digest == <[u8; 32]>::from(Sha256::digest(bytes)),
        }
    }

    /// Decodes the multihash at the start of `bytes`, and returns the remaining bytes.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), CidError> {
        let (code, rest) = read_number(bytes)?;
        let function = HashFunction::from_code(code)?;
        let (len, rest) = read_number(rest)?;
        let fits = match function {
            HashFunction::Identity => len <= IDENTITY_BYTES_MAX as u64,
            HashFunction::Sha2_256 => len == 32,
        };
        if !fits {
            return Err(CidError::DigestLength { code, len });
        }
        let (digest, rest) = rest.split_at_checked(len as usize).ok_or(CidError::Truncated)?;
        let hash = match <[u8; 32]>::try_from(digest) {
            Ok(digest) if function == HashFunction::Sha2_256 => Multihash::Sha2_256(digest),
            _ => Multihash::Identity(digest.into()),
        };
        Ok((hash, rest))
    }

    pub(super) fn encode_into(&self, bytes: &mut Vec<u8>) {
        varint::encode(self.function().code(), bytes);
        varint::encode(self.digest().len() as u64, bytes);
        bytes.extend_from_slice(self.digest());
    }

    pub(super) fn encoded_len(&self) -> usize {
        let len = self.digest().len();
        1 + varint::encoded_len(len as u64) + len
    }
}
