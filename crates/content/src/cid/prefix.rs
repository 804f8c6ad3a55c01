use super::multihash::HashFunction;
use super::{Cid, CidError, Codec, Multihash, Version, read_number};
use crate::varint;

/// A CID without its digest. Together with the bytes it determines the CID.
///
/// Bitswap sends it with a block instead of the CID, so the receiver must hash the bytes and cannot
/// get a wrong CID.
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
    pub version: Version,
    pub codec: Codec,
    pub hash: HashFunction,
}

impl Prefix {
    /// Decodes a prefix from all of `bytes`: version, codec, hash function, digest length.
    ///
    /// The length of an identity digest is ignored, because it is the length of the block.
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

    /// Encodes the prefix for a block of `block_bytes` bytes.
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

    /// Returns the CID of `bytes`; `None` if they are too long for an identity digest.
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
    fn a_decoded_prefix_encodes_to_the_same_bytes_and_determines_cids() {
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
    fn an_invalid_prefix_is_rejected_with_the_cause() {
        let refused = |bytes: &[u8]| Prefix::decode(bytes).unwrap_err();
        assert_eq!(refused(&[1, 0x55, 0x13, 0x40]), CidError::Hash { code: 0x13 });
        assert_eq!(refused(&[1, 0x55, 0x12, 20]), CidError::DigestLength { code: 0x12, len: 20 });
        assert_eq!(refused(&[1, 0x55, 0x12, 0x20, 7]), CidError::TrailingBytes { extra: 1 });
    }

    #[test]
    fn an_identity_prefix_has_cids_only_of_short_bytes() {
        let prefix = Prefix::decode(&[1, 0x55, 0, 0]).unwrap();
        assert!(prefix.cid_of(&[0; 128]).is_some());
        assert_eq!(prefix.cid_of(&[0; 129]), None);
    }
}
