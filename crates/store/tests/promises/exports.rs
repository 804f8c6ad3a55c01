use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use watchfire_content::dag_pb::{Link, Node};
use watchfire_content::unixfs::{Kind, UnixFs};
use watchfire_content::{Block, Cid, Profile, Version};
use watchfire_store::{
    ExportError, ExportLimits, Exported, ImportOptions, LockedMemoryStore, WriteBlocks, cid_of,
    export, import, resolve,
};

use crate::scratch::{Scratch, files_below};

/// Creates a directory with a file of many leaves, links, a large directory and an empty one.
fn create_files(scratch: &Scratch) {
    scratch.file("tree/large", &(0..3_000_000_u32).map(|i| (i % 251) as u8).collect::<Vec<_>>());
    scratch.file("tree/sub/.hidden", b"h\n");
    scratch.file("tree/sub/empty", b"");
    fs::create_dir(scratch.join("tree/nothing")).unwrap();
    symlink("../../elsewhere", scratch.join("tree/away")).unwrap();
    for number in 0..1500 {
        scratch.file(&format!("tree/wide/{number:0>200}"), format!("{number}\n").as_bytes());
    }
}

fn imported(path: &Path, profile: Profile) -> (LockedMemoryStore, Cid) {
    let blocks = LockedMemoryStore::new(64 << 20);
    let options = ImportOptions { profile, ..ImportOptions::default() };
    let root = import(path, &options, &mut |imported| blocks.put(imported.block)).unwrap();
    (blocks, root.cid)
}

fn write_out(blocks: &LockedMemoryStore, root: &Cid, path: &Path) -> Result<Exported, ExportError> {
    export(blocks, root, path, &ExportLimits::default(), &mut |_| {})
}

/// Stores a UnixFS node of this kind with these links.
fn put_node(blocks: &LockedMemoryStore, kind: Kind, links: &[(&str, &Cid)]) -> Cid {
    let links = links.iter().map(|(name, cid)| Link {
        cid: (*cid).clone(),
        name: Some((*name).to_owned()),
        tsize: Some(1),
    });
    let data = Some(UnixFs::new(kind).encode().into());
    let node = Node { links: links.collect(), data, ..Node::default() };
    let block = Block::dag_pb(Version::V1, node.encode().into()).unwrap();
    blocks.put(&block).unwrap();
    block.cid().clone()
}

#[test]
fn an_export_restores_the_imported_files() {
    for profile in [Profile::UNIXFS_V1_2025, Profile::KUBO_DEFAULT] {
        let scratch = Scratch::new();
        create_files(&scratch);
        let (blocks, root) = imported(&scratch.join("tree"), profile);
        let out = scratch.join("out");
        let exported = write_out(&blocks, &root, &out).unwrap();
        assert_eq!(exported.entries, 1 + 6 + 1500 + 1);
        let options = ImportOptions { profile, ..ImportOptions::default() };
        assert_eq!(cid_of(&out, &options).unwrap().cid, root);
        assert_eq!(fs::read_link(out.join("away")).unwrap(), Path::new("../../elsewhere"));
        let bytes: u64 = files_below(&scratch.join("tree")).iter().map(|file| len(file)).sum();
        assert_eq!(exported.bytes, bytes);
        assert_eq!(fs::read_dir(&*scratch).unwrap().count(), 2);
    }
}

fn len(path: &Path) -> u64 {
    let metadata = fs::symlink_metadata(path).unwrap();
    if metadata.is_file() { metadata.len() } else { 0 }
}

#[test]
fn paths_are_resolved_through_plain_and_sharded_directories() {
    let scratch = Scratch::new();
    create_files(&scratch);
    let (blocks, root) = imported(&scratch.join("tree"), Profile::default());
    let path = format!("/wide/{:0>200}", 777);
    let file = resolve(&blocks, &root, &path).unwrap();
    write_out(&blocks, &file, &scratch.join("file")).unwrap();
    assert_eq!(fs::read_to_string(scratch.join("file")).unwrap(), "777\n");
    assert_eq!(resolve(&blocks, &root, "").unwrap(), root);
    let error = resolve(&blocks, &root, "sub/absent").unwrap_err();
    assert!(matches!(&error, ExportError::NotFound { name, .. } if name == "absent"), "{error}");
    let error = resolve(&blocks, &root, "large/x").unwrap_err();
    assert!(matches!(error, ExportError::Directory { .. }), "{error}");
}

