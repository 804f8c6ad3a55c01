mod murmur3;
mod reader;
mod shard;

use std::collections::{BTreeMap, BTreeSet};

use crate::dag_pb::{DagPbError, Link, Node};
use crate::profile::{HAMT_THRESHOLD_BYTES, HamtSizeEstimation};
use crate::unixfs::{Kind, UnixFs, UnixFsError};
use crate::{Block, Cid, Codec, Profile, Root, Version};

pub use reader::{DirectoryReader, ListError, Lookup, LookupStep, list};
pub use shard::ShardError;
use shard::{ShardEntry, build_shards, hash_of};

/// The longest name that [`DirectoryBuilder`] accepts, which is the limit of file systems.
pub const NAME_BYTES_MAX: usize = 255;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("the name is empty")]
    Empty,
    /// The name would refer to the directory itself or its parent.
    #[error("the name is `.` or `..`")]
    Dots,
    /// The name would refer to another directory.
    #[error("the name contains a slash")]
    Slash,
    #[error("the name contains a NUL")]
    Nul,
    #[error("a name of {len} bytes exceeds the limit of {max} bytes")]
    TooLong { len: usize, max: usize },
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

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryBuildError {
    #[error("invalid name {name:?}: {error}")]
    Name { name: String, error: NameError },
    #[error("the directory already has an entry {name:?}")]
    DuplicateName { name: String },
    /// The directory is sharded by the hashes of its names, and another name has the same hash.
    /// This does not happen by accident.
    #[error("{name:?} has the same hash as another name")]
    SameHash { name: String },
}

/// Builds a directory as kubo does: one node up to [`HAMT_THRESHOLD_BYTES`], and above it a HAMT,
/// whose shards contain the entries by the hashes of their names.
///
/// Entries may be added in any order. In one node they are sorted by the bytes of their names. A
/// nested directory is built first and added like a file.
///
/// ```
/// use watchfire_content::{Block, Directory, DirectoryBuilder, Profile, Root};
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
    estimated_bytes: usize,
    /// The hashes of all names, once the directory is too large for one node.
    hashes: Option<BTreeSet<u64>>,
}

impl DirectoryBuilder {
    /// Creates a directory without entries. It uses only the CID version and the size estimation of
    /// the profile.
    pub fn new(profile: Profile) -> Self {
        let estimated_bytes = match profile.hamt_size_estimation {
            HamtSizeEstimation::BlockBytes => {
                let data = UnixFs::new(Kind::Directory).encode();
                Node { data: Some(data.into()), ..Node::default() }.encoded_len()
            }
            HamtSizeEstimation::LinksBytes => 0,
        };
        DirectoryBuilder { profile, entries: BTreeMap::new(), estimated_bytes, hashes: None }
    }

    /// Adds an entry. After an error the directory is unchanged.
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
        let estimated_bytes = self.estimated_bytes
            + match self.profile.hamt_size_estimation {
                HamtSizeEstimation::BlockBytes => {
                    link(owned(), root.cid.clone(), root.dag_bytes).field_len()
                }
                HamtSizeEstimation::LinksBytes => name.len() + root.cid.encoded_len(),
            };
        if estimated_bytes > HAMT_THRESHOLD_BYTES {
            self.check_hash(name)?;
        }
        self.estimated_bytes = estimated_bytes;
        self.entries.insert(owned(), (root.cid.clone(), root.dag_bytes));
        Ok(())
    }

    /// Fails if another name has the same hash, because such names cannot be put into different
    /// slots.
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

    /// Completes the directory: emits its blocks, the root last, and returns the root.
    pub fn finish<E>(self, emit: &mut impl FnMut(Block) -> Result<(), E>) -> Result<Root, E> {
        let version = self.profile.cid_version;
        if self.estimated_bytes > HAMT_THRESHOLD_BYTES {
            let shard_entry = |(name, (cid, dag_bytes))| ShardEntry::new(name, cid, dag_bytes);
            let mut entries: Vec<_> = self.entries.into_iter().map(shard_entry).collect();
            entries.sort_by_key(|entry| entry.hash);
            return build_shards(entries, 0, version, emit);
        }
        let links = self.entries.into_iter().map(|(name, (cid, tsize))| link(name, cid, tsize));
        let (block, root) = directory_node(links.collect(), UnixFs::new(Kind::Directory), version);
        emit(block)?;
        Ok(root)
    }
}

fn directory_node(links: Vec<Link>, data: UnixFs, version: Version) -> (Block, Root) {
    let below = links.iter().filter_map(|link| link.tsize).fold(0, u64::saturating_add);
    let node = Node { links, data: Some(data.encode().into()), ..Node::default() };
    let block = Block::dag_pb(version, node.encode().into())
        .expect("a node below the threshold, or of 256 links, fits into a block");
    let dag_bytes = below.saturating_add(block.bytes().len() as u64);
    let root = Root { cid: block.cid().clone(), dag_bytes, file_bytes: 0 };
    (block, root)
}

fn link(name: String, cid: Cid, dag_bytes: u64) -> Link {
    Link { cid, name: Some(name), tsize: Some(dag_bytes) }
}

