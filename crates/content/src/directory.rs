use std::collections::BTreeMap;

use crate::dag_pb::{DagPbError, Link, Node};
use crate::profile::{DIRECTORY_BYTES_MAX, DirectoryWeight};
use crate::unixfs::{Kind, UnixFs, UnixFsError};
use crate::{Block, Cid, Codec, Profile, Root};

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
    /// Other importers would spread the directory over many nodes, which is not built here yet.
    #[error("with {name:?} the directory weighs {weight} bytes, and one node holds at most {max}")]
    TooLarge {
        /// The entry that would have been too much.
        name: String,
        /// The weight with it.
        weight: usize,
        /// Most bytes of a directory in one node.
        max: usize,
    },
}

/// Builds a directory of one node, just as kubo does.
///
/// Entries may be added in any order; they are written in the order of their names' bytes. A
/// directory in a directory is built first, and added like a file.
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
/// let (block, root) = builder.finish();
/// assert_eq!(block.cid(), &root.cid);
/// assert_eq!(Directory::decode(&block).unwrap().find("note.txt").unwrap().cid, note.cid);
/// ```
#[derive(Clone, Debug)]
pub struct DirectoryBuilder {
    profile: Profile,
    entries: BTreeMap<String, (Cid, u64)>,
    weight: usize,
}

impl DirectoryBuilder {
    /// A directory without entries. Of the profile, only the CID's version and the directory's
    /// weight matter.
    pub fn new(profile: Profile) -> Self {
        let weight = match profile.directory_weight {
            DirectoryWeight::Block => {
                Node { data: Some(directory_data().into()), ..Node::default() }.encoded_len()
            }
            DirectoryWeight::NamesAndCids => 0,
        };
        DirectoryBuilder { profile, entries: BTreeMap::new(), weight }
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
        let link = link(owned(), root.cid.clone(), root.dag_bytes);
        let weight = self.weight
            + match self.profile.directory_weight {
                DirectoryWeight::Block => link.field_len(),
                DirectoryWeight::NamesAndCids => name.len() + root.cid.encoded_len(),
            };
        let max = DIRECTORY_BYTES_MAX;
        if weight > max {
            return Err(DirectoryBuildError::TooLarge { name: owned(), weight, max });
        }
        self.weight = weight;
        self.entries.insert(owned(), (link.cid, root.dag_bytes));
        Ok(())
    }

    /// The directory's block, and what is needed to put it into another directory.
    pub fn finish(self) -> (Block, Root) {
        let below: u64 =
            self.entries.values().fold(0, |sum, (_, dag_bytes)| sum.saturating_add(*dag_bytes));
        let links = self.entries.into_iter().map(|(name, (cid, tsize))| link(name, cid, tsize));
        let node =
            Node { links: links.collect(), data: Some(directory_data().into()), ..Node::default() };
        let block = Block::dag_pb(self.profile.cid_version, node.encode().into())
            .expect("a weighed directory fits into a block");
        let dag_bytes = below.saturating_add(block.bytes().len() as u64);
        let root = Root { cid: block.cid().clone(), dag_bytes, file_bytes: 0 };
        (block, root)
    }
}

fn directory_data() -> Vec<u8> {
    UnixFs::new(Kind::Directory).encode()
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
    /// The directory is spread over many nodes, which is not read here yet.
    #[error("directories that are spread over many nodes are not supported yet")]
    Sharded,
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
    /// Reads the directory in `block`.
    ///
    /// All of it or nothing: one name that could lead out of the directory refuses it whole, since
    /// nobody makes one by mistake.
    pub fn decode(block: &Block) -> Result<Self, DirectoryError> {
        let codec = block.cid().codec();
        if codec != Codec::DAG_PB {
            return Err(DirectoryError::Codec { codec });
        }
        let node = Node::decode(block.bytes())?;
        match UnixFs::decode(&node.data.unwrap_or_default())?.kind {
            Kind::Directory => {}
            Kind::HamtShard => return Err(DirectoryError::Sharded),
            kind => return Err(DirectoryError::Kind { kind }),
        }
        let mut entries = Vec::with_capacity(node.links.len());
        for link in node.links {
            let name = link.name.unwrap_or_default();
            if let Err(error) = check_name(&name) {
                return Err(DirectoryError::Name { name, error });
            }
            entries.push(Entry { name, cid: link.cid, dag_bytes: link.tsize });
        }
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

    fn block_of(node: &Node) -> Block {
        Block::dag_pb(crate::Version::V1, node.encode().into()).unwrap()
    }

    #[test]
    fn entries_are_ordered_by_the_bytes_of_their_names() {
        let (block, _) = with(&["b", "é", "a", "B", "ab", "a.b"]).finish();
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
    fn a_directory_is_full_where_others_would_start_to_spread_it() {
        for directory_weight in [DirectoryWeight::Block, DirectoryWeight::NamesAndCids] {
            let profile = Profile { directory_weight, ..Profile::UNIXFS_V1_2025 };
            let mut builder = DirectoryBuilder::new(profile);
            let too_large = (0..).find_map(|i| builder.insert(&format!("{i:0200}"), &root()).err());
            let Some(DirectoryBuildError::TooLarge { weight, max, .. }) = too_large else {
                panic!("{too_large:?}");
            };
            assert!(weight > max);
            let (block, _) = builder.finish();
            if directory_weight == DirectoryWeight::Block {
                assert!(block.bytes().len() <= DIRECTORY_BYTES_MAX);
            }
        }
    }

    #[test]
    fn the_weight_of_a_block_is_its_length() {
        let builder = with(&["a", "a much longer name, so that lengths differ", "ü"]);
        let weight = builder.weight;
        assert_eq!(builder.finish().0.bytes().len(), weight);
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
