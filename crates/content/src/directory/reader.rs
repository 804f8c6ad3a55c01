use super::shard::{Shard, Slot, Trail};
use super::{Directory, DirectoryError, Entry, node_of};
use crate::unixfs::Kind;
use crate::{Block, BlockStore, Cid};

/// One block of a directory: all of it, or one of the nodes that it is spread over.
enum Part {
    Whole(Directory),
    Shard(Shard),
}

impl Part {
    fn decode(block: &Block, trail: Trail) -> Result<Self, DirectoryError> {
        let (node, unixfs) = node_of(block)?;
        match unixfs.kind {
            Kind::HamtShard => Ok(Part::Shard(Shard::from_node(node, unixfs, trail)?)),
            // Below a shard there are only shards.
            Kind::Directory if trail == Trail::default() => {
                Ok(Part::Whole(Directory::from_links(node.links)?))
            }
            kind => Err(DirectoryError::Kind { kind }),
        }
    }
}

/// Lists a directory, whether it is one node or spread over many.
///
/// It is given one block after the other, and says which is next. Every name is where its hash
/// leads, so that no name comes twice; work is in proportion to the entries that come out, and what
/// is held to the width of the nodes.
///
/// ```
/// use content::{BlockStore, DirectoryBuilder, DirectoryReader, MemoryStore, Profile};
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
    /// What is still to be read, the next one last.
    parts: Vec<(Trail, Cid)>,
}

impl DirectoryReader {
    /// A reader of the directory whose root is `root`, unless it has more than `entries_max`
    /// entries.
    pub fn new(root: Cid, entries_max: usize) -> Self {
        DirectoryReader { entries_max, entries: 0, parts: vec![(Trail::default(), root)] }
    }

    /// The block to give to [`DirectoryReader::take`]; `None` when the list is complete.
    pub fn next(&self) -> Option<&Cid> {
        self.parts.last().map(|(_, cid)| cid)
    }

    /// All blocks that are known to be needed, the next one first: what to ask others for.
    pub fn wanted(&self) -> impl Iterator<Item = &Cid> {
        self.parts.iter().rev().map(|(_, cid)| cid)
    }

    /// The entries in the next block: in the order of their names when the directory is one node,
    /// otherwise in that of their hashes.
    ///
    /// # Panics
    /// When it is not the block that [`DirectoryReader::next`] names.
    pub fn take(&mut self, block: &Block) -> Result<Vec<Entry>, DirectoryError> {
        let (trail, cid) = self.parts.last().expect("the list is not complete");
        assert_eq!(cid.hash(), block.cid().hash(), "the next block is another");
        let part = Part::decode(&block.read_as(cid), *trail)?;
        let mut below = Vec::new();
        let entries = match part {
            Part::Whole(directory) => directory.entries,
            Part::Shard(shard) => {
                let mut entries = Vec::new();
                for (trail, slot) in shard.into_slots() {
                    match slot {
                        Slot::Entry(entry) => entries.push(entry),
                        Slot::Shard(cid) => below.push((trail, cid)),
                    }
                }
                entries
            }
        };
        let max = self.entries_max;
        // What is below has an entry each, at least.
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

/// Why a directory cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// A block of it is not in the store.
    #[error("{cid} is missing")]
    Missing {
        /// The block.
        cid: Cid,
    },
    /// Its blocks are not a directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// The whole directory whose root is `root`, unless it has more than `entries_max` entries.
pub fn list(
    store: &impl BlockStore,
    root: &Cid,
    entries_max: usize,
) -> Result<Directory, ListError> {
    let mut reader = DirectoryReader::new(root.clone(), entries_max);
    let mut entries = Vec::new();
    while let Some(cid) = reader.next() {
        let block = Block::implied_by(cid).or_else(|| store.get(cid));
        let block = block.ok_or_else(|| ListError::Missing { cid: cid.clone() })?;
        entries.extend(reader.take(&block)?);
    }
    Ok(Directory::of(entries)?)
}

/// What [`Lookup::take`] came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookedUp {
    /// This is called by the name.
    Found(Entry),
    /// Nothing is.
    Absent,
    /// It is not in this block: [`Lookup::next`] names another.
    Further,
}

/// Finds one name in a directory, whether that is one node or spread over many: of those, only the
/// ones on the way are read, at most one for each eight bits of a hash.
///
/// ```
/// use content::{BlockStore, DirectoryBuilder, LookedUp, Lookup, MemoryStore, Profile};
///
/// let mut store = MemoryStore::new(1024);
/// let root = DirectoryBuilder::new(Profile::default()).finish(&mut |block| store.put(block))?;
///
/// let mut lookup = Lookup::new(root.cid, "index.html");
/// let block = store.get(lookup.next()).expect("it was built");
/// assert_eq!(lookup.take(&block)?, LookedUp::Absent);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lookup {
    name: String,
    trail: Trail,
    at: Cid,
}

impl Lookup {
    /// Looks for `name` in the directory whose root is `root`.
    pub fn new(root: Cid, name: &str) -> Self {
        Lookup { name: name.to_owned(), trail: Trail::default(), at: root }
    }

    /// The block to give to [`Lookup::take`].
    pub fn next(&self) -> &Cid {
        &self.at
    }

    /// Looks into the next block.
    ///
    /// # Panics
    /// When it is not the block that [`Lookup::next`] names.
    pub fn take(&mut self, block: &Block) -> Result<LookedUp, DirectoryError> {
        assert_eq!(self.at.hash(), block.cid().hash(), "the next block is another");
        let found = match Part::decode(&block.read_as(&self.at), self.trail)? {
            Part::Whole(directory) => directory.find(&self.name).cloned(),
            Part::Shard(shard) => match shard.into_slot_of(&self.name) {
                Some((trail, Slot::Shard(cid))) => {
                    (self.trail, self.at) = (trail, cid);
                    return Ok(LookedUp::Further);
                }
                Some((_, Slot::Entry(entry))) => Some(entry).filter(|it| it.name == self.name),
                None => None,
            },
        };
        Ok(found.map_or(LookedUp::Absent, LookedUp::Found))
    }
}
