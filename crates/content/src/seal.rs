use std::hash::{BuildHasher, Hasher};

use bytes::Bytes;
use foldhash::quality::FixedState;

use crate::{Block, Cid, Multihash};

/// Recognises blocks that were verified before, for a tenth of what hashing them again costs.
///
/// A store that keeps a [`Seal`] of each block sees when the bytes that it reads are not those that
/// it wrote: a disk that fails, or somebody who writes into its files. It is a checksum of 64 bits
/// under a secret seed, and no proof for others: what comes from a peer is always hashed, and so is
/// what another process wrote.
///
/// ```
/// use content::{Block, Sealer};
///
/// let sealer = Sealer::new(7);
/// let block = Block::raw("hello".into())?;
/// let seal = sealer.seal(&block);
/// assert_eq!(sealer.open(block.cid(), "hello".into(), seal), Some(block.clone()));
/// assert_eq!(sealer.open(block.cid(), "hullo".into(), seal), None);
/// # Ok::<(), content::BlockError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sealer {
    state: FixedState,
}

/// What a [`Sealer`] knows a block by. Of no use under another name, or to another sealer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal(u64);

impl Sealer {
    /// Nobody should know the seed: whoever does can make other bytes with the same seal.
    pub fn new(seed: u64) -> Self {
        Sealer { state: FixedState::with_seed(seed) }
    }

    /// The seal of a block.
    pub fn seal(&self, block: &Block) -> Seal {
        self.of(block.cid(), block.bytes())
    }

    /// The block, if these are its bytes still.
    pub fn open(&self, cid: &Cid, bytes: Bytes, seal: Seal) -> Option<Block> {
        (self.of(cid, &bytes) == seal).then(|| Block::known(cid.clone(), bytes))
    }

    /// Goes by the hash, as stores do: the same bytes may be asked for under several codecs.
    fn of(&self, cid: &Cid, bytes: &[u8]) -> Seal {
        let mut hasher = self.state.build_hasher();
        match cid.hash() {
            Multihash::Sha2_256(digest) => hasher.write(digest),
            Multihash::Identity(data) => hasher.write(data),
        }
        hasher.write_usize(bytes.len());
        hasher.write(bytes);
        Seal(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(fill: u8) -> Block {
        Block::raw(vec![fill; 300_000].into()).unwrap()
    }

    #[test]
    fn one_bit_anywhere_breaks_the_seal() {
        let sealer = Sealer::new(1);
        let block = block(0);
        let seal = sealer.seal(&block);
        for at in (0..block.bytes().len()).step_by(997) {
            let mut bytes = block.bytes().to_vec();
            bytes[at] ^= 1 << (at % 8);
            assert_eq!(sealer.open(block.cid(), bytes.into(), seal), None, "byte {at}");
        }
        let shorter = block.bytes().slice(1..);
        assert_eq!(sealer.open(block.cid(), shorter, seal), None);
    }

    #[test]
    fn a_seal_opens_no_block_of_another_name() {
        let sealer = Sealer::new(1);
        let (one, other) = (block(1), block(2));
        let seal = sealer.seal(&one);
        assert_eq!(sealer.open(other.cid(), one.bytes().clone(), seal), None);
        assert_eq!(sealer.open(other.cid(), other.bytes().clone(), seal), None);
    }

    #[test]
    fn seals_of_different_seeds_differ() {
        let block = block(1);
        assert_ne!(Sealer::new(1).seal(&block), Sealer::new(2).seal(&block));
    }
}
