//! What the stores promise, through their public API alone, on a real disk.

mod assembly;
mod damage;
mod disk;
mod exports;
mod full_disk;
mod imports;
mod pins;
mod scratch;
mod shared;

use content::{Block, BlockStore, Cid, DirectoryBuilder, FileBuilder, MemoryStore, Profile};
use store::{DiskLimits, DiskStore, StoreError, WriteBlocks};

/// What a store counts a short block with.
const PAGE_BYTES: u64 = 4096;

/// A block of its own, for each number.
fn block(number: u32) -> Block {
    Block::raw(format!("block {number}\n").into()).unwrap()
}

fn blocks_of(numbers: std::ops::Range<u32>) -> Vec<Block> {
    numbers.map(block).collect()
}

/// A store for so many short blocks.
fn open(folder: &std::path::Path, blocks_max: u64) -> Result<DiskStore, StoreError> {
    let bytes_max = blocks_max * PAGE_BYTES;
    DiskStore::open(folder, DiskLimits { bytes_max, ..DiskLimits::default() })
}

fn put_all(store: &impl WriteBlocks, blocks: &[Block]) {
    blocks.iter().for_each(|block| store.put(block).unwrap());
}

/// A directory of one file of three leaves, as five blocks: the root first, then the file's node.
fn tree() -> (Cid, Vec<Block>) {
    let profile = Profile { chunk_bytes: 4, ..Profile::UNIXFS_V1_2025 };
    let mut store = MemoryStore::new(1 << 20);
    let mut put = |block| store.put(block);
    let mut file = FileBuilder::new(profile).unwrap();
    file.write(b"leaf1eaf2eaf", &mut put).unwrap();
    let file = file.finish(&mut put).unwrap();
    let mut directory = DirectoryBuilder::new(profile);
    directory.insert("file", &file).unwrap();
    let root = directory.finish(&mut put).unwrap();
    let mut walk = content::Walk::new(root.cid.clone(), 100);
    let mut blocks = Vec::new();
    while let content::Visit::Here(block) = walk.visit(&store).unwrap() {
        blocks.push(block);
    }
    assert_eq!(blocks.len(), 5);
    (root.cid, blocks)
}
