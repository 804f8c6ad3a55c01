use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use watchfire_content::dag_pb::{Link, Node};
use watchfire_content::unixfs::{Kind, UnixFs};
use watchfire_content::{Block, Cid, Codec, FileBuilder, Profile, Version};
use watchfire_store::{
    DiskLimits, DiskStore, ExportError, FileAssembler, ReadBlocks, StoreError, WriteBlocks,
};

use crate::scratch::{Scratch, files_below};

const NARROW: Profile = Profile { chunk_bytes: 100, links_max: 4, ..Profile::UNIXFS_V1_2025 };
/// A profile whose leaves are nodes.
const OLD: Profile = Profile { chunk_bytes: 100, links_max: 4, ..Profile::KUBO_DEFAULT };

/// Returns the root of a file and its blocks, the root first.
fn blocks_of(bytes: &[u8], profile: Profile) -> (Cid, Vec<Block>) {
    let mut blocks = Vec::new();
    let mut builder = FileBuilder::new(profile).unwrap();
    let mut keep = |block| {
        blocks.push(block);
        Ok::<_, StoreError>(())
    };
    builder.write(bytes, &mut keep).unwrap();
    let root = builder.finish(&mut keep).unwrap();
    blocks.reverse();
    (root.cid, blocks)
}

/// Bytes of a file whose leaves all differ.
fn bytes(len: usize) -> Vec<u8> {
    (0..len.div_ceil(4) as u32).flat_map(u32::to_le_bytes).take(len).collect()
}

fn open(scratch: &Scratch) -> FileAssembler {
    let store = DiskStore::open(&scratch.join("aside"), DiskLimits::default()).unwrap();
    FileAssembler::new(Arc::new(store), &scratch.join("file.part"), 1 << 20)
}

fn is_leaf(block: &Block) -> bool {
    match block.cid().codec() {
        Codec::RAW => true,
        _ => Node::decode(block.bytes()).unwrap().links.is_empty(),
    }
}

#[test]
fn leaves_are_stored_in_the_file_alone_and_the_file_is_identical() {
    for profile in [NARROW, OLD] {
        for len in [1, 99, 100, 101, 400, 401, 12_345] {
            let scratch = Scratch::new();
            let original = bytes(len);
            let (root, blocks) = blocks_of(&original, profile);
            let assembler = open(&scratch);
            assembler.start(&root).unwrap();
            for block in &blocks {
                assembler.put(block).unwrap();
                assert_eq!(assembler.get(block.cid()).unwrap().as_ref(), Some(block));
                assert_eq!(assembler.len_of(block.cid()), Some(block.bytes().len() as u64));
            }
            let leaves = blocks.iter().filter(|block| is_leaf(block)).count();
            let aside = files_below(&scratch.join("aside"));
            let is_block = |name: &[u8]| name.starts_with(b"baf");
            let aside = aside.iter().filter_map(|path| path.file_name());
            let aside = aside.filter(|name| is_block(name.as_encoded_bytes()));
            assert_eq!(aside.count(), blocks.len() - leaves);
            let file = scratch.join("file");
            assert_eq!(assembler.finish(&file, false).unwrap().bytes, len as u64);
            assert!(fs::read(&file).unwrap() == original);
            assert!(!scratch.join("file.part").exists());
            let block = &blocks[blocks.len() / 2];
            let found = assembler.get(block.cid()).unwrap();
            assert_eq!(found.as_ref(), Some(block), "blocks are served after the end");
        }
    }
}

#[test]
fn blocks_may_arrive_in_any_order_and_occur_several_times() {
    let mut repeating = bytes(1000);
    repeating.extend_from_slice(&bytes(1000));
    repeating.extend_from_slice(&[0; 1000]);
    for profile in [NARROW, OLD] {
        for turn in 0..7 {
            let scratch = Scratch::new();
            let (root, mut blocks) = blocks_of(&repeating, profile);
            let count = blocks.len();
            blocks.rotate_left(turn * count / 7);
            let assembler = open(&scratch);
            assembler.start(&root).unwrap();
            blocks.iter().for_each(|block| assembler.put(block).unwrap());
            assembler.finish(&scratch.join("file"), false).unwrap();
            assert!(fs::read(scratch.join("file")).unwrap() == repeating, "turn {turn}");
        }
    }
}

