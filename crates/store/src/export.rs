use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use watchfire_content::dag_pb::{DagPbError, Node};
use watchfire_content::unixfs::{Kind, UnixFs, UnixFsError};
use watchfire_content::{
    Block, Cid, Codec, DirectoryError, DirectoryReader, FileReader, Lookup, LookupStep, ReadError,
};

use crate::error::IoContext;
use crate::names::{self, UnusedNames};
use crate::{DIRECTORY_DEPTH_MAX, ReadBlocks, StoreError, chunked_write};

/// The least that an entry of a directory takes on disk.
pub(crate) const ENTRY_BYTES: u64 = 4096;

/// The limits of an export. A few blocks can describe more than any disk holds, because one block
/// may be linked a billion times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportLimits {
    /// Largest total size of all files, in bytes. Each entry of a directory counts at least
    /// 4096 bytes, which it takes on disk.
    pub bytes_max: u64,
    /// Largest number of files, directories and symbolic links.
    pub entries_max: usize,
}

impl Default for ExportLimits {
    fn default() -> Self {
        ExportLimits { bytes_max: 1 << 40, entries_max: 10_000_000 }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Total size of all files, in bytes.
    pub bytes: u64,
    /// Number of files, directories and symbolic links.
    pub entries: usize,
}

/// An error of an export. Its incomplete files were removed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot export: block {cid} is missing")]
    Missing { cid: Cid },
    #[error("cannot write {}: it exists already", path.display())]
    Exists { path: PathBuf },
    #[error("{cid} is not a dag-pb node: {error}")]
    DagPb { cid: Cid, error: DagPbError },
    #[error("{cid} is not UnixFS: {error}")]
    UnixFs { cid: Cid, error: UnixFsError },
    #[error("cannot export {cid}: it is not a file, a directory or a symbolic link")]
    NotFileOrDirectory { cid: Cid },
    #[error("cannot export {name}: {error}")]
    File { name: String, error: ReadError },
    #[error("cannot export {name}: {error}")]
    Directory { name: String, error: DirectoryError },
    #[error("cannot create the symbolic link {name}: its target is invalid")]
    InvalidLinkTarget { name: String },
    #[error("cannot find {name:?} in {cid}")]
    NotFound { name: String, cid: Cid },
    #[error(transparent)]
    Private(#[from] watchfire_content::encryption::PrivateError),
    #[error("cannot find {name:?} in this private page")]
    NotInPrivatePage { name: String },
    #[error(
        "cannot export: the files have more than {max} bytes, which is the limit; each file and directory in a directory counts at least {ENTRY_BYTES} bytes; allow more with --bytes-max"
    )]
    TooManyBytes { max: u64 },
    #[error("cannot export: there are more than {max} files and directories, which is the limit")]
    TooManyEntries { max: usize },
    #[error("cannot export {name}: it is nested more than {max} directories deep")]
    TooDeep { name: String, max: usize },
}

/// Writes the file or directory `root` to `path`, which must not exist. It is the inverse of
/// [`import`](crate::import). `on_progress` is called with the total bytes written so far.
///
/// The export appears atomically. Until it is complete it has a temporary name that begins with
/// `.watchfire-`, and it is removed after an error. Symbolic links are created with any target, but
/// nothing is written through them.
///
/// ```
/// use watchfire_content::{Block, Cid};
/// use watchfire_store::{ExportLimits, LockedMemoryStore, WriteBlocks, export};
///
/// let block = Block::raw("Hello, world!\n".into())?;
/// let blocks = LockedMemoryStore::new(1024);
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
    on_progress: &mut dyn FnMut(u64),
) -> Result<Exported, ExportError> {
    let unfinished = Unfinished::beside(path)?;
    let (exported, unused) = Default::default();
    let mut export = Export { blocks, limits, on_progress, exported, counted_bytes: 0, unused };
    export.any(root, &unfinished.path, 0)?;
    unfinished.move_to(path)?;
    Ok(export.exported)
}

