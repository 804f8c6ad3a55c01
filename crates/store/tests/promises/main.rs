//! The promises of the stores, tested through their public API on a real disk.

mod assembly;
mod damage;
mod disk;
mod exports;
mod full_disk;
mod imports;
mod pins;
mod scratch;
mod shared;

use watchfire_content::{
    Block, BlockStore, Cid, DirectoryBuilder, FileBuilder, MemoryStore, Profile,
};
use watchfire_store::{DiskLimits, DiskStore, StoreError, WriteBlocks};

/// The size of a short block in a store.
const PAGE_BYTES: u64 = 4096;

fn block(number: u32) -> Block {
    Block::raw(format!("block {number}\n").into()).unwrap()
}

fn blocks_of(numbers: std::ops::Range<u32>) -> Vec<Block> {
    numbers.map(block).collect()
}

/// Opens a store for this number of short blocks.
fn open(folder: &std::path::Path, blocks_max: u64) -> Result<DiskStore, StoreError> {
    let bytes_max = blocks_max * PAGE_BYTES;
    DiskStore::open(folder, DiskLimits { bytes_max, ..DiskLimits::default() })
}

fn put_all(store: &impl WriteBlocks, blocks: &[Block]) {
    blocks.iter().for_each(|block| store.put(block).unwrap());
}

/// Returns a directory of one file with three leaves, as five blocks: the root, the node of the
/// file and the leaves.
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
    let mut walk = watchfire_content::Walk::new(root.cid.clone(), 100);
    let mut blocks = Vec::new();
    while let watchfire_content::WalkStep::Block(block) = walk.step(&store).unwrap() {
        blocks.push(block);
    }
    assert_eq!(blocks.len(), 5);
    (root.cid, blocks)
}
