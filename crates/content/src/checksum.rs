use std::hash::{BuildHasher, Hasher};

use bytes::Bytes;
use foldhash::quality::FixedState;

use crate::{Block, Cid, Multihash};

/// Recognises blocks that were verified before, at a tenth of the cost of hashing them again.
///
/// A store that keeps a [`Checksum`] of each block detects bytes that were changed on the disk. A
/// checksum has 64 bits and depends on a secret seed. It proves nothing to others: bytes from a
/// peer or of another process must be hashed.
///
/// ```
/// use watchfire_content::{Block, Checksums};
///
/// let checksums = Checksums::new(7);
/// let block = Block::raw("hello".into())?;
/// let checksum = checksums.of(&block);
/// assert_eq!(checksums.verify(block.cid(), "hello".into(), checksum), Some(block.clone()));
/// assert_eq!(checksums.verify(block.cid(), "hullo".into(), checksum), None);
/// # Ok::<(), watchfire_content::BlockError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Checksums {
    state: FixedState,
}

/// The checksum of a block. It is valid only for the same hash and the same seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum(u64);

impl Checksums {
    /// The seed must be secret. With it, other bytes with the same checksum can be constructed.
    pub fn new(seed: u64) -> Self {
        Checksums { state: FixedState::with_seed(seed) }
    }

    pub fn of(&self, block: &Block) -> Checksum {
        self.sum(block.cid(), block.bytes())
    }

    /// Returns the block if the bytes are unchanged.
    pub fn verify(&self, cid: &Cid, bytes: Bytes, checksum: Checksum) -> Option<Block> {
        (self.sum(cid, &bytes) == checksum).then(|| Block::known(cid.clone(), bytes))
    }

    /// Uses the hash and not the codec, because the same bytes may be requested under several
    /// codecs.
    fn sum(&self, cid: &Cid, bytes: &[u8]) -> Checksum {
        let mut hasher = self.state.build_hasher();
        match cid.hash() {
            Multihash::Sha2_256(digest) => hasher.write(digest),
            Multihash::Identity(data) => hasher.write(data),
        }
        hasher.write_usize(bytes.len());
        hasher.write(bytes);
        Checksum(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(fill: u8) -> Block {
        Block::raw(vec![fill; 300_000].into()).unwrap()
    }

    #[test]
    fn every_changed_bit_changes_the_checksum() {
        let checksums = Checksums::new(1);
        let block = block(0);
        let checksum = checksums.of(&block);
        for at in (0..block.bytes().len()).step_by(997) {
            let mut bytes = block.bytes().to_vec();
            bytes[at] ^= 1 << (at % 8);
            assert_eq!(checksums.verify(block.cid(), bytes.into(), checksum), None, "byte {at}");
        }
        let shorter = block.bytes().slice(1..);
        assert_eq!(checksums.verify(block.cid(), shorter, checksum), None);
    }

    #[test]
    fn a_checksum_does_not_fit_a_block_of_another_hash() {
        let checksums = Checksums::new(1);
        let (one, other) = (block(1), block(2));
        let checksum = checksums.of(&one);
        assert_eq!(checksums.verify(other.cid(), one.bytes().clone(), checksum), None);
        assert_eq!(checksums.verify(other.cid(), other.bytes().clone(), checksum), None);
    }

    #[test]
    fn checksums_of_different_seeds_differ() {
        let block = block(1);
        assert_ne!(Checksums::new(1).of(&block), Checksums::new(2).of(&block));
    }
}