#[test]
fn leaves_of_an_earlier_process_are_found_unless_they_are_damaged() {
    for profile in [NARROW, OLD] {
        let scratch = Scratch::new();
        let original = bytes(5_000);
        let (root, blocks) = blocks_of(&original, profile);
        let (nodes, leaves): (Vec<_>, Vec<_>) = blocks.iter().partition(|block| !is_leaf(block));
        let assembler = open(&scratch);
        assembler.start(&root).unwrap();
        // The killed process had written half of the leaves.
        nodes.iter().for_each(|block| assembler.put(block).unwrap());
        leaves[..30].iter().for_each(|block| assembler.put(block).unwrap());
        drop(assembler);
        let part = fs::File::options().write(true).open(scratch.join("file.part")).unwrap();
        // The leaves were written from the last one on.
        part.write_all_at(b"damage", 4_950).unwrap();

        let assembler = open(&scratch);
        assembler.start(&root).unwrap();
        let are_here = |leaves: &[&Block]| -> Vec<bool> {
            leaves.iter().map(|block| assembler.has(block.cid())).collect()
        };
        assert_eq!(are_here(&leaves[..1]), [false]);
        assert_eq!(are_here(&leaves[1..30]), [true; 29]);
        assert_eq!(are_here(&leaves[30..]), [false; 20]);
        leaves.iter().for_each(|block| assembler.put(block).unwrap());
        assembler.finish(&scratch.join("file"), false).unwrap();
        assert!(fs::read(scratch.join("file")).unwrap() == original);
    }
}

#[test]
fn a_leaf_that_another_process_overwrote_is_detected_and_can_be_put_again() {
    let scratch = Scratch::new();
    let (root, blocks) = blocks_of(&bytes(1000), NARROW);
    let assembler = open(&scratch);
    assembler.start(&root).unwrap();
    blocks.iter().for_each(|block| assembler.put(block).unwrap());
    let leaf = blocks.iter().find(|block| block.bytes()[..] == bytes(1000)[300..400]).unwrap();
    let part = fs::File::options().write(true).open(scratch.join("file.part")).unwrap();
    part.write_all_at(b"damage", 300).unwrap();
    assert!(matches!(assembler.get(leaf.cid()), Err(StoreError::Damaged { .. })));
    assert!(!assembler.has(leaf.cid()));
    let finish = || assembler.finish(&scratch.join("file"), false);
    assert!(matches!(finish(), Err(ExportError::Missing { .. })));
    assembler.put(leaf).unwrap();
    finish().unwrap();
    assert!(fs::read(scratch.join("file")).unwrap() == bytes(1000));
}

#[test]
fn an_existing_file_is_replaced_only_if_that_is_requested() {
    let scratch = Scratch::new();
    let (root, blocks) = blocks_of(b"new", NARROW);
    let file = scratch.file("file", b"old");
    let assembler = open(&scratch);
    assembler.start(&root).unwrap();
    blocks.iter().for_each(|block| assembler.put(block).unwrap());
    assert!(matches!(assembler.finish(&file, false), Err(ExportError::Exists { .. })));
    assert_eq!(fs::read(&file).unwrap(), b"old");
    assembler.finish(&file, true).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"new");
}

/// A node of a file with links to its parts and their declared sizes.
fn node(parts: &[(&Cid, u64)]) -> Block {
    let link = |cid: &Cid| Link { cid: cid.clone(), name: Some(String::new()), tsize: None };
    let filesize = parts.iter().try_fold(0_u64, |sum, (_, bytes)| sum.checked_add(*bytes));
    let block_sizes = parts.iter().map(|(_, bytes)| *bytes).collect();
    let unixfs = UnixFs { filesize, block_sizes, ..UnixFs::new(Kind::File) };
    let links = parts.iter().map(|(cid, _)| link(cid)).collect();
    let node = Node { links, data: Some(unixfs.encode().into()), ..Node::default() };
    Block::dag_pb(Version::V1, node.encode().into()).unwrap()
}

#[test]
fn wrong_sizes_put_no_leaf_at_a_wrong_offset() {
    let leaf = Block::raw(bytes(100).into()).unwrap();
    let other = Block::raw(bytes(200).into()).unwrap();
    let correct = node(&[(leaf.cid(), 100), (other.cid(), 200)]);
    let wrong = [
        node(&[(leaf.cid(), 90), (other.cid(), 200)]),
        node(&[(leaf.cid(), 110), (other.cid(), 200)]),
        node(&[(leaf.cid(), 100), (correct.cid(), 299)]),
        node(&[(leaf.cid(), u64::MAX), (other.cid(), 200)]),
        node(&[(leaf.cid(), 0), (other.cid(), 200)]),
    ];
    for root in wrong {
        let scratch = Scratch::new();
        let assembler = open(&scratch);
        assembler.start(root.cid()).unwrap();
        for block in [&root, &correct, &leaf, &other] {
            assembler.put(block).unwrap();
            assert_eq!(assembler.get(block.cid()).unwrap().as_ref(), Some(block));
        }
        assert!(!assembler.is_file() || assembler.finish(&scratch.join("file"), false).is_err());
        assert!(!scratch.join("file").exists());
    }
    let scratch = Scratch::new();
    let assembler = open(&scratch);
    let huge = node(&[(leaf.cid(), 100), (other.cid(), 1 << 40)]);
    assembler.start(huge.cid()).unwrap();
    assembler.put(&huge).unwrap();
    assert!(!assembler.is_file(), "the file exceeds the limit");
    assert!(!assembler.path().exists());
}