/// Returns the CID of the entry at `path` below the directory `root`. Slashes separate the names. Names
/// with composed and decomposed accents are the same, but an entry with exactly this name comes first.
pub fn resolve(blocks: &dyn ReadBlocks, root: &Cid, path: &str) -> Result<Cid, ExportError> {
    let mut at = root.clone();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let mut found = None;
        for form in names::forms(name) {
            found = look_up(blocks, &at, &form)?;
            if found.is_some() {
                break;
            }
        }
        let not_found = || ExportError::NotFound { name: name.into(), cid: at.clone() };
        at = found.ok_or_else(not_found)?;
    }
    Ok(at)
}

/// Returns the CID of an entry of a directory.
fn look_up(
    blocks: &dyn ReadBlocks,
    directory: &Cid,
    name: &str,
) -> Result<Option<Cid>, ExportError> {
    let mut lookup = Lookup::new(directory.clone(), name);
    loop {
        let block = block(blocks, lookup.next())?;
        let step = lookup.take(&block);
        match step.map_err(|error| ExportError::Directory { name: name.into(), error })? {
            LookupStep::Continue => {}
            LookupStep::Found(entry) => return Ok(Some(entry.cid)),
            LookupStep::NotFound => return Ok(None),
        }
    }
}

fn block(blocks: &dyn ReadBlocks, cid: &Cid) -> Result<Block, ExportError> {
    let implied = Block::from_cid(cid).map(Ok);
    let found = implied.or_else(|| blocks.get(cid).transpose());
    Ok(found.ok_or_else(|| ExportError::Missing { cid: cid.clone() })??)
}

struct Export<'a> {
    blocks: &'a dyn ReadBlocks,
    limits: &'a ExportLimits,
    on_progress: &'a mut dyn FnMut(u64),
    exported: Exported,
    /// The bytes that count for the limit.
    counted_bytes: u64,
    unused: UnusedNames,
}

impl Export<'_> {
    fn any(&mut self, cid: &Cid, path: &Path, depth: usize) -> Result<(), ExportError> {
        if self.exported.entries == self.limits.entries_max {
            return Err(ExportError::TooManyEntries { max: self.limits.entries_max });
        }
        self.exported.entries += 1;
        // A single file counts its own bytes only.
        let least = if depth > 0 { ENTRY_BYTES } else { 0 };
        let max = self.limits.bytes_max;
        if least > max - self.counted_bytes {
            return Err(ExportError::TooManyBytes { max });
        }
        self.counted_bytes += least;
        let root = block(self.blocks, cid)?;
        if cid.codec() == Codec::RAW {
            return self.file(&root, path, least);
        }
        if cid.codec() != Codec::DAG_PB {
            return Err(ExportError::NotFileOrDirectory { cid: cid.clone() });
        }
        let node = Node::decode(root.bytes());
        let node = node.map_err(|error| ExportError::DagPb { cid: cid.clone(), error })?;
        let unixfs = UnixFs::decode(&node.data.unwrap_or_default());
        let unixfs = unixfs.map_err(|error| ExportError::UnixFs { cid: cid.clone(), error })?;
        match unixfs.kind {
            Kind::File | Kind::Raw => self.file(&root, path, least),
            Kind::Directory | Kind::HamtShard => self.directory(root, path, depth),
            Kind::Symlink => write_symlink(&unixfs, path),
            Kind::Metadata => Err(ExportError::NotFileOrDirectory { cid: cid.clone() }),
        }
    }

    /// Writes a file, of which `counted` bytes have been counted.
    fn file(&mut self, root: &Block, path: &Path, counted: u64) -> Result<(), ExportError> {
        let max = self.limits.bytes_max;
        let left = max - self.counted_bytes + counted;
        let mut reader = FileReader::new(root.cid().clone(), left);
        let mut file = File::create_new(path).doing("create", path)?;
        while let Some(cid) = reader.next() {
            let part = block(self.blocks, cid)?;
            let bytes = reader.take(&part).map_err(|error| match error {
                ReadError::TooLarge { .. } => ExportError::TooManyBytes { max },
                error => ExportError::File { name: name_of(path), error },
            })?;
            chunked_write::write(&mut file, &bytes).doing("write", path)?;
            (self.on_progress)(self.exported.bytes + reader.read_bytes());
        }
        self.exported.bytes += reader.read_bytes();
        self.counted_bytes += reader.read_bytes().saturating_sub(counted);
        Ok(())
    }

    fn directory(&mut self, root: Block, path: &Path, depth: usize) -> Result<(), ExportError> {
        if depth >= DIRECTORY_DEPTH_MAX {
            let max = DIRECTORY_DEPTH_MAX;
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
                let saved = self.unused.path(path, &entry.name);
                let written = self.any(&entry.cid, &saved, depth + 1);
                if matches!(&written, Err(error) if is_name_refused(error, &saved)) {
                    let saved = self.unused.path(path, &names::portable(&entry.name));
                    self.any(&entry.cid, &saved, depth + 1)?;
                } else {
                    written?;
                }
            }
        }
        Ok(())
    }
}

