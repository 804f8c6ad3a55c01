use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde::Deserialize;
use watchfire_content::Profile;
use watchfire_store::{ImportOptions, StoreError, cid_of};

use crate::scratch::Scratch;

/// The part of `tests/vectors/cids.json` that this test uses.
#[derive(Deserialize)]
struct Vectors {
    files: Vec<FileVector>,
    directories: Vec<DirectoryVector>,
}

#[derive(Deserialize)]
struct FileVector {
    bytes: usize,
    profile: String,
    cid: String,
}

#[derive(Deserialize)]
struct DirectoryVector {
    about: String,
    profile: String,
    #[serde(default)]
    entries: Vec<Entry>,
    cid: String,
}

#[derive(Deserialize)]
struct Entry {
    path: String,
    text: Option<String>,
    bytes: Option<usize>,
    symlink: Option<String>,
}

fn vectors() -> Vectors {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/cids.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn options(profile: &str) -> Option<ImportOptions> {
    let profile = match profile {
        "unixfs-v1-2025" => Profile::UNIXFS_V1_2025,
        "kubo-default" => Profile::KUBO_DEFAULT,
        "v1-1-mib" => Profile::V1_1_MIB,
        _ => return None,
    };
    Some(ImportOptions { profile, ..ImportOptions::default() })
}

fn generated(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i % 251) as u8).collect()
}

fn write(folder: &Path, entry: &Entry) {
    let path = folder.join(&entry.path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match entry {
        Entry { text: Some(text), .. } => fs::write(path, text).unwrap(),
        Entry { bytes: Some(bytes), .. } => fs::write(path, generated(*bytes)).unwrap(),
        Entry { symlink: Some(target), .. } => symlink(target, path).unwrap(),
        Entry { .. } => fs::create_dir(path).unwrap(),
    }
}

#[test]
fn files_and_directories_on_disk_have_the_cids_that_kubo_gives_them() {
    let mut compared = 0;
    for file in vectors().files.iter().filter(|file| file.bytes < 5_000_000) {
        let Some(options) = options(&file.profile) else { continue };
        let scratch = Scratch::new();
        let path = scratch.file("file", &generated(file.bytes));
        let root = cid_of(&path, &options).unwrap();
        assert_eq!(root.cid.to_string(), file.cid, "{} bytes, {}", file.bytes, file.profile);
        compared += 1;
    }
    let directories = vectors().directories;
    for directory in directories.iter().filter(|it| it.entries.len() < 1000) {
        let Some(options) = options(&directory.profile) else { continue };
        if directory.entries.is_empty() && directory.about != "an empty directory" {
            continue;
        }
        let scratch = Scratch::new();
        directory.entries.iter().for_each(|entry| write(&scratch, entry));
        let root = cid_of(&scratch, &options).unwrap();
        assert_eq!(root.cid.to_string(), directory.cid, "{}", directory.about);
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn hidden_files_are_skipped_if_that_is_requested() {
    let scratch = Scratch::new();
    scratch.file("shown", b"s\n");
    let plain = cid_of(&scratch, &ImportOptions::default()).unwrap();
    let hidden = scratch.file(".hidden", b"h\n");
    let skips = ImportOptions { skips_hidden: true, ..ImportOptions::default() };
    assert_eq!(cid_of(&scratch, &skips).unwrap(), plain);
    assert_ne!(cid_of(&scratch, &ImportOptions::default()).unwrap(), plain);
    // The imported path itself is never skipped.
    assert_eq!(cid_of(&hidden, &skips).unwrap().file_bytes, 2);
}

#[test]
fn the_error_names_the_file_that_cannot_be_imported() {
    let scratch = Scratch::new();
    let options = ImportOptions::default();
    let error = cid_of(&scratch.join("absent"), &options).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    let error = cid_of(Path::new("/dev/null"), &options).unwrap_err();
    assert!(matches!(error, StoreError::UnsupportedFileType { .. }), "{error}");
    fs::write(scratch.join(OsStr::from_bytes(b"\xff")), "x").unwrap();
    let error = cid_of(&scratch, &options).unwrap_err();
    assert!(matches!(error, StoreError::NameNotUtf8 { .. }), "{error}");
}
