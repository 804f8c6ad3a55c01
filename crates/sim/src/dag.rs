//! A file without content: the CIDs and lengths of its blocks, and the links between them.

use std::ops::Range;

use watchfire_bitswap::Payload;
use watchfire_content::{Cid, Codec, Multihash};

use watchfire_types::Rng;

/// Approximate bytes of a link in an inner node: its CID, its sizes, and their tags.
const LINK_BYTES: u64 = 56;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileShape {
    pub bytes: u64,
    pub block_bytes: u32,
    /// Most links of an inner node.
    pub links_max: u32,
}

/// A simulated block: a CID and a length, without bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeBlock {
    cid: Cid,
    len: u32,
}

impl FakeBlock {
    pub(crate) const fn new(cid: Cid, len: u32) -> Self {
        FakeBlock { cid, len }
    }
}

impl Payload for FakeBlock {
    fn cid(&self) -> &Cid {
        &self.cid
    }

    fn len(&self) -> usize {
        self.len as usize
    }
}

/// The blocks of a file in breadth-first order: the root first, the leaves last.
#[derive(Debug)]
pub(crate) struct Dag {
    blocks: Vec<Shape>,
    bytes: u64,
}

#[derive(Debug)]
struct Shape {
    cid: Cid,
    len: u32,
    children: Range<u32>,
}

impl Dag {
    pub(crate) fn new(file: FileShape, seed: u64) -> Self {
        let leaves = file.bytes.div_ceil(file.block_bytes.into()).max(1);
        let links_max = u64::from(file.links_max.max(2));
        let mut levels = vec![leaves];
        while levels[levels.len() - 1] > 1 {
            levels.push(levels[levels.len() - 1].div_ceil(links_max));
        }
        let mut rng = Rng::for_purpose(seed, 0xda6);
        let mut blocks = Vec::new();
        let mut level_end = 0;
        for (height, &count) in levels.iter().enumerate().rev() {
            level_end += count;
            for at in 0..count {
                let number = blocks.len() as u32;
                if height == 0 {
                    let before = at * u64::from(file.block_bytes);
                    let len = (file.bytes - before).min(file.block_bytes.into()) as u32;
                    let cid = random_cid(Codec::RAW, number, &mut rng);
                    blocks.push(Shape { cid, len, children: 0..0 });
                    continue;
                }
                let child = |at: u64| (level_end + at.min(levels[height - 1])) as u32;
                let children = child(at * links_max)..child((at + 1) * links_max);
                let len = (u64::from(children.end - children.start) * LINK_BYTES + 20) as u32;
                let cid = random_cid(Codec::DAG_PB, number, &mut rng);
                blocks.push(Shape { cid, len, children });
            }
        }
        let bytes = blocks.iter().map(|block| u64::from(block.len)).sum();
        Dag { blocks, bytes }
    }

