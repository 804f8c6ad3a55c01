use super::multihash::HashFunction;
use super::{Cid, CidError, Codec, Multihash, Version, read_number};
use crate::varint;

/// All of a CID except its digest: with the bytes, it gives the CID back.
///
/// A Bitswap block carries it in place of its CID, so that a receiver has to hash the bytes to
/// learn their name, and can only learn their true one.
///
/// ```
/// use watchfire_content::{Cid, Prefix};
///
/// let prefix = Prefix::decode(&[0x01, 0x55, 0x12, 0x20]).unwrap();
/// let name = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku";
/// assert_eq!(prefix.cid_of(b"").unwrap().to_string(), name);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The CID's version.
    pub version: Version,
    /// How the bytes are to be read.
    pub codec: Codec,
    /// What the bytes are to be hashed with.
    pub hash: HashFunction,
}

impl Prefix {
    /// Reads a prefix that fills `bytes`: version, codec, hash function, digest length.
    ///
    /// The length of an identity digest is not kept, since the bytes say it again.
    pub fn decode(bytes: &[u8]) -> Result<Self, CidError> {
        let (version, rest) = read_number(bytes)?;
        let (codec, rest) = read_number(rest)?;
        let (code, rest) = read_number(rest)?;
        let (len, rest) = read_number(rest)?;
        let hash = HashFunction::from_code(code)?;
        if hash == HashFunction::Sha2_256 && len != 32 {
            return Err(CidError::DigestLength { code, len });
        }
        if !rest.is_empty() {
            return Err(CidError::TrailingBytes { extra: rest.len() });
        }
        let codec = Codec(codec);
        match version {
            0 if codec == Codec::DAG_PB && hash == HashFunction::Sha2_256 => {
                Ok(Prefix { version: Version::V0, codec, hash })
            }
            1 => Ok(Prefix { version: Version::V1, codec, hash }),
            version => Err(CidError::Version { version }),
        }
    }

    /// The prefix as bytes, for a block of `block_bytes` bytes.
    pub fn encode(&self, block_bytes: usize) -> Vec<u8> {
        let (version, digest_bytes) = match (self.version, self.hash) {
            (Version::V0, _) => (0, 32),
            (Version::V1, HashFunction::Sha2_256) => (1, 32),
            (Version::V1, HashFunction::Identity) => (1, block_bytes as u64),
        };
        let mut bytes = Vec::with_capacity(4);
        varint::encode(version, &mut bytes);
        varint::encode(self.codec.0, &mut bytes);
        varint::encode(self.hash.code(), &mut bytes);
        varint::encode(digest_bytes, &mut bytes);
        bytes
    }

    /// The CID of `bytes`; `None` when an identity digest could not hold them.
    pub fn cid_of(&self, bytes: &[u8]) -> Option<Cid> {
        let hash = match self.hash {
            HashFunction::Sha2_256 => Multihash::sha2_256(bytes),
            HashFunction::Identity => Multihash::identity(bytes)?,
        };
        Some(Cid { version: self.version, codec: self.codec, hash })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_comes_back_and_names_what_it_is_given() {
        for bytes in [[0, 0x70, 0x12, 0x20], [1, 0x70, 0x12, 0x20], [1, 0x55, 0, 5]] {
            let prefix = Prefix::decode(&bytes).unwrap();
            assert_eq!(prefix.encode(5), bytes);
            let cid = prefix.cid_of(b"bytes").unwrap();
            assert!(cid.is_of(b"bytes"));
            assert_eq!(cid.prefix(), prefix);
        }
    }

    #[test]
    fn version_zero_has_one_codec_and_one_hash_function() {
        let refused = |bytes: &[u8]| Prefix::decode(bytes).unwrap_err();
        assert_eq!(refused(&[0, 0x55, 0x12, 0x20]), CidError::Version { version: 0 });
        assert_eq!(refused(&[0, 0x70, 0, 5]), CidError::Version { version: 0 });
    }

    #[test]
    fn a_prefix_that_could_name_nothing_is_refused() {
        let refused = |bytes: &[u8]| Prefix::decode(bytes).unwrap_err();
        assert_eq!(refused(&[1, 0x55, 0x13, 0x40]), CidError::Hash { code: 0x13 });
        assert_eq!(refused(&[1, 0x55, 0x12, 20]), CidError::DigestLength { code: 0x12, len: 20 });
        assert_eq!(refused(&[1, 0x55, 0x12, 0x20, 7]), CidError::TrailingBytes { extra: 1 });
    }

    #[test]
    fn an_identity_prefix_names_only_short_bytes() {
        let prefix = Prefix::decode(&[1, 0x55, 0, 0]).unwrap();
        assert!(prefix.cid_of(&[0; 128]).is_some());
        assert_eq!(prefix.cid_of(&[0; 129]), None);
    }
}
