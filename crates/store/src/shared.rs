use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use watchfire_content::{Block, BlockStore, Checksums, Cid, MemoryStore, Root};

use crate::error::IoContext;
use crate::import::Stamp;
use crate::leaf::Leaf;
use crate::{FileChange, ImportOptions, Imported, Key, ReadBlocks, StoreError};
use crate::{checksums, import, key_of};

/// The approximate memory for the location of one leaf.
pub(crate) const LOCATION_COST_BYTES: usize = 104;

/// Unshared files that are kept until they are taken. When there are more, the oldest is dropped.
const UNSHARED_MAX: usize = 1024;

/// Files and directories that are shared in place, without a copy.
///
/// For each leaf the store knows the location in its file, and reads it when it is requested. Nodes
/// and directories are kept in memory: about 150 bytes for each leaf of 1 MiB.
///
/// A shared file must not change. Each read checks the length, the modification time and the
/// checksum of the block. If they differ, the call fails with [`StoreError::Changed`], the file is
/// no longer shared, and [`SharedFiles::take_unshared`] reports it. Wrong bytes are never returned.
///
/// ```
/// use watchfire_store::{ImportOptions, ReadBlocks, SharedFiles};
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

/// A file that is no longer shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsharedFile {
    pub path: PathBuf,
    pub change: FileChange,
}

/// The last files that are no longer shared.
#[derive(Debug)]
pub(crate) struct UnsharedFiles(VecDeque<UnsharedFile>);

impl UnsharedFiles {
    pub const fn new() -> Self {
        UnsharedFiles(VecDeque::new())
    }

    pub fn push(&mut self, path: &Path, change: FileChange) {
        if self.0.len() == UNSHARED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(UnsharedFile { path: path.to_owned(), change });
    }

    pub fn take(&mut self) -> Vec<UnsharedFile> {
        self.0.drain(..).collect()
    }
}

#[derive(Debug)]
struct State {
    files: BTreeMap<FileId, SharedFile>,
    next_file: u32,
    /// One leaf may be part of several files. When one of them changes, the others remain.
    leaves: BTreeMap<(Key, FileId), Leaf>,
    nodes: MemoryStore,
    unshared: UnsharedFiles,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileId(u32);

#[derive(Clone, Debug)]
struct SharedFile {
    path: Arc<Path>,
    stamp: Stamp,
}

/// The files and blocks of one [`SharedFiles::share`], before they are added.
#[derive(Default)]
struct Staged {
    files: Vec<SharedFile>,
    /// Each leaf with the index of its file in `files`.
    leaves: Vec<(Key, usize, Leaf)>,
    nodes: Vec<Block>,
    cost: usize,
}

impl SharedFiles {
    /// Creates a store without files. Nodes and locations take at most `memory_bytes_max` bytes.
    pub fn new(memory_bytes_max: usize) -> Self {
        let state = State {
            files: BTreeMap::new(),
            next_file: 0,
            leaves: BTreeMap::new(),
            nodes: MemoryStore::new(memory_bytes_max),
            unshared: UnsharedFiles::new(),
        };
        SharedFiles { memory_bytes_max, checksums: checksums(), state: Mutex::new(state) }
    }

    /// Shares the file or directory at `path`. It is read once to compute the CIDs.
    ///
    /// After an error nothing of it is shared.
    pub fn share(&self, path: &Path, options: &ImportOptions) -> Result<Root, StoreError> {
        self.share_with_progress(path, options, &mut |_| {})
    }

