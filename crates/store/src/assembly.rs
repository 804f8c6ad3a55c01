//! A file that is put together where it will lie, while its blocks come in any order.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use content::dag_pb::Node;
use content::unixfs::{Kind, UnixFs};
use content::{
    BLOCK_BYTES_MAX, Block, Checksum, Checksums, Cid, Codec, FILE_DEPTH_MAX, FileReader, ReadError,
};

use crate::Buffer;
use crate::error::Doing;
use crate::export::{name_of, rename_new};
use crate::shared::in_node;
use crate::{DiskStore, ExportError, Exported, Key, ReadBlocks, StoreError, WriteBlocks};
use crate::{checksums, key_of, locked, pieces};

/// A file that is fetched into its place: what is a leaf of it goes straight to its offset, and is
/// read, and served, from there. Nodes, and everything that is no leaf of one plain file, go into
/// a store aside.
///
/// While it is not complete it has another name; [`Assembly::place`] gives it its own. A process
/// that is killed leaves whole leaves, and holes: [`Assembly::begin`] finds out which are there by
/// hashing them, so that nothing needs to be written down beside them. Whoever writes into the
/// file meanwhile is noticed when the leaf is read.
///
/// Of each leaf its place is known, in some hundred bytes of memory. A leaf that occurs several
/// times is fetched once and copied at the end.
///
/// ```
/// use content::{Block, FileBuilder, Profile};
/// use store::{Assembly, DiskLimits, DiskStore, WriteBlocks};
/// use std::sync::Arc;
///
/// # let folder = std::env::temp_dir().join(format!("watchfire-assembly-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let mut blocks = Vec::new();
/// let mut builder = FileBuilder::new(Profile { chunk_bytes: 4, ..Profile::UNIXFS_V1_2025 })?;
/// let mut put = |block| { blocks.push(block); Ok::<_, store::StoreError>(()) };
/// builder.write(b"Hello, world!\n", &mut put)?;
/// let root = builder.finish(&mut put)?;
///
/// let aside = Arc::new(DiskStore::open(&folder.join("aside"), DiskLimits::default())?);
/// let assembly = Assembly::new(aside, &folder.join("hello.part"), 1 << 20);
/// assembly.begin(&root.cid)?;
/// blocks.iter().rev().try_for_each(|block| assembly.put(block))?;
/// assembly.place(&folder.join("hello"), false)?;
/// assert_eq!(std::fs::read_to_string(folder.join("hello"))?, "Hello, world!\n");
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Assembly {
    aside: Arc<DiskStore>,
    path: PathBuf,
    file_bytes_max: u64,
    checksums: Checksums,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    root: Option<Cid>,
    /// Known as soon as the root turns out to be a file.
    file: Option<Arc<File>>,
    file_bytes: u64,
    /// Parts that are not here; of one that occurs several times, where it was met first.
    expected: BTreeMap<Key, Part>,
    leaves: BTreeMap<Key, Leaf>,
}

/// Where a part of the file is to lie, leaf or not.
#[derive(Clone, Copy, Debug)]
struct Part {
    offset: u64,
    /// Bytes of the file in it, as its parent declares; `None` for the root.
    bytes: Option<u64>,
    /// Nodes above it.
    depth: usize,
}

/// A leaf that lies in its place.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    offset: u64,
    /// Bytes of the file.
    bytes: u32,
    /// Bytes of the block: more, when it is a node around them.
    block_bytes: u32,
    /// Of the block.
    checksum: Checksum,
}

/// What a block is to a file.
enum Shape {
    /// Bytes of it, bare or in a node that can be told from them.
    Leaf(Bytes),
    /// Links to its parts, with the bytes of each, and the bytes of all.
    Node { parts: Vec<(Cid, u64)>, bytes: u64 },
    /// Something that is not put together here.
    Other,
}

impl Shape {
    fn of(block: &Block) -> Shape {
        match block.cid().codec() {
            Codec::RAW => Shape::Leaf(block.bytes().clone()),
            Codec::DAG_PB => Shape::of_node(block).unwrap_or(Shape::Other),
            _ => Shape::Other,
        }
    }

    fn of_node(block: &Block) -> Option<Shape> {
        let node = Node::decode(block.bytes()).ok()?;
        let unixfs = UnixFs::decode(&node.data?).ok()?;
        if unixfs.kind != Kind::File {
            return None;
        }
        if node.links.is_empty() {
            let data = unixfs.data.unwrap_or_default();
            let is_told_from_them = in_node(data.clone()) == *block.bytes();
            return is_told_from_them.then_some(Shape::Leaf(data));
        }
        // What a reader of files would refuse, or has to look at closely, is left to it.
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
        Some(Shape::Node { parts: cids.zip(unixfs.block_sizes).collect(), bytes })
    }
}

/// The parts of a node, each in its place.
fn places(parts: Vec<(Cid, u64)>, node: Part) -> impl Iterator<Item = (Cid, Part)> {
    let mut offset = node.offset;
    parts.into_iter().map(move |(cid, bytes)| {
        let part = Part { offset, bytes: Some(bytes), depth: node.depth + 1 };
        offset += bytes;
        (cid, part)
    })
}

