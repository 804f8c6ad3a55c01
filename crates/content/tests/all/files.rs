use std::convert::Infallible;

use serde::Deserialize;
use watchfire_content::{BlockStore, FileBuilder, MemoryStore, Profile, Root, assemble};

use crate::{Cids, generated};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeneratedFile {
    bytes: usize,
    profile: String,
    cid: String,
    dag_bytes: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextFile {
    text: String,
    profile: String,
    cid: String,
    dag_bytes: u64,
}

fn named(bytes: usize, profile: Profile) -> Root {
    let mut builder = FileBuilder::new(profile).unwrap();
    let mut forget = |_| Ok::<(), Infallible>(());
    for piece in generated(bytes) {
        builder.write(&piece, &mut forget).unwrap();
    }
    builder.finish(&mut forget).unwrap()
}

fn stored(pieces: impl Iterator<Item = Vec<u8>>, profile: Profile) -> (MemoryStore, Root) {
    let mut store = MemoryStore::new(64 << 20);
    let mut builder = FileBuilder::new(profile).unwrap();
    for piece in pieces {
        builder.write(&piece, &mut |block| store.put(block)).unwrap();
    }
    let root = builder.finish(&mut |block| store.put(block)).unwrap();
    (store, root)
}

#[test]
fn generated_files_have_the_same_cids_as_in_kubo() {
    let cids = Cids::read();
    for file in &cids.files {
        let root = named(file.bytes, cids.profile(&file.profile));
        let actual = (root.cid.to_string(), root.dag_bytes, root.file_bytes);
        let expected = (file.cid.clone(), file.dag_bytes, file.bytes as u64);
        assert_eq!(actual, expected, "{} bytes, {}", file.bytes, file.profile);
    }
}

#[test]
fn generated_files_are_assembled_from_their_blocks() {
    let cids = Cids::read();
    for file in cids.files.iter().filter(|file| file.bytes <= 50 << 20) {
        let profile = cids.profile(&file.profile);
        let (store, root) = stored(generated(file.bytes), profile);
        let read = assemble(&store, &root.cid, file.bytes as u64).unwrap();
        let is_same = read == generated(file.bytes).collect::<Vec<_>>().concat();
        assert!(is_same, "{} bytes, {}", file.bytes, file.profile);
    }
}

#[test]
fn texts_have_the_same_cids_as_in_kubo() {
    let cids = Cids::read();
    for file in &cids.texts {
        let pieces = [file.text.as_bytes().to_vec()].into_iter();
        let (store, root) = stored(pieces, cids.profile(&file.profile));
        let actual = (root.cid.to_string(), root.dag_bytes);
        assert_eq!(actual, (file.cid.clone(), file.dag_bytes), "{:?}", file.text);
        assert_eq!(assemble(&store, &root.cid, 1000).unwrap(), file.text);
    }
}