    pub(crate) const fn len(&self) -> u32 {
        self.blocks.len() as u32
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The leaves whose bytes are all among the first bytes of the file.
    pub(crate) fn leaves_within(&self, bytes: u64) -> Range<u32> {
        let first = self.blocks.iter().position(|block| block.children.is_empty()).unwrap_or(0);
        let mut end = first;
        let mut left = bytes;
        while let Some(rest) =
            self.blocks.get(end).and_then(|leaf| left.checked_sub(leaf.len.into()))
        {
            left = rest;
            end += 1;
        }
        first as u32..end as u32
    }

    pub(crate) fn cid(&self, block: u32) -> &Cid {
        &self.blocks[block as usize].cid
    }

    pub(crate) fn block_len(&self, block: u32) -> u32 {
        self.blocks[block as usize].len
    }

    pub(crate) fn children(&self, block: u32) -> Range<u32> {
        self.blocks[block as usize].children.clone()
    }

    /// The index of the block with this CID; `None` if it is not in this file.
    pub(crate) fn find(&self, cid: &Cid) -> Option<u32> {
        let number = number_of(cid)?;
        (self.blocks.get(number as usize)?.cid == *cid).then_some(number)
    }

    pub(crate) fn fake_block(&self, block: u32) -> FakeBlock {
        let Shape { cid, len, .. } = &self.blocks[block as usize];
        FakeBlock { cid: cid.clone(), len: *len }
    }

    /// The forged block that a malicious peer sends: the same length, and a CID outside of the
    /// file.
    pub(crate) fn forged_block(&self, block: u32, rng: &mut Rng) -> FakeBlock {
        let Shape { cid, len, .. } = &self.blocks[block as usize];
        FakeBlock { cid: random_cid(cid.codec(), u32::MAX, rng), len: *len }
    }
}

/// The bytes of a digest that contain the block's number, so that it is found without a map.
const NUMBER_BYTES: Range<usize> = 24..28;

/// The number in the CID of a simulated block.
pub(crate) fn number_of(cid: &Cid) -> Option<u32> {
    Some(u32::from_le_bytes(cid.hash().digest().get(NUMBER_BYTES)?.try_into().ok()?))
}

/// A CID with a random digest, so that the order of CIDs does not depend on the order of blocks.
pub(crate) fn random_cid(codec: Codec, number: u32, rng: &mut Rng) -> Cid {
    let mut digest = [0; 32];
    for part in digest.chunks_exact_mut(8) {
        part.copy_from_slice(&rng.next_u64().to_le_bytes());
    }
    digest[NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
    Cid::v1(codec, Multihash::Sha2_256(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETFLIX: FileShape =
        FileShape { bytes: 314_572_800, block_bytes: 256 << 10, links_max: 174 };

    #[test]
    fn a_file_has_as_many_blocks_as_in_kubo() {
        let blocks = |file| Dag::new(file, 1).len();
        assert_eq!(blocks(NETFLIX), 1208);
        assert_eq!(blocks(FileShape { block_bytes: 1 << 20, ..NETFLIX }), 303);
        assert_eq!(blocks(FileShape { block_bytes: 1 << 20, links_max: 1024, ..NETFLIX }), 301);
        assert_eq!(blocks(FileShape { bytes: 1, ..NETFLIX }), 1);
    }

    #[test]
    fn every_block_except_the_root_has_one_parent() {
        let dag = Dag::new(FileShape { links_max: 7, ..NETFLIX }, 1);
        let mut children: Vec<u32> = (0..dag.len()).flat_map(|block| dag.children(block)).collect();
        children.sort_unstable();
        assert_eq!(children, (1..dag.len()).collect::<Vec<_>>());
        let leaves = (0..dag.len()).filter(|block| dag.children(*block).is_empty());
        assert_eq!(leaves.map(|leaf| u64::from(dag.block_len(leaf))).sum::<u64>(), NETFLIX.bytes);
    }

    #[test]
    fn the_first_bytes_of_a_file_are_in_its_first_leaves() {
        let dag = Dag::new(NETFLIX, 1);
        assert!(dag.leaves_within((256 << 10) - 1).is_empty());
        let leaves = dag.leaves_within(3 * (256 << 10) + 1);
        assert_eq!(leaves.len(), 3);
        assert!(leaves.into_iter().all(|leaf| dag.children(leaf).is_empty()));
        assert_eq!(dag.leaves_within(u64::MAX).len(), 1200);
    }

    #[test]
    fn blocks_are_found_by_cid_and_forged_blocks_are_not() {
        let dag = Dag::new(NETFLIX, 1);
        assert_eq!(dag.find(dag.cid(77)), Some(77));
        let forged = dag.forged_block(77, &mut Rng::from_seed(9));
        assert_eq!(dag.find(forged.cid()), None);
        assert_eq!(forged.len(), Payload::len(&dag.fake_block(77)));
        let other = Dag::new(NETFLIX, 2);
        assert_eq!(other.find(dag.cid(77)), None);
    }
}
