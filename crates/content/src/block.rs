use bytes::Bytes;

use crate::{Cid, Codec, Multihash, Prefix, Version};

/// The largest block, which every Bitswap peer accepts.
pub const BLOCK_BYTES_MAX: usize = 2 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    #[error("the bytes do not match {cid}")]
    HashMismatch { cid: Cid },
    #[error("a block of {len} bytes exceeds the limit of {max} bytes")]
    TooLarge { len: usize, max: usize },
}

/// Bytes and their CID.
///
/// Every block is verified: its bytes were hashed when it was created. Clones share the bytes. A
/// store that reads a block again recognises its bytes by a [`Checksum`](crate::Checksum).
///
/// ```
/// use watchfire_content::{Block, BlockError, Cid};
///
/// let cid: Cid = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku".parse().unwrap();
/// assert!(Block::verify(cid.clone(), "".into()).is_ok());
/// assert_eq!(Block::verify(cid.clone(), "x".into()), Err(BlockError::HashMismatch { cid }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    cid: Cid,
    bytes: Bytes,
}

impl Block {
    /// Creates the block of `cid` if the hash of `bytes` matches.
    pub fn verify(cid: Cid, bytes: Bytes) -> Result<Self, BlockError> {
        check_len(bytes.len())?;
        if !cid.is_of(&bytes) {
            return Err(BlockError::HashMismatch { cid });
        }
        Ok(Block { cid, bytes })
    }

    /// Creates a raw block and computes its CID.
    pub fn raw(bytes: Bytes) -> Result<Self, BlockError> {
        check_len(bytes.len())?;
        Ok(Block { cid: Cid::v1(Codec::RAW, Multihash::sha2_256(&bytes)), bytes })
    }

    /// Creates the block of an encoded dag-pb node and computes its CID.
    pub fn dag_pb(version: Version, bytes: Bytes) -> Result<Self, BlockError> {
        check_len(bytes.len())?;
        let hash = Multihash::sha2_256(&bytes);
        let cid = match (version, hash) {
            (Version::V0, Multihash::Sha2_256(digest)) => Cid::v0(digest),
            (_, hash) => Cid::v1(Codec::DAG_PB, hash),
        };
        Ok(Block { cid, bytes })
    }

    /// Creates a block from the prefix of its CID, as peers send it; `None` if the bytes are too
    /// long for an identity digest.
    pub fn from_prefix(prefix: Prefix, bytes: Bytes) -> Result<Option<Self>, BlockError> {
        check_len(bytes.len())?;
        Ok(prefix.cid_of(&bytes).map(|cid| Block { cid, bytes }))
    }

    /// Returns the block that is implied by its CID: the block in an identity digest, and the empty
    /// block.
    ///
    /// Peers do not send these blocks, so call this before requesting a block.
    pub fn from_cid(cid: &Cid) -> Option<Self> {
        let bytes = match cid.hash() {
            Multihash::Identity(digest) => Bytes::copy_from_slice(digest),
            Multihash::Sha2_256(digest) if *digest == EMPTY_SHA2_256 => Bytes::new(),
            Multihash::Sha2_256(_) => return None,
        };
        Some(Block { cid: cid.clone(), bytes })
    }

    /// Returns the same bytes under another CID of the same hash; `None` if the hash differs.
    pub(crate) fn renamed(cid: &Cid, hash: &Multihash, bytes: &Bytes) -> Option<Self> {
        (cid.hash() == hash).then(|| Block { cid: cid.clone(), bytes: bytes.clone() })
    }

    /// Returns the same bytes under a CID of the same hash, which may have another codec.
    pub(crate) fn read_as(&self, cid: &Cid) -> Self {
        assert_eq!(self.cid.hash(), cid.hash(), "another block");
        Block { cid: cid.clone(), bytes: self.bytes.clone() }
    }

    /// Creates a block from bytes that were verified before.
    pub(crate) const fn known(cid: Cid, bytes: Bytes) -> Self {
        Block { cid, bytes }
    }

    pub const fn cid(&self) -> &Cid {
        &self.cid
    }

    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub fn into_parts(self) -> (Cid, Bytes) {
        (self.cid, self.bytes)
    }
}

/// The SHA-256 hash of the empty block.
const EMPTY_SHA2_256: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

fn check_len(len: usize) -> Result<(), BlockError> {
    let max = BLOCK_BYTES_MAX;
    if len > max { Err(BlockError::TooLarge { len, max }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_over_the_limit_is_rejected() {
        assert!(Block::raw(vec![0; BLOCK_BYTES_MAX].into()).is_ok());
        let (len, max) = (BLOCK_BYTES_MAX + 1, BLOCK_BYTES_MAX);
        assert_eq!(Block::raw(vec![0; len].into()), Err(BlockError::TooLarge { len, max }));
    }

    #[test]
    fn the_cid_of_a_prefix_is_computed_from_the_bytes() {
        let cid = Cid::v1(Codec(0x71), Multihash::sha2_256(b"x"));
        let block = Block::from_prefix(cid.prefix(), "x".into()).unwrap().unwrap();
        assert_eq!(block, Block::verify(cid, "x".into()).unwrap());
        let identity = Cid::v1(Codec::RAW, Multihash::identity(b"x").unwrap()).prefix();
        assert_eq!(Block::from_prefix(identity, vec![0; 129].into()), Ok(None));
    }

    #[test]
    fn empty_and_identity_blocks_are_implied_by_their_cids() {
        let empty = Block::raw(Bytes::new()).unwrap();
        assert_eq!(Block::from_cid(empty.cid()), Some(empty));
        let inline = Cid::v1(Codec::RAW, Multihash::identity(b"hi").unwrap());
        assert_eq!(Block::from_cid(&inline).unwrap().bytes(), "hi");
        let other = Block::raw("x".into()).unwrap();
        assert_eq!(Block::from_cid(other.cid()), None);
    }
}
