use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use content::dag_pb::Node;
use content::unixfs::{Kind, UnixFs};
use content::{Block, BlockStore, Checksum, Checksums, Cid, MemoryStore, Root};

use crate::error::Doing;
use crate::import::Stamp;
use crate::{Buffer, Change, ImportOptions, Imported, Key, ReadBlocks, StoreError};
use crate::{checksums, import, key_of, locked};

/// Bytes of memory that the place of one leaf takes, about.
pub(crate) const PLACE_COST_BYTES: usize = 104;

/// Most changes that are remembered until somebody asks; the oldest is forgotten first.
pub(crate) const WITHDRAWN_MAX: usize = 1024;

/// Files and directories that are shared from where they lie: nothing is copied.
///
/// Of each leaf, only its place is known; it is read from its file when it is asked for. Nodes and
/// directories are kept in memory: with leaves of 1 MiB, about 150 bytes for each.
///
/// A file must stay as it is. One that is gone, has another length or time, or other bytes at the
/// place of a leaf is noticed when it is read: the call fails with the file's name
/// ([`StoreError::Changed`]), the file is shared no longer, and [`SharedFiles::take_withdrawn`]
/// tells of it. Wrong bytes never come out, since the checksum of every block is compared when it
/// is read.
///
/// ```
/// use store::{ImportOptions, ReadBlocks, SharedFiles};
///
/// # let file = std::env::temp_dir().join(format!("watchfire-shared-doc-{}", std::process::id()));
/// std::fs::write(&file, "Hello, world!\n")?;
/// let shared = SharedFiles::new(1 << 20);
/// let root = shared.share(&file, &ImportOptions::default())?;
/// assert_eq!(shared.get(&root.cid)?.unwrap().bytes(), "Hello, world!\n");
///
/// std::fs::write(&file, "Goodbye!\n")?;
/// assert!(shared.get(&root.cid).is_err());
/// assert!(!shared.has(&root.cid));
/// # std::fs::remove_file(file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedFiles {
    memory_bytes_max: usize,
    checksums: Checksums,
    state: Mutex<State>,
}

/// A file that is shared no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withdrawn {
    /// The file.
    pub path: PathBuf,
    /// How it was found to be another.
    pub change: Change,
}

#[derive(Debug)]
struct State {
    files: BTreeMap<FileId, SharedFile>,
    next_file: u32,
    /// The same leaf may lie in several files; when one of them changes, the others are left.
    leaves: BTreeMap<(Key, FileId), Leaf>,
    nodes: MemoryStore,
    withdrawn: VecDeque<Withdrawn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileId(u32);

#[derive(Clone, Debug)]
struct SharedFile {
    path: Arc<Path>,
    stamp: Stamp,
}

#[derive(Clone, Copy, Debug)]
struct Leaf {
    offset: u64,
    /// Bytes in the file.
    bytes: u32,
    /// Bytes of the block: more, when it is a node around them.
    block_bytes: u32,
    /// Of the block, as it was when it was shared.
    checksum: Checksum,
}

/// What [`SharedFiles::share`] gathers before any of it is shared.
#[derive(Default)]
struct Gathered {
    files: Vec<SharedFile>,
    /// Each with the number of its file in `files`.
    leaves: Vec<(Key, usize, Leaf)>,
    nodes: Vec<Block>,
    cost: usize,
}

impl SharedFiles {
    /// Nothing is shared yet. Nodes and places take up to `memory_bytes_max` bytes of memory.
    pub fn new(memory_bytes_max: usize) -> Self {
        let state = State {
            files: BTreeMap::new(),
            next_file: 0,
            leaves: BTreeMap::new(),
            nodes: MemoryStore::new(memory_bytes_max),
            withdrawn: VecDeque::new(),
        };
        SharedFiles { memory_bytes_max, checksums: checksums(), state: Mutex::new(state) }
    }

    /// Shares the file or directory at `path`, which is read once to name its blocks.
    ///
    /// All of it or, after an error, nothing.
    pub fn share(&self, path: &Path, options: &ImportOptions) -> Result<Root, StoreError> {
        self.share_and_tell(path, options, &mut |_| {})
    }