impl Part {
    /// Whether a node of so many bytes is what was declared, and not too deep.
    fn may_be_node(&self, bytes: u64) -> bool {
        self.bytes.is_none_or(|declared| declared == bytes) && self.depth + 1 < FILE_DEPTH_MAX
    }
}

impl Assembly {
    /// A file of at most `file_bytes_max` bytes at `path` until it is complete. What is no leaf of
    /// it goes to `aside`, which nobody else uses.
    pub fn new(aside: Arc<DiskStore>, path: &Path, file_bytes_max: u64) -> Self {
        let state = Mutex::new(State::default());
        Assembly { aside, path: path.to_owned(), file_bytes_max, checksums: checksums(), state }
    }

    /// What is put from now on is put together if it is a part of the file that is `root`. Goes on
    /// from what is in the store and in the file already.
    pub fn begin(&self, root: &Cid) -> Result<(), StoreError> {
        let part = Part { offset: 0, bytes: None, depth: 0 };
        {
            let mut state = locked(&self.state);
            *state = State { root: Some(root.clone()), ..State::default() };
            state.expected.extend(key_of(root).map(|key| (key, part)));
        }
        match self.aside.get(root)? {
            Some(block) => self.expect_below(&block, part, self.path.exists()),
            None => Ok(()),
        }
    }

    /// Where it lies until it is complete.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the root came and is a file that is put together here. If not, all that came is in
    /// the store aside.
    pub fn is_file(&self) -> bool {
        locked(&self.state).file.is_some()
    }

