//! Assembles a file in place while its blocks arrive in any order.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use watchfire_content::dag_pb::Node;
use watchfire_content::unixfs::{Kind, UnixFs};
use watchfire_content::{
    BLOCK_BYTES_MAX, Block, Checksums, Cid, Codec, FILE_DEPTH_MAX, FileReader, ReadError,
};

use crate::error::IoContext;
use crate::export::{name_of, rename_new};
use crate::leaf::{Leaf, length, read_block, wrap_in_node};
use crate::{DiskStore, ExportError, Exported, Key, ReadBlocks, StoreError, WriteBlocks};
use crate::{checksums, chunked_write, key_of};

/// Writes the leaves of a file directly to their offsets, and serves them from there. Nodes, and
/// blocks that are not leaves of the file, go into a separate store.
///
/// The incomplete file has a temporary name; [`FileAssembler::finish`] renames it. If the process
/// is killed, the file contains whole leaves and gaps. [`FileAssembler::start`] hashes the leaves
/// to find those that are present, so no journal is needed. If another process writes to the file,
/// the next read of the leaf detects it.
///
/// The location of each leaf takes about a hundred bytes of memory. A leaf that occurs several
/// times is fetched once and copied at the end.
///
/// ```
/// use watchfire_content::{Block, FileBuilder, Profile};
/// use watchfire_store::{FileAssembler, DiskLimits, DiskStore, WriteBlocks};
/// use std::sync::Arc;
///
/// # let folder = std::env::temp_dir().join(format!("watchfire-assembler-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let mut blocks = Vec::new();
/// let mut builder = FileBuilder::new(Profile { chunk_bytes: 4, ..Profile::UNIXFS_V1_2025 })?;
/// let mut put = |block| { blocks.push(block); Ok::<_, watchfire_store::StoreError>(()) };
/// builder.write(b"Hello, world!\n", &mut put)?;
/// let root = builder.finish(&mut put)?;
///
/// let other_blocks = Arc::new(DiskStore::open(&folder.join("blocks"), DiskLimits::default())?);
/// let assembler = FileAssembler::new(other_blocks, &folder.join("hello.part"), 1 << 20);
/// assembler.start(&root.cid)?;
/// blocks.iter().rev().try_for_each(|block| assembler.put(block))?;
/// assembler.finish(&folder.join("hello"), false)?;
/// assert_eq!(std::fs::read_to_string(folder.join("hello"))?, "Hello, world!\n");
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileAssembler {
    other_blocks: Arc<DiskStore>,
    path: PathBuf,
    file_bytes_max: u64,
    checksums: Checksums,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    root: Option<Cid>,
    /// Open once the root is known to be a file.
    file: Option<Arc<File>>,
    file_bytes: u64,
    /// The missing parts. A part that occurs several times has its first location.
    expected: BTreeMap<Key, Part>,
    leaves: BTreeMap<Key, Leaf>,
}

impl State {
    fn place(&mut self, key: Key, leaf: Leaf) {
        self.expected.remove(&key);
        self.leaves.insert(key, leaf);
    }
}

/// The location of a part of the file, which is a leaf or a node.
#[derive(Clone, Copy, Debug)]
struct Part {
    offset: u64,
    /// Its length in the file, as its parent declares; `None` for the root.
    bytes: Option<u64>,
    /// The number of nodes above it.
    depth: usize,
}

enum Role {
    /// Bytes of the file, raw or in a node that can be rebuilt from them.
    Leaf(Bytes),
    /// A node: its parts with their lengths, and their total length.
    Node { parts: Vec<(Cid, u64)>, bytes: u64 },
    /// A block that the assembler does not place.
    Other,
}

impl Role {
    fn of(block: &Block) -> Role {
        match block.cid().codec() {
            Codec::RAW => Role::Leaf(block.bytes().clone()),
            Codec::DAG_PB => Role::of_node(block).unwrap_or(Role::Other),
            _ => Role::Other,
        }
    }

    fn of_node(block: &Block) -> Option<Role> {
        let node = Node::decode(block.bytes()).ok()?;
        let unixfs = UnixFs::decode(&node.data?).ok()?;
        if unixfs.kind != Kind::File {
            return None;
        }
        if node.links.is_empty() {
            let data = unixfs.data.unwrap_or_default();
            let can_be_rebuilt = wrap_in_node(data.clone()) == *block.bytes();
            return can_be_rebuilt.then_some(Role::Leaf(data));
        }
        // Nodes that a FileReader rejects or has to check are left to it.
        let is_plain = unixfs.data.is_none_or(|data| data.is_empty())
            && unixfs.block_sizes.len() == node.links.len()
            && !unixfs.block_sizes.contains(&0)
            && node.links.iter().all(|link| link.name.as_ref().is_none_or(String::is_empty));
        let mut sizes = unixfs.block_sizes.iter();
        let bytes = sizes.try_fold(0_u64, |sum, size| sum.checked_add(*size))?;
        if !is_plain || unixfs.filesize.is_some_and(|declared| declared != bytes) {
            return None;
        }
        let cids = node.links.into_iter().map(|link| link.cid);
        Some(Role::Node { parts: cids.zip(unixfs.block_sizes).collect(), bytes })
    }
}

