use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use content::{Block, Cid, FileReader, Profile, Root};
use store::{Change, ImportOptions, ReadBlocks, SharedFiles, StoreError, Withdrawn};

use crate::scratch::Scratch;

const MEMORY_BYTES: usize = 1 << 20;

fn options(profile: Profile) -> ImportOptions {
    ImportOptions { profile, ..ImportOptions::default() }
}

/// Leaves of four bytes.
fn short() -> ImportOptions {
    options(Profile { chunk_bytes: 4, ..Profile::UNIXFS_V1_2025 })
}

fn read_back(shared: &SharedFiles, root: &Root) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut reader = FileReader::new(root.cid.clone(), u64::MAX);
    while let Some(cid) = reader.next() {
        let block = shared.get(cid).unwrap().expect("it is shared");
        bytes.extend_from_slice(&reader.take(&block).unwrap());
    }
    bytes
}

fn leaf(bytes: &'static [u8]) -> Cid {
    Block::raw(bytes.into()).unwrap().cid().clone()
}

#[test]
fn files_are_read_from_where_they_lie_under_every_profile() {
    let scratch = Scratch::new();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    let path = scratch.file("large", &bytes);
    for profile in [Profile::UNIXFS_V1_2025, Profile::KUBO_DEFAULT, Profile::V1_1_MIB] {
        let shared = SharedFiles::new(MEMORY_BYTES);
        let root = shared.share(&path, &options(profile)).unwrap();
        assert!(read_back(&shared, &root) == bytes);
        assert_eq!(root.file_bytes, 3_000_000);
    }
}

#[test]
fn sharing_takes_little_memory_however_large_the_file() {
    let scratch = Scratch::new();
    let path = scratch.join("sparse");
    File::create(&path).unwrap().set_len(300 << 20).unwrap();
    // 300 leaves, one node, and no copy: it would not fit.
    let shared = SharedFiles::new(64 * 1024);
    let root = shared.share(&path, &ImportOptions::default()).unwrap();
    assert_eq!(root.file_bytes, 300 << 20);
    assert!(shared.has(&root.cid));
}

#[test]
fn a_file_that_was_written_to_is_withdrawn_whole() {
    let scratch = Scratch::new();
    let path = scratch.file("file", b"one two fou");
    let shared = SharedFiles::new(MEMORY_BYTES);
    shared.share(&path, &short()).unwrap();
    fs::write(&path, b"one two four").unwrap();

    // The bytes of this leaf are the same, but nobody can know what is being written.
    let error = shared.get(&leaf(b"one ")).unwrap_err();
    let change = Change::Touched;
    assert!(matches!(&error, StoreError::Changed { change: c, .. } if *c == change), "{error}");
    assert!(!shared.has(&leaf(b"one ")) && !shared.has(&leaf(b"two ")));
    assert_eq!(shared.get(&leaf(b"two ")).unwrap(), None);
    assert_eq!(shared.take_withdrawn(), [Withdrawn { path, change }]);
    assert_eq!((shared.take_withdrawn(), shared.files()), (vec![], 0));
}

#[test]
fn other_bytes_are_noticed_although_length_and_time_are_the_same() {
    let scratch = Scratch::new();
    let path = scratch.file("file", b"one two four");
    let modified_at = fs::metadata(&path).unwrap().modified().unwrap();
    let shared = SharedFiles::new(MEMORY_BYTES);
    shared.share(&path, &short()).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"TWO", 4).unwrap();
    file.set_modified(modified_at).unwrap();

    assert!(shared.get(&leaf(b"one ")).unwrap().is_some());
    let error = shared.get(&leaf(b"two ")).unwrap_err();
    assert!(matches!(error, StoreError::Changed { change: Change::OtherBytes, .. }), "{error}");
    assert!(!shared.has(&leaf(b"one ")));
}

#[test]
fn a_file_that_is_gone_is_withdrawn_and_its_neighbour_is_not() {
    let scratch = Scratch::new();
    let (gone, stays) = (scratch.file("d/gone", b"gone"), scratch.file("d/stays", b"here"));
    let shared = SharedFiles::new(MEMORY_BYTES);
    shared.share(&scratch.join("d"), &short()).unwrap();
    assert_eq!(shared.files(), 2);
    fs::remove_file(&gone).unwrap();
    let error = shared.get(&leaf(b"gone")).unwrap_err();
    assert!(matches!(error, StoreError::Changed { change: Change::Gone, .. }), "{error}");
    assert_eq!(shared.get(&leaf(b"here")).unwrap().unwrap().bytes(), "here");
    assert!(stays.exists() && shared.files() == 1);
}

#[test]
fn a_leaf_that_lies_in_two_files_is_found_in_the_one_that_is_left() {
    let scratch = Scratch::new();
    let first = scratch.file("first", b"same");
    let second = scratch.file("second", b"same");
    let shared = SharedFiles::new(MEMORY_BYTES);
    shared.share(&first, &short()).unwrap();
    shared.share(&second, &short()).unwrap();
    fs::remove_file(&first).unwrap();
    assert_eq!(shared.get(&leaf(b"same")).unwrap().unwrap().bytes(), "same");
    let withdrawn = shared.take_withdrawn();
    assert_eq!(withdrawn, [Withdrawn { path: first, change: Change::Gone }]);
}

#[test]
fn what_would_take_too_much_memory_is_not_shared_at_all() {
    let scratch = Scratch::new();
    let path = scratch.file("file", &[7; 4000]);
    let shared = SharedFiles::new(2000);
    let error = shared.share(&path, &short()).unwrap_err();
    assert!(matches!(error, StoreError::TooMuchToShare { max: 2000, .. }), "{error}");
    assert_eq!(shared.files(), 0);
    assert!(!shared.has(&leaf(&[7; 4])));
}