/// Returns the block of a symbolic link to `target` and its root.
///
/// Fails if the target is longer than a block.
pub fn build_symlink(profile: Profile, target: &str) -> Result<(Block, Root), crate::BlockError> {
    let data = Some(bytes::Bytes::copy_from_slice(target.as_bytes()));
    let symlink = UnixFs { data, ..UnixFs::new(Kind::Symlink) };
    let node = Node { data: Some(symlink.encode().into()), ..Node::default() };
    let block = Block::dag_pb(profile.cid_version, node.encode().into())?;
    let dag_bytes = block.bytes().len() as u64;
    let root = Root { cid: block.cid().clone(), dag_bytes, file_bytes: 0 };
    Ok((block, root))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name: never empty, `.` or `..`, and without slashes and NULs.
    pub name: String,
    pub cid: Cid,
    /// The total size of its blocks that the directory declares: a hint, not verified.
    pub dag_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    #[error("a block of codec {codec} is not a directory")]
    Codec { codec: Codec },
    #[error("the directory is not a dag-pb node: {0}")]
    DagPb(DagPbError),
    #[error("the directory is not UnixFS: {0}")]
    UnixFs(UnixFsError),
    #[error("{kind:?} is not a directory")]
    Kind { kind: Kind },
    /// The block is one shard of a sharded directory. Read it with [`DirectoryReader`].
    #[error("the directory is sharded, and this block is only one shard")]
    Sharded,
    #[error(transparent)]
    Shard(#[from] ShardError),
    #[error("the directory has more than {max} entries, which is the limit")]
    TooManyEntries { max: usize },
    #[error("invalid name {name:?} of an entry: {error}")]
    Name { name: String, error: NameError },
    #[error("two entries are named {name:?}")]
    DuplicateName { name: String },
}

impl From<UnixFsError> for DirectoryError {
    fn from(cause: UnixFsError) -> Self {
        DirectoryError::UnixFs(cause)
    }
}

impl From<DagPbError> for DirectoryError {
    fn from(cause: DagPbError) -> Self {
        DirectoryError::DagPb(cause)
    }
}

impl Directory {
    /// Decodes a directory of one block. [`DirectoryReader`] also reads sharded directories.
    ///
    /// A directory with one invalid name is rejected as a whole, because importers create no such
    /// name by mistake.
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

    /// Creates a directory of entries whose names were checked.
    fn of(mut entries: Vec<Entry>) -> Result<Self, DirectoryError> {
        // Old directories may be unsorted.
        entries.sort_by(|a: &Entry, b: &Entry| a.name.cmp(&b.name));
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(DirectoryError::DuplicateName { name: pair[0].name.clone() });
        }
        Ok(Directory { entries })
    }

    /// Returns all entries, sorted by the bytes of their names.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn find(&self, name: &str) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok()?;
        Some(&self.entries[at])
    }
}

/// Decodes the node and its UnixFS data.
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

    /// Returns the blocks of a directory, the root last, and the root.
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
    fn invalid_names_are_neither_built_nor_decoded() {
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
    fn a_repeated_name_is_neither_built_nor_decoded() {
        let name = || "a".to_owned();
        let again = with(&["a"]).insert("a", &root());
        assert_eq!(again, Err(DirectoryBuildError::DuplicateName { name: name() }));
        let links = vec![link(name(), root().cid, 1), link(name(), root().cid, 2)];
        let node = Node { links, data: Some(directory_data().into()), ..Node::default() };
        let read = Directory::decode(&block_of(&node));
        assert_eq!(read, Err(DirectoryError::DuplicateName { name: name() }));
    }

    #[test]
    fn a_directory_over_the_threshold_is_sharded() {
        for hamt_size_estimation in [HamtSizeEstimation::BlockBytes, HamtSizeEstimation::LinksBytes]
        {
            let profile = Profile { hamt_size_estimation, ..Profile::UNIXFS_V1_2025 };
            let mut builder = DirectoryBuilder::new(profile);
            let mut number = 0;
            let mut insert = |builder: &mut DirectoryBuilder| {
                builder.insert(&format!("{number:0200}"), &root()).unwrap();
                number += 1;
            };
            let mut before = builder.clone();
            while builder.estimated_bytes <= HAMT_THRESHOLD_BYTES {
                before = builder.clone();
                insert(&mut builder);
            }
            let one = only_block(before);
            if hamt_size_estimation == HamtSizeEstimation::BlockBytes {
                assert!(one.bytes().len() <= HAMT_THRESHOLD_BYTES);
            }
            let (blocks, root) = built(builder);
            let last = blocks.last().unwrap();
            assert!(blocks.len() > 1 && last.cid() == &root.cid);
            assert_eq!(Directory::decode(last), Err(DirectoryError::Sharded));
        }
    }

    #[test]
    fn the_estimated_size_of_a_directory_is_the_length_of_its_block() {
        let builder = with(&["a", "a much longer name, so that lengths differ", "ü"]);
        let estimated_bytes = builder.estimated_bytes;
        assert_eq!(only_block(builder).bytes().len(), estimated_bytes);
    }

    #[test]
    fn the_error_names_the_kind_of_a_block_that_is_not_a_directory() {
        let raw = Block::raw("x".into()).unwrap();
        assert_eq!(Directory::decode(&raw), Err(DirectoryError::Codec { codec: Codec::RAW }));
        let (symlink, _) = build_symlink(Profile::UNIXFS_V1_2025, "elsewhere").unwrap();
        assert_eq!(Directory::decode(&symlink), Err(DirectoryError::Kind { kind: Kind::Symlink }));
        let shard = UnixFs::new(Kind::HamtShard).encode();
        let shard = block_of(&Node { data: Some(shard.into()), ..Node::default() });
        assert_eq!(Directory::decode(&shard), Err(DirectoryError::Sharded));
    }
}