    /// Completes the file and moves it to `to`, replacing what is there only if it `replaces`.
    pub fn place(&self, to: &Path, replaces: bool) -> Result<Exported, ExportError> {
        let (root, file, bytes) = {
            let state = locked(&self.state);
            (state.root.clone(), state.file.clone(), state.file_bytes)
        };
        let (Some(root), Some(file)) = (root, file) else {
            return Err(io_missing(&self.path).into());
        };
        let mut ahead = vec![(root, Part { offset: 0, bytes: Some(bytes), depth: 0 })];
        while let Some((cid, part)) = ahead.pop() {
            if self.lies_there(&cid, part) {
                continue;
            }
            let node = if cid.codec() == Codec::DAG_PB { self.aside.get(&cid)? } else { None };
            match node.as_ref().map(Shape::of) {
                Some(Shape::Node { parts, bytes }) if part.may_be_node(bytes) => {
                    let from = ahead.len();
                    ahead.extend(places(parts, part));
                    ahead[from..].reverse();
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

    fn lies_there(&self, cid: &Cid, part: Part) -> bool {
        let state = locked(&self.state);
        let leaf = key_of(cid).and_then(|key| state.leaves.get(&key).copied());
        leaf.is_some_and(|leaf| {
            leaf.offset == part.offset && part.bytes == Some(u64::from(leaf.bytes))
        })
    }

    /// Writes a part whose blocks lie elsewhere: in the store, or in another place of the file.
    fn copy(&self, cid: &Cid, part: Part, file: &File, to: &Path) -> Result<(), ExportError> {
        let declared = part.bytes.unwrap_or(self.file_bytes_max);
        let wrong = |error| ExportError::File { name: name_of(to), error };
        let mut reader = FileReader::new(cid.clone(), declared);
        while let Some(cid) = reader.next() {
            let found = Block::implied_by(cid).map_or_else(|| self.get(cid), |it| Ok(Some(it)))?;
            let block = found.ok_or_else(|| ExportError::Missing { cid: cid.clone() })?;
            let offset = part.offset + reader.read_bytes();
            let bytes = reader.take(&block).map_err(wrong)?;
            pieces::write_at(file, &bytes, offset).doing("write", &self.path)?;
        }
        let found = reader.read_bytes();
        if found == declared { Ok(()) } else { Err(wrong(ReadError::Size { declared, found })) }
    }

    /// Expects what lies below a node that is here. With `looks`, looks for it in the file too.
    fn expect_below(&self, block: &Block, part: Part, looks: bool) -> Result<(), StoreError> {
        let mut ahead = vec![(block.clone(), part)];
        while let Some((block, part)) = ahead.pop() {
            let Shape::Node { parts, bytes } = Shape::of(&block) else { continue };
            if !part.may_be_node(bytes) || (part.depth == 0 && !self.open_file(bytes)?) {
                continue;
            }
            for (cid, part) in places(parts, part) {
                let Some(key) = key_of(&cid) else { continue };
                {
                    let mut state = locked(&self.state);
                    if state.leaves.contains_key(&key) || state.expected.contains_key(&key) {
                        continue;
                    }
                    state.expected.insert(key, part);
                }
                if self.aside.has(&cid) {
                    // One that is damaged is as good as none: it is fetched again.
                    if let Ok(Some(block)) = self.aside.get(&cid) {
                        ahead.push((block, part));
                    }
                } else if looks {
                    self.look_for(&cid, key, part)?;
                }
            }
        }
        Ok(())
    }

    /// Opens the file for so many bytes, unless that is too many.
    fn open_file(&self, bytes: u64) -> Result<bool, StoreError> {
        if bytes > self.file_bytes_max {
            return Ok(false);
        }
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&self.path).doing("create", &self.path)?;
        file.set_len(bytes).doing("write", &self.path)?;
        let mut state = locked(&self.state);
        state.file = Some(Arc::new(file));
        state.file_bytes = bytes;
        Ok(true)
    }

    /// Whether a leaf lies in its place from before.
    fn look_for(&self, cid: &Cid, key: Key, part: Part) -> Result<(), StoreError> {
        let Some(file) = locked(&self.state).file.clone() else { return Ok(()) };
        let bytes = part.bytes.and_then(|bytes| u32::try_from(bytes).ok());
        let Some(bytes) = bytes.filter(|bytes| *bytes as usize <= BLOCK_BYTES_MAX) else {
            return Ok(());
        };
        let is_node = cid.codec() == Codec::DAG_PB;
        let found = read(&file, part.offset, bytes, is_node, &self.path)?;
        // What another process wrote is hashed.
        if let Some(block) = found.and_then(|found| Block::verify(cid.clone(), found).ok()) {
            let (block_bytes, checksum) = (length(block.bytes()), self.checksums.of(&block));
            let mut state = locked(&self.state);
            state.expected.remove(&key);
            state.leaves.insert(key, Leaf { offset: part.offset, bytes, block_bytes, checksum });
        }
        Ok(())
    }

    /// Whether the block was a leaf, and is in its place now.
    fn put_leaf(&self, key: Key, part: Part, block: &Block) -> Result<bool, StoreError> {
        let Shape::Leaf(data) = Shape::of(block) else { return Ok(false) };
        let bytes = data.len() as u64;
        match part.bytes {
            None if !self.open_file(bytes)? => return Ok(false),
            Some(declared) if declared != bytes => return Ok(false),
            _ => {}
        }
        let Some(file) = locked(&self.state).file.clone() else { return Ok(false) };
        pieces::write_at(&file, &data, part.offset).doing("write", &self.path)?;
        let (bytes, block_bytes) = (length(&data), length(block.bytes()));
        let checksum = self.checksums.of(block);
        let mut state = locked(&self.state);
        state.expected.remove(&key);
        state.leaves.insert(key, Leaf { offset: part.offset, bytes, block_bytes, checksum });
        Ok(true)
    }
}

fn length(bytes: &Bytes) -> u32 {
    u32::try_from(bytes.len()).expect("a block is short")
}

fn io_missing(path: &Path) -> StoreError {
    let error = io::Error::from(io::ErrorKind::NotFound);
    StoreError::Io { doing: "complete", path: path.to_owned(), error }
}

/// The bytes of a block that lies at a place, bare or to be put in a node; `None` behind the end.
fn read(
    file: &File,
    offset: u64,
    bytes: u32,
    is_node: bool,
    path: &Path,
) -> Result<Option<Bytes>, StoreError> {
    let mut found = Buffer::of(bytes as usize);
    match file.read_exact_at(&mut found, offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read.doing("read", path)?,
    }
    let found = found.freeze();
    Ok(Some(if is_node { in_node(found).into() } else { found }))
}

impl ReadBlocks for Assembly {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        let Some(key) = key_of(cid) else { return self.aside.get(cid) };
        let place = {
            let state = locked(&self.state);
            state.leaves.get(&key).copied().zip(state.file.clone())
        };
        let Some((leaf, file)) = place else { return self.aside.get(cid) };
        // Stores go by the hash alone, so the CID that is asked for does not say which it is.
        let is_node = leaf.block_bytes != leaf.bytes;
        let found = read(&file, leaf.offset, leaf.bytes, is_node, &self.path)?;
        let block = found.and_then(|found| self.checksums.recognise(cid, found, leaf.checksum));
        if block.is_some() {
            return Ok(block);
        }
        let part = Part { offset: leaf.offset, bytes: Some(leaf.bytes.into()), depth: 1 };
        let mut state = locked(&self.state);
        state.leaves.remove(&key);
        state.expected.insert(key, part);
        Err(StoreError::Damaged { cid: cid.clone(), path: self.path.clone() })
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        let leaf = key_of(cid).and_then(|key| locked(&self.state).leaves.get(&key).copied());
        leaf.map(|leaf| leaf.block_bytes.into()).or_else(|| self.aside.len_of(cid))
    }
}

impl WriteBlocks for Assembly {
    fn put(&self, block: &Block) -> Result<(), StoreError> {
        let Some(key) = key_of(block.cid()) else { return self.aside.put(block) };
        let part = {
            let state = locked(&self.state);
            if state.leaves.contains_key(&key) {
                return Ok(());
            }
            state.expected.get(&key).copied()
        };
        let Some(part) = part else { return self.aside.put(block) };
        if self.put_leaf(key, part, block)? {
            return Ok(());
        }
        self.aside.put(block)?;
        locked(&self.state).expected.remove(&key);
        self.expect_below(block, part, false)
    }
}