#[test]
fn an_existing_file_is_not_overwritten() {
    let scratch = Scratch::new();
    let (blocks, root) = imported(&scratch.file("new", b"new\n"), Profile::default());
    let old = scratch.file("old", b"old\n");
    let error = write_out(&blocks, &root, &old).unwrap_err();
    assert!(matches!(error, ExportError::Exists { .. }), "{error}");
    assert_eq!(fs::read_to_string(&old).unwrap(), "old\n");
}

#[test]
fn a_failed_export_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let blocks = LockedMemoryStore::new(1 << 20);
    let stored = Block::raw("stored".into()).unwrap();
    let missing = Block::raw("missing".into()).unwrap();
    blocks.put(&stored).unwrap();
    let root = put_node(&blocks, Kind::Directory, &[("a", stored.cid()), ("b", missing.cid())]);
    let error = write_out(&blocks, &root, &scratch.join("out")).unwrap_err();
    assert!(matches!(&error, ExportError::Missing { cid } if cid == missing.cid()), "{error}");
    assert_eq!(fs::read_dir(&*scratch).unwrap().count(), 0);
}

#[test]
fn a_few_blocks_that_describe_a_billion_files_are_rejected() {
    let scratch = Scratch::new();
    let blocks = LockedMemoryStore::new(1 << 20);
    let leaf = Block::raw("x".into()).unwrap();
    blocks.put(&leaf).unwrap();
    let mut cid = leaf.cid().clone();
    for _ in 0..30 {
        cid = put_node(&blocks, Kind::Directory, &[("a", &cid), ("b", &cid)]);
    }
    let limits = ExportLimits { entries_max: 1000, ..ExportLimits::default() };
    let error = export(&blocks, &cid, &scratch.join("out"), &limits, &mut |_| {}).unwrap_err();
    assert!(matches!(error, ExportError::TooManyEntries { max: 1000 }), "{error}");

    let limits = ExportLimits { bytes_max: 100, ..ExportLimits::default() };
    let error = export(&blocks, &cid, &scratch.join("out"), &limits, &mut |_| {}).unwrap_err();
    assert!(matches!(error, ExportError::TooManyBytes { max: 100 }), "{error}");
    // Each entry takes a block of the disk, however short it is.
    let write = |root: &Cid, bytes_max| {
        let limits = ExportLimits { bytes_max, ..ExportLimits::default() };
        export(&blocks, root, &scratch.join("out"), &limits, &mut |_| {})
    };
    let folder = put_node(&blocks, Kind::Directory, &[("a", leaf.cid()), ("b", leaf.cid())]);
    let error = write(&folder, 2 * 4096 - 1).unwrap_err().to_string();
    assert!(error.contains("8191 bytes") && error.contains("at least 4096 bytes"), "{error}");
    assert_eq!(fs::read_dir(&*scratch).unwrap().count(), 0);
    assert_eq!(write(&folder, 2 * 4096).unwrap(), Exported { bytes: 2, entries: 3 });
    fs::remove_dir_all(scratch.join("out")).unwrap();
    assert_eq!(write(leaf.cid(), 1).unwrap(), Exported { bytes: 1, entries: 1 });
}

#[test]
fn directories_that_are_too_deep_are_not_exported() {
    let scratch = Scratch::new();
    let blocks = LockedMemoryStore::new(4 << 20);
    let mut cid = put_node(&blocks, Kind::Directory, &[]);
    for _ in 0..5000 {
        cid = put_node(&blocks, Kind::Directory, &[("d", &cid)]);
    }
    let error = write_out(&blocks, &cid, &scratch.join("out")).unwrap_err();
    assert!(matches!(error, ExportError::TooDeep { .. }), "{error}");
    assert_eq!(fs::read_dir(&*scratch).unwrap().count(), 0);
}
