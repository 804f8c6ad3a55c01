mod murmur3;
mod reader;
mod shard;

use std::collections::{BTreeMap, BTreeSet};

use crate::dag_pb::{DagPbError, Link, Node};
use crate::profile::{DIRECTORY_BYTES_MAX, DirectoryWeight};
use crate::unixfs::{Kind, UnixFs, UnixFsError};
use crate::{Block, Cid, Codec, Profile, Root, Version};

pub use reader::{DirectoryReader, ListError, LookedUp, Lookup, list};
pub use shard::ShardError;
use shard::{Spread, build_shards, hash_of};

/// Most bytes of a name that [`DirectoryBuilder`] takes: what file systems can store.
pub const NAME_BYTES_MAX: usize = 255;

/// Why a name cannot stand in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is nothing to call the entry by.
    #[error("the name is empty")]
    Empty,
    /// It would lead to the directory itself or out of it.
    #[error("the name is `.` or `..`")]
    Dots,
    /// It would lead into another directory.
    #[error("the name contains a slash")]
    Slash,
    /// File systems end names there.
    #[error("the name contains a NUL")]
    Nul,
    /// Longer than file systems can store.
    #[error("a name of {len} bytes, and at most {max} are allowed")]
    TooLong {
        /// Bytes of the name.
        len: usize,
        /// Most bytes of a name.
        max: usize,
    },
}

fn check_name(name: &str) -> Result<(), NameError> {
    match name {
        "" => Err(NameError::Empty),
        "." | ".." => Err(NameError::Dots),
        name if name.contains('/') => Err(NameError::Slash),
        name if name.contains('\0') => Err(NameError::Nul),
        _ => Ok(()),
    }
}

/// Why a directory cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryBuildError {
    /// The name is not one.
    #[error("{name:?}: {error}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        error: NameError,
    },
    /// Another entry has this name already.
    #[error("{name:?} is there already")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// The directory is spread over many nodes by the hashes of its names, and another name has
    /// the same. Nobody comes upon two by accident.
    #[error("{name:?} has the same hash as another name")]
    SameHash {
        /// The name.
        name: String,
    },
}

/// Builds a directory, just as kubo does: one node while that is light enough, and from
/// [`DIRECTORY_BYTES_MAX`] on many, over which its entries are spread by the hashes of their names.
///
/// Entries may be added in any order; in one node they are written in the order of their names'
/// bytes. A directory in a directory is built first, and added like a file.
///
/// ```
/// use content::{Block, Directory, DirectoryBuilder, Profile, Root};
///
/// let note = Block::raw("hi".into()).unwrap();
/// let note = Root { cid: note.cid().clone(), dag_bytes: 2, file_bytes: 2 };
///
/// let mut builder = DirectoryBuilder::new(Profile::UNIXFS_V1_2025);
/// builder.insert("note.txt", &note).unwrap();
/// assert!(builder.insert("../note.txt", &note).is_err());
///
/// let mut blocks = Vec::new();
/// let mut keep = |block| Ok::<(), std::convert::Infallible>(blocks.push(block));
/// let root = builder.finish(&mut keep).unwrap();
/// assert_eq!(blocks[0].cid(), &root.cid);
/// assert_eq!(Directory::decode(&blocks[0]).unwrap().find("note.txt").unwrap().cid, note.cid);
/// ```
#[derive(Clone, Debug)]
pub struct DirectoryBuilder {
    profile: Profile,
    entries: BTreeMap<String, (Cid, u64)>,
    weight: usize,
    /// The hashes of all names, from when the directory is too heavy for one node.
    hashes: Option<BTreeSet<u64>>,
}

impl DirectoryBuilder {
    /// A directory without entries. Of the profile, only the CID's version and the directory's
    /// weight matter.
    pub fn new(profile: Profile) -> Self {
        let weight = match profile.directory_weight {
            DirectoryWeight::Block => {
                let data = UnixFs::new(Kind::Directory).encode();
                Node { data: Some(data.into()), ..Node::default() }.encoded_len()
            }
            DirectoryWeight::NamesAndCids => 0,
        };
        DirectoryBuilder { profile, entries: BTreeMap::new(), weight, hashes: None }
    }

