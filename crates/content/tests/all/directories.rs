use std::collections::BTreeMap;

use serde::Deserialize;
use watchfire_content::{
    Block, BlockStore, DirectoryBuilder, DirectoryError, FileBuilder, MemoryStore, Profile, Root,
    build_symlink, list,
};

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

/// An entry of a directory. Exactly one field other than `path` is set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryVector {
    path: String,
    text: Option<String>,
    bytes: Option<usize>,
    symlink: Option<String>,
    directory: Option<bool>,
}

/// `count` empty files, whose names are their numbers from 0 with leading zeros.
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

/// Builds files and directories into a store that has room for every vector.
pub struct Built {
    pub store: MemoryStore,
    profile: Profile,
}

impl Built {
    pub fn new(profile: Profile) -> Self {
        Built { store: MemoryStore::new(64 << 20), profile }
    }

    pub fn file(&mut self, pieces: impl IntoIterator<Item = Vec<u8>>) -> Root {
        let mut put = |block| self.store.put(block);
        let mut builder = FileBuilder::new(self.profile).unwrap();
        for piece in pieces {
            builder.write(&piece, &mut put).unwrap();
        }
        builder.finish(&mut put).unwrap()
    }

    fn symlink(&mut self, target: &str) -> Root {
        let (block, root): (Block, Root) = build_symlink(self.profile, target).unwrap();
        self.store.put(block).unwrap();
        root
    }

    fn tree_at(&mut self, entry: &EntryVector) -> Tree {
        match (&entry.text, entry.bytes, &entry.symlink, entry.directory) {
            (Some(text), None, None, None) => Tree::Leaf(self.file([text.as_bytes().to_vec()])),
            (None, Some(bytes), None, None) => Tree::Leaf(self.file(generated(bytes))),
            (None, None, Some(target), None) => Tree::Leaf(self.symlink(target)),
            (None, None, None, Some(true)) => Tree::Directory(BTreeMap::new()),
            _ => panic!("{}: not exactly one content", entry.path),
        }
    }

    fn directory(&mut self, tree: &BTreeMap<String, Tree>) -> Root {
        let mut builder = DirectoryBuilder::new(self.profile);
        // In reverse, to show that the order of insertion does not matter.
        for (name, entry) in tree.iter().rev() {
            let root = match entry {
                Tree::Leaf(root) => root.clone(),
                Tree::Directory(below) => self.directory(below),
            };
            builder.insert(name, &root).unwrap();
        }
        let root = builder.finish(&mut |block| self.store.put(block)).unwrap();
        let listed = list(&self.store, &root.cid, tree.len()).unwrap();
        assert!(listed.entries().iter().map(|entry| &entry.name).eq(tree.keys()));
        root
    }

    pub fn entries(&mut self, entries: &[EntryVector]) -> Root {
        let tree = self.tree(entries);
        self.directory(&tree)
    }

    fn tree(&mut self, entries: &[EntryVector]) -> BTreeMap<String, Tree> {
        let mut tree = BTreeMap::new();
        for entry in entries {
            let below = self.tree_at(entry);
            insert(&mut tree, &entry.path, below);
        }
        tree
    }

    /// Builds a directory of files whose names are numbers. `text` maps a name to its content.
    pub fn numbered(&mut self, count: usize, digits: usize, text: fn(&str) -> &str) -> Root {
        let mut tree = BTreeMap::new();
        for number in 0..count {
            let name = format!("{number:0digits$}");
            let root = self.file([text(&name).as_bytes().to_vec()]);
            tree.insert(name, Tree::Leaf(root));
        }
        self.directory(&tree)
    }
}

fn insert(tree: &mut BTreeMap<String, Tree>, path: &str, entry: Tree) {
    match path.split_once('/') {
        None => drop(tree.insert(path.to_owned(), entry)),
        Some((first, rest)) => {
            let below = tree.entry(first.to_owned()).or_insert(Tree::Directory(BTreeMap::new()));
            let Tree::Directory(below) = below else { panic!("{first} is not a directory") };
            insert(below, rest, entry);
        }
    }
}

#[test]
fn directories_have_the_same_cids_as_in_kubo() {
    let cids = Cids::read();
    for directory in &cids.directories {
        let mut built = Built::new(cids.profile(&directory.profile));
        let root = match directory.numbered {
            Some(Numbered { count, name_digits }) => built.numbered(count, name_digits, |_| ""),
            None => built.entries(&directory.entries),
        };
        let actual = (root.cid.to_string(), root.dag_bytes);
        let expected = (directory.cid.clone(), directory.dag_bytes);
        assert_eq!(actual, expected, "{}, {}", directory.about, directory.profile);
        let block = built.store.get(&root.cid).unwrap();
        let is_sharded =
            watchfire_content::Directory::decode(&block) == Err(DirectoryError::Sharded);
        assert_eq!(is_sharded, directory.sharded, "{}", directory.about);
    }
}