    /// Like [`SharedFiles::share`], and calls `on_block` for every block.
    pub fn share_with_progress(
        &self,
        path: &Path,
        options: &ImportOptions,
        on_block: &mut dyn FnMut(&Imported<'_>),
    ) -> Result<Root, StoreError> {
        // A relative path would change its meaning with the working directory.
        let path = std::path::absolute(path).doing("access", path)?;
        let max = self.memory_bytes_max;
        let room = max.saturating_sub(self.state.lock().cost());
        let mut staged = Staged::default();
        let root = import(&path, options, &mut |imported| {
            on_block(&imported);
            staged.take(imported, &self.checksums);
            if staged.cost > room {
                return Err(StoreError::ShareMemoryFull { path: path.clone(), max });
            }
            Ok(())
        })?;
        self.state.lock().share(staged)?;
        Ok(root)
    }

    /// Returns the number of shared files.
    pub fn files(&self) -> usize {
        self.state.lock().files.len()
    }

    /// Returns the files that were unshared since the last call, at most the last 1024.
    pub fn take_unshared(&self) -> Vec<UnsharedFile> {
        self.state.lock().unshared.take()
    }

    fn unshare(&self, id: FileId, file: &SharedFile, change: FileChange) -> StoreError {
        let path = file.path.to_path_buf();
        let mut state = self.state.lock();
        if state.files.remove(&id).is_none() {
            // Another thread has removed it already.
            return StoreError::Changed { path, change };
        }
        state.leaves.retain(|(_, file), _| *file != id);
        tracing::warn!(path = %path.display(), %change, "stopped sharing a changed file");
        state.unshared.push(&path, change);
        StoreError::Changed { path, change }
    }
}

impl Staged {
    fn take(&mut self, imported: Imported<'_>, checksums: &Checksums) {
        let Imported { block, place } = imported;
        let (Some(place), Some(key)) = (place, key_of(block.cid())) else {
            self.cost += block.bytes().len() + watchfire_content::STORED_BLOCK_OVERHEAD_BYTES;
            self.nodes.push(block.clone());
            return;
        };
        if place.offset == 0 {
            self.cost +=
                size_of::<SharedFile>() + place.path.as_os_str().len() + LOCATION_COST_BYTES;
            self.files.push(SharedFile { path: place.path.into(), stamp: place.stamp });
        }
        let bytes = u32::try_from(place.bytes).expect("blocks are at most 2 MiB");
        let leaf = Leaf::new(block, place.offset, bytes, checksums);
        self.cost += LOCATION_COST_BYTES;
        self.leaves.push((key, self.files.len() - 1, leaf));
    }
}

impl State {
    fn cost(&self) -> usize {
        let of_file = size_of::<SharedFile>() + LOCATION_COST_BYTES;
        let files = self.files.values().map(|file| of_file + file.path.as_os_str().len());
        files.sum::<usize>() + self.leaves.len() * LOCATION_COST_BYTES + self.nodes.bytes()
    }

    fn share(&mut self, staged: Staged) -> Result<(), StoreError> {
        for node in staged.nodes {
            self.nodes.put(node)?;
        }
        let first = self.next_file;
        for file in staged.files {
            self.files.insert(FileId(self.next_file), file);
            self.next_file += 1;
        }
        for (key, file, leaf) in staged.leaves {
            let id = FileId(first + u32::try_from(file).expect("files are counted in memory"));
            self.leaves.insert((key, id), leaf);
        }
        Ok(())
    }

    /// Returns the locations of a leaf, each in another file.
    fn locations(&self, key: Key) -> impl Iterator<Item = (FileId, Leaf)> {
        let range = (key, FileId(0))..=(key, FileId(u32::MAX));
        self.leaves.range(range).map(|((_, file), leaf)| (*file, *leaf))
    }

    fn first_location(&self, key: Key) -> Option<(FileId, SharedFile, Leaf)> {
        let (id, leaf) = self.locations(key).next()?;
        Some((id, self.files[&id].clone(), leaf))
    }
}

/// Reads a leaf. The inner error is the change of its file.
fn read(
    cid: &Cid,
    file: &SharedFile,
    leaf: Leaf,
    checksums: &Checksums,
) -> Result<Result<Block, FileChange>, StoreError> {
    let path = &*file.path;
    let opened = match File::open(path) {
        Err(error) if is_permanent(error.kind()) => return Ok(Err(FileChange::Missing)),
        opened => opened.doing("read", path)?,
    };
    if Stamp::of(&opened.metadata().doing("access", path)?) != file.stamp {
        return Ok(Err(FileChange::Modified));
    }
    Ok(match leaf.read(&opened, path)? {
        None => Err(FileChange::Modified),
        Some(bytes) => {
            checksums.verify(cid, bytes, leaf.checksum).ok_or(FileChange::ContentDiffers)
        }
    })
}

/// Whether an error at opening a file is permanent. Others, such as too many open files, are not.
pub(crate) fn is_permanent(error: ErrorKind) -> bool {
    use ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
    matches!(error, NotFound | PermissionDenied | NotADirectory | IsADirectory)
}

impl ReadBlocks for SharedFiles {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        if let Some(block) = Block::from_cid(cid) {
            return Ok(Some(block));
        }
        let Some(key) = key_of(cid) else { return Ok(None) };
        let mut failed = None;
        loop {
            let location = {
                let state = self.state.lock();
                if let Some(node) = state.nodes.get(cid) {
                    return Ok(Some(node));
                }
                state.first_location(key)
            };
            let Some((id, file, leaf)) = location else { return failed.map_or(Ok(None), Err) };
            match read(cid, &file, leaf, &self.checksums)? {
                Ok(block) => return Ok(Some(block)),
                // The leaf may be part of another file too.
                Err(change) => failed = Some(self.unshare(id, &file, change)),
            }
        }
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        if let Some(block) = Block::from_cid(cid) {
            return Some(block.bytes().len() as u64);
        }
        let key = key_of(cid)?;
        let state = self.state.lock();
        if let Some(node) = state.nodes.get(cid) {
            return Some(node.bytes().len() as u64);
        }
        state.locations(key).next().map(|(_, leaf)| leaf.block_bytes.into())
    }
}