    /// Adds an entry; after an error the directory is as it was.
    pub fn insert(&mut self, name: &str, root: &Root) -> Result<(), DirectoryBuildError> {
        let owned = || name.to_owned();
        let (len, max) = (name.len(), NAME_BYTES_MAX);
        let too_long = if len > max { Err(NameError::TooLong { len, max }) } else { Ok(()) };
        check_name(name)
            .and(too_long)
            .map_err(|error| DirectoryBuildError::Name { name: owned(), error })?;
        if self.entries.contains_key(name) {
            return Err(DirectoryBuildError::DuplicateName { name: owned() });
        }
        let weight = self.weight
            + match self.profile.directory_weight {
                DirectoryWeight::Block => {
                    link(owned(), root.cid.clone(), root.dag_bytes).field_len()
                }
                DirectoryWeight::NamesAndCids => name.len() + root.cid.encoded_len(),
            };
        if weight > DIRECTORY_BYTES_MAX {
            self.check_hash(name)?;
        }
        self.weight = weight;
        self.entries.insert(owned(), (root.cid.clone(), root.dag_bytes));
        Ok(())
    }

    /// Whether no other name has the same hash, so that their ways part at some depth.
    fn check_hash(&mut self, name: &str) -> Result<(), DirectoryBuildError> {
        let same = || DirectoryBuildError::SameHash { name: name.to_owned() };
        if self.hashes.is_none() {
            let hashes: BTreeSet<u64> = self.entries.keys().map(|name| hash_of(name)).collect();
            if hashes.len() < self.entries.len() {
                return Err(same());
            }
            self.hashes = Some(hashes);
        }
        let is_new = self.hashes.as_mut().is_some_and(|hashes| hashes.insert(hash_of(name)));
        if is_new { Ok(()) } else { Err(same()) }
    }

    /// The directory is complete: emits its blocks, the root last, and says what was built.
    pub fn finish<E>(self, emit: &mut impl FnMut(Block) -> Result<(), E>) -> Result<Root, E> {
        let version = self.profile.cid_version;
        if self.weight > DIRECTORY_BYTES_MAX {
            let spread = |(name, (cid, dag_bytes))| Spread::new(name, cid, dag_bytes);
            let mut entries: Vec<_> = self.entries.into_iter().map(spread).collect();
            entries.sort_by_key(|entry| entry.hash);
            return build_shards(entries, 0, version, emit);
        }
        let links = self.entries.into_iter().map(|(name, (cid, tsize))| link(name, cid, tsize));
        let (block, root) = directory_node(links.collect(), UnixFs::new(Kind::Directory), version);
        emit(block)?;
        Ok(root)
    }
}

/// A node of a directory, and what is needed to link to it.
fn directory_node(links: Vec<Link>, data: UnixFs, version: Version) -> (Block, Root) {
    let below = links.iter().filter_map(|link| link.tsize).fold(0, u64::saturating_add);
    let node = Node { links, data: Some(data.encode().into()), ..Node::default() };
    let block = Block::dag_pb(version, node.encode().into())
        .expect("a node that was weighed, or of 256 links, fits into a block");
    let dag_bytes = below.saturating_add(block.bytes().len() as u64);
    let root = Root { cid: block.cid().clone(), dag_bytes, file_bytes: 0 };
    (block, root)
}

fn link(name: String, cid: Cid, dag_bytes: u64) -> Link {
    Link { cid, name: Some(name), tsize: Some(dag_bytes) }
}

/// The block of a symbolic link to `target`, and what is needed to put it into a directory.
///
/// Fails when the target is longer than a block.
pub fn build_symlink(profile: Profile, target: &str) -> Result<(Block, Root), crate::BlockError> {
    let data = Some(bytes::Bytes::copy_from_slice(target.as_bytes()));
    let symlink = UnixFs { data, ..UnixFs::new(Kind::Symlink) };
    let node = Node { data: Some(symlink.encode().into()), ..Node::default() };
    let block = Block::dag_pb(profile.cid_version, node.encode().into())?;
    let dag_bytes = block.bytes().len() as u64;
    let root = Root { cid: block.cid().clone(), dag_bytes, file_bytes: 0 };
    Ok((block, root))
}

/// What a directory calls something, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name: never empty, `.` or `..`, and without slashes and NULs.
    pub name: String,
    /// Its root.
    pub cid: Cid,
    /// Bytes of all its blocks, as the directory's maker counted them: a hint, not verified.
    pub dag_bytes: Option<u64>,
}

/// A directory as it was found in a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    entries: Vec<Entry>,
}

