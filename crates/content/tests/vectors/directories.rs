use std::collections::BTreeMap;
use std::convert::Infallible;

use content::{
    Directory, DirectoryBuildError, DirectoryBuilder, FileBuilder, Profile, Root, build_symlink,
};
use serde::Deserialize;

use crate::{Cids, generated};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectoryVector {
    about: String,
    profile: String,
    #[serde(default)]
    entries: Vec<EntryVector>,
    numbered: Option<Numbered>,
    #[serde(default)]
    sharded: bool,
    cid: String,
    dag_bytes: u64,
}

/// What stands at a path: exactly one of the other fields says it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryVector {
    path: String,
    text: Option<String>,
    bytes: Option<usize>,
    symlink: Option<String>,
    directory: Option<bool>,
}

/// So many empty files, whose names are their numbers from 0 with leading zeros.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Numbered {
    count: usize,
    name_digits: usize,
}

enum Tree {
    Leaf(Root),
    Directory(BTreeMap<String, Tree>),
}

fn file(pieces: impl Iterator<Item = Vec<u8>>, profile: Profile) -> Root {
    let mut forget = |_| Ok::<(), Infallible>(());
    let mut builder = FileBuilder::new(profile).unwrap();
    for piece in pieces {
        builder.write(&piece, &mut forget).unwrap();
    }
    builder.finish(&mut forget).unwrap()
}

fn tree_at(entry: &EntryVector, profile: Profile) -> Tree {
    match (&entry.text, entry.bytes, &entry.symlink, entry.directory) {
        (Some(text), None, None, None) => {
            Tree::Leaf(file([text.as_bytes().to_vec()].into_iter(), profile))
        }
        (None, Some(bytes), None, None) => Tree::Leaf(file(generated(bytes), profile)),
        (None, None, Some(target), None) => Tree::Leaf(build_symlink(profile, target).unwrap().1),
        (None, None, None, Some(true)) => Tree::Directory(BTreeMap::new()),
        _ => panic!("{}: what is it?", entry.path),
    }
}

fn insert(tree: &mut BTreeMap<String, Tree>, path: &str, what: Tree) {
    match path.split_once('/') {
        None => drop(tree.insert(path.to_owned(), what)),
        Some((first, rest)) => {
            let below = tree.entry(first.to_owned()).or_insert(Tree::Directory(BTreeMap::new()));
            let Tree::Directory(below) = below else { panic!("{first} is no directory") };
            insert(below, rest, what);
        }
    }
}

fn build(tree: &BTreeMap<String, Tree>, profile: Profile) -> Result<Root, DirectoryBuildError> {
    let mut builder = DirectoryBuilder::new(profile);
    // Backwards, to show that the order of adding does not matter.
    for (name, what) in tree.iter().rev() {
        match what {
            Tree::Leaf(root) => builder.insert(name, root)?,
            Tree::Directory(below) => builder.insert(name, &build(below, profile)?)?,
        }
    }
    let (block, root) = builder.finish();
    let names = Directory::decode(&block).unwrap();
    assert!(names.entries().iter().map(|entry| &entry.name).eq(tree.keys()));
    Ok(root)
}

fn tree_of(directory: &DirectoryVector, profile: Profile) -> BTreeMap<String, Tree> {
    let mut tree = BTreeMap::new();
    for entry in &directory.entries {
        insert(&mut tree, &entry.path, tree_at(entry, profile));
    }
    if let Some(Numbered { count, name_digits }) = directory.numbered {
        for number in 0..count {
            let name = format!("{number:0name_digits$}");
            insert(&mut tree, &name, Tree::Leaf(file(std::iter::empty(), profile)));
        }
    }
    tree
}

#[test]
fn directories_have_the_cids_that_kubo_gives_them() {
    let cids = Cids::read();
    for directory in cids.directories.iter().filter(|directory| !directory.sharded) {
        let profile = cids.profile(&directory.profile);
        let root = build(&tree_of(directory, profile), profile).unwrap();
        let told = (root.cid.to_string(), root.dag_bytes);
        let expected = (directory.cid.clone(), directory.dag_bytes);
        assert_eq!(told, expected, "{}, {}", directory.about, directory.profile);
    }
}

#[test]
fn directories_that_kubo_spreads_over_many_nodes_are_refused() {
    let cids = Cids::read();
    let sharded: Vec<_> = cids.directories.iter().filter(|directory| directory.sharded).collect();
    assert!(!sharded.is_empty());
    for directory in sharded {
        let profile = cids.profile(&directory.profile);
        let refused = build(&tree_of(directory, profile), profile);
        assert!(matches!(refused, Err(DirectoryBuildError::TooLarge { .. })), "{refused:?}");
    }
}