fn locate(parts: Vec<(Cid, u64)>, node: Part) -> impl Iterator<Item = (Cid, Part)> {
    let mut offset = node.offset;
    parts.into_iter().map(move |(cid, bytes)| {
        let part = Part { offset, bytes: Some(bytes), depth: node.depth + 1 };
        offset += bytes;
        (cid, part)
    })
}

impl Part {
    /// Whether a node of this length matches the declared length and is not too deep.
    fn may_be_node(&self, bytes: u64) -> bool {
        self.bytes.is_none_or(|declared| declared == bytes) && self.depth + 1 < FILE_DEPTH_MAX
    }
}

impl FileAssembler {
    /// Creates an assembler for a file of at most `file_bytes_max` bytes. The incomplete file is at
    /// `path`. Blocks that are not leaves of it go into `other_blocks`, which must be exclusive.
    pub fn new(other_blocks: Arc<DiskStore>, path: &Path, file_bytes_max: u64) -> Self {
        let state = Mutex::new(State::default());
        FileAssembler {
            other_blocks,
            path: path.to_owned(),
            file_bytes_max,
            checksums: checksums(),
            state,
        }
    }

    /// Starts to assemble the file `root`. Continues from the blocks that are in the store and in
    /// the incomplete file.
    pub fn start(&self, root: &Cid) -> Result<(), StoreError> {
        let part = Part { offset: 0, bytes: None, depth: 0 };
        {
            let mut state = self.state.lock();
            *state = State { root: Some(root.clone()), ..State::default() };
            state.expected.extend(key_of(root).map(|key| (key, part)));
        }
        match self.other_blocks.get(root)? {
            Some(block) => self.expect_below(&block, part, self.path.exists()),
            None => Ok(()),
        }
    }

    /// Returns the path of the incomplete file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the root has arrived and is a file that is assembled. If not, all blocks are in the
    /// separate store.
    pub fn is_file(&self) -> bool {
        self.state.lock().file.is_some()
    }

    /// Completes the file and moves it to `to`. An existing file is replaced only if `replaces` is
    /// set.
    pub fn finish(&self, to: &Path, replaces: bool) -> Result<Exported, ExportError> {
        let (root, file, bytes) = {
            let state = self.state.lock();
            (state.root.clone(), state.file.clone(), state.file_bytes)
        };
        let (Some(root), Some(file)) = (root, file) else {
            return Err(not_found(&self.path).into());
        };
        let mut pending = vec![(root, Part { offset: 0, bytes: Some(bytes), depth: 0 })];
        while let Some((cid, part)) = pending.pop() {
            if self.is_placed(&cid, part) {
                continue;
            }
            let node =
                if cid.codec() == Codec::DAG_PB { self.other_blocks.get(&cid)? } else { None };
            match node.as_ref().map(Role::of) {
                Some(Role::Node { parts, bytes }) if part.may_be_node(bytes) => {
                    let from = pending.len();
                    pending.extend(locate(parts, part));
                    pending[from..].reverse();
                }
                _ => self.copy(&cid, part, &file, to)?,
            }
        }
        if replaces {
            fs::rename(&self.path, to).doing("write", to)?;
        } else {
            rename_new(&self.path, to)?;
        }
        Ok(Exported { bytes, entries: 1 })
    }

    fn is_placed(&self, cid: &Cid, part: Part) -> bool {
        let state = self.state.lock();
        let leaf = key_of(cid).and_then(|key| state.leaves.get(&key).copied());
        leaf.is_some_and(|leaf| {
            leaf.offset == part.offset && part.bytes == Some(u64::from(leaf.bytes))
        })
    }

    /// Writes a part whose blocks are in the store or elsewhere in the file.
    fn copy(&self, cid: &Cid, part: Part, file: &File, to: &Path) -> Result<(), ExportError> {
        let declared = part.bytes.unwrap_or(self.file_bytes_max);
        let wrong = |error| ExportError::File { name: name_of(to), error };
        let mut reader = FileReader::new(cid.clone(), declared);
        while let Some(cid) = reader.next() {
            let found = Block::from_cid(cid).map_or_else(|| self.get(cid), |it| Ok(Some(it)))?;
            let block = found.ok_or_else(|| ExportError::Missing { cid: cid.clone() })?;
            let offset = part.offset + reader.read_bytes();
            let bytes = reader.take(&block).map_err(wrong)?;
            chunked_write::write_at(file, &bytes, offset).doing("write", &self.path)?;
        }
        let found = reader.read_bytes();
        if found == declared { Ok(()) } else { Err(wrong(ReadError::Size { declared, found })) }
    }