/// Why a block is not a directory that we can read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// The block is not a node.
    #[error("a block of {codec} is not a directory")]
    Codec {
        /// How the block is to be read.
        codec: Codec,
    },
    /// The block is not a node although its CID says so.
    #[error("the directory is not dag-pb: {0}")]
    DagPb(#[from] DagPbError),
    /// The node's data is not UnixFS.
    #[error("the directory is not UnixFS: {0}")]
    UnixFs(#[from] UnixFsError),
    /// The node is something else.
    #[error("{kind:?} is not a directory")]
    Kind {
        /// What it is.
        kind: Kind,
    },
    /// The directory is spread over many nodes: one of them is not all of it. See
    /// [`DirectoryReader`].
    #[error("the directory is spread over many nodes, of which this is one")]
    Sharded,
    /// One of the nodes that the directory is spread over is wrong.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// There are more entries than its reader wants.
    #[error("more than {max} entries")]
    TooManyEntries {
        /// Most entries that are wanted.
        max: usize,
    },
    /// An entry has a name that could lead elsewhere.
    #[error("an entry's name {name:?}: {error}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        error: NameError,
    },
    /// Two entries have the same name.
    #[error("two entries are named {name:?}")]
    DuplicateName {
        /// The name.
        name: String,
    },
}

impl Directory {
    /// Reads the directory in `block`, which is all of it: [`DirectoryReader`] reads those too that
    /// are spread over many.
    ///
    /// All of it or nothing: one name that could lead out of the directory refuses it whole, since
    /// nobody makes one by mistake.
    pub fn decode(block: &Block) -> Result<Self, DirectoryError> {
        let (node, unixfs) = node_of(block)?;
        match unixfs.kind {
            Kind::Directory => Self::from_links(node.links),
            Kind::HamtShard => Err(DirectoryError::Sharded),
            kind => Err(DirectoryError::Kind { kind }),
        }
    }

    fn from_links(links: Vec<Link>) -> Result<Self, DirectoryError> {
        let mut entries = Vec::with_capacity(links.len());
        for link in links {
            let name = link.name.unwrap_or_default();
            if let Err(error) = check_name(&name) {
                return Err(DirectoryError::Name { name, error });
            }
            entries.push(Entry { name, cid: link.cid, dag_bytes: link.tsize });
        }
        Self::of(entries)
    }

    /// The directory of these entries, whose names were checked.
    fn of(mut entries: Vec<Entry>) -> Result<Self, DirectoryError> {
        // Everyone sorts by name today; what is older need not be.
        entries.sort_by(|a: &Entry, b: &Entry| a.name.cmp(&b.name));
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(DirectoryError::DuplicateName { name: pair[0].name.clone() });
        }
        Ok(Directory { entries })
    }

    /// All entries, in the order of their names' bytes.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of that name.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok()?;
        Some(&self.entries[at])
    }
}