/// Whether the file system did not create `path` because of its name.
fn is_name_refused(error: &ExportError, path: &Path) -> bool {
    let ExportError::Store(StoreError::Io { doing, path: at, error }) = error else { return false };
    *doing == "create" && at == path && names::is_refused(error)
}

fn write_symlink(unixfs: &UnixFs, path: &Path) -> Result<(), ExportError> {
    let target = unixfs.data.as_deref().and_then(|target| str::from_utf8(target).ok());
    let target = target.filter(|target| !target.is_empty() && !target.contains('\0'));
    let target = target.ok_or_else(|| ExportError::InvalidLinkTarget { name: name_of(path) })?;
    Ok(link_or_file(target, path).doing("create", path)?)
}

/// Creates a symbolic link; on a file system without them, a file that contains the target.
pub(crate) fn link_or_file(target: &str, path: &Path) -> io::Result<()> {
    match symlink(target, path) {
        Err(error)
            if matches!(
                error.raw_os_error().map(Errno::from_raw_os_error),
                Some(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP)
            ) =>
        {
            File::create_new(path)?.write_all(target.as_bytes())
        }
        linked => linked,
    }
}

/// Renames `from` to `to`, which must not exist.
pub(crate) fn rename_new(from: &Path, to: &Path) -> Result<(), ExportError> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(ExportError::Exists { path: to.to_owned() }),
        // Some file systems do not support this flag. The caller checked `to` before.
        Err(Errno::INVAL | Errno::NOSYS) => Ok(fs::rename(from, to).doing("write", to)?),
        Err(error) => Ok(Err(io::Error::from(error)).doing("write", to)?),
    }
}

pub(crate) fn name_of(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.map_or_else(String::new, |name| names::shown(&name).into_owned())
}

/// A temporary file or directory, which is removed when it is dropped.
pub(crate) struct Unfinished {
    pub path: PathBuf,
}

impl Unfinished {
    /// A name beside `path`, which must not exist.
    pub fn beside(path: &Path) -> Result<Self, ExportError> {
        if path.symlink_metadata().is_ok() {
            return Err(ExportError::Exists { path: path.to_owned() });
        }
        let name = format!(".watchfire-{}-{}", std::process::id(), name_of(path));
        Ok(Unfinished { path: path.with_file_name(names::cut(&name, names::NAME_BYTES_MAX)) })
    }

    pub fn move_to(self, path: &Path) -> Result<(), ExportError> {
        rename_new(&self.path, path)?;
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // If this fails, the name identifies the program and the process that created it.
        let _ = match self.path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&self.path),
            _ => fs::remove_file(&self.path),
        };
    }
}