    /// Registers the parts below a stored node. If `searches_file` is set, parts that are already
    /// in the file are found by their hashes.
    fn expect_below(
        &self,
        block: &Block,
        part: Part,
        searches_file: bool,
    ) -> Result<(), StoreError> {
        let mut pending = vec![(block.clone(), part)];
        while let Some((block, part)) = pending.pop() {
            let Role::Node { parts, bytes } = Role::of(&block) else { continue };
            if !part.may_be_node(bytes) || (part.depth == 0 && !self.open_file(bytes)?) {
                continue;
            }
            for (cid, part) in locate(parts, part) {
                let Some(key) = key_of(&cid) else { continue };
                {
                    let mut state = self.state.lock();
                    if state.leaves.contains_key(&key) || state.expected.contains_key(&key) {
                        continue;
                    }
                    state.expected.insert(key, part);
                }
                if self.other_blocks.has(&cid) {
                    // A damaged block is fetched again.
                    if let Ok(Some(block)) = self.other_blocks.get(&cid) {
                        pending.push((block, part));
                    }
                } else if searches_file {
                    self.find_in_file(&cid, key, part)?;
                }
            }
        }
        Ok(())
    }

    /// Creates the file with this length. Returns whether the length is within the limit.
    fn open_file(&self, bytes: u64) -> Result<bool, StoreError> {
        if bytes > self.file_bytes_max {
            return Ok(false);
        }
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&self.path).doing("create", &self.path)?;
        file.set_len(bytes).doing("write", &self.path)?;
        let mut state = self.state.lock();
        state.file = Some(Arc::new(file));
        state.file_bytes = bytes;
        Ok(true)
    }

    /// Registers a leaf if the file contains it already.
    fn find_in_file(&self, cid: &Cid, key: Key, part: Part) -> Result<(), StoreError> {
        let Some(file) = self.state.lock().file.clone() else { return Ok(()) };
        let bytes = part.bytes.and_then(|bytes| u32::try_from(bytes).ok());
        let Some(bytes) = bytes.filter(|bytes| *bytes as usize <= BLOCK_BYTES_MAX) else {
            return Ok(());
        };
        let is_node = cid.codec() == Codec::DAG_PB;
        let found = read_block(&file, part.offset, bytes, is_node, &self.path)?;
        // Bytes of an earlier process are hashed.
        if let Some(block) = found.and_then(|found| Block::verify(cid.clone(), found).ok()) {
            let leaf = Leaf::new(&block, part.offset, bytes, &self.checksums);
            self.state.lock().place(key, leaf);
        }
        Ok(())
    }

    /// Writes the block if it is a leaf of the file. Returns whether it is.
    fn put_leaf(&self, key: Key, part: Part, block: &Block) -> Result<bool, StoreError> {
        let Role::Leaf(data) = Role::of(block) else { return Ok(false) };
        let bytes = data.len() as u64;
        match part.bytes {
            None if !self.open_file(bytes)? => return Ok(false),
            Some(declared) if declared != bytes => return Ok(false),
            _ => {}
        }
        let Some(file) = self.state.lock().file.clone() else { return Ok(false) };
        chunked_write::write_at(&file, &data, part.offset).doing("write", &self.path)?;
        let leaf = Leaf::new(block, part.offset, length(&data), &self.checksums);
        self.state.lock().place(key, leaf);
        Ok(true)
    }
}

fn not_found(path: &Path) -> StoreError {
    let error = io::Error::from(io::ErrorKind::NotFound);
    StoreError::Io { doing: "complete", path: path.to_owned(), error }
}

impl ReadBlocks for FileAssembler {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        let Some(key) = key_of(cid) else { return self.other_blocks.get(cid) };
        let location = {
            let state = self.state.lock();
            state.leaves.get(&key).copied().zip(state.file.clone())
        };
        let Some((leaf, file)) = location else { return self.other_blocks.get(cid) };
        // Stores find blocks by their hash, so the codec of the requested CID does not decide.
        let found = leaf.read(&file, &self.path)?;
        let block = found.and_then(|found| self.checksums.verify(cid, found, leaf.checksum));
        if block.is_some() {
            return Ok(block);
        }
        let part = Part { offset: leaf.offset, bytes: Some(leaf.bytes.into()), depth: 1 };
        let mut state = self.state.lock();
        state.leaves.remove(&key);
        state.expected.insert(key, part);
        Err(StoreError::Damaged { cid: cid.clone(), path: self.path.clone() })
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        let leaf = key_of(cid).and_then(|key| self.state.lock().leaves.get(&key).copied());
        leaf.map(|leaf| leaf.block_bytes.into()).or_else(|| self.other_blocks.len_of(cid))
    }
}

impl WriteBlocks for FileAssembler {
    fn put(&self, block: &Block) -> Result<(), StoreError> {
        let Some(key) = key_of(block.cid()) else { return self.other_blocks.put(block) };
        let part = {
            let state = self.state.lock();
            if state.leaves.contains_key(&key) {
                return Ok(());
            }
            state.expected.get(&key).copied()
        };
        let Some(part) = part else { return self.other_blocks.put(block) };
        if self.put_leaf(key, part, block)? {
            return Ok(());
        }
        self.other_blocks.put(block)?;
        self.state.lock().expected.remove(&key);
        self.expect_below(block, part, false)
    }
}