/// The node in `block`, and what it says about a directory.
fn node_of(block: &Block) -> Result<(Node, UnixFs), DirectoryError> {
    let codec = block.cid().codec();
    if codec != Codec::DAG_PB {
        return Err(DirectoryError::Codec { codec });
    }
    let mut node = Node::decode(block.bytes())?;
    let unixfs = UnixFs::decode(&node.data.take().unwrap_or_default())?;
    Ok((node, unixfs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> Root {
        let block = Block::raw("x".into()).unwrap();
        Root { cid: block.cid().clone(), dag_bytes: 1, file_bytes: 1 }
    }

    fn with(names: &[&str]) -> DirectoryBuilder {
        let mut builder = DirectoryBuilder::new(Profile::UNIXFS_V1_2025);
        for name in names {
            builder.insert(name, &root()).unwrap();
        }
        builder
    }

    /// The blocks of a directory, the root last.
    fn built(builder: DirectoryBuilder) -> (Vec<Block>, Root) {
        let mut blocks = Vec::new();
        let mut keep = |block| {
            blocks.push(block);
            Ok::<(), std::convert::Infallible>(())
        };
        let root = builder.finish(&mut keep).unwrap();
        (blocks, root)
    }

    fn only_block(builder: DirectoryBuilder) -> Block {
        let (mut blocks, _) = built(builder);
        assert_eq!(blocks.len(), 1);
        blocks.swap_remove(0)
    }

    fn directory_data() -> Vec<u8> {
        UnixFs::new(Kind::Directory).encode()
    }

    fn block_of(node: &Node) -> Block {
        Block::dag_pb(crate::Version::V1, node.encode().into()).unwrap()
    }

    #[test]
    fn entries_are_ordered_by_the_bytes_of_their_names() {
        let block = only_block(with(&["b", "é", "a", "B", "ab", "a.b"]));
        let directory = Directory::decode(&block).unwrap();
        let names: Vec<_> = directory.entries().iter().map(|entry| &entry.name[..]).collect();
        assert_eq!(names, ["B", "a", "a.b", "ab", "b", "é"]);
        assert_eq!(directory.find("ab").unwrap().dag_bytes, Some(1));
        assert_eq!(directory.find("abc"), None);
    }

    #[test]
    fn names_that_could_lead_elsewhere_are_refused_in_both_directions() {
        let refused = [
            ("", NameError::Empty),
            (".", NameError::Dots),
            ("..", NameError::Dots),
            ("a/b", NameError::Slash),
            ("/", NameError::Slash),
            ("a\0", NameError::Nul),
        ];
        for (name, error) in refused {
            let name = name.to_owned();
            let mut builder = with(&["a"]);
            assert_eq!(
                builder.insert(&name, &root()),
                Err(DirectoryBuildError::Name { name: name.clone(), error })
            );
            let links = vec![link(name.clone(), root().cid, 1)];
            let node = Node { links, data: Some(directory_data().into()), ..Node::default() };
            let read = Directory::decode(&block_of(&node));
            assert_eq!(read, Err(DirectoryError::Name { name, error }));
        }
        assert!(with(&[]).insert(&"n".repeat(255), &root()).is_ok());
        assert!(with(&[]).insert(&"n".repeat(256), &root()).is_err());
    }

    #[test]
    fn a_name_is_given_once() {
        let name = || "a".to_owned();
        let again = with(&["a"]).insert("a", &root());
        assert_eq!(again, Err(DirectoryBuildError::DuplicateName { name: name() }));
        let links = vec![link(name(), root().cid, 1), link(name(), root().cid, 2)];
        let node = Node { links, data: Some(directory_data().into()), ..Node::default() };
        let read = Directory::decode(&block_of(&node));
        assert_eq!(read, Err(DirectoryError::DuplicateName { name: name() }));
    }

    #[test]
    fn one_entry_more_than_fits_spreads_the_directory() {
        for directory_weight in [DirectoryWeight::Block, DirectoryWeight::NamesAndCids] {
            let profile = Profile { directory_weight, ..Profile::UNIXFS_V1_2025 };
            let mut builder = DirectoryBuilder::new(profile);
            let mut number = 0;
            let mut insert = |builder: &mut DirectoryBuilder| {
                builder.insert(&format!("{number:0200}"), &root()).unwrap();
                number += 1;
            };
            let mut before = builder.clone();
            while builder.weight <= DIRECTORY_BYTES_MAX {
                before = builder.clone();
                insert(&mut builder);
            }
            let one = only_block(before);
            if directory_weight == DirectoryWeight::Block {
                assert!(one.bytes().len() <= DIRECTORY_BYTES_MAX);
            }
            let (blocks, root) = built(builder);
            let last = blocks.last().unwrap();
            assert!(blocks.len() > 1 && last.cid() == &root.cid);
            assert_eq!(Directory::decode(last), Err(DirectoryError::Sharded));
        }
    }

    #[test]
    fn the_weight_of_a_block_is_its_length() {
        let builder = with(&["a", "a much longer name, so that lengths differ", "ü"]);
        let weight = builder.weight;
        assert_eq!(only_block(builder).bytes().len(), weight);
    }

    #[test]
    fn what_is_not_a_directory_says_what_it_is() {
        let raw = Block::raw("x".into()).unwrap();
        assert_eq!(Directory::decode(&raw), Err(DirectoryError::Codec { codec: Codec::RAW }));
        let (symlink, _) = build_symlink(Profile::UNIXFS_V1_2025, "elsewhere").unwrap();
        assert_eq!(Directory::decode(&symlink), Err(DirectoryError::Kind { kind: Kind::Symlink }));
        let shard = UnixFs::new(Kind::HamtShard).encode();
        let shard = block_of(&Node { data: Some(shard.into()), ..Node::default() });
        assert_eq!(Directory::decode(&shard), Err(DirectoryError::Sharded));
    }
}
