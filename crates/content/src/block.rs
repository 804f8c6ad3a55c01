use bytes::Bytes;

use crate::{Cid, Codec, Multihash, Prefix, Version};

/// Most bytes of a block: what every Bitswap peer accepts.
pub const BLOCK_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Why bytes are not the block that they were said to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// The bytes hash to something else than the CID says.
    #[error("the bytes are not what {cid} names")]
    HashMismatch {
        /// The CID that was claimed.
        cid: Cid,
    },
    /// More bytes than peers pass on to one another.
    #[error("a block of {len} bytes, and at most {max} are allowed")]
    TooLarge {
        /// Bytes that came.
        len: usize,
        /// Most bytes of a block.
        max: usize,
    },
}

/// Bytes and their true name.
///
/// There is no way to make one without hashing, once: whoever is handed a block need not ask
/// whether it was verified. Clones share the bytes. A store that read the bytes of a block again
/// recognises them by a [`Checksum`](crate::Checksum).
///
/// ```
/// use content::{Block, BlockError, Cid};
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
    /// Accepts `bytes` as what `cid` names, if they are.
    pub fn verify(cid: Cid, bytes: Bytes) -> Result<Self, BlockError> {
        check_len(bytes.len())?;
        if !cid.is_of(&bytes) {
            return Err(BlockError::HashMismatch { cid });
        }
        Ok(Block { cid, bytes })
    }

    /// Names `bytes`, which mean themselves.
    pub fn raw(bytes: Bytes) -> Result<Self, BlockError> {
        check_len(bytes.len())?;
        Ok(Block { cid: Cid::v1(Codec::RAW, Multihash::sha2_256(&bytes)), bytes })
    }

    /// Names `bytes`, which are an encoded dag-pb node.
    pub fn dag_pb(version: Version, bytes: Bytes) -> Result<Self, BlockError> {
        check_len(bytes.len())?;
        let hash = Multihash::sha2_256(&bytes);
        let cid = match (version, hash) {
            (Version::V0, Multihash::Sha2_256(digest)) => Cid::v0(digest),
            (_, hash) => Cid::v1(Codec::DAG_PB, hash),
        };
        Ok(Block { cid, bytes })
    }

    /// Names `bytes` under a CID's `prefix`, as a peer sends them; `None` when an identity digest
    /// could not hold them.
    pub fn named(prefix: Prefix, bytes: Bytes) -> Result<Option<Self>, BlockError> {
        check_len(bytes.len())?;
        Ok(prefix.cid_of(&bytes).map(|cid| Block { cid, bytes }))
    }

    /// The block that a CID names all by itself: what an identity digest carries, and no bytes.
    ///
    /// Other peers do not send these (some cannot send an empty block at all), so who looks for a
    /// block asks here first.
    pub fn implied_by(cid: &Cid) -> Option<Self> {
        let bytes = match cid.hash() {
            Multihash::Identity(digest) => Bytes::copy_from_slice(digest),
            Multihash::Sha2_256(digest) if *digest == EMPTY_SHA2_256 => Bytes::new(),
            Multihash::Sha2_256(_) => return None,
        };
        Some(Block { cid: cid.clone(), bytes })
    }

    /// The same bytes under another name of the same hash; `None` when the hash is another.
    pub(crate) fn renamed(cid: &Cid, hash: &Multihash, bytes: &Bytes) -> Option<Self> {
        (cid.hash() == hash).then(|| Block { cid: cid.clone(), bytes: bytes.clone() })
    }

    /// The same bytes under a name of the same hash, which says how they are to be read.
    pub(crate) fn read_as(&self, cid: &Cid) -> Self {
        assert_eq!(self.cid.hash(), cid.hash(), "another block");
        Block { cid: cid.clone(), bytes: self.bytes.clone() }
    }

    /// Bytes that were verified before.
    pub(crate) const fn known(cid: Cid, bytes: Bytes) -> Self {
        Block { cid, bytes }
    }

    /// Its name.
    pub const fn cid(&self) -> &Cid {
        &self.cid
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its name and its bytes.
    pub fn into_parts(self) -> (Cid, Bytes) {
        (self.cid, self.bytes)
    }
}

/// The SHA-256 of no bytes.
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
    fn the_largest_block_passes_and_one_byte_more_does_not() {
        assert!(Block::raw(vec![0; BLOCK_BYTES_MAX].into()).is_ok());
        let (len, max) = (BLOCK_BYTES_MAX + 1, BLOCK_BYTES_MAX);
        assert_eq!(Block::raw(vec![0; len].into()), Err(BlockError::TooLarge { len, max }));
    }

    #[test]
    fn bytes_with_a_prefix_have_the_name_that_they_hash_to() {
        let cid = Cid::v1(Codec(0x71), Multihash::sha2_256(b"x"));
        let block = Block::named(cid.prefix(), "x".into()).unwrap().unwrap();
        assert_eq!(block, Block::verify(cid, "x".into()).unwrap());
        let identity = Cid::v1(Codec::RAW, Multihash::identity(b"x").unwrap()).prefix();
        assert_eq!(Block::named(identity, vec![0; 129].into()), Ok(None));
    }

    #[test]
    fn no_bytes_and_identity_digests_are_known_from_their_names() {
        let empty = Block::raw(Bytes::new()).unwrap();
        assert_eq!(Block::implied_by(empty.cid()), Some(empty));
        let inline = Cid::v1(Codec::RAW, Multihash::identity(b"hi").unwrap());
        assert_eq!(Block::implied_by(&inline).unwrap().bytes(), "hi");
        let other = Block::raw("x".into()).unwrap();
        assert_eq!(Block::implied_by(other.cid()), None);
    }
}
