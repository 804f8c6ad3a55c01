//! An image without content: the CIDs and lengths of the blocks of its layers.

use std::ops::Range;

use watchfire_bitswap::Want;
use watchfire_content::{Cid, Codec};
use watchfire_fleet::SEGMENT_BLOCKS;
use watchfire_types::Rng;

use crate::dag::{FakeBlock, number_of, random_cid};

pub(super) const BLOCK_BYTES: u64 = 1 << 20;

pub(super) type Layer = usize;

#[derive(Debug)]
pub(super) struct Image {
    blocks: Vec<(Cid, u32)>,
    layers: Vec<Range<u32>>,
    pub bytes: u64,
}

impl Image {
    pub(super) fn new(layers: &[u64], seed: u64) -> Self {
        let mut rng = Rng::for_purpose(seed, 0x1a9);
        let mut blocks: Vec<(Cid, u32)> = Vec::new();
        let layers = layers.iter().map(|bytes| {
            let start = blocks.len() as u32;
            for block in 0..bytes.div_ceil(BLOCK_BYTES) {
                let len = (bytes - block * BLOCK_BYTES).min(BLOCK_BYTES) as u32;
                blocks.push((random_cid(Codec::RAW, blocks.len() as u32, &mut rng), len));
            }
            start..blocks.len() as u32
        });
        let layers = layers.collect();
        let bytes = blocks.iter().map(|(_, len)| u64::from(*len)).sum();
        Image { blocks, layers, bytes }
    }

    pub(super) const fn layers(&self) -> usize {
        self.layers.len()
    }

    pub(super) const fn blocks(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn blocks_of(&self, layer: Layer) -> usize {
        self.layers[layer].len()
    }

    pub(super) fn segments_of(&self, layer: Layer) -> u32 {
        self.blocks_of(layer).div_ceil(SEGMENT_BLOCKS) as u32
    }

    /// The blocks of a segment, as their indexes in the layer.
    pub(super) fn segment(&self, layer: Layer, segment: u32) -> Range<usize> {
        let start = segment as usize * SEGMENT_BLOCKS;
        start..(start + SEGMENT_BLOCKS).min(self.blocks_of(layer))
    }

    pub(super) fn number(&self, layer: Layer, block: usize) -> u32 {
        self.layers[layer].start + block as u32
    }

    /// The layer of a block, and its index there.
    pub(super) fn place(&self, number: u32) -> (Layer, usize) {
        let layer = self.layers.partition_point(|blocks| blocks.end <= number);
        (layer, (number - self.layers[layer].start) as usize)
    }

    pub(super) fn find(&self, cid: &Cid) -> Option<u32> {
        let number = number_of(cid)?;
        (self.blocks.get(number as usize)?.0 == *cid).then_some(number)
    }

    pub(super) fn len_of(&self, number: u32) -> u32 {
        self.blocks[number as usize].1
    }

    pub(super) fn cid(&self, number: u32) -> &Cid {
        &self.blocks[number as usize].0
    }

    pub(super) fn hash(&self, number: u32) -> [u8; 32] {
        self.cid(number).hash().digest().try_into().expect("a SHA-256 hash has 32 bytes")
    }

    pub(super) fn fake_block(&self, number: u32) -> FakeBlock {
        FakeBlock::new(self.cid(number).clone(), self.len_of(number))
    }

    pub(super) fn want(&self, number: u32) -> Want {
        Want { len: Some(self.len_of(number)), ..Want::new(self.cid(number).clone()) }
    }
}
