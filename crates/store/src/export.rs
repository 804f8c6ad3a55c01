use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use content::dag_pb::{DagPbError, Node};
use content::unixfs::{Kind, UnixFs, UnixFsError};
use content::{
    Block, Cid, Codec, DirectoryError, DirectoryReader, FileReader, LookedUp, Lookup, ReadError,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::error::Doing;
use crate::{DIRECTORIES_DEEP_MAX, ReadBlocks, StoreError, pieces};

/// What an export may write. A few blocks can stand for more than any disk holds: the same one may
/// be linked a billion times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportLimits {
    /// Most bytes of all files.
    pub bytes_max: u64,
    /// Most files, directories and symbolic links.
    pub entries_max: usize,
}

impl Default for ExportLimits {
    fn default() -> Self {
        ExportLimits { bytes_max: 1 << 40, entries_max: 10_000_000 }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Bytes of all files.
    pub bytes: u64,
    /// Files, directories and symbolic links.
    pub entries: usize,
}

/// Why content cannot be written out. Nothing of it is left behind.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The blocks cannot be read, or the files not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A block is not in the store.
    #[error("{cid} is missing")]
    Missing {
        /// The block.
        cid: Cid,
    },
    /// Something is there already.
    #[error("{} is there already", path.display())]
    Exists {
        /// Where it was to be written.
        path: PathBuf,
    },
    /// A block is not a node although its CID says so.
    #[error("{cid} is not dag-pb: {error}")]
    DagPb {
        /// The block.
        cid: Cid,
        /// What is wrong with it.
        error: DagPbError,
    },
    /// A node's data is not UnixFS.
    #[error("{cid} is not UnixFS: {error}")]
    UnixFs {
        /// The node.
        cid: Cid,
        /// What is wrong with it.
        error: UnixFsError,
    },
    /// A block is neither a file, nor a directory, nor a symbolic link.
    #[error("{cid} is no file and no directory")]
    Unknown {
        /// The block.
        cid: Cid,
    },
    /// Blocks are not the file that they should be.
    #[error("{name}: {error}")]
    File {
        /// What the file is called.
        name: String,
        /// What is wrong with it.
        error: ReadError,
    },
    /// Blocks are not the directory that they should be.
    #[error("{name}: {error}")]
    Directory {
        /// What the directory is called.
        name: String,
        /// What is wrong with it.
        error: DirectoryError,
    },
    /// The target of a symbolic link is none.
    #[error("{name} is a symbolic link to nothing that can be written")]
    Target {
        /// What the link is called.
        name: String,
    },
    /// There is no entry of this name.
    #[error("there is no {name:?} in {cid}")]
    Absent {
        /// What was looked for.
        name: String,
        /// The directory.
        cid: Cid,
    },
    /// A private page that cannot be opened.
    #[error(transparent)]
    Private(#[from] private::PrivateError),
    /// A private page has nothing of this name in it.
    #[error("there is no {name:?} in this private page")]
    NotInside {
        /// What was looked for.
        name: String,
    },
    /// The files have more bytes than may be written.
    #[error("more than {max} bytes would be written")]
    TooManyBytes {
        /// Most of them.
        max: u64,
    },
    /// There are more files and directories than may be written.
    #[error("more than {max} files and directories would be written")]
    TooManyEntries {
        /// Most of them.
        max: usize,
    },
    /// A directory lies too many directories deep.
    #[error("{name} lies more than {max} directories deep")]
    TooDeep {
        /// What it is called.
        name: String,
        /// Most directories on top of one another.
        max: usize,
    },
}

/// Writes the file or directory that is `root` to `path`, where nothing may be yet: the way back of
/// [`import`](crate::import). `tell` is told the bytes of files that were written so far.
///
/// It appears whole, in one step, or not at all: what is half-written lies beside it under a name
/// that starts with `.watchfire-`, which is gone after an error. Symbolic links are written as they
/// are, wherever they lead; nothing is ever written through one.
///
/// ```
/// use content::{Block, Cid};
/// use store::{ExportLimits, Memory, WriteBlocks, export};
///
/// let block = Block::raw("Hello, world!\n".into())?;
/// let blocks = Memory::new(1024);
/// blocks.put(&block)?;
/// # let file = std::env::temp_dir().join(format!("watchfire-export-doc-{}", std::process::id()));
/// export(&blocks, block.cid(), &file, &ExportLimits::default(), &mut |_| {})?;
/// assert_eq!(std::fs::read_to_string(&file)?, "Hello, world!\n");
/// # std::fs::remove_file(file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn export(
    blocks: &dyn ReadBlocks,
    root: &Cid,
    path: &Path,
    limits: &ExportLimits,
    tell: &mut dyn FnMut(u64),
) -> Result<Exported, ExportError> {
    if path.symlink_metadata().is_ok() {
        return Err(ExportError::Exists { path: path.to_owned() });
    }
    let unfinished = Unfinished::beside(path);
    let mut export = Export { blocks, limits, tell, exported: Exported::default() };
    export.anything(root, &unfinished.path, 0)?;
    unfinished.place(path)?;
    Ok(export.exported)
}

/// The CID of what lies at `path`, names between slashes, below the directory `root`.
pub fn resolve(blocks: &dyn ReadBlocks, root: &Cid, path: &str) -> Result<Cid, ExportError> {
    let mut at = root.clone();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let mut lookup = Lookup::new(at.clone(), name);
        at = loop {
            let block = block(blocks, lookup.next())?;
            let looked = lookup.take(&block);
            match looked.map_err(|error| ExportError::Directory { name: name.into(), error })? {
                LookedUp::Further => {}
                LookedUp::Found(entry) => break entry.cid,
                LookedUp::Absent => {
                    return Err(ExportError::Absent { name: name.into(), cid: at });
                }
            }
        };
    }
    Ok(at)
}

