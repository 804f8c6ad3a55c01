use super::shard::{Shard, ShardPath, Slot};
use super::{Directory, DirectoryError, Entry, node_of};
use crate::unixfs::Kind;
use crate::{Block, BlockStore, Cid};

/// One block of a directory: the whole directory, or one of its shards.
enum Part {
    Whole(Directory),
    Shard(Shard),
}

impl Part {
    fn decode(block: &Block, shard_path: ShardPath) -> Result<Self, DirectoryError> {
        let (node, unixfs) = node_of(block)?;
        match unixfs.kind {
            Kind::HamtShard => Ok(Part::Shard(Shard::from_node(node, unixfs, shard_path)?)),
            // A shard links to shards only.
            Kind::Directory if shard_path == ShardPath::default() => {
                Ok(Part::Whole(Directory::from_links(node.links)?))
            }
            kind => Err(DirectoryError::Kind { kind }),
        }
    }
}

/// Lists a directory of one node or of many shards.
///
/// The caller passes it one block after the other. Every name must be in the slot of its hash, so
/// no name can occur twice. Time is proportional to the entries, and memory to the links of the
/// shards.
///
/// ```
/// use watchfire_content::{BlockStore, DirectoryBuilder, DirectoryReader, MemoryStore, Profile};
///
/// let mut store = MemoryStore::new(1 << 20);
/// let mut put = |block| store.put(block);
/// let empty = DirectoryBuilder::new(Profile::default()).finish(&mut put)?;
/// let mut outer = DirectoryBuilder::new(Profile::default());
/// outer.insert("empty", &empty)?;
/// let root = outer.finish(&mut put)?;
///
/// let mut reader = DirectoryReader::new(root.cid, 1000);
/// let mut names = Vec::new();
/// while let Some(cid) = reader.next() {
///     let block = store.get(cid).expect("it was built");
///     names.extend(reader.take(&block)?.into_iter().map(|entry| entry.name));
/// }
/// assert_eq!(names, ["empty"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct DirectoryReader {
    entries_max: usize,
    entries: usize,
    /// The blocks that were not read yet, the next one last.
    parts: Vec<(ShardPath, Cid)>,
}

impl DirectoryReader {
    /// Creates a reader of the directory `root`. Reading fails if it has more than `entries_max`
    /// entries.
    pub fn new(root: Cid, entries_max: usize) -> Self {
        DirectoryReader { entries_max, entries: 0, parts: vec![(ShardPath::default(), root)] }
    }

    /// Returns the block to pass to [`DirectoryReader::take`]; `None` when the list is complete.
    pub fn next(&self) -> Option<&Cid> {
        self.parts.last().map(|(_, cid)| cid)
    }

    /// Returns the known unread blocks, the next one first.
    pub fn wanted(&self) -> impl Iterator<Item = &Cid> {
        self.parts.iter().rev().map(|(_, cid)| cid)
    }

    /// Returns the entries of the next block, sorted by name in a directory of one node, and by
    /// hash in a sharded directory.
    ///
    /// # Panics
    /// Panics if it is not the block of [`DirectoryReader::next`].
    pub fn take(&mut self, block: &Block) -> Result<Vec<Entry>, DirectoryError> {
        let (shard_path, cid) = self.parts.last().expect("the list is not complete");
        assert_eq!(cid.hash(), block.cid().hash(), "the next block is another");
        let part = Part::decode(&block.read_as(cid), *shard_path)?;
        let mut below = Vec::new();
        let entries = match part {
            Part::Whole(directory) => directory.entries,
            Part::Shard(shard) => {
                let mut entries = Vec::new();
                for (shard_path, slot) in shard.into_slots() {
                    match slot {
                        Slot::Entry(entry) => entries.push(entry),
                        Slot::Shard(cid) => below.push((shard_path, cid)),
                    }
                }
                entries
            }
        };
        let max = self.entries_max;
        // Each shard below has at least one entry.
        let known = self.entries + entries.len() + below.len() + self.parts.len() - 1;
        if known > max {
            return Err(DirectoryError::TooManyEntries { max });
        }
        self.entries += entries.len();
        self.parts.pop();
        self.parts.extend(below.into_iter().rev());
        Ok(entries)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    #[error("block {cid} is missing")]
    Missing { cid: Cid },
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// Returns the directory `root`. Fails if it has more than `entries_max` entries.
pub fn list(
    store: &impl BlockStore,
    root: &Cid,
    entries_max: usize,
) -> Result<Directory, ListError> {
    let mut reader = DirectoryReader::new(root.clone(), entries_max);
    let mut entries = Vec::new();
    while let Some(cid) = reader.next() {
        let block = Block::from_cid(cid).or_else(|| store.get(cid));
        let block = block.ok_or_else(|| ListError::Missing { cid: cid.clone() })?;
        entries.extend(reader.take(&block)?);
    }
    Ok(Directory::of(entries)?)
}

/// The result of [`Lookup::take`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupStep {
    Found(Entry),
    /// The directory has no such entry.
    NotFound,
    /// The entry may be in the block of [`Lookup::next`].
    Continue,
}

/// Finds a name in a directory of one node or of many shards. It reads only the shards on the path
/// to the name, at most one for each eight bits of the hash.
///
/// ```
/// use watchfire_content::{BlockStore, DirectoryBuilder, LookupStep, Lookup, MemoryStore, Profile};
///
/// let mut store = MemoryStore::new(1024);
/// let root = DirectoryBuilder::new(Profile::default()).finish(&mut |block| store.put(block))?;
///
/// let mut lookup = Lookup::new(root.cid, "index.html");
/// let block = store.get(lookup.next()).expect("it was built");
/// assert_eq!(lookup.take(&block)?, LookupStep::NotFound);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lookup {
    name: String,
    shard_path: ShardPath,
    at: Cid,
}

impl Lookup {
    pub fn new(root: Cid, name: &str) -> Self {
        Lookup { name: name.to_owned(), shard_path: ShardPath::default(), at: root }
    }

    /// Returns the block to pass to [`Lookup::take`].
    pub fn next(&self) -> &Cid {
        &self.at
    }

    /// Searches the next block.
    ///
    /// # Panics
    /// Panics if it is not the block of [`Lookup::next`].
    pub fn take(&mut self, block: &Block) -> Result<LookupStep, DirectoryError> {
        assert_eq!(self.at.hash(), block.cid().hash(), "the next block is another");
        let found = match Part::decode(&block.read_as(&self.at), self.shard_path)? {
            Part::Whole(directory) => directory.find(&self.name).cloned(),
            Part::Shard(shard) => match shard.into_slot_of(&self.name) {
                Some((shard_path, Slot::Shard(cid))) => {
                    (self.shard_path, self.at) = (shard_path, cid);
                    return Ok(LookupStep::Continue);
                }
                Some((_, Slot::Entry(entry))) => Some(entry).filter(|it| it.name == self.name),
                None => None,
            },
        };
        Ok(found.map_or(LookupStep::NotFound, LookupStep::Found))
    }
}
