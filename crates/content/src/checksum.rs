use std::hash::{BuildHasher, Hasher};

use bytes::Bytes;
use foldhash::quality::FixedState;

use crate::{Block, Cid, Multihash};

/// Recognises blocks that were verified before, for a tenth of what hashing them again costs.
///
/// A store that keeps a [`Checksum`] of each block sees when the bytes that it reads are not those that
/// it wrote: a disk that fails, or somebody who writes into its files. It has 64 bits, is made under
/// a secret seed, and is no proof for others: what comes from a peer is always hashed, and so is what
/// another process wrote.
///
/// ```
/// use content::{Block, Checksums};
///
/// let checksums = Checksums::new(7);
/// let block = Block::raw("hello".into())?;
/// let checksum = checksums.of(&block);
/// assert_eq!(checksums.recognise(block.cid(), "hello".into(), checksum), Some(block.clone()));
/// assert_eq!(checksums.recognise(block.cid(), "hullo".into(), checksum), None);
/// # Ok::<(), content::BlockError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Checksums {
    state: FixedState,
}

/// What [`Checksums`] know a block by. Of no use under another name, or to those of another seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum(u64);

impl Checksums {
    /// Nobody should know the seed: whoever does can make other bytes with the same checksum.
    pub fn new(seed: u64) -> Self {
        Checksums { state: FixedState::with_seed(seed) }
    }

    /// The checksum of a block.
    pub fn of(&self, block: &Block) -> Checksum {
        self.sum(block.cid(), block.bytes())
    }

    /// The block, if these are its bytes still.
    pub fn recognise(&self, cid: &Cid, bytes: Bytes, checksum: Checksum) -> Option<Block> {
        (self.sum(cid, &bytes) == checksum).then(|| Block::known(cid.clone(), bytes))
    }

    /// Goes by the hash, as stores do: the same bytes may be asked for under several codecs.
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
    fn one_bit_anywhere_makes_another_checksum() {
        let checksums = Checksums::new(1);
        let block = block(0);
        let checksum = checksums.of(&block);
        for at in (0..block.bytes().len()).step_by(997) {
            let mut bytes = block.bytes().to_vec();
            bytes[at] ^= 1 << (at % 8);
            assert_eq!(checksums.recognise(block.cid(), bytes.into(), checksum), None, "byte {at}");
        }
        let shorter = block.bytes().slice(1..);
        assert_eq!(checksums.recognise(block.cid(), shorter, checksum), None);
    }

    #[test]
    fn a_checksum_is_of_no_block_of_another_name() {
        let checksums = Checksums::new(1);
        let (one, other) = (block(1), block(2));
        let checksum = checksums.of(&one);
        assert_eq!(checksums.recognise(other.cid(), one.bytes().clone(), checksum), None);
        assert_eq!(checksums.recognise(other.cid(), other.bytes().clone(), checksum), None);
    }

    #[test]
    fn checksums_of_different_seeds_differ() {
        let block = block(1);
        assert_ne!(Checksums::new(1).of(&block), Checksums::new(2).of(&block));
    }
}