fn block(blocks: &dyn ReadBlocks, cid: &Cid) -> Result<Block, ExportError> {
    let implied = Block::implied_by(cid).map(Ok);
    let found = implied.or_else(|| blocks.get(cid).transpose());
    Ok(found.ok_or_else(|| ExportError::Missing { cid: cid.clone() })??)
}

struct Export<'a> {
    blocks: &'a dyn ReadBlocks,
    limits: &'a ExportLimits,
    tell: &'a mut dyn FnMut(u64),
    exported: Exported,
}

impl Export<'_> {
    fn anything(&mut self, cid: &Cid, path: &Path, depth: usize) -> Result<(), ExportError> {
        if self.exported.entries == self.limits.entries_max {
            return Err(ExportError::TooManyEntries { max: self.limits.entries_max });
        }
        self.exported.entries += 1;
        let root = block(self.blocks, cid)?;
        if cid.codec() == Codec::RAW {
            return self.file(&root, path);
        }
        if cid.codec() != Codec::DAG_PB {
            return Err(ExportError::Unknown { cid: cid.clone() });
        }
        let node = Node::decode(root.bytes());
        let node = node.map_err(|error| ExportError::DagPb { cid: cid.clone(), error })?;
        let unixfs = UnixFs::decode(&node.data.unwrap_or_default());
        let unixfs = unixfs.map_err(|error| ExportError::UnixFs { cid: cid.clone(), error })?;
        match unixfs.kind {
            Kind::File | Kind::Raw => self.file(&root, path),
            Kind::Directory | Kind::HamtShard => self.directory(root, path, depth),
            Kind::Symlink => write_symlink(&unixfs, path),
            Kind::Metadata => Err(ExportError::Unknown { cid: cid.clone() }),
        }
    }

    fn file(&mut self, root: &Block, path: &Path) -> Result<(), ExportError> {
        let max = self.limits.bytes_max;
        let mut reader = FileReader::new(root.cid().clone(), max - self.exported.bytes);
        let mut file = File::create_new(path).doing("create", path)?;
        while let Some(cid) = reader.next() {
            let part = block(self.blocks, cid)?;
            let bytes = reader.take(&part).map_err(|error| match error {
                ReadError::TooLarge { .. } => ExportError::TooManyBytes { max },
                error => ExportError::File { name: name_of(path), error },
            })?;
            pieces::write(&mut file, &bytes).doing("write", path)?;
            (self.tell)(self.exported.bytes + reader.read_bytes());
        }
        self.exported.bytes += reader.read_bytes();
        Ok(())
    }

    fn directory(&mut self, root: Block, path: &Path, depth: usize) -> Result<(), ExportError> {
        if depth >= DIRECTORIES_DEEP_MAX {
            let max = DIRECTORIES_DEEP_MAX;
            return Err(ExportError::TooDeep { name: name_of(path), max });
        }
        fs::create_dir(path).doing("create", path)?;
        let left = self.limits.entries_max - self.exported.entries;
        let mut reader = DirectoryReader::new(root.cid().clone(), left);
        while let Some(cid) = reader.next() {
            let part = block(self.blocks, cid)?;
            let entries = reader.take(&part).map_err(|error| match error {
                DirectoryError::TooManyEntries { .. } => {
                    ExportError::TooManyEntries { max: self.limits.entries_max }
                }
                error => ExportError::Directory { name: name_of(path), error },
            })?;
            for entry in entries {
                self.anything(&entry.cid, &path.join(&entry.name), depth + 1)?;
            }
        }
        Ok(())
    }
}

fn write_symlink(unixfs: &UnixFs, path: &Path) -> Result<(), ExportError> {
    let target = unixfs.data.as_deref().and_then(|target| str::from_utf8(target).ok());
    let target = target.filter(|target| !target.is_empty() && !target.contains('\0'));
    let target = target.ok_or_else(|| ExportError::Target { name: name_of(path) })?;
    Ok(symlink(target, path).doing("create", path)?)
}

/// Gives a name to what has another, unless something has it already.
pub(crate) fn rename_new(from: &Path, to: &Path) -> Result<(), ExportError> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::EXIST) => Err(ExportError::Exists { path: to.to_owned() }),
        // Some file systems cannot promise it; what is at `to` was looked at before.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            Ok(fs::rename(from, to).doing("write", to)?)
        }
        Err(error) => Ok(Err(io::Error::from(error)).doing("write", to)?),
    }
}

pub(crate) fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// What is not in its place yet; it goes when this is dropped.
pub(crate) struct Unfinished {
    pub path: PathBuf,
}

impl Unfinished {
    pub fn beside(path: &Path) -> Self {
        let mut name = std::ffi::OsString::from(format!(".watchfire-{}-", std::process::id()));
        name.push(path.file_name().unwrap_or_default());
        Unfinished { path: path.with_file_name(name) }
    }

    pub fn place(self, path: &Path) -> Result<(), ExportError> {
        rename_new(&self.path, path)?;
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // What cannot be removed has a name that says whose it was.
        let _ = match self.path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&self.path),
            _ => fs::remove_file(&self.path),
        };
    }
}
