use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use watchfire_content::{Block, Cid, FileReader, Profile, Root};
use watchfire_store::{
    FileChange, ImportOptions, ReadBlocks, SharedFiles, StoreError, UnsharedFile,
};

use crate::scratch::Scratch;

const MEMORY_BYTES: usize = 1 << 20;

fn options(profile: Profile) -> ImportOptions {
    ImportOptions { profile, ..ImportOptions::default() }
}

/// Options for leaves of four bytes.
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
fn files_are_read_in_place_under_every_profile() {
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
fn sharing_takes_little_memory_for_a_large_file() {
    let scratch = Scratch::new();
    let path = scratch.join("sparse");
    File::create(&path).unwrap().set_len(300 << 20).unwrap();
    // 300 leaves and one node, without a copy, which would not fit.
    let shared = SharedFiles::new(64 * 1024);
    let root = shared.share(&path, &ImportOptions::default()).unwrap();
    assert_eq!(root.file_bytes, 300 << 20);
    assert!(shared.has(&root.cid));
}

#[test]
fn a_modified_file_is_unshared_as_a_whole() {
    let scratch = Scratch::new();
    let path = scratch.file("file", b"one two fou");
    let shared = SharedFiles::new(MEMORY_BYTES);
    shared.share(&path, &short()).unwrap();
    fs::write(&path, b"one two four").unwrap();

    // The bytes of this leaf are unchanged, but a write may be under way.
    let error = shared.get(&leaf(b"one ")).unwrap_err();
    let change = FileChange::Modified;
    assert!(matches!(&error, StoreError::Changed { change: c, .. } if *c == change), "{error}");
    assert!(!shared.has(&leaf(b"one ")) && !shared.has(&leaf(b"two ")));
    assert_eq!(shared.get(&leaf(b"two ")).unwrap(), None);
    assert_eq!(shared.take_unshared(), [UnsharedFile { path, change }]);
    assert_eq!((shared.take_unshared(), shared.files()), (vec![], 0));
}

#[test]
fn different_bytes_are_detected_even_with_the_same_length_and_time() {
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
    assert!(
        matches!(error, StoreError::Changed { change: FileChange::ContentDiffers, .. }),
        "{error}"
    );
    assert!(!shared.has(&leaf(b"one ")));
}

#[test]
fn a_removed_file_is_unshared_and_its_neighbour_is_not() {
    let scratch = Scratch::new();
    let (gone, stays) = (scratch.file("d/gone", b"gone"), scratch.file("d/stays", b"here"));
    let shared = SharedFiles::new(MEMORY_BYTES);
    shared.share(&scratch.join("d"), &short()).unwrap();
    assert_eq!(shared.files(), 2);
    fs::remove_file(&gone).unwrap();
    let error = shared.get(&leaf(b"gone")).unwrap_err();
    assert!(matches!(error, StoreError::Changed { change: FileChange::Missing, .. }), "{error}");
    assert_eq!(shared.get(&leaf(b"here")).unwrap().unwrap().bytes(), "here");
    assert!(stays.exists() && shared.files() == 1);
}

#[test]
fn a_leaf_of_two_files_is_found_in_the_file_that_remains() {
    let scratch = Scratch::new();
    let first = scratch.file("first", b"same");
    let second = scratch.file("second", b"same");
    let shared = SharedFiles::new(MEMORY_BYTES);
    shared.share(&first, &short()).unwrap();
    shared.share(&second, &short()).unwrap();
    fs::remove_file(&first).unwrap();
    assert_eq!(shared.get(&leaf(b"same")).unwrap().unwrap().bytes(), "same");
    let unshared = shared.take_unshared();
    assert_eq!(unshared, [UnsharedFile { path: first, change: FileChange::Missing }]);
}

#[test]
fn a_file_that_would_take_too_much_memory_is_not_shared() {
    let scratch = Scratch::new();
    let path = scratch.file("file", &[7; 4000]);
    let shared = SharedFiles::new(2000);
    let error = shared.share(&path, &short()).unwrap_err();
    assert!(matches!(error, StoreError::ShareMemoryFull { max: 2000, .. }), "{error}");
    assert_eq!(shared.files(), 0);
    assert!(!shared.has(&leaf(&[7; 4])));
}