    /// The same, telling of every block: for whoever shows progress.
    pub fn share_and_tell(
        &self,
        path: &Path,
        options: &ImportOptions,
        tell: &mut dyn FnMut(&Imported<'_>),
    ) -> Result<Root, StoreError> {
        // A relative path would lead elsewhere when the process changes its directory.
        let path = std::path::absolute(path).doing("look at", path)?;
        let max = self.memory_bytes_max;
        let room = max.saturating_sub(locked(&self.state).cost());
        let mut gathered = Gathered::default();
        let root = import(&path, options, &mut |imported| {
            tell(&imported);
            gathered.take(imported, &self.checksums);
            if gathered.cost > room {
                return Err(StoreError::TooMuchToShare { path: path.clone(), max });
            }
            Ok(())
        })?;
        locked(&self.state).share(gathered)?;
        Ok(root)
    }

    /// Files that are shared.
    pub fn files(&self) -> usize {
        locked(&self.state).files.len()
    }

    /// The files that were found to be changed since this was last asked; at most 1024, the oldest
    /// are forgotten first.
    pub fn take_withdrawn(&self) -> Vec<Withdrawn> {
        locked(&self.state).withdrawn.drain(..).collect()
    }

    fn withdraw(&self, id: FileId, file: &SharedFile, change: Change) -> StoreError {
        let path = file.path.to_path_buf();
        let mut state = locked(&self.state);
        if state.files.remove(&id).is_none() {
            // Another thread was first: there is nothing left to take back.
            return StoreError::Changed { path, change };
        }
        state.leaves.retain(|(_, file), _| *file != id);
        tracing::warn!(path = %path.display(), %change, "a shared file was withdrawn");
        if state.withdrawn.len() == WITHDRAWN_MAX {
            state.withdrawn.pop_front();
        }
        state.withdrawn.push_back(Withdrawn { path: path.clone(), change });
        StoreError::Changed { path, change }
    }
}

impl Gathered {
    fn take(&mut self, imported: Imported<'_>, checksums: &Checksums) {
        let Imported { block, place } = imported;
        let (Some(place), Some(key)) = (place, key_of(block.cid())) else {
            self.cost += block.bytes().len() + content::STORED_BLOCK_OVERHEAD_BYTES;
            self.nodes.push(block.clone());
            return;
        };
        if place.offset == 0 {
            self.cost += size_of::<SharedFile>() + place.path.as_os_str().len() + PLACE_COST_BYTES;
            self.files.push(SharedFile { path: place.path.into(), stamp: place.stamp });
        }
        let short = |bytes| u32::try_from(bytes).expect("a block is short");
        let leaf = Leaf {
            offset: place.offset,
            bytes: short(place.bytes),
            block_bytes: short(block.bytes().len() as u64),
            checksum: checksums.of(block),
        };
        self.cost += PLACE_COST_BYTES;
        self.leaves.push((key, self.files.len() - 1, leaf));
    }
}

impl State {
    fn cost(&self) -> usize {
        let of_file = size_of::<SharedFile>() + PLACE_COST_BYTES;
        let files = self.files.values().map(|file| of_file + file.path.as_os_str().len());
        files.sum::<usize>() + self.leaves.len() * PLACE_COST_BYTES + self.nodes.bytes()
    }

    fn share(&mut self, gathered: Gathered) -> Result<(), StoreError> {
        for node in gathered.nodes {
            self.nodes.put(node)?;
        }
        let first = self.next_file;
        for file in gathered.files {
            self.files.insert(FileId(self.next_file), file);
            self.next_file += 1;
        }
        for (key, file, leaf) in gathered.leaves {
            let id = FileId(first + u32::try_from(file).expect("files are counted in memory"));
            self.leaves.insert((key, id), leaf);
        }
        Ok(())
    }

    /// The places of a leaf, each in another file.
    fn places(&self, key: Key) -> impl Iterator<Item = (FileId, Leaf)> {
        let range = (key, FileId(0))..=(key, FileId(u32::MAX));
        self.leaves.range(range).map(|((_, file), leaf)| (*file, *leaf))
    }

    fn first_place(&self, key: Key) -> Option<(FileId, SharedFile, Leaf)> {
        let (id, leaf) = self.places(key).next()?;
        Some((id, self.files[&id].clone(), leaf))
    }
}

/// The block at a place, or how it was found to be another.
fn read(
    cid: &Cid,
    file: &SharedFile,
    leaf: Leaf,
    checksums: &Checksums,
) -> Result<Result<Block, Change>, StoreError> {
    let path = &*file.path;
    let opened = match File::open(path) {
        Err(error) if is_for_good(error.kind()) => return Ok(Err(Change::Gone)),
        opened => opened.doing("read", path)?,
    };
    if Stamp::of(&opened.metadata().doing("look at", path)?) != file.stamp {
        return Ok(Err(Change::Touched));
    }
    let mut bytes = Buffer::of(leaf.bytes as usize);
    match opened.read_exact_at(&mut bytes, leaf.offset) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Err(Change::Touched)),
        read => read.doing("read", path)?,
    }
    let is_node = leaf.block_bytes != leaf.bytes;
    let bytes = bytes.freeze();
    let bytes = if is_node { in_node(bytes).into() } else { bytes };
    Ok(checksums.recognise(cid, bytes, leaf.checksum).ok_or(Change::OtherBytes))
}

/// Whether a file that cannot be opened is lost: other errors pass, such as too many open files.
pub(crate) fn is_for_good(error: ErrorKind) -> bool {
    use ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
    matches!(error, NotFound | PermissionDenied | NotADirectory | IsADirectory)
}

/// The bytes of a leaf in the node that importers without raw leaves put around them.
pub(crate) fn in_node(bytes: Bytes) -> Vec<u8> {
    let filesize = Some(bytes.len() as u64);
    let data = (!bytes.is_empty()).then_some(bytes);
    let leaf = UnixFs { data, filesize, ..UnixFs::new(Kind::File) };
    Node { data: Some(leaf.encode().into()), ..Node::default() }.encode()
}

impl ReadBlocks for SharedFiles {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        if let Some(block) = Block::implied_by(cid) {
            return Ok(Some(block));
        }
        let Some(key) = key_of(cid) else { return Ok(None) };
        let mut refused = None;
        loop {
            let place = {
                let state = locked(&self.state);
                if let Some(node) = state.nodes.get(cid) {
                    return Ok(Some(node));
                }
                state.first_place(key)
            };
            let Some((id, file, leaf)) = place else { return refused.map_or(Ok(None), Err) };
            match read(cid, &file, leaf, &self.checksums)? {
                Ok(block) => return Ok(Some(block)),
                // The same leaf may lie in another file too.
                Err(change) => refused = Some(self.withdraw(id, &file, change)),
            }
        }
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        if let Some(block) = Block::implied_by(cid) {
            return Some(block.bytes().len() as u64);
        }
        let key = key_of(cid)?;
        let state = locked(&self.state);
        if let Some(node) = state.nodes.get(cid) {
            return Some(node.bytes().len() as u64);
        }
        state.places(key).next().map(|(_, leaf)| leaf.block_bytes.into())
    }
}
